package bench

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/queries"
	"github.com/cardea-iam/cardea/apiserver/rollup"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

const (
	// analyticsEvents is the number of sign-ins in the year, with a tenth as many users; CARDEA_BENCH_EVENTS replaces
	// it. A hundred million sign-ins take an hour per engine, and 7 GB on SQLite or 35 GB on PostgreSQL.
	// CARDEA_BENCH_ENGINE selects one engine. CARDEA_BENCH_DAYS records only the first days of the year, and queries
	// only those days.
	analyticsEvents = 1_000_000
	// recordedAtOnce is how many events one transaction records, as many as a batch of an import.
	recordedAtOnce = 8_000
	// retention is how long an event stays linked to its user.
	retention = 30 * 24 * time.Hour
	// burstOfQueries is longer than the queries of a deployment may use a processor without a pause.
	burstOfQueries = 3 * time.Second
	// wholeYear is how many days the year has.
	wholeYear = 366
)

// yearBegins is the time of the first sign-in; 2024 is a leap year.
var yearBegins = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

// TestBenchAnalytics compares operation 4.2 over a year of sign-ins with the engine's own COUNT(DISTINCT) over the same
// rows.
func TestBenchAnalytics(t *testing.T) {
	events := analyticsEvents
	if n, err := strconv.Atoi(os.Getenv("CARDEA_BENCH_EVENTS")); err == nil {
		events = n
	}
	days := wholeYear
	if n, err := strconv.Atoi(os.Getenv("CARDEA_BENCH_DAYS")); err == nil {
		days = n
	}
	for _, engine := range []string{"SQLite", "PostgreSQL"} {
		if only := os.Getenv("CARDEA_BENCH_ENGINE"); only != "" && !strings.EqualFold(only, engine) {
			continue
		}
		var server *pgtest.Server
		if engine == "PostgreSQL" {
			server = sizedServer(t)
		}
		y, blank := newYear(t, server, events, days), newYear(t, server, events, days)
		y.fill(t)
		empty, full := signInCosts(t, blank, y)
		y.say("a sign-in's event in a full history to an empty one, p50", "<= 1.05", "%.2f (%s, %s)", float64(full)/float64(empty), ms(empty), ms(full))
		blank.close(t)
		y.sizes(t)
		y.ask(t)
		y.busy(t)
		y.close(t)
	}
}

// year is a store with a year of sign-ins.
type year struct {
	engine, url, path string
	events, users     int
	days              int
	store             *sqlstore.Store
	worker            *rollup.Worker
	rolledUp          atomic.Int64
	rollUpTook        atomic.Int64
	next              atomic.Int64
}

// sizedServer returns a PostgreSQL with the memory that its manual advises for a database of this size on this machine.
// The default test server has almost none.
func sizedServer(t *testing.T) *pgtest.Server {
	t.Helper()
	server, err := pgtest.Start(t.Context(), "shared_buffers=4GB", "max_wal_size=4GB")
	check(t, err)
	t.Cleanup(func() {
		for line := range strings.Lines(server.Log()) {
			if strings.Contains(line, "ERROR") || strings.Contains(line, "STATEMENT") {
				fmt.Print(line)
			}
		}
		check(t, server.Stop())
	})
	return server
}

// newYear returns a store without events, on a PostgreSQL server, or on SQLite if server is nil.
func newYear(t *testing.T, server *pgtest.Server, events, days int) *year {
	t.Helper()
	y := &year{engine: "SQLite", events: events * days / wholeYear, days: days, users: max(events/10, 1)}
	if server == nil {
		y.path = filepath.Join(t.TempDir(), "cardea.db")
		y.url = "sqlite://" + y.path
	} else {
		name, err := server.CreateDatabase(t.Context())
		check(t, err)
		y.engine, y.url = "PostgreSQL", server.URL(name)
	}
	y.open(t)
	check(t, y.store.Migrate(t.Context()))
	return y
}

func (y *year) open(t *testing.T) {
	t.Helper()
	var err error
	y.store, err = sqlstore.Open(t.Context(), y.url, sqlstore.Options{Clock: time.Now, Logger: logr.Discard()})
	check(t, err)
	y.worker = rollup.New(rollup.Options{
		Store: timedRollUp{y.store, y}, Retention: func(string) (time.Duration, bool) { return retention, true }, Clock: time.Now, Log: logr.Discard(),
		Registry: prometheus.NewRegistry(),
	})
}

