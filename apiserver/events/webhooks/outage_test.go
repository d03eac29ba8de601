package webhooks_test

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// The receiver is away for an hour. make test-engines runs the story with 100,000 events.
func TestReceiverThatWasAwayForAnHourGetsAllEventsWithoutAHerd(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	r.answers(func(rw http.ResponseWriter, _ received) { rw.WriteHeader(http.StatusServiceUnavailable) })
	w.serves("one")
	id := w.endpoint("crm", r.URL, nil)
	w.follows(id)
	n := 3000
	if os.Getenv("CARDEA_TEST_ENGINES") == "all" {
		n = 100_000
	}
	users := upTo(int64(n))
	for len(users) > 0 {
		part := min(len(users), 1000)
		w.happens(events.UserCreated, users[:part]...)
		users = users[part:]
	}
	began := w.Clock.Now()
	seen := 0
	w.Eventually("the receiver is away for an hour", func() bool {
		if n := len(r.all()); n > seen { // the clock does not outrun the server
			seen = n
			w.Clock.Advance(30 * time.Second)
		} else {
			w.Clock.Advance(time.Second)
		}
		return w.Clock.Now().Sub(began) >= time.Hour
	})
	if s := w.state(id); s.FailingSince.IsZero() || !s.DisabledAt.IsZero() {
		t.Fatalf("%+v", s)
	}
	away := len(r.all())
	if away > 1000 {
		t.Errorf("%d requests in an hour to a receiver that fails", away)
	}
	r.answers(nil)
	delivered := func() (count int64) {
		w.Must(w.Store.View(t.Context(), deployment, func(tx people.Tx) (err error) {
			count, err = tx.Webhooks().CountDeliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered}, int64(n)+1)
			return err
		}))
		return count
	}
	// Those that were probed most wait for hours.
	for deadline := time.Now().Add(5 * time.Minute); delivered() < int64(n); {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d events were delivered, state %+v", delivered(), n, w.state(id))
		}
		before := len(r.all())
		w.Eventually("further events arrive", func() bool {
			if s, now := w.state(id), w.Clock.Now(); s.LeasedUntil.Before(now) && s.NextAt.After(now) {
				w.Clock.Advance(s.NextAt.Sub(now))
			} else {
				w.Clock.Advance(time.Second)
			}
			return len(r.all()) > before || delivered() == int64(n)
		})
	}
	after := r.all()[away:]
	for i, one := range after {
		if most := 1 << min(i, 3); one.open > most {
			t.Fatalf("request %d after the return: %d at once", i, one.open)
		}
	}
	arrived := map[string]bool{}
	for _, one := range after {
		arrived[one.event.ID] = true
	}
	if len(arrived) != n {
		t.Errorf("%d of %d events arrived", len(arrived), n)
	}
}

// A server that reads events of which an endpoint gets none gives the endpoint back.
func TestEndpointWithoutDeliveriesIsGivenBack(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w, r := newWorld(t, url), newReceiver(t)
		w.serves("one")
		id := w.endpoint("crm", r.URL, func(c *document.WebhookEndpoint) { c.Types = []string{string(events.UserDeleted)} })
		w.follows(id)
		w.happens(events.UserCreated, upTo(600)...)
		w.Eventually("the endpoint is given back, and all events were read", func() bool {
			w.Clock.Advance(50 * time.Millisecond)
			state := w.state(id)
			return state.Position == 600 && !state.LeasedUntil.After(w.Clock.Now()) && state.NextAt.IsZero()
		})
		if len(r.all()) > 0 {
			t.Error("there was a request")
		}
	})
}
