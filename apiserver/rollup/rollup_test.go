package rollup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore"
)

var now = time.Date(2026, time.May, 2, 12, 0, 0, 0, time.UTC)

// fewest is the least number of events for which a pass rolls up a day without rolled-up events.
var fewest = int(people.EnoughToRollUp(0))

func newWorker(t *testing.T) (*Worker, *sqlstore.Store) {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), servertest.SQLite(t), sqlstore.Options{})
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
		err = s.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	retention := func(deployment string) (time.Duration, bool) {
		if deployment == "acme/short" {
			return 24 * time.Hour, true
		}
		return 30 * 24 * time.Hour, deployment != "acme/gone"
	}
	return New(Options{Store: s, Retention: retention, Clock: func() time.Time { return now }, Log: logr.Discard(), Registry: prometheus.NewRegistry()}), s
}

// signIns records sign-ins of user 1, each a duration ago.
func signIns(t *testing.T, s *sqlstore.Store, deployment string, ago ...time.Duration) {
	t.Helper()
	err := s.Change(t.Context(), deployment, func(tx people.Tx) error {
		if _, there, err := tx.Users().User(1); err != nil || !there {
			err := errors.Join(err, tx.Users().InsertUser(people.User{ID: 1, CreatedAt: now}, people.Email{ID: 1, Address: "ada@example.com", Primary: true, CreatedAt: now}))
			if err != nil {
				return err
			}
		}
		for i, ago := range ago {
			err := tx.Records().RecordEvent(people.Event{ID: int64(i + 1), Kind: people.EventSignIn, At: now.Add(-ago), User: 1, Method: people.MethodPassword, Address: "192.0.2.1"})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func waiting(t *testing.T, s *sqlstore.Store) (n int64) {
	t.Helper()
	all, err := s.Waiting(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range all {
		n += w.Events
	}
	return n
}

func TestFewEventsWaitForAWholePass(t *testing.T) {
	t.Parallel()
	worker, s := newWorker(t)
	signIns(t, s, "acme/home", time.Hour, 2*time.Hour, 48*time.Hour)
	many := make([]time.Duration, fewest)
	for i := range many {
		many[i] = time.Duration(i) * time.Second
	}
	signIns(t, s, "acme/busy", many...)
	for _, step := range []struct {
		whole       bool
		found, left int64
	}{{false, int64(fewest) + 3, 3}, {true, 3, 0}, {true, 0, 0}} {
		if err := worker.Pass(t.Context(), step.whole); err != nil {
			t.Fatal(err)
		}
		if left := waiting(t, s); left != step.left {
			t.Errorf("%d wait, want %d", left, step.left)
		}
		if told := testutil.ToFloat64(worker.waiting); told != float64(step.found) {
			t.Errorf("the metric reports %v waiting events, want %d", told, step.found)
		}
	}
}

// The first pass of Run comes after 10 s or more, so an earlier roll-up is that of the import.
func TestEndedImportIsRolledUpImmediately(t *testing.T) {
	t.Parallel()
	worker, s := newWorker(t)
	signIns(t, s, "acme/home", time.Hour, 48*time.Hour, 96*time.Hour)
	signIns(t, s, "acme/other", time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	began := time.Now()
	worker.Imported("acme/home")
	for waiting(t, s) > 1 {
		if time.Since(began) > passEvery/2 {
			t.Fatalf("%d events wait, want 1", waiting(t, s))
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	left, err := s.Waiting(t.Context())
	if err != nil || len(left) != 1 || left[0].Deployment != "acme/other" {
		t.Errorf("%+v wait, %v, want those of acme/other, where no import ended", left, err)
	}
}

func TestSmallImportDoesNotRewriteLargeDay(t *testing.T) {
	t.Parallel()
	worker, s := newWorker(t)
	many := make([]time.Duration, fewest)
	for i := range many {
		many[i] = time.Duration(i) * time.Second
	}
	signIns(t, s, "acme/home", many...)
	if err := worker.Pass(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	err := s.Change(t.Context(), "acme/home", func(tx people.Tx) error {
		return tx.Records().RecordEvent(people.Event{ID: 1 << 20, Kind: people.EventSignIn, At: now.Add(-time.Hour), User: 1, Method: people.MethodPassword})
	})
	if err != nil {
		t.Fatal(err)
	}
	worker.Imported("acme/home")
	if err := worker.rollUpImported(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := waiting(t, s); n != 1 {
		t.Errorf("%d events wait, want 1", n)
	}
}

// brokenDay fails to roll up one day.
type brokenDay struct {
	people.RollUp
	day time.Time
}

func (b brokenDay) RollUpDay(ctx context.Context, w people.WaitingEvents, since time.Time, limit int) (int64, error) {
	if w.Day.Equal(b.day) {
		return 0, errors.New("broken")
	}
	return b.RollUp.RollUpDay(ctx, w, since, limit)
}

func TestFailedDayDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	worker, s := newWorker(t)
	signIns(t, s, "acme/home", time.Hour, 31*24*time.Hour)
	if err := worker.Pass(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	signIns(t, s, "acme/a", 48*time.Hour, 25*time.Hour)
	worker.Store = brokenDay{s, now.Add(-48 * time.Hour).Truncate(24 * time.Hour)}
	later := now.Add(60 * 24 * time.Hour)
	worker.Clock = func() time.Time { return later }
	if err := worker.Pass(t.Context(), true); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("%v", err)
	}
	if left := waiting(t, s); left != 1 {
		t.Errorf("%d events wait, want that of the day that fails", left)
	}
	summary, err := s.Summarize(t.Context(), "acme/home", people.Period{}, people.Period{}, 10)
	if err != nil || len(summary.RecentSignIns) != 2 || summary.RecentSignIns[0].Address != "" {
		t.Errorf("addresses are kept past the retention: %+v, %v", summary.RecentSignIns, err)
	}
}

// A backlog does not delay the retention of any deployment.
func TestPassEndsInTimeAndNextContinues(t *testing.T) {
	t.Parallel()
	worker, s := newWorker(t)
	var ago []time.Duration
	for day := range 12 {
		ago = append(ago, time.Duration(day)*24*time.Hour)
	}
	signIns(t, s, "acme/home", ago...)
	minutes := 0
	worker.Clock = func() time.Time { // each call is a minute later
		minutes++
		return now.Add(time.Duration(minutes) * time.Minute)
	}
	left := []int64{12}
	for left[len(left)-1] > 0 && len(left) < 20 {
		if err := worker.Pass(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		left = append(left, waiting(t, s))
	}
	if len(left) < 4 || left[len(left)-1] != 0 || left[1] == 12 {
		t.Errorf("events that wait after each pass: %v", left)
	}
}

func TestDayIsRewrittenWhenAnEighthIsNew(t *testing.T) {
	t.Parallel()
	for rolledUp, want := range map[int64]int64{0: 2_000, 16_000: 2_000, 16_008: 2_001, 1_000_000: 125_000} {
		if got := people.EnoughToRollUp(rolledUp); got != want {
			t.Errorf("%d events are enough for %d rolled-up events, want %d", got, rolledUp, want)
		}
	}
}

// steps records the deployment and day of each RollUpDay call.
type steps struct {
	people.RollUp
	of []string
}

func (s *steps) RollUpDay(ctx context.Context, w people.WaitingEvents, since time.Time, limit int) (int64, error) {
	s.of = append(s.of, fmt.Sprintf("%s %d", w.Deployment, w.Day.Day()))
	return s.RollUp.RollUpDay(ctx, w, since, limit)
}

// The first day of every deployment is rolled up before the second day of any deployment. Each day is rolled up
// completely, even if it has more events than Waiting counts.
func TestBacklogDelaysNoOtherDeployment(t *testing.T) {
	t.Parallel()
	worker, s := newWorker(t)
	const day = 24 * time.Hour
	busy := make([]time.Duration, 3*fewest)
	for i := range busy {
		busy[i] = time.Duration(i) * time.Second
	}
	signIns(t, s, "acme/a", append(busy, day, 2*day)...)
	signIns(t, s, "acme/b", day)
	counting := &steps{RollUp: s}
	worker.Store = counting
	if err := worker.Pass(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(counting.of, ", "); got != "acme/a 30, acme/b 1, acme/a 1, acme/a 2, acme/a 2" {
		t.Errorf("rolled up %s", got)
	}
	if left := waiting(t, s); left != 0 {
		t.Errorf("%d wait", left)
	}
}

// Addresses are deleted whether their events were rolled up before the retention passed or after.
func TestAddressesAreForgottenAfterTheRetention(t *testing.T) {
	t.Parallel()
	worker, s := newWorker(t)
	for _, deployment := range []string{"acme/home", "acme/short", "acme/gone"} {
		signIns(t, s, deployment, time.Hour, 23*time.Hour, 48*time.Hour, 31*24*time.Hour)
	}
	addresses := func(deployment string) string {
		summary, err := s.Summarize(t.Context(), deployment, people.Period{}, people.Period{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, r := range summary.RecentSignIns {
			all = append(all, fmt.Sprint(r.Address != ""))
		}
		return strings.Join(all, " ")
	}
	for _, step := range []struct {
		later       time.Duration
		home, short string
	}{{0, "true true true false", "true true false false"}, {2 * time.Hour, "true true true false", "true false false false"}, {29 * 24 * time.Hour, "true true false false", "false false false false"}} {
		at := now.Add(step.later)
		worker.Clock = func() time.Time { return at }
		if err := worker.Pass(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if home, short := addresses("acme/home"), addresses("acme/short"); home != step.home || short != step.short {
			t.Errorf("%v later: %q and %q, want %q and %q", step.later, home, short, step.home, step.short)
		}
		if gone := addresses("acme/gone"); gone != "true true true true" {
			t.Errorf("%v later: addresses of an unknown deployment: %q", step.later, gone)
		}
	}
}

// changing counts changes of rows, some during each step, which takes a time of the test's clock.
type changing struct {
	people.RollUp
	takes   time.Duration
	during  uint64
	changes uint64
}

func (c *changing) RowChanges() uint64 { return c.changes }

func TestStepIsFollowedByALongerPauseDuringChanges(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		takes  time.Duration
		during uint64
		moved  int64
		fails  error
		want   time.Duration
	}{
		"no changes":               {takes: 50 * time.Millisecond, moved: 1, want: 100 * time.Millisecond},
		"a change in a short step": {takes: 50 * time.Millisecond, during: 1, moved: 1, want: 350 * time.Millisecond},
		"few in a long step":       {takes: 400 * time.Millisecond, during: 7, moved: 1, want: 800 * time.Millisecond},
		"many in a long step":      {takes: 300 * time.Millisecond, during: 6, moved: 1, want: 2100 * time.Millisecond},
		"a step of ten seconds":    {takes: 10 * time.Second, during: 1000, moved: 1, want: 12 * time.Second},
		"nothing was moved":        {takes: 50 * time.Millisecond, during: 9, want: 50 * time.Millisecond},
		"a failure":                {takes: 50 * time.Millisecond, during: 9, fails: broken, want: 50 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := &changing{takes: tc.takes, during: tc.during}
			worker := &Worker{Options: Options{Store: store}}
			began := time.Now()
			n, err := worker.paced(t.Context(), func() (int64, error) {
				time.Sleep(store.takes)
				store.changes += store.during
				return tc.moved, tc.fails
			})
			if took := time.Since(began); took != tc.want || n != tc.moved || !errors.Is(err, tc.fails) {
				t.Errorf("%s: %d, %v after %v, want %v", name, n, err, took, tc.want)
			}
		})
	}
}

// unlinks records the deployment of each Unlink call, and reports a full step for some calls of a deployment.
type unlinks struct {
	changing
	full map[string]int
	of   []string
}

func (u *unlinks) Linked(context.Context) ([]string, error) { return []string{"acme/a", "acme/b"}, nil }

func (u *unlinks) Unlink(_ context.Context, deployment string, _ time.Time, limit int) (int64, error) {
	u.of = append(u.of, deployment)
	if u.full[deployment]--; u.full[deployment] >= 0 {
		return int64(limit) + 1, nil
	}
	return 1, nil
}

func TestDeploymentsTakeTurnsInDeletingExpiredData(t *testing.T) {
	t.Parallel()
	store := &unlinks{full: map[string]int{"acme/a": 3}}
	worker := &Worker{Options: Options{Store: store, Clock: func() time.Time { return now }, Retention: func(string) (time.Duration, bool) { return time.Hour, true }}}
	if err := worker.forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(store.of, " "); got != "acme/a acme/b acme/a acme/a acme/a" {
		t.Errorf("%s", got)
	}
}
