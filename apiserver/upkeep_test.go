package apiserver

import (
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/store/people"
)

// TestUpkeepDeletesOldEventsInBatches: events that are older than the retention are deleted, in batches over all
// deployments. The newest event of a deployment stays, so that numbers go on.
func TestUpkeepDeletesOldEventsInBatches(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := servertest.New(t, url, nil)
		now := time.Now()
		logs := func(deployment string, at time.Time, n int) {
			t.Helper()
			list := make([]people.LoggedEvent, n)
			for i := range list {
				var err error
				list[i], err = events.OfAccount(int64(i+1), "password").Log(at, "system")
				w.Must(err)
			}
			w.Must(w.Store.Change(t.Context(), deployment, func(tx people.Tx) error {
				if err := tx.Records().LogEvents(list); err != nil {
					return err
				}
				_, err := tx.EventLog().NumberEvents(n)
				return err
			}))
		}
		expect := func(deployment string, want people.EventBounds) {
			t.Helper()
			w.Must(w.Store.View(t.Context(), deployment, func(tx people.Tx) error {
				bounds, err := tx.EventLog().EventBounds()
				if bounds != want {
					t.Errorf("%s has the events %+v, want %+v", deployment, bounds, want)
				}
				return err
			}))
		}
		const large, small, quiet = "apps/large", "apps/small", "apps/quiet"
		logs(large, now.Add(-31*24*time.Hour), 2*upkeepBatch+10)
		logs(large, now.Add(-29*24*time.Hour), 3)
		logs(small, now.Add(-32*24*time.Hour), 5)
		logs(quiet, now, 4)
		s := &Server{opts: Options{People: w.Store, Clock: func() time.Time { return now }, Log: logr.Discard(), EventRetention: 40 * 24 * time.Hour}}
		s.forgetOldEvents(t.Context())
		expect(large, people.EventBounds{First: 1, Last: 2*upkeepBatch + 13})
		s.opts.EventRetention = 0 // 30 days
		deleted, err := s.forgetEvents(t.Context(), now.Add(-DefaultEventRetention))
		if err != nil || deleted != upkeepBatch {
			t.Errorf("a batch has %d events: %v", deleted, err)
		}
		s.forgetOldEvents(t.Context())
		expect(large, people.EventBounds{First: 2*upkeepBatch + 11, Last: 2*upkeepBatch + 13})
		expect(small, people.EventBounds{First: 5, Last: 5})
		expect(quiet, people.EventBounds{First: 1, Last: 4})
		logs(small, now, 1)
		s.forgetOldEvents(t.Context())
		expect(small, people.EventBounds{First: 6, Last: 6})
	})
}