func (y *year) close(t *testing.T) {
	t.Helper()
	check(t, y.store.Close())
	if y.path != "" {
		check(t, os.Remove(y.path))
	}
}

func (y *year) say(what, target, format string, args ...any) {
	row(fmt.Sprintf("%s, %s, %d sign-ins", what, y.engine, y.events), target, format, args...)
}

// timedRollUp counts the events that the roll-up moves and the time it takes.
type timedRollUp struct {
	people.RollUp
	of *year
}

func (s timedRollUp) RollUpDay(ctx context.Context, w people.WaitingEvents, since time.Time, limit int) (int64, error) {
	began := time.Now()
	n, err := s.RollUp.RollUpDay(ctx, w, since, limit)
	s.of.rolledUp.Add(n)
	s.of.rollUpTook.Add(int64(time.Since(began)))
	return n, err
}

// fill creates the users and records the year in chronological order, as an import does, while a server's roll-up runs
// concurrently. Then it rolls up the remaining events without a server's pauses.
func (y *year) fill(t *testing.T) {
	t.Helper()
	var beside sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	beside.Go(func() {
		for ctx.Err() == nil {
			if err := y.worker.Pass(ctx, false); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // the pauses of the roll-up are longer than a small run
		}
	})
	for from := 1; from <= y.users; from += recordedAtOnce {
		var some []people.User
		for id := from; id < from+recordedAtOnce && id <= y.users; id++ {
			some = append(some, people.User{ID: int64(id), FirstName: "First", LastName: "Last", CreatedAt: yearBegins})
		}
		check(t, y.store.Change(t.Context(), benchDeployment, func(tx people.Tx) error { return tx.Bulk().InsertUsers(some) }))
	}
	random := rand.New(rand.NewPCG(1, 1))
	batch := make([]people.Event, 0, recordedAtOnce)
	began := time.Now()
	for n := range y.events {
		at := yearBegins.Add(time.Duration(float64(n)/float64(y.events)*float64(y.days)*24*3600*1e6) * time.Microsecond)
		batch = append(batch, people.Event{ID: y.next.Add(1), Kind: people.EventSignIn, At: at, User: 1 + random.Int64N(int64(y.users)), Method: people.MethodImport})
		if len(batch) == recordedAtOnce || n == y.events-1 {
			check(t, y.store.Change(t.Context(), benchDeployment, func(tx people.Tx) error { return tx.Records().RecordEvents(batch) }))
			batch = batch[:0]
		}
	}
	took := time.Since(began)
	stop()
	beside.Wait()
	check(t, y.rollUpRest(t.Context()))
	all := time.Since(began)
	y.say("events recorded in batches, concurrent roll-up", "50,000/s", "%.0f/s (%.0f/s until all was rolled up)", float64(y.events)/took.Seconds(), float64(y.events)/all.Seconds())
	y.say("roll-up, while it runs", "", "%.0f/s", float64(y.rolledUp.Load())/time.Duration(y.rollUpTook.Load()).Seconds())
}

// rollUpRest rolls up all waiting events, in the steps that a server uses for large days.
func (y *year) rollUpRest(ctx context.Context) error {
	const atOnce = 50_000
	waiting, err := y.store.Waiting(ctx)
	for _, w := range waiting {
		failures := 0
		for n := int64(atOnce); n == atOnce && err == nil; {
			n, err = timedRollUp{y.store, y}.RollUpDay(ctx, w, time.Now().Add(-retention), atOnce)
			if err != nil && failures < 10 { // a server tries again as well
				fmt.Println(err)
				n, err, failures = atOnce, nil, failures+1
			}
		}
	}
	return err
}

// signInCosts returns the median time of recording one event in its own transaction. It alternates between two stores.
func signInCosts(t *testing.T, first, second *year) (one, two time.Duration) {
	t.Helper()
	took := map[*year][]time.Duration{}
	for range 1000 {
		for _, y := range []*year{first, second} {
			began := time.Now()
			check(t, y.signIn(t.Context()))
			took[y] = append(took[y], time.Since(began))
		}
	}
	return quantile(took[first], 0.5), quantile(took[second], 0.5)
}

