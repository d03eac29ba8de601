package agents

import (
	"context"
	"sync"
	"time"

	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/shares"
)

const (
	// slotsOfDeployment is the most concurrent calls of a deployment. Tools and agents declare theirs.
	slotsOfDeployment = 128
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
	// weight is how much of the bound the call takes, 0: one.
	weight int
	// of is the name of a slot that has a share of this one, "" if the bound has no shares.
	of string
}

// full reports whether a slot has no room. A few deployments cannot take all of a bound with shares.
func (s *slots) full(one slot) bool {
	most := one.most
	if one.of != "" {
		most = shares.WithoutReserve(most, s.used[one.of], max(1, one.most/16))
	}
	return s.used[one.name]+one.takes() > most
}

func (s slot) takes() int { return max(1, s.weight) }

// The most bytes of responses that are read or sent at the same time, of a deployment and of the server. A response is
// counted with what its forms take together.
const (
	responsesOfDeployment = 16 << 20
	responsesOfServer     = 48 << 20
	formsOfResponse       = 4
)

// responseRoom returns the bounds of a response with a number of bytes. One alone always has room.
func responseRoom(deployment string, bytes int64) []slot {
	weight := int(min(bytes*formsOfResponse, responsesOfDeployment))
	own := "responses of " + deployment
	return []slot{{name: own, most: responsesOfDeployment, weight: weight}, {name: "responses", most: responsesOfServer, weight: weight, of: own}}
}

// slotsFor returns the bounds of a call of an agent's tool. server is the bound of the server.
func slotsFor(agent *snapshot.Entry, content *snapshot.Agent, tool *toolset.Tool, server int) []slot {
	return []slot{
		{name: "tool " + agent.Deployment + "/" + tool.Entry.Name, most: tool.Content.ConcurrentCalls()}, {name: "agent " + agent.Deployment + "/" + agent.Name, most: content.ConcurrentCalls()},
		{name: "deployment " + agent.Deployment, most: slotsOfDeployment}, {name: "server", most: server, of: "deployment " + agent.Deployment},
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
		if !s.full(one) {
			continue
		}
		if s.freed[one.name] == nil {
			s.freed[one.name] = make(chan struct{})
		}
		return s.freed[one.name]
	}
	for _, one := range needed {
		s.used[one.name] += one.takes()
	}
	return nil
}

func (s *slots) giveBack(needed []slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range needed {
		if s.used[one.name] -= one.takes(); s.used[one.name] <= 0 {
			delete(s.used, one.name)
		}
		if freed := s.freed[one.name]; freed != nil {
			close(freed)
			delete(s.freed, one.name)
		}
	}
}
