package bench

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// loggedRound is how many transactions a round has, and loggingFor how long writers write at once.
	loggedRound, loggingFor = 300, 5 * time.Second
	// pageRound is how many pages a round reads, and awaited how many events are awaited one by one.
	pageRound, awaited = 200, 60
)

// eventWorld is a server with a key for its events.
type eventWorld struct {
	*peopleWorld
	key  string
	next atomic.Int64
}

// TestBenchEvents measures what events cost the transactions that record them, how far numbers are behind writers, and
// how fast events are read.
func TestBenchEvents(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for minutes")
	}
	for _, engine := range []string{"SQLite", "PostgreSQL"} {
		w := &eventWorld{peopleWorld: newEmptyWorld(t, engine)}
		key, err := apikey.Mint(rand.Reader, "ck")
		check(t, err)
		w.key = key.Plain()
		check(t, w.filler.put(t.Context(), v1alpha1.KindAPIAuthApp, "app", "app", 5, document.APIAuthApp{Slug: "app", Name: "App", Active: true, Permissions: []string{"*"}}))
		check(t, w.filler.put(t.Context(), v1alpha1.KindAPIKey, "key", "", 6, document.APIKey{App: "app", Permissions: []string{"*"}, Verifiers: []document.Verifier{{ID: key.ID(), Digest: key.Digest()}}}))
		await(t, time.Minute, 10*time.Millisecond, func() bool { return w.ask("/events").Code == http.StatusOK })
		w.awaits(t, engine)
		w.transactions(t, engine)
		w.writers(t, engine)
		w.pages(t, engine)
	}
}

func (w *eventWorld) ask(path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set("Authorization", "Bearer "+w.key)
	recorder := httptest.NewRecorder()
	w.backend.ServeHTTP(recorder, r)
	return recorder
}

func (w *eventWorld) page(t *testing.T, path string) (list backendapi.EventList) {
	t.Helper()
	answer := w.ask(path)
	if check(t, json.Unmarshal(answer.Body.Bytes(), &list)); answer.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, answer.Code, answer.Body)
	}
	return list
}

// event returns the next event of a user.
func (w *eventWorld) event() (people.LoggedEvent, error) {
	id := w.next.Add(1)
	e, err := events.OfUser(events.UserUpdated, id, "first_name").Log(time.Now(), "user:"+strconv.FormatInt(id, 10))
	e.ID = id
	return e, err
}

func (w *eventWorld) log(ctx context.Context) error {
	e, err := w.event()
	if err != nil {
		return err
	}
	return w.store.Change(ctx, benchDeployment, func(tx people.Tx) error { return tx.Records().LogEvents([]people.LoggedEvent{e}) })
}

// transactions compares a change of a user and its audit with and without its event.
func (w *eventWorld) transactions(t *testing.T, engine string) {
	t.Helper()
	const user = 7
	check(t, w.store.Change(t.Context(), benchDeployment, func(tx people.Tx) error {
		return tx.Users().InsertUser(people.User{ID: user, CreatedAt: time.Now()}, people.Email{ID: user, Address: "user@example.com", Primary: true, CreatedAt: time.Now()})
	}))
	round := func(logs bool) time.Duration {
		start := time.Now()
		for range loggedRound {
			e, err := w.event()
			check(t, err)
			check(t, w.store.Change(t.Context(), benchDeployment, func(tx people.Tx) error {
				u, _, err := tx.Users().LockUser(user)
				if err != nil {
					return err
				}
				u.FirstName, u.UpdatedAt = strconv.FormatInt(e.ID, 10), e.At
				if err := tx.Users().UpdateUser(u); err != nil {
					return err
				}
				if err := tx.Records().RecordAudit(people.Audit{ID: e.ID, At: e.At, Actor: e.Actor, Action: "user.renamed", Object: e.Actor}); err != nil || !logs {
					return err
				}
				return tx.Records().LogEvents([]people.LoggedEvent{e})
			}))
		}
		return time.Since(start)
	}
	var ratios []float64
	for range peopleRounds {
		without := round(false)
		ratios = append(ratios, without.Seconds()/round(true).Seconds())
	}
	row(engine+", a transaction with its event, to the same without", ">= 0.8", "%.2f: %.2f", median(ratios), ratios)
}

