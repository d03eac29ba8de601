package webhooks_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/events/webhooks"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// replays starts a replay. ids of replays ascend.
func (w *world) replays(endpoint int64, want webhooks.Wanted) (row people.WebhookReplay, err error) {
	e, _ := w.follower.Current().ByID(v1alpha1.KindWebhookEndpoint, deployment, endpoint)
	content := snapshot.ContentOf[document.WebhookEndpoint](e)
	rowID := w.replayID(w.Clock.Now())
	err = w.Store.Change(w.t.Context(), deployment, func(tx people.Tx) (err error) {
		row, err = webhooks.StartReplay(tx, endpoint, content, want, rowID, w.Clock.Now())
		return err
	})
	return row, err
}

// replayID returns a new id.
func (w *world) replayID(at time.Time) int64 {
	w.replayed++
	return ids.From(at) + w.replayed
}

// replay reads a replay.
func (w *world) replay(id int64) (row people.WebhookReplay) {
	w.Must(w.Store.View(w.t.Context(), deployment, func(tx people.Tx) (err error) { row, _, err = tx.Webhooks().Replay(id); return err }))
	return row
}

// numbered are the numbered events.
func (w *world) numbered() (all []people.LoggedEvent) {
	w.Must(w.Store.View(w.t.Context(), deployment, func(tx people.Tx) (err error) { all, err = tx.EventLog().EventsAfter(0, 10_000); return err }))
	return all
}

// expires advances the clock until a delivery of each of n users failed for good.
func (w *world) expires(id int64, n int) {
	w.Eventually("the deliveries failed for good", func() bool {
		w.Clock.Advance(2 * time.Second)
		return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryFailed})) == n
	})
}

func TestFailedDeliveriesAreSentAgainOnce(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w, r := newWorld(t, url), newReceiver(t)
		r.answers(func(rw http.ResponseWriter, one received) {
			if one.event.Subject.ID == "2" {
				rw.WriteHeader(http.StatusTeapot)
			}
		})
		w.serves("one")
		id := w.endpoint("crm", r.URL, func(c *document.WebhookEndpoint) { c.RetrySeconds = 60 })
		w.follows(id)
		began := w.Clock.Now()
		w.happens(events.UserCreated, 1, 2, 3)
		w.happens(events.UserDeleted, 2)
		w.expires(id, 2)
		r.answers(nil)
		before := len(r.all())
		row, err := w.replays(id, webhooks.Wanted{Status: webhooks.ReplayFailed, Since: began, Type: "user.created"})
		w.Must(err)
		if row.Total != 1 {
			t.Errorf("the replay has %d events", row.Total)
		}
		ended := func() people.WebhookReplay {
			var now people.WebhookReplay
			w.Eventually("the replay has ended", func() bool { now = w.replay(row.ID); return !now.CompletedAt.IsZero() })
			return now
		}
		if now := ended(); now.Status != people.ReplayCompleted || now.Replayed != 1 || now.Failed != 0 || now.StartedAt.IsZero() {
			t.Errorf("%+v", now)
		}
		again := r.all()[before:]
		if len(again) != 1 || again[0].event.Type != "user.created" || again[0].header.Get("Cardea-Replay") != ids.Format(row.ID) || again[0].header.Get("webhook-id") != again[0].event.ID {
			t.Fatalf("%+v", again)
		}
		verify(t, secrets[0], again[0])
		var other int64
		for _, e := range w.numbered() {
			if e.Type == "user.deleted" {
				other = e.ID
			}
		}
		row, err = w.replays(id, webhooks.Wanted{Events: []int64{other}})
		w.Must(err)
		if now := ended(); row.Total != 1 || now.Replayed != 1 { // the other one, by its event
			t.Errorf("%+v", now)
		}
		row, err = w.replays(id, webhooks.Wanted{Status: webhooks.ReplayFailed, Since: began})
		w.Must(err)
		if row.Total != 0 || row.Status != people.ReplayCompleted {
			t.Errorf("%+v", row)
		}
	})
}