// signIn records the sign-in of a user at the end of the year.
func (y *year) signIn(ctx context.Context) error {
	id := y.next.Add(1)
	return y.store.Change(ctx, benchDeployment, func(tx people.Tx) error {
		return tx.Records().RecordEvent(people.Event{
			ID: id, Kind: people.EventSignIn, At: yearBegins.AddDate(1, 0, 0).Add(time.Duration(id) * time.Microsecond), User: 1 + id%int64(y.users), Method: people.MethodPassword,
		})
	})
}

// sizes prints how many bytes a sign-in takes on disk.
func (y *year) sizes(t *testing.T) {
	t.Helper()
	db := y.plain(t)
	defer db.Close() //nolint:errcheck // only read from
	var rolledUp, whole int64
	check(t, db.QueryRowContext(t.Context(), `SELECT (SELECT SUM(LENGTH(user_set) + LENGTH(log)) FROM sealed_days) + (SELECT SUM(LENGTH(user_set)) FROM sealed_months)`).Scan(&rolledUp))
	if y.path != "" {
		var pages, size int64
		check(t, db.QueryRowContext(t.Context(), `PRAGMA page_count`).Scan(&pages))
		check(t, db.QueryRowContext(t.Context(), `PRAGMA page_size`).Scan(&size))
		whole = pages * size
	} else {
		check(t, db.QueryRowContext(t.Context(), `SELECT pg_database_size(current_database())`).Scan(&whole))
	}
	y.say("bytes a sign-in: sets and logs, and all with its row", "", "%.1f, %.0f", float64(rolledUp)/float64(y.events), float64(whole)/float64(y.events))
}

// plain opens the database without Cardea's time limits.
func (y *year) plain(t *testing.T) *sql.DB {
	t.Helper()
	if y.path != "" {
		db, err := sql.Open("sqlite", y.path)
		check(t, err)
		return db
	}
	config, err := pgx.ParseConfig(y.url)
	check(t, err)
	return stdlib.OpenDB(*config)
}

// ask measures summaries on a warm store and on one that was just opened, and compares them with COUNT(DISTINCT).
func (y *year) ask(t *testing.T) {
	t.Helper()
	db := y.plain(t)
	defer db.Close() //nolint:errcheck // only read from
	for _, of := range []struct {
		name string
		// first is the day of the year at which the period begins; at is the time of that day.
		first int
		at    time.Duration
		days  float64
	}{{"1 day", 192, 0, 1}, {"30 days", 192, 0, 30}, {"37.5 days from 07:13:05", 192, 7*time.Hour + 13*time.Minute + 5*time.Second, 37.5}, {"365 days", 1, 0, 365}} {
		if y.days < wholeYear {
			of.first = y.days - int(of.days) - 1
		}
		if of.first < int(of.days) && y.days < wholeYear { // The previous period would begin before the first event.
			continue
		}
		from := yearBegins.AddDate(0, 0, of.first).Add(of.at)
		period := people.Period{From: from, To: from.Add(time.Duration(of.days * 24 * float64(time.Hour)))}
		cold := y.summaries(t, 3, period, true)
		var heap heapPeak
		heap.watch()
		warm := y.summaries(t, 60, period, false)
		y.say("4.2 of "+of.name+": warm p50 and p99, cold", "p99 150 ms, cold 500 ms", "%s, %s; %s (heap at most %d MiB)", ms(quantile(warm, 0.5)), ms(quantile(warm, 0.99)), ms(slices.Max(cold)), heap.stop()>>20)
		began := time.Now()
		var users int64
		check(t, db.QueryRowContext(t.Context(), fmt.Sprintf(`SELECT COUNT(DISTINCT ordinal) FROM past_events WHERE deployment = '%s' AND kind = 'signin' AND at >= %d AND at < %d`,
			benchDeployment, period.From.UnixMicro(), period.To.UnixMicro())).Scan(&users))
		took := time.Since(began)
		if got := y.summarize(t, period).Period.SignInUsers; got != users {
			t.Errorf("%s: %d users, counted one by one %d", of.name, got, users)
		}
		y.say("... COUNT(DISTINCT) over the period alone", "100 times at 30 days", "%s: %.0f times", ms(took), float64(took)/float64(quantile(warm, 0.5)))
	}
}

