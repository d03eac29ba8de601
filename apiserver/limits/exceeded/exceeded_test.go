package exceeded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/apiserver/limits"
	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/store/people"
)

// log is a store that keeps the events of deployments. While away is set, its transactions fail.
type log struct {
	people.Tx
	people.Records
	of   map[string][]people.LoggedEvent
	in   string
	away error
	// changes counts the transactions, and during is called in each.
	changes int
	during  func()
}

func (l *log) Change(_ context.Context, deployment string, do func(people.Tx) error) error {
	l.changes++
	if l.during != nil {
		l.during()
	}
	if l.away != nil {
		return l.away
	}
	l.in = deployment
	return do(tx{l})
}

// tx is a transaction of a log.
type tx struct{ *log }

func (t tx) Records() people.Records { return t.log }

func (l *log) LogEvents(list []people.LoggedEvent) error {
	l.of[l.in] = append(l.of[l.in], list...)
	return nil
}

// world is a Reporter over a log, with its clock.
type world struct {
	*Reporter
	t    *testing.T
	log  *log
	now  time.Time
	gone map[string]bool
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, log: &log{of: map[string][]people.LoggedEvent{}}, now: time.Date(2026, 5, 10, 11, 0, 0, 0, time.UTC), gone: map[string]bool{}}
	w.Reporter = New(Options{
		Store: w.log, Served: func(deployment string) bool { return !w.gone[deployment] }, Clock: func() time.Time { return w.now }, Log: logr.Discard(),
	})
	return w
}

func (w *world) pass() {
	w.t.Helper()
	if err := w.Pass(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// reported returns the counts of the events of a deployment.
func (w *world) reported(deployment string) (counts []int64) {
	w.t.Helper()
	for _, e := range w.log.of[deployment] {
		var data struct{ Count int64 }
		if err := json.Unmarshal([]byte(e.Data), &data); err != nil {
			w.t.Fatal(err)
		}
		counts = append(counts, data.Count)
	}
	return counts
}

func (w *world) expect(deployment string, want ...int64) {
	w.t.Helper()
	if got := w.reported(deployment); fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("the events of %s count %v, want %v", deployment, got, want)
	}
}

var ofKey = limits.Limit{Scheme: 7, Rule: "100/1min", Mode: engine.PerKey, Key: 9}

func TestLimitIsReportedAtMostOnceInFiveMinutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refuse := func(n int) {
		for range n {
			w.Refused("acme/main", ofKey, "partners")
		}
	}
	refuse(3)
	w.now = w.now.Add(time.Second)
	w.pass()
	w.expect("acme/main", 3)
	e := w.log.of["acme/main"][0]
	if e.Type != "rate_limit.exceeded" || e.Actor != "system" || e.SubjectType != "rate_limit_scheme" || e.SubjectID != "7" ||
		e.Data != `{"count":3,"key_id":"9","mode":"per_key","rule":"100/1min","scheme":"partners","window_started_at":"2026-05-10T11:00:00Z"}` {
		t.Errorf("%+v", e)
	}
	w.now = w.now.Add(time.Minute)
	refuse(5)
	w.now = w.now.Add(reportEvery - time.Minute - time.Second)
	w.pass()
	w.expect("acme/main", 3)
	w.now = w.now.Add(time.Second)
	refuse(1)
	w.pass()
	w.pass()
	w.expect("acme/main", 3, 6)
	w.now = w.now.Add(reportEvery)
	w.pass()
	if w.counted.Load() != 0 || len(w.deployments) != 0 {
		t.Errorf("%d limits of %d deployments are still counted", w.counted.Load(), len(w.deployments))
	}
	refuse(1)
	w.pass()
	w.expect("acme/main", 3, 6, 1)
}

func TestLimitsOfDifferentSubjectsAreReportedApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other, byAddress := ofKey, ofKey
	other.Key, byAddress.Key, byAddress.Mode = 10, 0, engine.PerIP
	for _, limit := range []limits.Limit{ofKey, other, byAddress, byAddress} {
		w.Refused("acme/main", limit, "partners")
	}
	w.pass()
	if got := w.reported("acme/main"); len(got) != 3 || got[0]+got[1]+got[2] != 4 || w.log.changes != 1 {
		t.Errorf("the events count %v, in %d transactions", got, w.log.changes)
	}
}

// A deployment that causes refusals of ever more limits has a bounded number of events and of counted limits. Others
// keep theirs.
func TestEventsOfADeploymentAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := range 10 * deploymentMost {
		limit := ofKey
		limit.Key = int64(n + 1)
		w.Refused("acme/loud", limit, "partners")
		if n%50 == 0 {
			w.pass()
			w.now = w.now.Add(time.Second)
		}
	}
	w.Refused("acme/quiet", ofKey, "partners")
	w.pass()
	if n := len(w.log.of["acme/loud"]); n != deploymentMost || w.Dropped() != 9*deploymentMost {
		t.Errorf("%d events, %d refusals dropped", n, w.Dropped())
	}
	w.expect("acme/quiet", 1)
}

func TestEachDeploymentIsReportedWhileOthersFillTheRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := range countedMost/deploymentMost + 1 {
		for key := range deploymentMost {
			limit := ofKey
			limit.Key = int64(key + 1)
			w.Refused(fmt.Sprint("loud/", n), limit, "partners")
		}
	}
	if w.counted.Load() != countedMost {
		t.Fatalf("%d limits are counted", w.counted.Load())
	}
	for key := range deploymentLeast + 1 {
		limit := ofKey
		limit.Key = int64(key + 1)
		w.Refused("acme/quiet", limit, "partners")
	}
	w.pass()
	if n := len(w.log.of["acme/quiet"]); n != deploymentLeast {
		t.Errorf("%d events", n)
	}
}

func TestRefusalsWaitWhileTheStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.log.away = errors.New("the store is unavailable")
	for n := range 2 * failuresMost {
		w.Refused(fmt.Sprint("acme/", n), ofKey, "partners")
	}
	if err := w.Pass(t.Context()); !errors.Is(err, w.log.away) || w.log.changes != failuresMost {
		t.Errorf("%v after %d transactions", err, w.log.changes)
	}
	w.log.away = nil
	w.Refused("acme/0", ofKey, "partners")
	w.pass()
	w.expect("acme/0", 2)
	w.expect("acme/1", 1)
}

func TestRefusalsDuringAWriteCountForTheNextEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Refused("acme/main", ofKey, "partners")
	w.log.during = func() { w.Refused("acme/main", ofKey, "partners") }
	w.pass()
	w.log.during = nil
	w.now = w.now.Add(reportEvery)
	w.pass()
	w.expect("acme/main", 1, 1)
}

func TestDeletedDeploymentHasNoEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Refused("acme/main", ofKey, "partners")
	w.gone["acme/main"] = true
	w.pass()
	if w.log.changes != 0 || w.counted.Load() != 0 || len(w.deployments) != 0 {
		t.Errorf("%d transactions, %d limits are counted", w.log.changes, w.counted.Load())
	}
}