func TestAllEventsOfATimeAreSentAgainToAnEndpointThatSelectsThem(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w, r := newWorld(t, url), newReceiver(t)
		began := w.Clock.Now()
		w.happens(events.UserCreated, upTo(300)...)
		w.happens(events.UserDeleted, upTo(40)...)
		w.Clock.Advance(time.Hour)
		w.serves("one")
		id := w.endpoint("crm", r.URL, func(c *document.WebhookEndpoint) { c.Types = []string{"user.created"} })
		w.follows(id)
		row, err := w.replays(id, webhooks.Wanted{Status: webhooks.ReplayAll, Since: began})
		w.Must(err)
		w.Eventually("the replay has ended", func() bool { return !w.replay(row.ID).CompletedAt.IsZero() })
		if now := w.replay(row.ID); now.Total != 340 || now.Replayed != 300 || now.Skipped != 40 || now.Failed != 0 {
			t.Errorf("%+v", now)
		}
		seen := map[string]bool{}
		for _, one := range r.all() {
			if seen[one.event.ID] || one.event.Type != "user.created" {
				t.Errorf("%s again, %s", one.event.ID, one.event.Type)
			}
			seen[one.event.ID] = true
		}
		if len(seen) != 300 || r.atOnce() > 4 { // half of the requests that the endpoint permits
			t.Errorf("%d events, %d requests at once", len(seen), r.atOnce())
		}
	})
}

func TestListedEventsAndDeliveriesAreSentAgain(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	w.serves("one")
	id := w.endpoint("crm", r.URL, func(c *document.WebhookEndpoint) { c.Types = []string{"user.*"} })
	w.follows(id)
	w.happens(events.UserCreated, upTo(250)...)
	w.happens(events.OrganizationDeleted, 9)
	w.Eventually("all are delivered", func() bool {
		return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 250
	})
	all := w.numbered()
	var some, rows []int64
	for _, e := range all[:220] {
		some = append(some, e.ID)
	}
	for _, d := range w.deliveries(id, people.DeliveryFilter{})[:3] {
		rows = append(rows, d.ID)
	}
	runs := func(want webhooks.Wanted, n int64) {
		t.Helper()
		row, err := w.replays(id, want)
		w.Must(err)
		w.Eventually("the replay has ended", func() bool { return !w.replay(row.ID).CompletedAt.IsZero() })
		if now := w.replay(row.ID); now.Total != n || now.Replayed != n {
			t.Errorf("%+v", now)
		}
	}
	runs(webhooks.Wanted{Events: some}, 220)
	runs(webhooks.Wanted{Deliveries: rows}, 3)
	count := map[string]int{}
	for _, one := range r.all() {
		count[one.header.Get("webhook-id")]++
	}
	if len(count) != 250 || len(r.all()) != 473 {
		t.Errorf("%d events in %d requests", len(count), len(r.all()))
	}
	var unknown *webhooks.UnknownIDError
	if _, err := w.replays(id, webhooks.Wanted{Events: []int64{some[0], 1}}); !errors.As(err, &unknown) || unknown.Index != 1 || unknown.Unselected {
		t.Errorf("%v", err)
	}
	if _, err := w.replays(id, webhooks.Wanted{Events: []int64{all[250].ID}}); !errors.As(err, &unknown) || !unknown.Unselected {
		t.Errorf("%v", err)
	}
	if _, err := w.replays(id, webhooks.Wanted{Deliveries: []int64{rows[0], rows[1] + 1<<30}}); !errors.As(err, &unknown) || unknown.Index != 1 {
		t.Errorf("%v", err)
	}
}

func TestEndpointHasOneReplayAtATimeAndOneOfEachKey(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	began := w.Clock.Now()
	w.happens(events.UserCreated, upTo(400)...)
	w.Clock.Advance(time.Hour)
	id := w.endpoint("crm", r.URL, nil)
	all := webhooks.Wanted{Status: webhooks.ReplayAll, Since: began, Key: "nightly"}
	if _, err := w.replays(id, all); !errors.Is(err, webhooks.ErrNotSeen) {
		t.Errorf("%v", err)
	}
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	r.answers(func(_ http.ResponseWriter, one received) {
		select {
		case <-released:
		case <-one.gone:
		}
	})
	w.serves("one")
	w.follows(id)
	first, err := w.replays(id, all)
	w.Must(err)
	same, err := w.replays(id, all)
	w.Must(err)
	if same.ID != first.ID {
		t.Error("the same key began a second replay")
	}
	other := all
	other.Type = "user.created"
	if _, err := w.replays(id, other); !errors.Is(err, webhooks.ErrKeyReused) {
		t.Errorf("%v", err)
	}
	other.Key = ""
	if _, err := w.replays(id, other); !errors.Is(err, webhooks.ErrReplayOpen) {
		t.Errorf("%v", err)
	}
	w.Eventually("its requests are open", func() bool { return len(r.all()) == 1 })
	w.Must(w.Store.Change(t.Context(), deployment, func(tx people.Tx) error {
		row, _, err := tx.Webhooks().Replay(first.ID)
		if err != nil {
			return err
		}
		ended, err := webhooks.CancelReplay(tx, row, w.Clock.Now())
		if !ended {
			t.Error("the replay had ended")
		}
		return err
	}))
	r.answers(nil)
	w.happens(events.UserDeleted, 7)
	release()
	w.Eventually("no delivery of it is open, and live events go on", func() bool {
		return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryPending})) == 0 &&
			slices.ContainsFunc(r.all(), func(one received) bool { return one.event.Type == "user.deleted" })
	})
	if now := w.replay(first.ID); now.Status != people.ReplayCancelled {
		t.Errorf("%+v", now)
	}
	if n := len(r.all()); n > 150 { // those of the batch that was written before
		t.Errorf("%d requests of a replay of 400 events that was cancelled at its first one", n)
	}
	second, err := w.replays(id, other)
	w.Must(err)
	w.Eventually("another one can begin", func() bool { return w.replay(second.ID).Status == people.ReplayCompleted })
}

