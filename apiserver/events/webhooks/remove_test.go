package webhooks_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// later is a deployment whose endpoints come last in every list.
const later = "zzz/zzz"

// comparedStore is a store that counts comparisons and the transactions of the deployment busy. They fail if a test
// wants that.
type comparedStore struct {
	people.Store
	comparisons, changes, failed atomic.Int64
	fails                        atomic.Bool
}

func (s *comparedStore) ListWebhooks(ctx context.Context, after people.WebhookRef, limit int) ([]people.WebhookRef, error) {
	if after == (people.WebhookRef{}) {
		s.comparisons.Add(1)
	}
	return s.Store.ListWebhooks(ctx, after, limit)
}

func (s *comparedStore) Change(ctx context.Context, of string, do func(people.Tx) error) error {
	if of == busy {
		s.changes.Add(1)
		if s.fails.Load() {
			s.failed.Add(1)
			return errors.New("the store is away")
		}
	}
	return s.Store.Change(ctx, of, do)
}

// ended writes the states of n endpoints of a deployment that ended one after another, the last one now. The first one
// has deliveries.
func (w *world) ended(of string, n int, each time.Duration, deliveries int64) {
	w.Must(w.Store.Change(w.t.Context(), of, func(tx people.Tx) error {
		var list []people.WebhookDelivery
		for i := range deliveries {
			id := ids.From(w.Clock.Now()) + i
			list = append(list, people.WebhookDelivery{ID: id, Endpoint: 1, Sequence: i + 1, Event: id, Type: "user.created", Status: people.DeliveryPending, CreatedAt: w.Clock.Now()})
		}
		if err := tx.Webhooks().InsertDeliveries(list); err != nil {
			return err
		}
		for i := range n {
			at := w.Clock.Now().Add(time.Duration(i+1-n) * each)
			if _, err := tx.Webhooks().InsertWebhookState(people.WebhookState{Endpoint: int64(i + 1), Paused: true, EndedAt: at}); err != nil {
				return err
			}
		}
		return nil
	}))
}

// compares triggers a comparison, and waits until one has seen the configuration.
func (w *world) compares(name string) { w.follows(w.endpoint(name, "http://127.0.0.1:1", nil)) }

func TestRowsOfAllDeletedEndpointsAreRemovedAfterAnHour(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		w.others(busy)
		w.others(later)
		w.ended(busy, 400, 0, 1200)
		w.ended(later, 1, 0, 3)
		store := &comparedStore{Store: w.Store}
		w.servesOn(store, "one")
		w.compares("first")
		if n := len(w.statesOf(busy)) + len(w.statesOf(later)); n != 401 {
			t.Errorf("%d of 401 endpoints are kept for an hour", n)
		}
		w.Clock.Advance(time.Hour)
		before := store.comparisons.Load()
		w.compares("second")
		w.Eventually("all are removed", func() bool { return len(w.statesOf(busy))+len(w.statesOf(later)) == 0 })
		if n := store.comparisons.Load() - before; n > 5 {
			t.Errorf("%d comparisons", n)
		}
		if n := store.changes.Load(); n > 100 {
			t.Errorf("%d transactions for 400 endpoints with 1,200 deliveries", n)
		}
		w.Must(w.Store.View(t.Context(), busy, func(tx people.Tx) error {
			n, err := tx.Webhooks().CountDeliveries(1, people.DeliveryFilter{}, 10_000)
			if n != 0 {
				t.Errorf("%d deliveries are left", n)
			}
			return err
		}))
	})
}

func TestDeletedEndpointsAreKeptUpToABound(t *testing.T) {
	t.Parallel()
	const kept, more = 1000, 2500 // more than one comparison hands over
	w := newWorld(t, "")
	w.others(busy)
	w.ended(busy, kept+more, time.Millisecond, 30)
	store := &comparedStore{Store: w.Store}
	w.servesOn(store, "one")
	w.Eventually("the others are removed", func() bool { return len(w.statesOf(busy)) <= kept })
	w.compares("next")
	w.compares("another")
	all := w.statesOf(busy)
	if len(all) != kept || all[0].Endpoint != more+1 {
		t.Errorf("%d endpoints from %d on are kept", len(all), all[0].Endpoint)
	}
}

