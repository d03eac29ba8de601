package outbox

import (
	"sync"
	"time"

	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/internal/document"
)

// senders caches the senders of deployments until their settings change.
type senders struct {
	open func(deployment, channel string, settings *document.Deployment) (delivery.Sender, error)

	mu    sync.Mutex
	known map[string]opened
}

// opened is a sender with the settings that it was made from. A snapshot's content never changes, so another pointer
// means other content.
type opened struct {
	settings *document.Deployment
	sender   delivery.Sender
}

func (s *senders) of(deployment, channel string, settings *document.Deployment) (delivery.Sender, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := deployment + " " + channel
	if have, found := s.known[key]; found && have.settings == settings {
		return have.sender, nil
	}
	sender, err := s.open(deployment, channel, settings)
	if err != nil {
		return nil, err
	}
	if s.known == nil {
		s.known = map[string]opened{}
	}
	s.known[key] = opened{settings, sender}
	return sender, nil
}

const (
	// maxPerProvider bounds the concurrent sends of a deployment's messages of a channel, so that a slow provider cannot
	// take all slots. The others wait for fullWait.
	maxPerProvider = 16
	fullWait       = 250 * time.Millisecond
	// failuresBeforeRest is the number of consecutive failures after which a provider gets no messages for restFor.
	failuresBeforeRest = 5
	restFor            = 3 * time.Second
	// forgetAfter is how long an unused provider is remembered, and maxBreakers bounds their number.
	forgetAfter = time.Hour
	maxBreakers = 10_000
)

// breakers delay messages to providers that are busy, failing or throttling. A provider with several consecutive
// failures gets one message at a time until one succeeds, so that many slow providers cannot take all slots.
type breakers struct {
	mu    sync.Mutex
	state map[string]*breaker
	swept time.Time
}

type breaker struct {
	inFlight, failures int
	until, used        time.Time
}

// forget drops the providers that were not used for an hour and, if there are too many, any without a send in progress.
func (b *breakers) forget(now time.Time) {
	if len(b.state) < maxBreakers && now.Sub(b.swept) < time.Minute {
		return
	}
	b.swept = now
	for key, state := range b.state {
		if state.inFlight == 0 && (now.Sub(state.used) >= forgetAfter || len(b.state) >= maxBreakers) {
			delete(b.state, key)
		}
	}
}

// enter admits a message to a provider, or returns how long it must wait. An admitted message must call leave.
func (b *breakers) enter(key string, now time.Time) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(now)
	state := b.state[key]
	if state == nil {
		if b.state == nil {
			b.state = map[string]*breaker{}
		}
		state = &breaker{}
		b.state[key] = state
	}
	switch {
	case state.until.After(now):
		return state.until.Sub(now)
	case state.inFlight >= maxPerProvider, state.failures >= failuresBeforeRest && state.inFlight > 0:
		return fullWait
	}
	state.used = now
	state.inFlight++
	return 0
}

// leave ends a send with its result for the provider: success, failure, or a delay that the provider asked for.
func (b *breakers) leave(key string, now time.Time, worked bool, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.state[key]
	state.inFlight--
	switch {
	case worked:
		state.failures, state.until = 0, time.Time{}
	case !until.IsZero():
		state.until = until
	default:
		if state.failures++; state.failures >= failuresBeforeRest {
			state.until = now.Add(restFor)
		}
	}
	if state.inFlight == 0 && state.failures == 0 && state.until.IsZero() {
		delete(b.state, key)
	}
}
