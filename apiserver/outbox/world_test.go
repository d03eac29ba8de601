package outbox

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
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

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/delivery"
	"github.com/cardea-iam/cardea/apiserver/egress"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/hack/carrier"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/document"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const (
	home  = "acme/home"
	other = "acme/other"
	// life is a code's.
	life = 300 * time.Second
)

// clock is a clock that tests move.
type clock struct{ micros atomic.Int64 }

func (c *clock) Now() time.Time          { return time.UnixMicro(c.micros.Load()).UTC() }
func (c *clock) Advance(d time.Duration) { c.micros.Add(d.Microseconds()) }

// messages is the store's outbox, which a test can make unreachable.
type messages struct {
	people.Messages
	away atomic.Bool
	// refused counts the calls made meanwhile.
	refused atomic.Int64
	// watch is called before each claim, nil: nothing is.
	watch func()
}

func (m *messages) reach() error {
	if m.away.Load() {
		m.refused.Add(1)
		return fmt.Errorf("%w: interrupted by a test", store.ErrUnavailable)
	}
	return nil
}

func (m *messages) LeaseMessages(ctx context.Context, now time.Time, lease time.Duration, limit int) ([]people.Message, error) {
	if m.watch != nil {
		m.watch()
	}
	if err := m.reach(); err != nil {
		return nil, err
	}
	return m.Messages.LeaseMessages(ctx, now, lease, limit)
}

func (m *messages) AckMessage(ctx context.Context, message people.Message, to people.Outcome) (bool, error) {
	if err := m.reach(); err != nil {
		return false, err
	}
	return m.Messages.AckMessage(ctx, message, to)
}

// world is a store with two deployments that send through the local carrier.
type world struct {
	t        *testing.T
	url      string
	store    store.Store
	term     store.Term
	keyring  *seal.Keyring
	carrier  *carrier.Carrier
	clock    *clock
	follower *snapshot.Follower
	// generation makes each document newer than the one before; last is the newest message's id.
	generation, last int64
}

// newWorld is a world over SQLite whose configuration is followed.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := newWorldOver(t, "sqlite://"+filepath.Join(t.TempDir(), "cardea.db"))
	w.follow()
	return w
}

func newWorldOver(t *testing.T, url string) *world {
	t.Helper()
	w := &world{t: t, url: url, clock: &clock{}}
	w.clock.micros.Store(time.Now().UnixMicro())
	w.store = w.openStore()
	w.must(w.store.Migrate(t.Context()))
	var err error
	w.term, err = w.store.Acquire(t.Context(), "test", time.Second)
	w.must(err)
	keyFile := filepath.Join(t.TempDir(), "root.key")
	w.must(os.WriteFile(keyFile, bytes.Repeat([]byte{7}, 32), 0o600))
	w.keyring, err = seal.Load([]string{keyFile})
	w.must(err)
	w.carrier, err = carrier.Start(carrier.Options{})
	w.must(err)
	t.Cleanup(func() { _ = w.carrier.Close() })
	w.declare(home, w.deployment(home))
	w.declare(other, w.deployment(other))
	w.follower = snapshot.NewFollower(w.store, 10*time.Millisecond, w.clock.Now, logr.Discard())
	return w
}

func (w *world) openStore() store.Store {
	w.t.Helper()
	st, err := sqlstore.Open(w.t.Context(), w.url, sqlstore.Options{Clock: w.clock.Now, Logger: logr.Discard(), MaxConns: 8})
	w.must(err)
	w.t.Cleanup(func() { _ = st.Close() })
	return st
}

// follow keeps the snapshot current until the test ends.
func (w *world) follow() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { _ = w.follower.Run(ctx) })
	w.t.Cleanup(func() {
		cancel()
		following.Wait()
	})
	w.eventually("the configuration is loaded", func() bool {
		_, found := w.follower.Current().Deployment(other)
		return found
	})
}

func (w *world) deployment(name string) document.Deployment {
	token := w.keyring.Seal(document.SealedTwilioToken, document.SecretID(name, document.SealedTwilioToken), []byte(carrier.DefaultAuthToken))
	return document.Deployment{
		DisplayName: name, Mode: "Staging",
		Email: &document.Email{From: "no-reply@acme.example", FromName: "Acme", SMTP: &document.SMTP{Host: "127.0.0.1", Port: w.carrier.SMTPPort(), Security: "None"}},
		SMS: &document.SMS{Provider: "Twilio", DailyBudget: 1000, Twilio: &document.Twilio{
			AccountSID: carrier.DefaultAccountSID, SealedAuthToken: token, From: "+15005550006", BaseURL: w.carrier.URL(),
		}},
	}
}

func owner(deployment string) store.Owner {
	namespace, name, _ := strings.Cut(deployment, "/")
	return store.Owner{Identity: store.Identity{Kind: v1alpha1.KindIdentityDeployment, Namespace: namespace, Name: name}, UID: "uid-" + name}
}

