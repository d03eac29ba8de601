package agents

import (
	"context"
	"sync"
	"time"

	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
)

// The most concurrent calls of a deployment, and of the server. Tools and agents declare theirs.
const (
	slotsOfDeployment = 128
	slotsOfServer     = 512
	// slotWithin is how long a call waits for its slots.
	slotWithin = time.Second
)

// slots bound concurrent calls, so that a tool that does not answer holds up its own calls only.
type slots struct {
	mu   sync.Mutex
	used map[string]int
	// freed has, by name, a channel that is closed when a slot becomes free that calls wait for. Calls of a tool that does
	// not answer then do no work when others end.
	freed map[string]chan struct{}
}

func newSlots() *slots { return &slots{used: map[string]int{}, freed: map[string]chan struct{}{}} }

// slot is one bound that a call needs room in.
type slot struct {
	name string
	most int
}

// slotsFor returns the bounds of a call of an agent's tool.
func slotsFor(agent *snapshot.Entry, content *snapshot.Agent, tool *toolset.Tool) []slot {
	return []slot{
		{"tool " + agent.Deployment + "/" + tool.Entry.Name, tool.Content.ConcurrentCalls()}, {"agent " + agent.Deployment + "/" + agent.Name, content.ConcurrentCalls()},
		{"deployment " + agent.Deployment, slotsOfDeployment}, {"server", slotsOfServer},
	}
}

// take takes one of each slot, and returns a function that gives them back. It reports false if they are not free
// within slotWithin, or when the context ends.
func (s *slots) take(ctx context.Context, needed []slot) (giveBack func(), taken bool) {
	deadline := time.NewTimer(slotWithin)
	defer deadline.Stop()
	for {
		freed := s.try(needed)
		if freed == nil {
			return func() { s.giveBack(needed) }, true
		}
		select {
		case <-freed:
		case <-deadline.C:
			return nil, false
		case <-ctx.Done():
			return nil, false
		}
	}
}

// try takes the slots, or returns a channel that is closed when one of the full slots becomes free.
func (s *slots) try(needed []slot) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range needed {
		if s.used[one.name] < one.most {
			continue
		}
		if s.freed[one.name] == nil {
			s.freed[one.name] = make(chan struct{})
		}
		return s.freed[one.name]
	}
	for _, one := range needed {
		s.used[one.name]++
	}
	return nil
}

func (s *slots) giveBack(needed []slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range needed {
		if s.used[one.name]--; s.used[one.name] <= 0 {
			delete(s.used, one.name)
		}
		if freed := s.freed[one.name]; freed != nil {
			close(freed)
			delete(s.freed, one.name)
		}
	}
}
