package outbox

import (
	"sync"
	"time"

	"github.com/cardea-iam/cardea/apiserver/delivery"
	"github.com/cardea-iam/cardea/store/document"
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
	// failuresBeforeRest is how many failures in a row stop sending to a provider, and restFor for how long: a provider that hangs
	// must not hold all that is in flight.
	failuresBeforeRest = 5
	restFor            = 3 * time.Second
)

// brakes hold back messages to providers that fail or throttle.
type brakes struct {
	mu    sync.Mutex
	state map[string]brake
}

type brake struct {
	failures int
	until    time.Time
}

// until returns how long a provider is given a rest, zero if it is not.
func (b *brakes) until(key string, now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := b.state[key].until; at.After(now) {
		return at
	}
	return time.Time{}
}

func (b *brakes) worked(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.state, key)
}

func (b *brakes) failed(key string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.state[key]
	state.failures++
	if state.failures >= failuresBeforeRest {
		state.until = now.Add(restFor)
	}
	b.put(key, state)
}

func (b *brakes) rest(key string, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.state[key]
	state.until = until
	b.put(key, state)
}

func (b *brakes) put(key string, state brake) {
	if b.state == nil {
		b.state = map[string]brake{}
	}
	b.state[key] = state
}
