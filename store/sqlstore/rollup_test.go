package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
	"github.com/cardea-iam/cardea/store/sqlstore/rollup"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

const analyzed = "apps/main"

// firstDay is the first day of recorded events. The days after it include a leap day and a month's end.
var firstDay = time.Date(2024, time.February, 26, 0, 0, 0, 0, time.UTC)

// record writes events of a number of users over a week; half of the users exist. One seed always yields the same
// events.
func record(t testing.TB, s *Store, seed uint64, events, users int) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	makeUsers(t, s, int64(users)/2)
	err := s.Change(t.Context(), analyzed, func(tx people.Tx) error {
		for n := range events {
			e := people.Event{
				ID: int64(seed)*1_000_000 + int64(n) + 1, Kind: people.EventSignIn, Method: people.MethodPassword, User: random.Int64N(int64(users)) + 1, Address: "192.0.2.1",
				At: firstDay.Add(time.Duration(random.Int64N(7*rollup.MicrosADay)) * time.Microsecond),
			}
			if of := random.IntN(10); of < 3 {
				e.Kind = []string{people.EventSignUp, people.EventOrganization, people.EventWorkspace}[of]
			}
			if err := tx.Records().RecordEvent(e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// makeUsers inserts the users up to an id that do not exist.
func makeUsers(t testing.TB, s *Store, last int64) {
	t.Helper()
	err := s.Change(t.Context(), analyzed, func(tx people.Tx) error {
		for user := int64(1); user <= last; user++ {
			_, there, err := tx.Users().User(user)
			if err != nil {
				return err
			}
			if there {
				continue
			}
			err = tx.Users().InsertUser(people.User{ID: user, FirstName: fmt.Sprint(user), CreatedAt: firstDay},
				people.Email{ID: user, User: user, Address: fmt.Sprintf("%d@example.com", user), Primary: true, CreatedAt: firstDay})
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

// rollUpRows returns all rows that a roll-up writes, to the byte.
func rollUpRows(t testing.TB, s *Store) (rows []string) {
	t.Helper()
	for _, query := range []string{
		`SELECT 'day', day, signins, users, signups + organizations * 1000 + workspaces * 1000000, user_set, log FROM sealed_days WHERE deployment = ? ORDER BY day`,
		`SELECT 'month', month, users_sum, 0, 0, user_set, user_set FROM sealed_months WHERE deployment = ? ORDER BY month`,
		`SELECT kind, at, id, ordinal, 0, NULL, NULL FROM past_events WHERE deployment = ? ORDER BY kind, at, id`,
		`SELECT kind, at, id, user_id, 0, NULL, NULL FROM recent_events WHERE deployment = ? ORDER BY kind, at, id`,
		`SELECT what, total, 0, 0, 0, NULL, NULL FROM sealed_totals WHERE deployment = ? ORDER BY what`,
		`SELECT 'ordinal', user_id, ordinal, 0, 0, NULL, NULL FROM user_ordinals WHERE deployment = ? ORDER BY user_id`,
	} {
		err := s.db.Reads().Query(t.Context(), func(row *sql.Rows) error {
			var what string
			var n [4]int64
			var blobs [2][]byte
			err := row.Scan(&what, &n[0], &n[1], &n[2], &n[3], &blobs[0], &blobs[1])
			rows = append(rows, fmt.Sprintf("%s %d %x", what, n, blobs))
			return err
		}, query, analyzed)
		if err != nil {
			t.Fatal(err)
		}
	}
	return rows
}

// longAgo, passed as linkedSince, makes a roll-up keep the user of every event.
var longAgo = time.UnixMicro(0)

// rollUpUntilNothingWaits rolls up in small steps, writes a line after each, and returns an exit code.
func rollUpUntilNothingWaits(ctx context.Context, s *Store, to io.Writer) int {
	for {
		waiting, err := s.Waiting(ctx)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if len(waiting) == 0 {
			return 0
		}
		if _, err := s.RollUpDay(ctx, waiting[0], longAgo, 5); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		_, _ = fmt.Fprintln(to, "rolled up")
	}
}

func rollUpAll(t testing.TB, s *Store) {
	t.Helper()
	if rollUpUntilNothingWaits(t.Context(), s, io.Discard) != 0 {
		t.Fatal("roll-up failed")
	}
}

func summaryOf(t testing.TB, from people.Analytics, period people.Period) people.Summary {
	t.Helper()
	before := people.Period{From: period.From.Add(-period.To.Sub(period.From)), To: period.From}
	got, err := from.Summarize(t.Context(), analyzed, period, before, 10)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

var wholeWeek = people.Period{From: firstDay.Add(time.Hour), To: firstDay.Add(6 * 24 * time.Hour)}

// TestRollUpSurvivesFaultAtEveryCall fails a roll-up at its first, second, ... call to the database, and its commit
// before and after its work. No summary changes, and the final roll-up equals one without faults.
func TestRollUpSurvivesFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	for engine, newURL := range tabled {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			smooth, _, _ := openFaulty(t, newURL(t))
			record(t, smooth, 1, 60, 9)
			rollUpAll(t, smooth)
			s, f, _ := openFaulty(t, newURL(t))
			record(t, s, 1, 60, 9)
			want := summaryOf(t, s, wholeWeek)
			fail := func(arm func(), applied bool) (reached bool) {
				waiting, err := s.Waiting(t.Context())
				if err != nil || len(waiting) == 0 {
					t.Fatal(err, "no event waits")
				}
				before := rollUpRows(t, s)
				arm()
				_, err = s.RollUpDay(t.Context(), waiting[0], longAgo, 5)
				f.left.Store(0)
				if f.fired.Load() && err == nil && s.db.Dialect.NewPart == "" {
					t.Error("the fault was ignored")
				}
				if err != nil && (!errors.Is(err, errInjected) || reflect.DeepEqual(before, rollUpRows(t, s)) == applied) {
					t.Errorf("%v; done: %t, want %t", err, !applied, applied)
				}
				if got := summaryOf(t, s, wholeWeek); !reflect.DeepEqual(got, want) {
					t.Errorf("after a fault: %+v, want %+v", got, want)
				}
				return f.fired.Load()
			}
			nth := int64(1)
			for ; fail(func() { f.arm(nth, errInjected) }, false); nth++ {
			}
			if nth < 20 {
				t.Errorf("a roll-up made %d calls: too few for this test to mean anything", nth)
			}
			fail(func() { f.armCommit(errInjected, false) }, false)
			fail(func() { f.armCommit(errInjected, true) }, true)
			rollUpAll(t, s)
			if got := summaryOf(t, s, wholeWeek); !reflect.DeepEqual(got, want) {
				t.Errorf("at the end: %+v, want %+v", got, want)
			}
			if got := rollUpRows(t, s); !reflect.DeepEqual(got, rollUpRows(t, smooth)) {
				t.Error("the roll-up differs from one without faults")
			}
		})
	}
}

func TestRollUpResumesAfterKill(t *testing.T) {
	t.Parallel()
	smooth := openAt(t, newSQLite(t), Options{})
	url := newSQLite(t)
	for _, at := range []string{"smooth", url} {
		s := smooth
		if at == url {
			s = openAt(t, url, Options{})
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		record(t, s, 1, 300, 40)
		if at == url {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := summaryOf(t, smooth, wholeWeek)
	if len(want.RecentSignIns) != 10 {
		t.Fatalf("%d sign-ins are listed, want 10: with fewer, this test cannot detect a lost one", len(want.RecentSignIns))
	}
	rollUpAll(t, smooth)
	for round := range 4 {
		runUntilKilled(t, url, 5, crashRollUpEnv+"=1")
		s, err := Open(t.Context(), url, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := summaryOf(t, s, wholeWeek); !reflect.DeepEqual(got, want) {
			t.Errorf("round %d: %+v, want %+v", round, got, want)
		}
		if round == 3 {
			rollUpAll(t, s)
			if !reflect.DeepEqual(rollUpRows(t, s), rollUpRows(t, smooth)) {
				t.Error("the roll-up differs from one that was not killed")
			}
			if got := summaryOf(t, s, wholeWeek); !reflect.DeepEqual(got, want) {
				t.Errorf("at the end: %+v, want %+v", got, want)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSummaryAgreesWithTwoOtherCounts computes each number in three ways: by the roll-up, by counting distinct users,
// and by counting each user's first sign-in in the period.
func TestSummaryAgreesWithTwoOtherCounts(t *testing.T) {
	t.Parallel()
	for engine, newURL := range tabled {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			s := migrated(t, newURL(t), Options{})
			random := rand.New(rand.NewPCG(7, 7))
			for round := range uint64(3) {
				record(t, s, round+1, 400, 60)
				for range 12 {
					from := firstDay.Add(time.Duration(random.Int64N(8*rollup.MicrosADay)-rollup.MicrosADay) * time.Microsecond)
					period := people.Period{From: from, To: from.Add(time.Duration(random.Int64N(5*rollup.MicrosADay)+1) * time.Microsecond)}
					got := summaryOf(t, s, period)
					if want := summaryOf(t, s.Counting(), period); !reflect.DeepEqual(got, want) {
						t.Fatalf("%v: %+v, counted one by one %+v", period, got, want)
					}
					if want := firstSignIns(t, s, period); got.Period.SignInUsers != want {
						t.Fatalf("%v: %d users, counted by previous sign-ins %d", period, got.Period.SignInUsers, want)
					}
				}
				waiting, err := s.Waiting(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, w := range waiting[:5] { // the other two days stay waiting
					if _, err := s.RollUpDay(t.Context(), w, longAgo, 1000); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// firstSignIns counts the sign-ins in a period whose user's previous sign-in was before the period.
func firstSignIns(t testing.TB, s *Store, period people.Period) (n int64) {
	t.Helper()
	_, err := s.db.Reads().Row(t.Context(), []any{&n}, `SELECT COUNT(*) FROM (
		SELECT at, LAG(at) OVER (PARTITION BY who ORDER BY at) AS previous FROM analytics_events WHERE deployment = ? AND kind = 'signin') v
		WHERE at >= ? AND at < ? AND (previous IS NULL OR previous < ?)`, analyzed, db.Micros(period.From), db.Micros(period.To), db.Micros(period.From))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestEventsOfEarlierSchemaAreCounted: events recorded before the schema had roll-ups wait for a roll-up, and are
// counted meanwhile.
func TestEventsOfEarlierSchemaAreCounted(t *testing.T) {
	t.Parallel()
	for engine, newURL := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			s := migratedTo(t, newURL(t), 5)
			for n := range int64(10) {
				_, err := s.db.Writes().Exec(t.Context(), `INSERT INTO events (deployment, kind, at, id, user_id, method, address, user_agent)
					VALUES (?, 'signin', ?, ?, ?, 'password', '', '')`, analyzed, db.Micros(firstDay.Add(time.Duration(n)*time.Hour)), n+1, n%4+1)
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got := summaryOf(t, s, people.Period{From: firstDay, To: firstDay.Add(3 * time.Hour)}).Period.SignInUsers; got != 3 {
					t.Errorf("%d users signed in, want 3", got)
				}
				rollUpAll(t, s)
			}
		})
	}
}

// TestRollUpDoesNotLinkDeletedUser: a user's deletion during a roll-up of the user's events waits for the roll-up, and
// sees the rows that it wrote.
func TestRollUpDoesNotLinkDeletedUser(t *testing.T) {
	t.Parallel()
	s := migrated(t, tabled["postgres"](t), Options{})
	makeUsers(t, s, 1)
	err := s.Change(t.Context(), analyzed, func(tx people.Tx) error { // as an import does: without an address
		return tx.Records().RecordEvent(people.Event{ID: 1, Kind: people.EventSignIn, At: firstDay, User: 1, Method: people.MethodImport})
	})
	if err != nil {
		t.Fatal(err)
	}
	// The roll-up writes the month after it has linked the event: the lock stops it there.
	holder, err := s.db.Writers.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback() }()
	if _, err := holder.ExecContext(t.Context(), `LOCK TABLE sealed_months IN EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	deleted := make(chan struct{})
	both.Go(func() {
		if _, err := s.RollUpDay(t.Context(), people.WaitingEvents{Deployment: analyzed, Day: firstDay}, longAgo, 100); err != nil {
			t.Error(err)
		}
	})
	await := func(want int64) {
		for waiting := int64(0); waiting < want && t.Context().Err() == nil; {
			if _, err := s.db.Reads().Row(t.Context(), []any{&waiting}, `SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`); err != nil {
				t.Fatal(err)
			}
			select {
			case <-deleted:
				return
			default:
			}
		}
	}
	await(1)
	both.Go(func() {
		defer close(deleted)
		if err := s.Change(t.Context(), analyzed, func(tx people.Tx) error { return tx.Users().DeleteUser(1) }); err != nil {
			t.Error(err)
		}
	})
	await(2)
	if err := holder.Rollback(); err != nil {
		t.Fatal(err)
	}
	both.Wait()
	var linked int64
	if _, err := s.db.Reads().Row(t.Context(), []any{&linked}, `SELECT COUNT(*) FROM recent_events WHERE deployment = ?`, analyzed); err != nil || linked != 0 {
		t.Errorf("%d events are linked to a deleted user, %v", linked, err)
	}
	if got := summaryOf(t, s, people.Period{From: firstDay, To: firstDay.AddDate(0, 0, 1)}).Period.SignInUsers; got != 1 {
		t.Errorf("%d users signed in, want 1", got)
	}
}

// TestWaitingUsesIndex: each step to another day is one index lookup. If a step read the rows between, it would read
// millions of waiting events once per day, and the roll-up would stop.
func TestWaitingUsesIndex(t *testing.T) {
	t.Parallel()
	for engine, newURL := range tabled {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			s, _, _ := openFaulty(t, newURL(t))
			record(t, s, 1, 2_000, 60)
			explain, want, never := `EXPLAIN QUERY PLAN `, "(deployment=? AND kind=? AND at>?)", "SCAN e\n"
			if s.db.Dialect.Numbered {
				// PostgreSQL shows plans only for the subqueries of the initial term, not of the recursive term.
				explain, want, never = `EXPLAIN (COSTS OFF) `, "Index Cond: ((deployment = h_1.deployment) AND (kind = ", "Seq Scan on events"
				if _, err := s.db.Writers.Exec("ANALYZE events"); err != nil {
					t.Fatal(err)
				}
			}
			rows, err := s.db.Readers.Query(explain + rollup.WaitingQuery)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close() //nolint:errcheck // read to the end
			columns, err := rows.Columns()
			if err != nil {
				t.Fatal(err)
			}
			var plan strings.Builder
			for rows.Next() {
				row := make([]any, len(columns))
				for i := range row {
					row[i] = new(any)
				}
				if err := rows.Scan(row...); err != nil {
					t.Fatal(err)
				}
				fmt.Fprintln(&plan, *row[len(row)-1].(*any))
			}
			if err := rows.Err(); err != nil || !strings.Contains(plan.String(), want) || strings.Contains(plan.String(), never) {
				t.Errorf("%v; the plan is to have %q, and never %q:\n%s", err, want, never, &plan)
			}
		})
	}
}

// TestAnalyticsUseIndexesOnPostgreSQL: PostgreSQL prefers a full scan for small tables. It did so for gigabytes too,
// when its statistics said that the table was empty. No statement of roll-ups and summaries may scan a whole table,
// whatever the statistics say.
func TestAnalyticsUseIndexesOnPostgreSQL(t *testing.T) {
	t.Parallel()
	url := pgtest.ForTest(t)
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	watch := stdlib.OpenDB(*config)
	defer watch.Close() //nolint:errcheck // only read from
	watch.SetMaxOpenConns(1)
	// scans returns the numbers of full scans and of index scans. A connection reports its scans when it ends, so scans
	// waits for that.
	scans := func() (whole, byKey int64) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; {
			var others int
			err := watch.QueryRow(`SELECT COUNT(*) FROM pg_stat_activity
				WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&others)
			switch {
			case err != nil:
				t.Fatal(err)
			case time.Now().After(deadline):
				t.Fatalf("%d connections stay open", others)
			case others > 0:
				continue
			}
			err = watch.QueryRow(`SELECT SUM(seq_scan), SUM(idx_scan) FROM pg_stat_user_tables WHERE relname IN ('events', 'user_ordinals', 'sealed_days')`).Scan(&whole, &byKey)
			if err != nil {
				t.Fatal(err)
			}
			return whole, byKey
		}
	}
	// with runs do with a store, and closes the store.
	with := func(do func(s *Store)) {
		t.Helper()
		s, err := Open(t.Context(), url, Options{MaxConns: testConns})
		if err != nil {
			t.Fatal(err)
		}
		do(s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	with(func(s *Store) {
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		record(t, s, 1, 500, 60)
		if _, err := s.db.Writers.Exec("ANALYZE events, user_ordinals"); err != nil {
			t.Fatal(err)
		}
	})
	wholeBefore, byKeyBefore := scans()
	with(func(s *Store) {
		for day := range 7 {
			if _, err := s.RollUpDay(t.Context(), people.WaitingEvents{Deployment: analyzed, Day: firstDay.AddDate(0, 0, day)}, firstDay, 1000); err != nil {
				t.Fatal(err)
			}
		}
		summaryOf(t, s, people.Period{From: firstDay.Add(time.Hour), To: firstDay.AddDate(0, 0, 5)})
	})
	whole, byKey := scans()
	if whole != wholeBefore || byKey < byKeyBefore+500 { // each event takes an index lookup of its user's number
		t.Errorf("%d full table scans, %d index scans", whole-wholeBefore, byKey-byKeyBefore)
	}
}