func TestFailedRemovalsStopNoOtherDeployment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.others(busy)
	w.others(later)
	w.ended(busy, 50, 0, 3)
	w.ended(later, 50, 0, 3)
	w.Clock.Advance(time.Hour)
	store := &comparedStore{Store: w.Store}
	store.fails.Store(true)
	w.servesOn(store, "one")
	w.Eventually("those of another deployment are removed", func() bool { return len(w.statesOf(later)) == 0 })
	w.Eventually("a removal has failed", func() bool { return store.failed.Load() > 0 })
	if failed, compared := store.failed.Load(), store.comparisons.Load(); failed > compared {
		t.Errorf("%d removals failed after %d comparisons", failed, compared)
	}
	store.fails.Store(false)
	w.compares("next")
	w.Eventually("the others are removed later", func() bool { return len(w.statesOf(busy)) == 0 })
}

// An endpoint that is declared again when its rows are about to be removed continues where it was.
func TestEndpointThatIsDeclaredAgainContinuesWhereItWas(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		w.others(busy)
		id := ids.Derive(v1alpha1.KindWebhookEndpoint, "aaa", "aaa-0")
		w.Must(w.Store.Change(t.Context(), busy, func(tx people.Tx) error {
			_, err := tx.Webhooks().InsertWebhookState(people.WebhookState{Endpoint: id, Position: 7, Paused: true, EndedAt: w.Clock.Now().Add(-time.Hour)})
			return err
		}))
		w.ended(busy, 3, time.Hour, 0)
		store := newGatedStore(w.Store)
		w.servesOn(store, "one")
		w.Eventually("the removal waits", func() bool { return store.waiting.Load() == 1 })
		w.endpointsOf(busy, 1, true)
		store.permits(1 << 30)
		w.Eventually("the others are removed", func() bool { return len(w.statesOf(busy)) == 2 })
		position := func() (state people.WebhookState) {
			w.Must(w.Store.View(t.Context(), busy, func(tx people.Tx) (err error) {
				state, _, err = tx.Webhooks().WebhookState(id)
				return err
			}))
			return state
		}
		w.Eventually("it continues", func() bool { return !position().Paused })
		if s := position(); s.Position != 7 || !s.EndedAt.IsZero() {
			t.Errorf("the state is %+v", s)
		}
	})
}

// An endpoint that is declared again within the hour gets what happened meanwhile, although others are removed.
func TestEndpointThatIsDeclaredAgainGetsWhatHappenedMeanwhile(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	w.serves("one")
	id := w.endpoint("crm", r.URL, nil)
	w.follows(id)
	w.happens(events.UserCreated, 1)
	w.Eventually("an event arrives", func() bool {
		w.passes(time.Second, id)
		return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 1
	})
	w.ended(deployment, 30, time.Hour, 40)
	w.Withdraw(v1alpha1.KindWebhookEndpoint, "acme", "crm")
	w.Eventually("the others are removed", func() bool { return len(w.statesOf(deployment)) == 2 })
	w.Eventually("its end is noted", func() bool { return !w.state(id).EndedAt.IsZero() })
	w.happens(events.UserCreated, 2)
	w.Clock.Advance(50 * time.Minute)
	w.endpoint("crm", r.URL, func(c *document.WebhookEndpoint) { c.TimeoutSeconds = 4 })
	w.Eventually("the event arrives", func() bool {
		return slices.ContainsFunc(r.all(), func(one received) bool { return one.event.Type == "user.created" && one.event.Subject.ID == "2" })
	})
}
