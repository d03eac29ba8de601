package webhooks_test

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/events/webhooks"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// ends waits until a replay has ended and returns it.
func (w *world) ends(id int64) (row people.WebhookReplay) {
	w.t.Helper()
	w.Eventually("the replay has ended", func() bool { row = w.replay(id); return !row.CompletedAt.IsZero() })
	return row
}

func TestReplayBesideAFullQueueLosesNothingWithItsServer(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	var hangs atomic.Bool
	r.answers(func(_ http.ResponseWriter, one received) {
		if hangs.Load() {
			<-one.gone
		}
	})
	stop := w.serves("one")
	id := w.endpoint("crm", r.URL, func(c *document.WebhookEndpoint) { c.TimeoutSeconds = 1 })
	w.follows(id)
	w.happens(events.UserCreated, upTo(100)...)
	count := func(status string) int { return len(w.deliveries(id, people.DeliveryFilter{Status: status})) }
	w.Eventually("the first events are delivered", func() bool { return count(people.DeliveryDelivered) == 100 })
	hangs.Store(true)
	w.happens(events.UserDeleted, upTo(1000)...)
	w.Eventually("the queue is full", func() bool { return count(people.DeliveryPending) == 1000 })
	var again []int64
	for _, e := range w.numbered()[:100] {
		again = append(again, e.ID)
	}
	row, err := w.replays(id, webhooks.Wanted{Events: again})
	w.Must(err)
	w.Eventually("the replay has its deliveries", func() bool { return count(people.DeliveryPending) == 1100 })
	stop()
	hangs.Store(false)
	w.Clock.Advance(20 * time.Second)
	w.serves("two")
	w.Eventually("all are delivered", func() bool { w.passes(time.Second, id); return count(people.DeliveryDelivered) == 1200 })
	if now := w.ends(row.ID); now.Replayed != 100 || now.Failed != 0 {
		t.Errorf("%+v", now)
	}
}

func TestReplayOfEventsThatAlwaysFailStopsNoLiveEvent(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	r.answers(func(rw http.ResponseWriter, one received) {
		if n, _ := strconv.Atoi(one.event.Subject.ID); n <= 100 {
			rw.WriteHeader(http.StatusBadRequest)
		}
	})
	began := w.Clock.Now()
	w.happens(events.UserCreated, upTo(100)...)
	w.Clock.Advance(time.Hour)
	w.serves("one")
	id := w.endpoint("crm", r.URL, nil)
	w.follows(id)
	row, err := w.replays(id, webhooks.Wanted{Status: webhooks.ReplayAll, Since: began})
	w.Must(err)
	w.Eventually("the endpoint is failing", func() bool { w.passes(time.Second, id); return w.state(id).Failures >= 5 })
	at := w.Clock.Now()
	w.happens(events.UserCreated, 5000)
	w.Eventually("a live event is delivered", func() bool {
		w.passes(time.Second, id)
		return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 1
	})
	if now := w.replay(row.ID); !now.CompletedAt.IsZero() {
		t.Errorf("the live event waited until the replay ended, %v", w.Clock.Now().Sub(at))
	}
}

func TestReplayKeepsTheOrderOfASubjectWhateverTheOrderOfItsList(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	w.serves("one")
	id := w.endpoint("crm", r.URL, nil)
	w.follows(id)
	w.happens(events.UserDeleted, slices.Repeat([]int64{7}, 120)...)
	w.Eventually("all are delivered", func() bool {
		return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 120
	})
	var deliveries, list []int64
	for _, d := range w.deliveries(id, people.DeliveryFilter{}) { // the newest first
		deliveries, list = append(deliveries, d.ID), append(list, d.Event)
	}
	for _, want := range []webhooks.Wanted{{Deliveries: deliveries}, {Events: list}} {
		before := len(r.all())
		row, err := w.replays(id, want)
		w.Must(err)
		w.ends(row.ID)
		for i, one := range r.all()[before:] {
			if one.event.Sequence != strconv.Itoa(i+1) {
				t.Fatalf("request %d has event %s", i, one.event.Sequence)
			}
		}
	}
}

