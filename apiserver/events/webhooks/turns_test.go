package webhooks_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/events/webhooks"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// A deployment has more endpoints than a server sends to at the same time, and events never pause. Every endpoint gets
// its event.
func TestEndpointsBeyondThoseOfOneServerTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	const most = 140
	var mu sync.Mutex
	reached := map[string]bool{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		reached[r.URL.Path] = true
	}))
	t.Cleanup(receiver.Close)
	var last int64
	for n := range most {
		name := fmt.Sprintf("crm-%d", n)
		last = w.endpoint(name, receiver.URL+"/"+name, func(c *document.WebhookEndpoint) { c.Types = []string{string(events.UserDeleted)} })
		defer w.follows(last)
	}
	w.serves("one")
	w.follows(last)
	w.happens(events.UserDeleted, 1)
	user := int64(2)
	w.Eventually("every endpoint has its event", func() bool {
		w.happens(events.UserCreated, user)
		user++
		w.passes(500*time.Millisecond, last)
		mu.Lock()
		defer mu.Unlock()
		return len(reached) == most
	})
}

// While a receiver asked for a pause, events that happen meanwhile are not sent to it, also after the server had no
// work for it and gave its lease back.
func TestEventsWaitForThePauseThatAReceiverAskedFor(t *testing.T) {
	t.Parallel()
	w, r, other := newWorld(t, ""), newReceiver(t), newReceiver(t)
	r.answers(func(rw http.ResponseWriter, _ received) {
		rw.Header().Set("Retry-After", "600")
		rw.WriteHeader(http.StatusTooManyRequests)
	})
	w.serves("one")
	id := w.endpoint("crm", r.URL, nil)
	w.follows(id)
	w.follows(w.endpoint("other", other.URL, nil))
	w.happens(events.UserCreated, 1)
	w.Eventually("the receiver asked for a pause", func() bool { return len(r.all()) == 1 && w.state(id).Failures == 1 })
	asked := w.Clock.Now()
	w.Eventually("the server gives its lease back", func() bool {
		w.Clock.Advance(250 * time.Millisecond)
		return !w.state(id).LeasedUntil.After(w.Clock.Now())
	})
	for user := int64(2); user <= 6; user++ {
		w.happens(events.UserCreated, user)
		w.Eventually("the other endpoint has the event", func() bool { return len(other.all()) == int(user) })
		w.Clock.Advance(time.Minute)
	}
	if n := len(r.all()); n != 1 {
		t.Errorf("%d requests within %v of a pause of 10 minutes", n, w.Clock.Now().Sub(asked))
	}
	r.answers(nil)
	w.Eventually("all events are delivered after the pause", func() bool {
		w.passes(time.Second, id)
		return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 6
	})
}

// A changed URL ends the pause that the former receiver asked for.
func TestPauseEndsWithTheReceiverThatAskedForIt(t *testing.T) {
	t.Parallel()
	w, r, next := newWorld(t, ""), newReceiver(t), newReceiver(t)
	r.answers(func(rw http.ResponseWriter, _ received) {
		rw.Header().Set("Retry-After", "3600")
		rw.WriteHeader(http.StatusTooManyRequests)
	})
	w.serves("one")
	id := w.endpoint("crm", r.URL, nil)
	w.follows(id)
	w.happens(events.UserCreated, 1)
	w.Eventually("the server gives its lease back", func() bool {
		w.Clock.Advance(250 * time.Millisecond)
		return w.state(id).Failures == 1 && !w.state(id).LeasedUntil.After(w.Clock.Now())
	})
	before := w.Clock.Now()
	w.happens(events.UserCreated, 2)
	w.endpoint("crm", next.URL, nil)
	w.Eventually("the new receiver has the new event", func() bool { w.Clock.Advance(100 * time.Millisecond); return len(next.all()) > 0 })
	if after := w.Clock.Now().Sub(before); after > 30*time.Minute {
		t.Errorf("it waited for %v", after)
	}
}

// New events do not shorten the pauses between the probes of a failing endpoint.
func TestFailingEndpointIsProbedEveryTenSecondsAtMost(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	var mu sync.Mutex
	var at []time.Time
	r.answers(func(rw http.ResponseWriter, _ received) {
		mu.Lock()
		at = append(at, w.Clock.Now())
		mu.Unlock()
		rw.WriteHeader(http.StatusInternalServerError)
	})
	w.serves("one")
	id := w.endpoint("crm", r.URL, nil)
	w.follows(id)
	user := int64(1)
	probed := func() []time.Time {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(at)
	}
	w.Eventually("it is probed often", func() bool {
		w.happens(events.UserCreated, user)
		user++
		w.passes(500*time.Millisecond, id)
		return len(probed()) >= 20
	})
	const growing = 10 // the pauses double until they have ten seconds
	all := probed()[growing:]
	for n := 1; n < len(all); n++ {
		if pause := all[n].Sub(all[n-1]); pause < 10*time.Second {
			t.Errorf("probe %d came %v after the one before", growing+n, pause)
		}
	}
}

// Events for which there is no room in memory are read again for their requests, and nothing is held at the end.
func TestEventsWithoutRoomInMemoryAreReadAgain(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]int{"no room": 0, "room for some": 2000, "room for all": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := newWorld(t, ""), newReceiver(t)
			var server *webhooks.Dispatcher
			w.servesOn(w.Store, "one", func(d *webhooks.Dispatcher) { server = d; d.HoldAtMost(most) })
			id := w.endpoint("crm", r.URL, func(c *document.WebhookEndpoint) { c.Types = []string{string(events.UserCreated)} })
			w.follows(id)
			for user := range int64(50) {
				w.happens(events.UserCreated, user+1)
				w.happens(events.UserDeleted, user+1)
			}
			w.Eventually("all are delivered", func() bool {
				if held := server.Held(); held > most {
					t.Fatalf("%d bytes are held, want at most %d", held, most)
				}
				return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 50
			})
			for n, one := range r.all() {
				if one.event.Type != string(events.UserCreated) || one.event.Subject.ID == "" {
					t.Errorf("request %d: %s", n, one.body)
				}
			}
			w.Eventually("nothing is held", func() bool { return server.Held() == 0 })
		})
	}
}

// A server that loses the lease, because its endpoint was paused, ends the request that is open: another server may
// send the event again at once.
func TestOpenRequestEndsAfterItsEndpointWasPaused(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	ended := make(chan struct{})
	r.answers(func(_ http.ResponseWriter, one received) { <-one.gone; close(ended) })
	w.serves("one")
	id := w.endpoint("crm", r.URL, func(c *document.WebhookEndpoint) { c.TimeoutSeconds = 30 })
	w.follows(id)
	w.happens(events.UserCreated, 1)
	w.Eventually("a request is open", func() bool { return len(r.all()) == 1 })
	began := time.Now()
	w.endpoint("crm", r.URL, func(c *document.WebhookEndpoint) { c.TimeoutSeconds, c.Active = 30, false })
	w.Eventually("the endpoint is paused", func() bool { return w.state(id).Paused })
	w.Clock.Advance(6 * time.Second) // the server renews its lease
	<-ended
	if took := time.Since(began); took >= 25*time.Second {
		t.Errorf("the request ended with its time, after %v", took)
	}
}