func (y *year) summarize(t *testing.T, period people.Period) people.Summary {
	t.Helper()
	s, err := y.store.Summarize(t.Context(), benchDeployment, period, people.Period{From: period.From.Add(period.From.Sub(period.To)), To: period.From}, 10)
	check(t, err)
	return s
}

// summaries measures a number of summaries; if cold is set, each uses a store that was just opened.
func (y *year) summaries(t *testing.T, times int, period people.Period, cold bool) (took []time.Duration) {
	t.Helper()
	for range times {
		if cold {
			check(t, y.store.Close())
			y.open(t)
		}
		began := time.Now()
		y.summarize(t, period)
		took = append(took, time.Since(began))
	}
	return took
}

// busy counts sign-ins per second on an otherwise idle store. It counts them again while a client queries the year in a
// loop and an import is rolled up.
func (y *year) busy(t *testing.T) {
	t.Helper()
	alone := y.signInsFor(t, 5*time.Second)
	random := rand.New(rand.NewPCG(2, 2))
	for range 10 {
		var batch []people.Event
		for range recordedAtOnce {
			at := yearBegins.AddDate(0, 3, 0).Add(time.Duration(random.Int64N(4 * 24 * int64(time.Hour))))
			batch = append(batch, people.Event{ID: y.next.Add(1), Kind: people.EventSignIn, At: at, User: 1 + random.Int64N(int64(y.users)), Method: people.MethodImport})
		}
		check(t, y.store.Change(t.Context(), benchDeployment, func(tx people.Tx) error { return tx.Records().RecordEvents(batch) }))
	}
	y.unlink(t)
	ctx, stop := context.WithCancel(t.Context())
	var beside sync.WaitGroup
	beside.Go(func() { y.queryEndlessly(ctx, t) })
	time.Sleep(burstOfQueries) //nolint:forbidigo // until the queries have used what they may use at once
	rolledUp := y.rolledUp.Load()
	beside.Go(func() {
		if err := y.worker.Pass(ctx, true); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	together := y.signInsFor(t, 5*time.Second)
	stop()
	beside.Wait()
	y.say("sign-ins' events a second with concurrent endless queries of the year and the roll-up of an import, relative to those alone", "", "%.2f (%.0f, %.0f; %d rolled up meanwhile)", together/alone, together, alone, y.rolledUp.Load()-rolledUp)
}

// unlink unlinks all expired events, with which a pass of the roll-up begins.
func (y *year) unlink(t *testing.T) {
	t.Helper()
	for n := int64(recordedAtOnce); n > 0; {
		var err error
		n, err = y.store.Unlink(t.Context(), benchDeployment, time.Now().Add(-retention), recordedAtOnce)
		check(t, err)
	}
}

// queryEndlessly queries the year in a loop until ctx ends, as the server admits queries of a deployment.
func (y *year) queryEndlessly(ctx context.Context, t *testing.T) {
	admitted := queries.New()
	period := people.Period{From: yearBegins, To: yearBegins.AddDate(1, 0, 0)}
	for ctx.Err() == nil {
		err := admitted.Run(ctx, benchDeployment, func() error {
			_, err := y.store.Summarize(ctx, benchDeployment, period, people.Period{}, 10)
			return err
		})
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}
}

func (y *year) signInsFor(t *testing.T, length time.Duration) float64 {
	t.Helper()
	began, n := time.Now(), 0
	for ; time.Since(began) < length; n++ {
		check(t, y.signIn(t.Context()))
	}
	return float64(n) / time.Since(began).Seconds()
}

// heapPeak is the largest heap seen between watch and stop.
type heapPeak struct {
	most uint64
	end  chan struct{}
	done chan struct{}
}

func (h *heapPeak) watch() {
	runtime.GC()
	h.end, h.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(h.done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			h.most = max(h.most, m.HeapAlloc)
			select {
			case <-h.end:
				return
			case <-tick.C:
			}
		}
	}()
}

func (h *heapPeak) stop() uint64 {
	close(h.end)
	<-h.done
	return h.most
}
