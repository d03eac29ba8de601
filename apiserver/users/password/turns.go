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
	// maxPerClient, maxPerNeighborhood and maxPerDeployment are how many hashes one client, one neighborhood, and one deployment may have under
	// way or waiting.
	maxPerClient, maxPerNeighborhood, maxPerDeployment = 8, 64, 256
	// maxWait is how long a hash waits for its turn.
	maxWait = 2 * time.Second
)

// Client is who a hash is for.
type Client struct{ Deployment, Network, Neighbourhood string }

// path returns the parties that a hash is for, the largest first.
func (c Client) path() [levels]string {
	return [levels]string{c.Deployment, c.Deployment + " " + c.Neighbourhood, c.Deployment + " " + c.Neighbourhood + " " + c.Network}
}

// levels is how many parties have a turn: the deployment, its neighborhoods, and their clients.
const levels = 3

// most bounds the hashes of a party of each level.
var most = [levels]int{maxPerDeployment, maxPerNeighborhood, maxPerClient}

// Hasher hashes at most GOMAXPROCS passwords at once: more would only make all of them slower, and memory is theirs to fill. Those that
// wait get their turns round-robin by deployment, within one by neighborhood, and within that by client: one that asks from many addresses
// of one network waits for itself, and guesses at one deployment's accounts keep no other deployment's people waiting.
type Hasher struct {
	cost Cost
	// wait is how long a hash waits for its turn.
	wait time.Duration

	// heavy bounds the hashes of other systems that take much memory, and usual is how long one of ours took lately, in nanoseconds.
	heavy chan struct{}
	usual atomic.Int64
	// busy counts the hashes that got no turn.
	busy atomic.Uint64

	mu   sync.Mutex
	free int
	// parties are those with hashes under way or waiting, and ring the deployments that have some waiting, the next to be served first.
	parties map[string]*party
	ring    []*party
}

// party is a deployment, a neighborhood within one, or a client within that.
type party struct {
	held int
	// ring has the parties within that have some waiting, the next to be served first; waiting are a client's.
	ring    []*party
	waiting []*Turn
}

// idle reports whether nothing of the party waits.
func (p *party) idle() bool { return len(p.ring) == 0 && len(p.waiting) == 0 }

// Turn is the right to hash one password.
type Turn struct {
	hasher  *Hasher
	of      Client
	granted chan struct{}
	release sync.Once
}

// NewHasher returns a Hasher that makes new hashes at a cost.
func NewHasher(cost Cost) *Hasher {
	return &Hasher{cost: cost, wait: maxWait, heavy: make(chan struct{}, maxHeavy), free: runtime.GOMAXPROCS(0), parties: map[string]*party{}}
}

// Acquire waits for a turn, which the caller releases. It fails with ErrBusy, or when ctx ends.
func (h *Hasher) Acquire(ctx context.Context, of Client) (*Turn, error) {
	turn, err := h.enter(of)
	if err != nil {
		h.busy.Add(1)
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
		h.busy.Add(1)
		return nil, err
	}
	return turn, nil // granted at the last moment
}

// Exhausted returns how many hashes got no turn.
func (h *Hasher) Exhausted() uint64 { return h.busy.Load() }

// enter puts a turn into the queue, where each of its parties may have one more.
func (h *Hasher) enter(of Client) (*Turn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	path := of.path()
	var parties [levels]*party
	for i, name := range path {
		if parties[i] = h.parties[name]; parties[i] == nil {
			parties[i] = &party{}
		}
		if parties[i].held >= most[i] {
			return nil, ErrBusy
		}
	}
	turn := &Turn{hasher: h, of: of, granted: make(chan struct{})}
	// Only those that get in are remembered: of those that are refused there may be any number.
	for i := levels - 1; i >= 0; i-- {
		p := parties[i]
		h.parties[path[i]] = p
		p.held++
		queue := &h.ring
		if i > 0 {
			queue = &parties[i-1].ring
		}
		if !slices.Contains(*queue, p) {
			*queue = append(*queue, p)
		}
	}
	client := parties[levels-1]
	client.waiting = append(client.waiting, turn)
	h.grant()
	return turn, nil
}

// grant hands free turns to those who wait.
func (h *Hasher) grant() {
	for h.free > 0 && len(h.ring) > 0 {
		turn := next(&h.ring)
		h.free--
		close(turn.granted)
	}
}

// next takes the next turn out of a ring of parties, each of which has one waiting, and moves the party that it is of to the ring's end.
func next(ring *[]*party) (turn *Turn) {
	p := (*ring)[0]
	*ring = (*ring)[1:]
	if len(p.waiting) > 0 {
		turn, p.waiting = p.waiting[0], p.waiting[1:]
	} else {
		turn = next(&p.ring)
	}
	if !p.idle() {
		*ring = append(*ring, p)
	}
	return turn
}

// giveUp takes a turn out of the queue, and reports whether it was still there.
func (h *Hasher) giveUp(turn *Turn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	path := turn.of.path()
	client := h.parties[path[levels-1]]
	at := slices.Index(client.waiting, turn)
	if at < 0 {
		return false
	}
	client.waiting = slices.Delete(client.waiting, at, at+1)
	for i := levels - 1; i >= 0; i-- {
		p := h.parties[path[i]]
		if !p.idle() {
			break
		}
		queue := &h.ring
		if i > 0 {
			queue = &h.parties[path[i-1]].ring
		}
		*queue = without(*queue, p)
	}
	h.forget(path)
	return true
}

func without[T comparable](list []T, one T) []T {
	return slices.DeleteFunc(list, func(other T) bool { return other == one })
}

// forget counts a hash off.
func (h *Hasher) forget(path [levels]string) {
	for _, name := range path {
		p := h.parties[name]
		if p.held--; p.held == 0 {
			delete(h.parties, name)
		}
	}
}

// Release gives the turn to the next. Releasing twice does nothing.
func (t *Turn) Release() {
	t.release.Do(func() {
		h := t.hasher
		h.mu.Lock()
		defer h.mu.Unlock()
		h.forget(t.of.path())
		h.free++
		h.grant()
	})
}