// writers compares 8 writers of events with 8 writers of bare rows, each in a transaction, and measures how long the
// events wait for their numbers.
func (w *eventWorld) writers(t *testing.T, engine string) {
	t.Helper()
	_, err := w.write.ExecContext(t.Context(), `CREATE TABLE bare_log (deployment TEXT NOT NULL, id BIGINT NOT NULL, type TEXT NOT NULL, at BIGINT NOT NULL, actor TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (deployment, id))`)
	check(t, err)
	insert := `INSERT INTO bare_log VALUES (?, ?, ?, ?, ?, ?)`
	if w.numbered {
		insert = `INSERT INTO bare_log VALUES ($1, $2, $3, $4, $5, $6)`
	}
	bare := func(ctx context.Context) error {
		e, err := w.event()
		if err != nil {
			return err
		}
		tx, err := w.write.BeginTx(ctx, nil) // events are recorded in transactions too
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, insert, benchDeployment, e.ID, e.Type, e.At.UnixMicro(), e.Actor, e.Data); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	}
	together := func(write func(context.Context) error) float64 {
		var written atomic.Int64
		var writing sync.WaitGroup
		until := time.Now().Add(loggingFor)
		for range workers {
			writing.Go(func() {
				for time.Now().Before(until) {
					if err := write(t.Context()); err != nil {
						t.Error(err)
						return
					}
					written.Add(1)
				}
			})
		}
		writing.Wait()
		return float64(written.Load()) / loggingFor.Seconds()
	}
	var lags []time.Duration
	read := make(chan struct{})
	var reading sync.WaitGroup
	cursor := w.page(t, "/events").NextCursor
	reading.Go(func() {
		for at, ended := sequenceOf(t, cursor), false; ; time.Sleep(10 * time.Millisecond) {
			var list []people.LoggedEvent
			if err := w.store.View(t.Context(), benchDeployment, func(tx people.Tx) (err error) { list, err = tx.EventLog().EventsAfter(at, 10_000); return err }); err != nil {
				t.Error(err)
				return
			}
			for _, e := range list {
				lags, at = append(lags, time.Since(e.At)), e.Sequence
			}
			if ended && len(list) == 0 {
				return
			}
			select {
			case <-read:
				ended = true
			default:
			}
		}
	})
	var ratios, rates []float64
	for range 3 {
		rate := together(bare)
		ours := together(w.log)
		ratios, rates = append(ratios, ours/rate), append(rates, ours)
	}
	close(read)
	reading.Wait()
	row(fmt.Sprintf("%s, events of %d writers, to bare inserts of a row with commit", engine, workers), ">= 0.6", "%.2f: %.2f (%.0f a second)", median(ratios), ratios, median(rates))
	row(engine+", from the change to its number meanwhile: p99", "<= 1 s", "%s (p50 %s, %d events)", ms(quantile(lags, 0.99)), ms(quantile(lags, 0.5)), len(lags))
}

func sequenceOf(t *testing.T, cursor string) int64 {
	t.Helper()
	at, ok := events.ParseCursor(cursor)
	if !ok {
		t.Fatalf("%s is no cursor", cursor)
	}
	return at.Sequence
}

// awaits measures how soon a request that waits has an event after its commit, on an idle server.
func (w *eventWorld) awaits(t *testing.T, engine string) {
	t.Helper()
	cursor := w.page(t, "/events").NextCursor
	var took []time.Duration
	for range awaited {
		pages := make(chan backendapi.EventList)
		go func() { pages <- w.page(t, "/events?wait=30&after="+cursor) }()
		time.Sleep(time.Duration(w.next.Load()*37%250) * time.Millisecond) // at any point of the pause between passes
		check(t, w.log(t.Context()))
		start := time.Now()
		list := <-pages
		took = append(took, time.Since(start))
		if cursor = list.NextCursor; len(list.Data) != 1 {
			t.Fatalf("%d events", len(list.Data))
		}
	}
	row(engine+", from the commit to the response of a request that waits, idle: p50", "<= 150 ms", "%s", ms(quantile(took, 0.5)))
	row("... p99", "<= 1 s", "%s", ms(quantile(took, 0.99)))
}

// pages compares pages of 100 events with the same rows by bare SQL and JSON.
func (w *eventWorld) pages(t *testing.T, engine string) {
	t.Helper()
	query := `SELECT id, type, version, at, actor, subject_type, subject_id, organization_id, workspace_id, data, sequence FROM event_log WHERE deployment = ? AND sequence > ? ORDER BY sequence LIMIT ?`
	if w.numbered {
		query = `SELECT id, type, version, at, actor, subject_type, subject_id, organization_id, workspace_id, data, sequence FROM event_log WHERE deployment = $1 AND sequence > $2 ORDER BY sequence LIMIT $3`
	}
	bare := func() int {
		rows, err := w.read.QueryContext(t.Context(), query, benchDeployment, 50, 100)
		check(t, err)
		defer rows.Close() //nolint:errcheck // read to the end
		list := backendapi.EventList{HasMore: true, NextCursor: "150-1"}
		for rows.Next() {
			var e backendapi.Event
			var at, organization, workspace int64
			var data string
			check(t, rows.Scan(&e.Id, &e.Type, &e.Version, &at, &e.Actor.Id, &e.Subject.Type, &e.Subject.Id, &organization, &workspace, &data, &e.Sequence))
			e.Timestamp, e.Data = time.UnixMicro(at).UTC(), json.RawMessage(data)
			list.Data = append(list.Data, e)
		}
		check(t, rows.Err())
		raw, err := json.Marshal(list)
		check(t, err)
		return len(raw)
	}
	var ratios []float64
	for range peopleRounds {
		start := time.Now()
		for range pageRound {
			if bare() < 10_000 {
				t.Fatal("the rows are missing")
			}
		}
		floor := time.Since(start)
		start = time.Now()
		for range pageRound {
			if answer := w.ask("/events?after=50-0&limit=100"); answer.Code != http.StatusOK || answer.Body.Len() < 10_000 {
				t.Fatalf("%d %s", answer.Code, answer.Body)
			}
		}
		ratios = append(ratios, floor.Seconds()/time.Since(start).Seconds())
	}
	row(engine+", GET /events of 100, to the same rows by bare SQL and JSON", ">= 0.5", "%.2f: %.2f", median(ratios), ratios)
}