// declare puts a deployment's document as the operator does.
func (w *world) declare(deployment string, d document.Deployment) {
	w.t.Helper()
	w.generation++
	hash, err := document.Hash(v1alpha1.KindIdentityDeployment, d)
	w.must(err)
	payload, err := document.Encode(document.Meta{CreatedAt: w.clock.Now(), UpdatedAt: w.clock.Now()}, d)
	w.must(err)
	o := owner(deployment)
	held, err := w.store.Stored(w.t.Context(), o.Identity)
	w.must(err)
	seen := ""
	if held.Found {
		seen = o.UID
	}
	_, err = w.store.Put(w.t.Context(), w.term, store.Put{SeenUID: seen, Document: store.Document{
		Owner: o, Generation: w.generation, Deployment: deployment, ID: ids.Derive(o.Kind, o.Namespace, o.Name), Key: o.Name, Hash: hash, Payload: payload,
	}})
	w.must(err)
}

func (w *world) withdraw(deployment string) {
	w.t.Helper()
	w.must(w.store.Delete(w.t.Context(), w.term, owner(deployment)))
	w.eventually("the deployment is gone", func() bool {
		_, found := w.follower.Current().Deployment(deployment)
		return !found
	})
}

// dispatcher returns a dispatcher that the test turns itself, or runs.
func (w *world) dispatcher(from people.Messages) *Dispatcher {
	return New(Options{
		Store: from, Snapshots: w.follower, Keyring: w.keyring, Clock: w.clock.Now, Log: logr.Discard(), Registry: prometheus.NewRegistry(),
		Transport: delivery.NewTransport(egress.NewPolicy([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, nil), w.clock.Now, logr.Discard()),
	})
}

// turn lets a dispatcher claim and handle what is due, one after the other, and returns how many there were.
func (w *world) turn(d *Dispatcher) int {
	w.t.Helper()
	claimed, err := d.claim(w.t.Context(), maxInFlight)
	w.must(err)
	for _, m := range claimed {
		d.handle(w.t.Context(), m)
	}
	return len(claimed)
}

// run runs a dispatcher until the test ends.
func (w *world) run(d *Dispatcher) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = d.Run(ctx) })
	w.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// message returns a sealed text with a code for a challenge of its own id.
func (w *world) message(deployment, to string) people.Message {
	w.last++
	m := people.Message{
		Deployment: deployment, ID: w.last, Challenge: w.last, Channel: people.ChannelSMS, Recipient: to, CreatedAt: w.clock.Now(), ExpiresAt: w.clock.Now().Add(life),
	}
	text, err := json.Marshal(delivery.Mail{Subject: "Your code", Body: fmt.Sprintf("Your code is %06d", w.last)})
	w.must(err)
	m.Sealed = w.keyring.Seal(people.SealedMessage, m.SealedFor(), text)
	return m
}

// post puts messages into the outbox, each with its challenge.
func (w *world) post(list ...people.Message) {
	w.t.Helper()
	for _, m := range list {
		w.must(w.store.Change(w.t.Context(), m.Deployment, func(tx people.Tx) error {
			err := tx.InsertChallenge(people.Challenge{
				ID: m.Challenge, Purpose: people.PurposePhone, Channel: m.Channel, Subject: phoneOf(m), User: 1, Recipient: m.Recipient, Sent: true,
				CreatedAt: m.CreatedAt, ExpiresAt: m.ExpiresAt,
			})
			if err != nil {
				return err
			}
			return tx.InsertMessage(m)
		}))
	}
}

// phoneOf is the id of the phone that a text goes to: one for a number.
func phoneOf(m people.Message) int64 {
	number, err := strconv.ParseInt(strings.TrimPrefix(m.Recipient, "+"), 10, 64)
	if err != nil {
		return m.Challenge // a mail: each has an attempt of its own
	}
	return number
}

// text posts one text.
func (w *world) text(deployment, to string) people.Message {
	w.t.Helper()
	m := w.message(deployment, to)
	w.post(m)
	return m
}

func (w *world) open() *sql.DB {
	w.t.Helper()
	if path, isSQLite := strings.CutPrefix(w.url, "sqlite://"); isSQLite {
		db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
		w.must(err)
		return db
	}
	config, err := pgx.ParseConfig(w.url)
	w.must(err)
	return stdlib.OpenDB(*config)
}

// row is a message as it lies in the store.
type row struct {
	State, Sealed, Reason, Provider, Lease string
	Tries                                  int
	NextAt                                 time.Time
}

func (w *world) row(m people.Message) (r row) {
	w.t.Helper()
	db := w.open()
	defer func() { _ = db.Close() }()
	var next int64
	w.must(db.QueryRowContext(w.t.Context(), fmt.Sprintf(
		"SELECT state, sealed, reason, provider_id, lease, tries, next_at FROM outbox WHERE deployment = '%s' AND id = %d", m.Deployment, m.ID)).
		Scan(&r.State, &r.Sealed, &r.Reason, &r.Provider, &r.Lease, &r.Tries, &next))
	r.NextAt = time.UnixMicro(next).UTC()
	return r
}

// expect checks a message's state; where it is an end state, that the body is erased, and else that it is there.
func (w *world) expect(m people.Message, state string) row {
	w.t.Helper()
	r := w.row(m)
	if r.State != state || (r.Sealed == "") != (state != people.MessagePending) {
		w.t.Fatalf("message %d to %s: %+v, want %s", m.ID, m.Recipient, r, state)
	}
	return r
}

// received checks how many messages came for somebody.
func (w *world) received(to string, want int) {
	w.t.Helper()
	if got := w.carrier.Messages(to); len(got) != want {
		w.t.Fatalf("%d messages to %s, want %d", len(got), to, want)
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			w.t.Fatalf("waited in vain: %s", what)
		case <-tick.C:
		}
	}
}