func TestReplayFailsWithItsDeliveriesAndEnds(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	r.answers(func(rw http.ResponseWriter, one received) {
		if one.event.Subject.ID == "2" {
			rw.WriteHeader(http.StatusTeapot)
		}
	})
	w.serves("one")
	id := w.endpoint("crm", r.URL, func(c *document.WebhookEndpoint) { c.RetrySeconds = 60 })
	w.follows(id)
	began := w.Clock.Now()
	w.happens(events.UserCreated, 1, 2)
	w.expires(id, 1)
	row, err := w.replays(id, webhooks.Wanted{Status: webhooks.ReplayAll, Since: began})
	w.Must(err)
	w.Eventually("the replay has ended", func() bool {
		w.Clock.Advance(2 * time.Second)
		return !w.replay(row.ID).CompletedAt.IsZero()
	})
	if now := w.replay(row.ID); now.Replayed != 1 || now.Failed != 1 || now.Total != 2 {
		t.Errorf("%+v", now)
	}
	failed := w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryFailed})
	if len(failed) != 2 || failed[0].Replay != row.ID {
		t.Errorf("%+v", failed)
	}
}

// A receiver that stops to respond to the events of a replay gets live events meanwhile.
func TestLiveEventsPassAReplay(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	const responded = 50 // until then, more and more requests may be open
	live := make(chan struct{})
	r.answers(func(rw http.ResponseWriter, one received) {
		if one.event.Type == string(events.UserDeleted) {
			close(live)
		} else if len(r.all()) > responded {
			select {
			case <-live:
			case <-one.gone:
			}
		}
		rw.WriteHeader(http.StatusNoContent)
	})
	began := w.Clock.Now()
	w.happens(events.UserCreated, upTo(300)...)
	w.Clock.Advance(time.Hour)
	w.serves("one")
	id := w.endpoint("crm", r.URL, nil)
	w.follows(id)
	row, err := w.replays(id, webhooks.Wanted{Status: webhooks.ReplayAll, Since: began})
	w.Must(err)
	w.Eventually("the replay has begun", func() bool { return len(r.all()) > responded })
	w.happens(events.UserDeleted, 5000)
	w.Eventually("the live event arrives", func() bool {
		select {
		case <-live:
			return true
		default:
			return false
		}
	})
	w.Eventually("the replay ends", func() bool { return w.replay(row.ID).Replayed == 300 })
}

func TestReplayContinuesOnAnotherServer(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w, r := newWorld(t, url), newReceiver(t)
		began := w.Clock.Now()
		w.happens(events.UserCreated, upTo(600)...)
		w.Clock.Advance(time.Hour)
		stop := w.serves("one")
		id := w.endpoint("crm", r.URL, nil)
		w.follows(id)
		row, err := w.replays(id, webhooks.Wanted{Status: webhooks.ReplayAll, Since: began})
		w.Must(err)
		for n := 0; n < 4; n++ {
			seen := len(r.all())
			w.Eventually("some arrive", func() bool { return len(r.all()) > seen+20 || len(r.all()) >= 600 })
			stop()
			stop = w.serves(fmt.Sprintf("server %d", n))
		}
		w.Eventually("the replay ends", func() bool {
			w.passes(time.Second, id)
			return !w.replay(row.ID).CompletedAt.IsZero()
		})
		if now := w.replay(row.ID); now.Replayed != 600 || now.Failed != 0 || now.Skipped != 0 {
			t.Errorf("%+v", now)
		}
		seen := map[string]bool{}
		for _, one := range r.all() {
			seen[one.event.ID] = true
		}
		if len(seen) != 600 {
			t.Errorf("%d of 600 events arrived", len(seen))
		}
	})
}

