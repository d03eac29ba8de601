package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const (
	home  = "acme/home"
	other = "acme/other"
	// life is the lifetime of a code.
	life = 300 * time.Second
)

// messages is the store's outbox, which a test can make unavailable.
type messages struct {
	people.Messages
	away atomic.Bool
	// refused counts the calls that failed because the store was unavailable. unsettled counts those of AckMessage.
	refused, unsettled atomic.Int64
	// watch, if not nil, is called before each claim.
	watch func()
}

func (m *messages) reach() error {
	if m.away.Load() {
		m.refused.Add(1)
		return fmt.Errorf("%w: interrupted by a test", store.ErrUnavailable)
	}
	return nil
}

func (m *messages) LeaseMessages(ctx context.Context, now time.Time, lease time.Duration, claim people.Claim) ([]people.Message, error) {
	if m.watch != nil {
		m.watch()
	}
	if err := m.reach(); err != nil {
		return nil, err
	}
	return m.Messages.LeaseMessages(ctx, now, lease, claim)
}

func (m *messages) AckMessage(ctx context.Context, message people.Message, to people.Outcome) (bool, error) {
	if err := m.reach(); err != nil {
		m.unsettled.Add(1)
		return false, err
	}
	return m.Messages.AckMessage(ctx, message, to)
}

// world is a store with two deployments that send through the local message gateway.
type world struct {
	*servertest.World
	carrier  *messagegateway.Gateway
	follower *snapshot.Follower
	// last is the id of the newest message.
	last int64
}

// newWorld returns a world with SQLite whose configuration is followed.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := newWorldOver(t, "")
	w.Follow(w.follower)
	return w
}

func newWorldOver(t *testing.T, url string) *world {
	t.Helper()
	w := &world{World: servertest.New(t, url, nil)}
	var err error
	w.carrier, err = messagegateway.Start(messagegateway.Options{})
	w.Must(err)
	t.Cleanup(func() { _ = w.carrier.Close() })
	w.declare(home, w.deployment(home))
	w.declare(other, w.deployment(other))
	w.follower = snapshot.NewFollower(w.Store, 10*time.Millisecond, w.Clock.Now, logr.Discard())
	return w
}

func (w *world) deployment(name string) document.Deployment {
	token := w.Keyring.Seal(document.SealedTwilioToken, document.SecretID(name, document.SealedTwilioToken), []byte(messagegateway.DefaultAuthToken))
	return document.Deployment{
		DisplayName: name, Mode: "Staging",
		Email: &document.Email{From: "no-reply@acme.example", FromName: "Acme", SMTP: &document.SMTP{Host: "127.0.0.1", Port: w.carrier.SMTPPort(), Security: "None"}},
		SMS: &document.SMS{Provider: "Twilio", DailyBudget: 1000, Twilio: &document.Twilio{
			AccountSID: messagegateway.DefaultAccountSID, SealedAuthToken: token, From: "+15005550006", BaseURL: w.carrier.URL(),
		}},
	}
}

// declare writes a deployment's document as the operator does.
func (w *world) declare(deployment string, d document.Deployment) {
	w.T.Helper()
	_, name, _ := strings.Cut(deployment, "/")
	w.Put(v1alpha1.KindIdentityDeployment, name, deployment, name, d)
}

func (w *world) withdraw(deployment string) {
	w.T.Helper()
	namespace, name, _ := strings.Cut(deployment, "/")
	w.Withdraw(v1alpha1.KindIdentityDeployment, namespace, name)
	w.Eventually("the deployment is deleted", func() bool {
		_, found := w.follower.Current().Deployment(deployment)
		return !found
	})
}