func TestReplayLeavesOutEventsThatTheEndpointHasNotReached(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	r.answers(func(rw http.ResponseWriter, _ received) { rw.WriteHeader(http.StatusInternalServerError) })
	w.serves("one")
	id := w.endpoint("crm", r.URL, nil)
	w.follows(id)
	began := w.Clock.Now().Add(-time.Hour)
	w.happens(events.UserCreated, upTo(3000)...)
	w.Eventually("the endpoint is failing", func() bool { w.passes(time.Second, id); return w.state(id).Failures >= 5 })
	position := w.state(id).Position
	row, err := w.replays(id, webhooks.Wanted{Status: webhooks.ReplayAll, Since: began})
	w.Must(err)
	if row.Total > position || position == 3000 {
		t.Errorf("the replay has %d events, and the endpoint has read %d of 3000", row.Total, position)
	}
	last := w.numbered()[2999].ID
	var unknown *webhooks.UnknownIDError
	if _, err := w.replays(id, webhooks.Wanted{Events: []int64{last}}); !errors.As(err, &unknown) || !unknown.Waiting {
		t.Errorf("an event that the endpoint has not read: %v", err)
	}
}

func TestReplayOfFewAmongManyEventsTakesNoPauses(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	began := w.Clock.Now()
	w.happens(events.UserDeleted, upTo(10_000)...)
	w.happens(events.UserCreated, 1)
	w.Clock.Advance(2 * time.Hour)
	w.serves("one")
	id := w.endpoint("crm", r.URL, func(c *document.WebhookEndpoint) { c.Types = []string{"user.created"} })
	w.follows(id)
	epoch := w.state(id).Epoch
	row, err := w.replays(id, webhooks.Wanted{Status: webhooks.ReplayAll, Since: began})
	w.Must(err)
	if now := w.ends(row.ID); now.Replayed != 1 || now.Skipped != 10_000 {
		t.Errorf("%+v", now)
	}
	if now := w.state(id).Epoch; now > epoch+1 { // a pause after each part would give the endpoint back
		t.Errorf("%d leases", now-epoch)
	}
}

func TestReplaysOfADeploymentAreBoundedInADay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.serves("one")
	id := w.endpoint("crm", "http://127.0.0.1:9", func(c *document.WebhookEndpoint) { c.Active = false })
	w.follows(id)
	w.Must(w.Store.Change(t.Context(), deployment, func(tx people.Tx) error {
		at := w.Clock.Now().Add(-time.Hour)
		_, err := tx.Webhooks().InsertReplay(people.WebhookReplay{
			ID: w.replayID(at), Endpoint: 9, Status: people.ReplayCompleted, Selection: "{}", Total: webhooks.ReplayedADay, CreatedAt: at, CompletedAt: at,
		})
		return err
	}))
	w.happens(events.UserCreated, 1)
	w.Clock.Advance(time.Second)
	w.Must(w.Store.Change(t.Context(), deployment, func(tx people.Tx) error {
		state, _, err := tx.Webhooks().LockWebhookState(id)
		state.Position = 1
		if err != nil {
			return err
		}
		_, err = tx.Webhooks().UpdateWebhookState(state, state.Epoch)
		return err
	}))
	all := webhooks.Wanted{Status: webhooks.ReplayAll, Since: w.Clock.Now().Add(-time.Hour)}
	if _, err := w.replays(id, all); !errors.Is(err, webhooks.ErrManyReplays) {
		t.Errorf("%v", err)
	}
	w.Clock.Advance(24 * time.Hour)
	all.Since = time.Unix(0, 0)
	row, err := w.replays(id, all)
	w.Must(err)
	if row.Total != 1 {
		t.Errorf("%+v", row)
	}
}