func TestDisabledEndpointIsReactivatedByARequest(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w, r := newWorld(t, url), newReceiver(t)
		gone := func(rw http.ResponseWriter, _ received) { rw.WriteHeader(http.StatusGone) }
		r.answers(gone)
		w.serves("one")
		id := w.endpoint("crm", r.URL, nil)
		w.follows(id)
		reactivate := func(skip bool) (changed bool, err error) {
			err = w.Store.Change(t.Context(), deployment, func(tx people.Tx) (err error) {
				changed, err = webhooks.Reactivate(tx, id, skip, w.Clock.Now())
				return err
			})
			return changed, err
		}
		disabled := func() {
			w.Eventually("it is disabled", func() bool { w.passes(time.Second, id); return !w.state(id).DisabledAt.IsZero() })
		}
		if changed, err := reactivate(false); changed || err != nil {
			t.Errorf("an endpoint that is not disabled: %v, %v", changed, err)
		}
		w.happens(events.UserCreated, 1)
		disabled()
		w.happens(events.UserCreated, 2)
		if _, err := w.replays(id, webhooks.Wanted{Status: webhooks.ReplayFailed}); !errors.Is(err, webhooks.ErrDisabled) {
			t.Errorf("%v", err)
		}
		if changed, err := reactivate(false); !changed || err != nil {
			t.Fatalf("%v, %v", changed, err)
		}
		disabled()
		var soon *webhooks.TooSoonError
		if _, err := reactivate(false); !errors.As(err, &soon) || soon.RetryAfter > time.Minute {
			t.Errorf("%v", err)
		}
		w.Clock.Advance(time.Minute)
		r.answers(nil)
		if _, err := reactivate(true); err != nil {
			t.Fatal(err)
		}
		w.happens(events.UserDeleted, 3)
		w.Eventually("later events arrive", func() bool {
			return slices.ContainsFunc(r.all(), func(one received) bool { return one.event.Type == "user.deleted" })
		})
		if skipped := w.deliveries(id, people.DeliveryFilter{Status: people.DeliverySkipped}); len(skipped) == 0 || w.state(id).Failures != 0 {
			t.Errorf("%d deliveries were skipped, state %+v", len(skipped), w.state(id))
		}
		delivered := w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})
		for _, d := range delivered {
			if d.Type != "user.deleted" {
				t.Errorf("an event of the skipped backlog was delivered: %+v", d)
			}
		}
	})
}

// An endpoint that failed for so long that it was disabled, while its next request was due, gets later events once it
// is enabled without its backlog.
func TestEndpointThatIsEnabledWithoutItsBacklogGetsLaterEvents(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w, r := newWorld(t, url), newReceiver(t)
		r.answers(func(rw http.ResponseWriter, _ received) { rw.WriteHeader(http.StatusInternalServerError) })
		w.serves("one")
		id := w.endpoint("crm", r.URL, func(c *document.WebhookEndpoint) { c.DisableAfterSeconds, c.RetrySeconds = 600, 604800 })
		w.follows(id)
		w.happens(events.UserCreated, upTo(40)...)
		seen := 0
		w.Eventually("it is disabled", func() bool {
			if n := len(r.all()); n > seen { // the clock does not outrun the server
				seen = n
				w.Clock.Advance(time.Minute)
			} else {
				w.Clock.Advance(time.Second)
			}
			return !w.state(id).DisabledAt.IsZero()
		})
		w.Eventually("its lease is over", func() bool { return !w.state(id).LeasedUntil.After(w.Clock.Now()) })
		w.Must(w.Store.Change(t.Context(), deployment, func(tx people.Tx) error { // as it is if a delivery was to be probed with
			state, _, err := tx.Webhooks().LockWebhookState(id)
			w.Must(err)
			state.Blocked = true
			held, err := tx.Webhooks().UpdateWebhookState(state, state.Epoch)
			if err == nil && !held {
				t.Error("the state was not written")
			}
			return err
		}))
		r.answers(nil)
		w.Must(w.Store.Change(t.Context(), deployment, func(tx people.Tx) error {
			_, err := webhooks.Reactivate(tx, id, true, w.Clock.Now())
			return err
		}))
		w.happens(events.UserDeleted, 41)
		w.Eventually("the later event arrives", func() bool {
			w.passes(time.Second, id)
			return slices.ContainsFunc(r.all(), func(one received) bool { return one.event.Type == "user.deleted" })
		})
	})
}