// dispatcher returns a dispatcher that the test calls itself, or runs.
func (w *world) dispatcher(from people.Messages) *Dispatcher {
	return New(Options{
		Store: from, Snapshots: w.follower, Keyring: w.Keyring, Clock: w.Clock.Now, Log: logr.Discard(), Registry: prometheus.NewRegistry(),
		Transport: delivery.NewTransport(egress.NewPolicy([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, nil), w.Clock.Now, logr.Discard()),
	})
}

// turn lets a dispatcher claim and handle the due messages one after another, and returns their number.
func (w *world) turn(d *Dispatcher) int {
	w.T.Helper()
	claimed, err := d.claim(w.T.Context())
	w.Must(err)
	for _, m := range claimed {
		d.handle(w.T.Context(), m)
	}
	return len(claimed)
}

// run runs a dispatcher until the test ends.
func (w *world) run(d *Dispatcher) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = d.Run(ctx) })
	w.T.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// message returns a sealed text with a code for a challenge with its own id.
func (w *world) message(deployment, to string) people.Message {
	w.last++
	m := people.Message{
		Deployment: deployment, ID: w.last, Challenge: w.last, Channel: people.ChannelSMS, Recipient: to, CreatedAt: w.Clock.Now(), ExpiresAt: w.Clock.Now().Add(life),
	}
	text, err := json.Marshal(delivery.Content{Subject: "Your code", Body: fmt.Sprintf("Your code is %06d", w.last)})
	w.Must(err)
	m.Sealed = w.Keyring.Seal(people.SealedMessage, m.SealedFor(), text)
	return m
}

// post puts messages into the outbox, each with its challenge.
func (w *world) post(list ...people.Message) {
	w.T.Helper()
	for _, m := range list {
		w.Must(w.Store.Change(w.T.Context(), m.Deployment, func(tx people.Tx) error {
			err := tx.Challenges().InsertChallenge(people.Challenge{
				ID: m.Challenge, Purpose: people.PurposePhone, Channel: m.Channel, Subject: phoneOf(m), User: 1, Recipient: m.Recipient, Sent: true,
				CreatedAt: m.CreatedAt, ExpiresAt: m.ExpiresAt,
			})
			if err != nil {
				return err
			}
			return tx.Challenges().InsertMessage(m)
		}))
	}
}

// phoneOf returns the id of a text's phone, one per number. A mail has the id of its challenge.
func phoneOf(m people.Message) int64 {
	number, err := strconv.ParseInt(strings.TrimPrefix(m.Recipient, "+"), 10, 64)
	if err != nil {
		return m.Challenge // the recipient is a mail address
	}
	return number
}

// text enqueues one text.
func (w *world) text(deployment, to string) people.Message {
	w.T.Helper()
	m := w.message(deployment, to)
	w.post(m)
	return m
}

// row is a message as stored.
type row struct {
	State, Sealed, Reason, Provider, Lease string
	Tries                                  int
	NextAt                                 time.Time
}

func (w *world) row(m people.Message) (r row) {
	w.T.Helper()
	db := w.Open()
	defer func() { _ = db.Close() }()
	var next int64
	w.Must(db.QueryRowContext(w.T.Context(), fmt.Sprintf(
		"SELECT state, sealed, reason, provider_id, lease, tries, next_at FROM outbox WHERE deployment = '%s' AND id = %d", m.Deployment, m.ID)).
		Scan(&r.State, &r.Sealed, &r.Reason, &r.Provider, &r.Lease, &r.Tries, &next))
	r.NextAt = time.UnixMicro(next).UTC()
	return r
}

// expect checks a message's state, and that the body is erased in a final state and present otherwise.
func (w *world) expect(m people.Message, state string) row {
	w.T.Helper()
	r := w.row(m)
	if r.State != state || (r.Sealed == "") != (state != people.MessagePending) {
		w.T.Fatalf("message %d to %s: %+v, want %s", m.ID, m.Recipient, r, state)
	}
	return r
}

// received checks how many messages a recipient got.
func (w *world) received(to string, want int) {
	w.T.Helper()
	if got := w.carrier.Messages(to); len(got) != want {
		w.T.Fatalf("%d messages to %s, want %d", len(got), to, want)
	}
}
