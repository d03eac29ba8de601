package egress

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrTooManyFetches is returned for a fetch that is refused before it begins, because its source or deployment used up
// its fetches of this minute.
var ErrTooManyFetches = errors.New("too many fetches were requested; try again in a minute")

// ErrTooManyWaiting is returned for a fetch that is refused because too many of its source or deployment wait.
var ErrTooManyWaiting = errors.New("too many fetches of the source or deployment wait")

// Asker is the deployment, and the source within it, for which the server fetches.
type Asker struct {
	// Deployment is "namespace/name".
	Deployment string
	// Source is the part of the deployment that needs the fetch: the IPv4 /24 or IPv6 /48 of a request, an organization,
	// or a directory. It is "" if the deployment itself declares what is fetched.
	Source string
}

// Bounds limit fetches.
type Bounds struct {
	// AtOnce, DeploymentAtOnce and SourceAtOnce bound the concurrent fetches: in all, of one deployment, and of one
	// source within a deployment. AtOnce must be positive; 0 means no bound for the other two.
	AtOnce, DeploymentAtOnce, SourceAtOnce int
	// DeploymentPerMinute and SourcePerMinute bound the fetches that begin in a minute. Fetches are counted before they
	// begin. 0 means no bound.
	DeploymentPerMinute, SourcePerMinute int
	// DeploymentWaiting and SourceWaiting bound the fetches that wait for a slot. 0 means no bound.
	DeploymentWaiting, SourceWaiting int
}

// Slots admits fetches within Bounds. Waiting fetches get slots round-robin: from the deployment that was served
// longest ago, and within it from the source that was served longest ago.
type Slots struct {
	bounds Bounds
	clock  func() time.Time

	mu      sync.Mutex
	running int
	served  uint64
	waiting []*turn
	// parties are the deployments (with Source "") and their sources that have running or waiting
	// fetches, or fetches counted in this minute.
	parties map[Asker]*party
	minute  time.Time
}

// party is a deployment, or a source within a deployment.
type party struct {
	running, waiting int
	// begun counts the fetches of this minute. served is the sequence number of the party's last slot.
	begun  int
	served uint64
}

type turn struct {
	of    Asker
	ready chan struct{}
}

// NewSlots returns Slots. clock defines the minutes.
func NewSlots(bounds Bounds, clock func() time.Time) *Slots {
	return &Slots{bounds: bounds, clock: clock, parties: map[Asker]*party{}}
}

// Begin counts a fetch and waits for its slot. The caller calls done after the fetch. Errors: ErrTooManyFetches if a
// bound of this minute is reached; ErrTooManyWaiting if as many wait as may; ctx's error if it ends before there is a
// slot.
func (s *Slots) Begin(ctx context.Context, of Asker) (done func(), err error) {
	t := &turn{of: of, ready: make(chan struct{})}
	if err := s.enter(t); err != nil {
		return nil, err
	}
	select {
	case <-t.ready:
	case <-ctx.Done():
		if s.leave(t) {
			return nil, ctx.Err()
		}
		// The slot was granted at the same time.
	}
	return sync.OnceFunc(func() { s.end(of) }), nil
}

// TryBegin is Begin without a wait. It reports false if there is no free slot, or if a bound of this minute is reached.
// Fetches that wait while there is a free slot wait for one of their own deployment or source.
func (s *Slots) TryBegin(of Asker) (done func(), begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newMinute()
	if s.running >= s.bounds.AtOnce || !s.free(of) || s.exhausted(of) {
		return nil, false
	}
	for _, p := range s.of(of) {
		p.begun++
	}
	s.grant(of)
	return sync.OnceFunc(func() { s.end(of) }), true
}

// grant gives a free slot to an asker.
func (s *Slots) grant(of Asker) {
	s.running++
	s.served++
	for _, p := range s.of(of) {
		p.running++
		p.served = s.served
	}
}

// exhausted reports whether an asker, or its deployment, has begun as many fetches in this minute as it may.
func (s *Slots) exhausted(of Asker) bool {
	return of.Source != "" && reached(s.parties[of], s.bounds.SourcePerMinute) || reached(s.parties[Asker{Deployment: of.Deployment}], s.bounds.DeploymentPerMinute)
}

// enter counts a turn and queues it. A refusal by the source's bound does not count toward the deployment's.
func (s *Slots) enter(t *turn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newMinute()
	if s.exhausted(t.of) {
		return ErrTooManyFetches
	}
	if t.of.Source != "" && crowded(s.parties[t.of], s.bounds.SourceWaiting) || crowded(s.parties[Asker{Deployment: t.of.Deployment}], s.bounds.DeploymentWaiting) {
		return ErrTooManyWaiting
	}
	for _, p := range s.of(t.of) {
		p.begun++
		p.waiting++
	}
	s.waiting = append(s.waiting, t)
	s.next()
	return nil
}

// reached reports whether a party has begun as many fetches in this minute as it may.
func reached(p *party, most int) bool { return p != nil && most > 0 && p.begun >= most }

// crowded reports whether as many fetches of a party wait as may.
func crowded(p *party, most int) bool { return p != nil && most > 0 && p.waiting >= most }

// newMinute resets the counts of the last minute.
func (s *Slots) newMinute() {
	now := s.clock().Truncate(time.Minute)
	if now.Equal(s.minute) {
		return
	}
	s.minute = now
	for of, p := range s.parties {
		if p.begun = 0; p.running+p.waiting == 0 {
			delete(s.parties, of)
		}
	}
}

// of returns the parties of an asker: its deployment, and its source there if it has one.
func (s *Slots) of(of Asker) []*party {
	parties := []*party{s.party(Asker{Deployment: of.Deployment})}
	if of.Source != "" {
		parties = append(parties, s.party(of))
	}
	return parties
}

func (s *Slots) party(of Asker) *party {
	p := s.parties[of]
	if p == nil {
		p = &party{}
		s.parties[of] = p
	}
	return p
}

// next grants free slots to the turns whose deployment, then source, was served longest ago.
func (s *Slots) next() {
	for s.running < s.bounds.AtOnce {
		best := -1
		for i, t := range s.waiting {
			if s.free(t.of) && (best < 0 || s.before(t.of, s.waiting[best].of)) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		t := s.waiting[best]
		s.waiting = slices.Delete(s.waiting, best, best+1)
		for _, p := range s.of(t.of) {
			p.waiting--
		}
		s.grant(t.of)
		close(t.ready)
	}
}

func (s *Slots) free(of Asker) bool {
	deployment := s.party(Asker{Deployment: of.Deployment})
	if s.bounds.DeploymentAtOnce > 0 && deployment.running >= s.bounds.DeploymentAtOnce {
		return false
	}
	return of.Source == "" || s.bounds.SourceAtOnce == 0 || s.party(of).running < s.bounds.SourceAtOnce
}

func (s *Slots) before(a, b Asker) bool {
	if x, y := s.party(Asker{Deployment: a.Deployment}).served, s.party(Asker{Deployment: b.Deployment}).served; x != y {
		return x < y
	}
	return s.party(a).served < s.party(b).served
}

// leave takes a turn out of the queue, and reports whether it was still waiting.
func (s *Slots) leave(t *turn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.waiting, t)
	if at < 0 {
		return false
	}
	s.waiting = slices.Delete(s.waiting, at, at+1)
	for _, p := range s.of(t.of) {
		p.waiting--
	}
	return true
}

func (s *Slots) end(of Asker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	for _, p := range s.of(of) {
		p.running--
	}
	s.newMinute()
	s.next()
}

// Running returns the number of running fetches.
func (s *Slots) Running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}
