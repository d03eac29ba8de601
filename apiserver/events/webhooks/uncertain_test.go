package webhooks_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/events/webhooks"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// unsureStore is a store whose connection is lost after the commit of one transaction: the server gets an error.
type unsureStore struct {
	people.Store
	// left is how many transactions are left until then.
	left atomic.Int64
}

func (s *unsureStore) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	err := s.Store.Change(ctx, deployment, do)
	if err == nil && s.left.Add(-1) == 0 {
		return errors.New("the connection was lost")
	}
	return err
}

// Whichever transaction has an unknown result, every event arrives, and every delivery ends, without another event.
func TestEventsArriveAlthoughACommitHadAnUnknownResult(t *testing.T) {
	t.Parallel()
	for n := range int64(6) {
		t.Run(fmt.Sprint(n+1), func(t *testing.T) {
			t.Parallel()
			w, r := newWorld(t, ""), newReceiver(t)
			store := &unsureStore{Store: w.Store}
			w.servesOn(store, "one")
			id := w.endpoint("crm", r.URL, nil)
			w.follows(id)
			began := w.Clock.Now()
			store.left.Store(n + 1)
			w.happens(events.UserCreated, 1, 2, 3)
			ended := func() bool {
				w.Clock.Advance(100 * time.Millisecond)
				return w.state(id).Position == 3 && len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryPending})) == 0
			}
			w.Eventually("the events are delivered", ended)
			row, err := w.replays(id, webhooks.Wanted{Status: webhooks.ReplayAll, Since: began.Add(-time.Hour)})
			w.Must(err)
			store.left.Store(n + 1)
			w.Eventually("the replay ends", func() bool { return ended() && !w.replay(row.ID).CompletedAt.IsZero() })
			if now := w.replay(row.ID); now.Total != 3 || now.Replayed != 3 {
				t.Errorf("the replay: %+v", now)
			}
			arrived := map[string]int{}
			for _, one := range r.all() {
				arrived[one.event.Sequence]++
			}
			if len(arrived) != 3 || arrived["1"] < 2 || arrived["2"] < 2 || arrived["3"] < 2 {
				t.Errorf("arrived: %v", arrived)
			}
		})
	}
}

// takenStore is a store in which deliveries to another endpoint have the ids of the first deliveries that are written
// to an endpoint.
type takenStore struct {
	people.Store
	endpoint int64
	taken    atomic.Int64
}

func (s *takenStore) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	if s.taken.Load() > 0 {
		return s.Store.Change(ctx, deployment, do)
	}
	var rows []people.WebhookDelivery
	undone := errors.New("undone")
	err := s.Store.Change(ctx, deployment, func(tx people.Tx) (err error) {
		if err = do(tx); err == nil {
			rows, err = tx.Webhooks().Deliveries(s.endpoint, people.DeliveryFilter{}, 10)
		}
		if err == nil && len(rows) > 0 {
			err = undone
		}
		return err
	})
	if !errors.Is(err, undone) {
		return err
	}
	for i := range rows {
		rows[i].Endpoint++
	}
	if err := s.Store.Change(ctx, deployment, func(tx people.Tx) error { return tx.Webhooks().InsertDeliveries(rows) }); err != nil {
		return err
	}
	s.taken.Add(int64(len(rows)))
	return s.Store.Change(ctx, deployment, do)
}

// If deliveries to another endpoint have the ids of new deliveries, these are written with other ids, and no event is
// sent again.
func TestDeliveriesWhoseIDsAreTakenAreWrittenWithOthers(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w, r := newWorld(t, url), newReceiver(t)
		id := w.endpoint("crm", r.URL, nil)
		store := &takenStore{Store: w.Store, endpoint: id}
		w.servesOn(store, "one")
		w.follows(id)
		w.happens(events.UserCreated, 1, 2, 3)
		delivered := people.DeliveryFilter{Status: people.DeliveryDelivered}
		w.Eventually("the deliveries are written", func() bool {
			w.Clock.Advance(100 * time.Millisecond)
			return w.state(id).Position == 3 && len(w.deliveries(id, delivered)) == 3
		})
		if n := len(r.all()); n != 3 {
			t.Errorf("%d requests for 3 events", n)
		}
		if taken, others := store.taken.Load(), w.deliveries(id+1, people.DeliveryFilter{}); taken == 0 || int64(len(others)) != taken {
			t.Errorf("%d ids were taken; the other endpoint has the deliveries %+v", taken, others)
		}
	})
}

// slowStore is a store in which each read takes time.
type slowStore struct {
	people.Store
	read func()
}

func (s *slowStore) View(ctx context.Context, deployment string, do func(people.Tx) error) error {
	s.read()
	return s.Store.View(ctx, deployment, do)
}

// While a server reads many events for an endpoint that gets none of them, it keeps its lease, and stores its position.
func TestLeaseIsKeptWhileEventsAreRead(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	id := w.endpoint("crm", r.URL, func(c *document.WebhookEndpoint) { c.Types = []string{string(events.UserDeleted)} })
	var lapsed, stored atomic.Int64
	store := &slowStore{Store: w.Store, read: func() {
		w.Clock.Advance(time.Second)
		var state people.WebhookState
		// The server calls this, also while it stops: a test may end only its own goroutine, and its context ends before.
		if err := w.Store.View(context.Background(), deployment, func(tx people.Tx) (err error) {
			state, _, err = tx.Webhooks().WebhookState(id)
			return err
		}); err != nil {
			t.Errorf("the state is not read: %v", err)
			return
		}
		if state.LeasedUntil.Before(w.Clock.Now()) {
			lapsed.Add(1)
		}
		stored.Store(max(stored.Load(), state.Position))
	}}
	stop := w.serves("first")
	w.follows(id)
	stop()
	const all = 10_000 // 40 reads
	w.happens(events.UserCreated, upTo(all)...)
	w.servesOn(store, "second")
	w.Eventually("all events were read", func() bool { w.Clock.Advance(50 * time.Millisecond); return w.state(id).Position == all })
	if lapsed.Load() > 0 || stored.Load() < all/4 {
		t.Errorf("the lease had ended at %d reads; the position was stored up to %d", lapsed.Load(), stored.Load())
	}
}
