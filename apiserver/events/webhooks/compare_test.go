package webhooks_test

import (
	"context"
	"fmt"
	"sync"
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

// busy is another deployment, whose endpoints come first in every list.
const busy = "aaa/aaa"

// gatedStore is a store in which transactions of the deployment busy wait, except for as many as a test permits.
type gatedStore struct {
	people.Store
	mu      sync.Mutex
	left    int
	changed chan struct{}
	// waiting is how many transactions wait, and ended how many ended.
	waiting, ended atomic.Int64
}

func newGatedStore(of people.Store) *gatedStore {
	return &gatedStore{Store: of, changed: make(chan struct{})}
}

// permits lets n more transactions begin, and no others.
func (s *gatedStore) permits(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = n
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *gatedStore) Change(ctx context.Context, of string, do func(people.Tx) error) error {
	if of == busy {
		s.waiting.Add(1)
		err := s.pass(ctx)
		if s.waiting.Add(-1); err != nil {
			return err
		}
		defer s.ended.Add(1)
	}
	return s.Store.Change(ctx, of, do)
}

func (s *gatedStore) pass(ctx context.Context) error {
	for {
		s.mu.Lock()
		passes, changed := s.left > 0, s.changed
		if passes {
			s.left--
		}
		s.mu.Unlock()
		if passes {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// others declares the deployment of others.
func (w *world) others(of string) {
	w.Put(v1alpha1.KindIdentityDeployment, of[:3], of, of[:3], document.Deployment{DisplayName: of[:3]})
}

// endpointsOf declares n endpoints of another deployment, and waits until the server knows them.
func (w *world) endpointsOf(of string, n int, active bool) {
	last := int64(0)
	for i := range n {
		name := fmt.Sprintf("%s-%d", of[:3], i)
		w.Put(v1alpha1.KindWebhookEndpoint, name, of, "", document.WebhookEndpoint{Name: name, URL: "http://127.0.0.1:1", Types: []string{"*"}, Active: active, MaxConcurrent: 1})
		last = ids.Derive(v1alpha1.KindWebhookEndpoint, of[:3], name)
	}
	w.Eventually("the server knows the endpoints", func() bool {
		_, found := w.follower.Current().ByID(v1alpha1.KindWebhookEndpoint, of, last)
		return found
	})
}

// statesOf are the endpoints of a deployment that have a state.
func (w *world) statesOf(of string) (all []people.WebhookRef) {
	for after := (people.WebhookRef{Deployment: of}); ; {
		list, err := w.Store.ListWebhooks(w.t.Context(), after, 500)
		w.Must(err)
		for _, ref := range list {
			if ref.Deployment == of {
				all = append(all, ref)
			}
		}
		if len(list) < 500 {
			return all
		}
		after = list[len(list)-1]
	}
}

func TestManyChangesOfADeploymentDoNotDelayTheEndpointsOfOthers(t *testing.T) {
	t.Parallel()
	const many, most = 300, 100 // twice what one comparison changes
	w, r := newWorld(t, ""), newReceiver(t)
	w.others(busy)
	store := newGatedStore(w.Store)
	w.servesOn(store, "one")
	paused := func(want bool) (n int) {
		for _, ref := range w.statesOf(busy) {
			if ref.Paused == want {
				n++
			}
		}
		return n
	}
	for i, active := range []bool{true, false} { // new endpoints, then changed ones
		store.permits(0)
		w.endpointsOf(busy, many, active)
		w.Eventually("a comparison has begun", func() bool { return store.waiting.Load() == 1 })
		id := w.endpoint(fmt.Sprintf("crm%d", i), r.URL, nil)
		store.permits(most)
		w.follows(id)
		w.happens(events.UserCreated, 1)
		w.Eventually("its event arrives", func() bool {
			return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 1
		})
		w.Clock.Advance(time.Minute) // the next endpoint does not get this event
		store.permits(1 << 30)
		w.Eventually("the other endpoints follow", func() bool { return paused(!active) == many })
	}
}

func TestEventsAreSentWhileAComparisonWaits(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	w.others(busy)
	store := newGatedStore(w.Store)
	w.servesOn(store, "one")
	id := w.endpoint("crm", r.URL, nil)
	w.follows(id)
	w.endpointsOf(busy, 1, true)
	w.Eventually("a comparison waits", func() bool { return store.waiting.Load() == 1 })
	w.happens(events.UserCreated, 1, 2, 3)
	w.Eventually("the events arrive", func() bool {
		return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 3
	})
	if store.waiting.Load() != 1 || len(w.statesOf(busy)) != 0 {
		t.Error("the comparison did not wait")
	}
}

func TestServersWriteAChangeOnce(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		w.others(busy)
		w.endpointsOf(busy, 1, true)
		one, two := newGatedStore(w.Store), newGatedStore(w.Store)
		w.servesOn(one, "one")
		w.servesOn(two, "two")
		both := func(step string) {
			w.Eventually("both servers see "+step, func() bool { return one.waiting.Load() == 1 && two.waiting.Load() == 1 })
			before := one.ended.Load() + two.ended.Load()
			one.permits(1)
			two.permits(1)
			w.Eventually("both transactions have ended", func() bool { return one.ended.Load()+two.ended.Load() == before+2 })
		}
		both("the new endpoint")
		w.Eventually("it has a state", func() bool { return len(w.statesOf(busy)) == 1 })
		epoch := func() (epoch int64) {
			w.Must(w.Store.View(t.Context(), busy, func(tx people.Tx) error {
				state, _, err := tx.Webhooks().WebhookState(ids.Derive(v1alpha1.KindWebhookEndpoint, "aaa", "aaa-0"))
				epoch = state.Epoch
				return err
			}))
			return epoch
		}
		before := epoch()
		w.endpointsOf(busy, 1, false)
		both("the change")
		if n := epoch() - before; n != 1 {
			t.Errorf("the change was written %d times", n)
		}
	})
}

// readStore is a store that counts the reads of complete events.
type readStore struct {
	people.Store
	reads atomic.Int64
}

type readTx struct {
	people.Tx
	store *readStore
}

type readLog struct {
	people.EventLog
	store *readStore
}

func (tx readTx) EventLog() people.EventLog { return readLog{tx.Tx.EventLog(), tx.store} }

func (l readLog) EventsAfter(sequence int64, limit int) ([]people.LoggedEvent, error) {
	l.store.reads.Add(1)
	return l.EventLog.EventsAfter(sequence, limit)
}

func (s *readStore) Change(ctx context.Context, of string, do func(people.Tx) error) error {
	return s.Store.Change(ctx, of, func(tx people.Tx) error { return do(readTx{tx, s}) })
}

func (s *readStore) View(ctx context.Context, of string, do func(people.Tx) error) error {
	return s.Store.View(ctx, of, func(tx people.Tx) error { return do(readTx{tx, s}) })
}

func TestNewEndpointBeginsWithTheFirstEventSinceItsCreation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	inactive := func(c *document.WebhookEndpoint) { c.Active = false }
	w.happens(events.UserCreated, upTo(20)...)
	w.Clock.Advance(time.Minute)
	slow := w.endpoint("slow", "http://127.0.0.1:1", inactive)
	w.Clock.Advance(time.Second)
	w.happens(events.UserCreated, 1)
	w.Clock.Advance(-3 * time.Second)
	w.happens(events.UserCreated, upTo(10)...) // their transactions were slow
	w.Clock.Advance(4 * time.Second)
	w.happens(events.UserCreated, 1)
	store := &readStore{Store: w.Store}
	stop := w.servesOn(store, "one")
	begins := func(id, after int64) {
		t.Helper()
		if w.follows(id); w.state(id).Position != after {
			t.Errorf("an endpoint begins after event %d, and not after event %d", w.state(id).Position, after)
		}
	}
	begins(slow, 20)
	stop()
	w.Clock.Advance(time.Minute)
	many := w.endpoint("many", "http://127.0.0.1:1", inactive)
	w.happens(events.UserCreated, upTo(1100)...)
	w.Clock.Advance(time.Second)
	none := w.endpoint("none", "http://127.0.0.1:1", inactive)
	w.Clock.Advance(2 * time.Hour)
	w.happens(events.UserCreated, 1, 2)
	old := w.endpoint("old", "http://127.0.0.1:1", inactive)
	stop = w.servesOn(store, "two")
	const last = 20 + 12 + 1100 + 2
	begins(many, last-2) // its events are older than an hour
	begins(none, last-2)
	begins(old, last-2)
	stop()
	w.happens(events.UserCreated, upTo(1100)...)
	more := w.endpoint("more", "http://127.0.0.1:1", inactive)
	stop = w.servesOn(store, "three")
	begins(more, last+100) // at most 1,000 events
	stop()
	if n := store.reads.Load(); n != 0 {
		t.Errorf("%d reads of complete events", n)
	}
}
