package outbox

import (
	"sync"
	"time"

	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/internal/document"
)

// senders keeps the senders of deployments until their settings change.
type senders struct {
	open func(deployment, channel string, settings *document.Deployment) (delivery.Sender, error)

	mu    sync.Mutex
	known map[string]opened
}

// opened is a sender with the settings it was made from. A snapshot's content never changes: another pointer is other content.
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
	// maxPerProvider is how many of a deployment's messages of a channel are sent at once: a provider that hangs must not hold all
	// that is in flight. The others wait for fullWait.
	maxPerProvider = 16
	fullWait       = 250 * time.Millisecond
	// failuresBeforeRest is how many failures in a row stop sending to a provider, and restFor for how long.
	failuresBeforeRest = 5
	restFor            = 3 * time.Second
	// forgetAfter is how long a provider that nothing is sent to is remembered, and maxBreakers bounds how many are.
	forgetAfter = time.Hour
	maxBreakers = 10_000
)

// breakers hold back messages to providers that are busy, fail or throttle. A provider that failed several times in a row gets one message
// at a time, until one succeeds: many providers that hang must not hold all that is in flight.
type breakers struct {
	mu    sync.Mutex
	state map[string]*breaker
	swept time.Time
}

type breaker struct {
	inFlight, failures int
	until, used        time.Time
}

// forget drops the providers that were not used for an hour, and, where there are too many, any that nothing is sent to.
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

// enter admits a message to a provider, or returns how long it has to wait. An admitted message must leave.
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

// leave ends a send, with what becomes of the provider: it worked, it failed, or it wants to be left alone until a time.
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
