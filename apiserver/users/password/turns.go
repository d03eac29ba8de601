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
	// maxPerClient, maxPerNetwork and maxPerDeployment bound the hashes, running or waiting, of one client, one wide
	// network and one deployment.
	maxPerClient, maxPerNetwork, maxPerDeployment = 8, 64, 256
	// maxWait is how long a hash waits for its turn.
	maxWait = 2 * time.Second
)

// Client identifies the client that a hash is for.
type Client struct{ Deployment, Network, WideNetwork string }

// path returns the keys of the parties of a hash, the largest first.
func (c Client) path() [levels]string {
	return [levels]string{c.Deployment, c.Deployment + " " + c.WideNetwork, c.Deployment + " " + c.WideNetwork + " " + c.Network}
}

// levels is the number of parties of a turn: the deployment, the wide network, and the client.
const levels = 3

// most bounds the hashes of a party of each level.
var most = [levels]int{maxPerDeployment, maxPerNetwork, maxPerClient}

// Hasher hashes at most GOMAXPROCS passwords at the same time: more would slow all of them down and take more memory.
// Waiting hashes get their turns round-robin by deployment, within a deployment by wide network, and within that by
// client. A client with many addresses of one wide network therefore delays only that network, and attempts on one
// deployment's accounts do not delay users of other deployments.
type Hasher struct {
	cost Cost
	// wait is how long a hash waits for its turn.
	wait time.Duration

	// heavy bounds the heavy comparisons with hashes of other systems. usual is the recent duration of a native hash,
	// in nanoseconds.
	heavy chan struct{}
	usual atomic.Int64
	// busy counts the hashes that got no turn.
	busy atomic.Uint64

	mu   sync.Mutex
	free int
	// parties are those with running or waiting hashes. ring lists the deployments with waiting hashes, the next to be
	// served first.
	parties map[string]*party
	ring    []*party
}

// party is a deployment, a wide network within a deployment, or a client within that.
type party struct {
	active int
	// ring lists the parties of the next level that have waiting hashes, the next to be served first. waiting are the
	// queued turns, of a client only.
	ring    []*party
	waiting []*Turn
}

// idle reports whether no hash of the party is waiting.
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
	if h.cancel(turn) {
		h.busy.Add(1)
		return nil, err
	}
	return turn, nil // granted at the last moment
}

// Exhausted returns how many hashes got no turn.
func (h *Hasher) Exhausted() uint64 { return h.busy.Load() }

// enter queues a turn. It returns ErrBusy if one of its parties is at its bound.
func (h *Hasher) enter(of Client) (*Turn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	path := of.path()
	var parties [levels]*party
	for i, name := range path {
		if parties[i] = h.parties[name]; parties[i] == nil {
			parties[i] = &party{}
		}
		if parties[i].active >= most[i] {
			return nil, ErrBusy
		}
	}
	turn := &Turn{hasher: h, of: of, granted: make(chan struct{})}
	// Only queued parties are remembered: the number of refused ones has no bound.
	for i := levels - 1; i >= 0; i-- {
		p := parties[i]
		h.parties[path[i]] = p
		p.active++
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

// grant hands free turns to the waiting hashes.
func (h *Hasher) grant() {
	for h.free > 0 && len(h.ring) > 0 {
		turn := next(&h.ring)
		h.free--
		close(turn.granted)
	}
}

// next removes the next turn from a ring of parties, each of which has a waiting turn. The turn's party moves to the
// end of the ring.
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

// cancel removes a turn from the queue, and reports whether it was still waiting.
func (h *Hasher) cancel(turn *Turn) bool {
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

// forget subtracts a hash from the counts of its parties, and removes parties without hashes.
func (h *Hasher) forget(path [levels]string) {
	for _, name := range path {
		p := h.parties[name]
		if p.active--; p.active == 0 {
			delete(h.parties, name)
		}
	}
}

// Release passes the turn to the next hash. A second call does nothing.
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
