package outbox

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cardea-iam/cardea/store/people"
)

const (
	// maxInFlight bounds the messages that are sent at once, and maxPerDeployment those of one deployment.
	maxInFlight, maxPerDeployment = 128, 16
	// maxLogouts bounds concurrent sign-out notifications to clients, and maxLogoutsPerDeployment those of one
	// deployment: clients choose their addresses.
	maxLogouts, maxLogoutsPerDeployment = 16, 4
	// claimAtOnce is how many messages one claim takes: no more than one deployment may have under way.
	claimAtOnce = maxPerDeployment
	// maxRound is how many deployments a round passes over before it begins anew.
	maxRound = 200
)

// slots says whose messages there is room for. Deployments take turns: one whose messages were claimed is passed over until no other has any
// that are due. It is safe for concurrent use.
type slots struct {
	// exhausted counts the messages that came while their deployment was at its share.
	exhausted atomic.Uint64

	mu             sync.Mutex
	taken, logouts int
	of             map[string]*share
	round          map[string]bool
}

// share is what a deployment has under way.
type share struct{ taken, logouts int }

func newSlots() *slots { return &slots{of: map[string]*share{}, round: map[string]bool{}} }

// claim returns what may be claimed now; its Limit is 0 where there is no room.
func (s *slots) claim() people.Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	claim := people.Claim{Limit: min(claimAtOnce, maxInFlight-s.taken), NoLogouts: s.logouts >= maxLogouts}
	except := maps.Clone(s.round)
	for name, held := range s.of {
		switch {
		case held.taken >= maxPerDeployment:
			except[name] = true
		case held.logouts >= maxLogoutsPerDeployment:
			claim.ExceptLogouts = append(claim.ExceptLogouts, name)
		}
	}
	claim.Except = slices.Sorted(maps.Keys(except))
	return claim
}

// took notes whose messages were claimed, and reports whether another claim may find more.
func (s *slots) took(claimed []people.Message) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(claimed) == 0 {
		more = len(s.round) > 0
		clear(s.round)
		return more
	}
	if len(s.round) >= maxRound {
		clear(s.round)
	}
	for _, m := range claimed {
		s.round[m.Deployment] = true
	}
	return true
}

// enter takes a place for a message, if its deployment has one left. The caller gives it back with leave.
func (s *slots) enter(m people.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.of[m.Deployment]
	if held == nil {
		held = &share{}
		s.of[m.Deployment] = held
	}
	logout := m.Channel == people.ChannelLogout
	if held.taken >= maxPerDeployment || logout && (held.logouts >= maxLogoutsPerDeployment || s.logouts >= maxLogouts) {
		s.exhausted.Add(1)
		return false
	}
	held.taken++
	s.taken++
	if logout {
		held.logouts++
		s.logouts++
	}
	return true
}

// leave gives a place back, and reports whether it may be the one that a message waits for.
func (s *slots) leave(m people.Message) (awaited bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.of[m.Deployment]
	awaited = s.taken == maxInFlight || held.taken == maxPerDeployment
	held.taken--
	s.taken--
	if m.Channel == people.ChannelLogout {
		awaited = awaited || held.logouts == maxLogoutsPerDeployment || s.logouts == maxLogouts
		held.logouts--
		s.logouts--
	}
	if *held == (share{}) {
		delete(s.of, m.Deployment)
	}
	return awaited
}
