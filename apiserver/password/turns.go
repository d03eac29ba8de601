package password

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxPerClient and maxPerNeighbourhood are how many hashes one client, and one neighbourhood, may have under way or waiting.
	maxPerClient, maxPerNeighbourhood = 8, 64
	// maxWait is how long a hash waits for its turn.
	maxWait = 2 * time.Second
)

// Client is who a hash is for.
type Client struct{ Network, Neighbourhood string }

// Hasher hashes at most GOMAXPROCS passwords at once: more would only make all of them slower, and memory is theirs to fill. Those who
// wait get their turns round-robin by neighbourhood, and within one by client: who asks from many addresses of one network waits
// for themselves.
type Hasher struct {
	cost Cost
	// wait is how long a hash waits for its turn.
	wait time.Duration

	// heavy bounds the hashes of other systems that take much memory, and usual is how long one of ours took lately, in nanoseconds.
	heavy chan struct{}
	usual atomic.Int64

	mu   sync.Mutex
	free int
	// neighbourhoods are those with hashes under way or waiting, and ring those that have some waiting, the next to be served first.
	neighbourhoods map[string]*neighbourhood
	ring           []*neighbourhood
}

type neighbourhood struct {
	name    string
	held    int
	clients map[string]*client
	ring    []*client
}

type client struct {
	name    string
	held    int
	waiting []*Turn
}

// Turn is the right to hash one password.
type Turn struct {
	hasher  *Hasher
	of      Client
	granted chan struct{}
	release sync.Once
}

// NewHasher returns a Hasher that makes new hashes at a cost.
func NewHasher(cost Cost) *Hasher {
	return &Hasher{cost: cost, wait: maxWait, heavy: make(chan struct{}, maxHeavy), free: runtime.GOMAXPROCS(0), neighbourhoods: map[string]*neighbourhood{}}
}

// Acquire waits for a turn, which the caller releases. It fails with ErrBusy, or when ctx ends.
func (h *Hasher) Acquire(ctx context.Context, of Client) (*Turn, error) {
	turn, err := h.enter(of)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(h.wait)
	defer timer.Stop()
	select {
	case <-turn.granted:
		return turn, nil
	case <-timer.C:
		err = ErrBusy
	case <-ctx.Done():
		err = ctx.Err()
	}
	if h.giveUp(turn) {
		return nil, err
	}
	return turn, nil // granted at the last moment
}

// enter puts a turn into the queue, where its client and neighbourhood may have one more.
func (h *Hasher) enter(of Client) (*Turn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.neighbourhoods[of.Neighbourhood]
	if n == nil {
		n = &neighbourhood{name: of.Neighbourhood, clients: map[string]*client{}}
	}
	c := n.clients[of.Network]
	if c == nil {
		c = &client{name: of.Network}
	}
	if c.held >= maxPerClient || n.held >= maxPerNeighbourhood {
		return nil, ErrBusy
	}
	// Only who gets in is remembered: of those who are refused there may be any number.
	h.neighbourhoods[of.Neighbourhood], n.clients[of.Network] = n, c
	turn := &Turn{hasher: h, of: of, granted: make(chan struct{})}
	n.held++
	c.held++
	if len(c.waiting) == 0 {
		if len(n.ring) == 0 {
			h.ring = append(h.ring, n)
		}
		n.ring = append(n.ring, c)
	}
	c.waiting = append(c.waiting, turn)
	h.grant()
	return turn, nil
}

// grant hands free turns to those who wait.
func (h *Hasher) grant() {
	for h.free > 0 && len(h.ring) > 0 {
		n := h.ring[0]
		c := n.ring[0]
		turn := c.waiting[0]
		c.waiting = c.waiting[1:]
		n.ring = n.ring[1:]
		if len(c.waiting) > 0 {
			n.ring = append(n.ring, c)
		}
		h.ring = h.ring[1:]
		if len(n.ring) > 0 {
			h.ring = append(h.ring, n)
		}
		h.free--
		close(turn.granted)
	}
}

// giveUp takes a turn out of the queue, and tells whether it was still there.
func (h *Hasher) giveUp(turn *Turn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.neighbourhoods[turn.of.Neighbourhood]
	c := n.clients[turn.of.Network]
	at := slices.Index(c.waiting, turn)
	if at < 0 {
		return false
	}
	c.waiting = slices.Delete(c.waiting, at, at+1)
	if len(c.waiting) == 0 {
		n.ring = without(n.ring, c)
	}
	if len(n.ring) == 0 {
		h.ring = without(h.ring, n)
	}
	h.forget(n, c)
	return true
}

func without[T comparable](list []T, one T) []T {
	return slices.DeleteFunc(list, func(other T) bool { return other == one })
}

// forget counts a hash off.
func (h *Hasher) forget(n *neighbourhood, c *client) {
	if c.held--; c.held == 0 {
		delete(n.clients, c.name)
	}
	if n.held--; n.held == 0 {
		delete(h.neighbourhoods, n.name)
	}
}

// Release gives the turn to the next. Releasing twice does nothing.
func (t *Turn) Release() {
	t.release.Do(func() {
		h := t.hasher
		h.mu.Lock()
		defer h.mu.Unlock()
		n := h.neighbourhoods[t.of.Neighbourhood]
		h.forget(n, n.clients[t.of.Network])
		h.free++
		h.grant()
	})
}
