package outbox

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cardea-iam/cardea/store/people"
)

const (
	// maxInFlight bounds the concurrent sends, and maxPerDeployment those of one deployment.
	maxInFlight, maxPerDeployment = 128, 16
	// maxLogouts bounds concurrent sign-out notifications to clients, and maxLogoutsPerDeployment those of one
	// deployment. These bounds are lower because clients choose the addresses of their notifications.
	maxLogouts, maxLogoutsPerDeployment = 16, 4
	// claimAtOnce is how many messages one claim takes: at most as many as one deployment may have in progress.
	claimAtOnce = maxPerDeployment
	// maxRound bounds the number of deployments that are passed over because they had their turn.
	maxRound = 200
)

// slots selects the messages that may be claimed. Deployments take turns: after a claim, a deployment is passed over
// until no other has due messages. It is safe for concurrent use.
type slots struct {
	// exhausted counts how often a message had to wait because enter found no free slot for it.
	exhausted atomic.Uint64

	mu             sync.Mutex
	taken, logouts int
	of             map[string]*share
	round          map[string]bool
}

// share is the number of a deployment's sends in progress.
type share struct{ taken, logouts int }

func newSlots() *slots { return &slots{of: map[string]*share{}, round: map[string]bool{}} }

// claim returns the limits of the next claim; its Limit is 0 if there is no free slot.
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

// took records the deployments whose messages were claimed, and reports whether another claim may find more.
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

// enter takes a slot for a message if one is free, and reports whether it did. The caller frees the slot with leave.
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

// leave frees a message's slot, and reports whether a waiting message may need it.
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
