package webhooks_test

import (
	"context"
	"database/sql"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/events/webhooks"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/apiserver/users/tokensigner"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// lines collects log lines.
type lines struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lines) add(prefix, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintln(&l.all, prefix, args)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// eventTables have what is recorded of events and webhooks.
var eventTables = []string{"event_log", "event_log_new", "webhook_deliveries", "webhook_replays", "webhook_states", "audit"}

// recorded returns all values of the tables of events, as text.
func (w *world) recorded() string {
	w.t.Helper()
	db := w.Open()
	defer func() { _ = db.Close() }()
	var text strings.Builder
	for _, table := range eventTables {
		rows, err := db.QueryContext(w.t.Context(), "SELECT * FROM "+table)
		w.Must(err)
		columns, err := rows.Columns()
		w.Must(err)
		for rows.Next() {
			values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			w.Must(rows.Scan(into...))
			for _, value := range values {
				text.WriteString(value.String + "\n")
			}
		}
		w.Must(rows.Err())
		w.Must(rows.Close())
	}
	return text.String()
}

// Receivers repeat whatever they get, with and without success. One endpoint gets personal data.
func TestNeitherSecretsNorPersonalDataAreRecordedOrLogged(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w, plain, full := newWorld(t, url), newReceiver(t), newReceiver(t)
		log := &lines{}
		logger := funcr.New(log.add, funcr.Options{Verbosity: 9})
		d := webhooks.New(webhooks.Options{
			Store: w.Store, Snapshots: w.follower, Keyring: w.Keyring, Signer: tokensigner.New(w.Keyring), Clock: w.Clock.Now, Log: logger, Server: "one", Version: "test",
			Egress: egress.NewPolicy([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, nil),
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = d.Run(ctx) })
		defer running.Wait()
		defer cancel()
		repeats := func(status int) func(http.ResponseWriter, received) {
			return func(rw http.ResponseWriter, one received) {
				rw.WriteHeader(status)
				_, sent, _ := strings.Cut(one.header.Get("X-Key"), " ")
				_, _ = fmt.Fprintf(rw, "%s %v %s", sent, one.header, one.body)
			}
		}
		plain.answers(repeats(http.StatusInternalServerError))
		full.answers(repeats(http.StatusBadGateway))
		declare := func(name, url string, personal bool) int64 {
			return w.endpoint(name, url, func(c *document.WebhookEndpoint) {
				id := ids.Format(ids.Derive(v1alpha1.KindWebhookEndpoint, "acme", name))
				c.Personal = personal
				c.Headers = []document.ToolHeader{{Name: "X-Key", Secret: true, Sealed: w.Keyring.Seal(document.SealedEndpointHeader, document.ToolHeaderID(id, "X-Key"), []byte("Bearer hush-canary"))}}
			})
		}
		first, second := declare("plain", plain.URL+"/hooks", false), declare("full", full.URL+"/hooks", true)
		w.follows(first)
		w.follows(second)
		w.Must(w.Store.Change(t.Context(), deployment, func(tx people.Tx) error {
			now := w.Clock.Now()
			return tx.Users().InsertUser(people.User{ID: 7, FirstName: "Zebulon", LastName: "Quagmire", Email: "zeb@canary.example", CreatedAt: now, UpdatedAt: now},
				people.Email{ID: 8, User: 7, Address: "zeb@canary.example", Primary: true, CreatedAt: now, VerifiedAt: now})
		}))
		began := w.Clock.Now()
		w.happens(events.UserDisabled, 7, 7, 7)
		w.Eventually("requests fail", func() bool {
			w.Clock.Advance(2 * time.Second)
			return w.state(first).Failures >= 3 && w.state(second).Failures >= 3
		})
		plain.answers(repeats(http.StatusOK))
		full.answers(repeats(http.StatusOK))
		w.Eventually("all are delivered", func() bool {
			w.Clock.Advance(2 * time.Second)
			return len(w.deliveries(first, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 3 && len(w.deliveries(second, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 3
		})
		for _, id := range []int64{first, second} {
			row, err := w.replays(id, webhooks.Wanted{Status: webhooks.ReplayAll, Since: began, Key: "one"})
			w.Must(err)
			w.ends(row.ID)
			entry, _ := events.Find(events.UserDisabled)
			tested, err := d.Test(t.Context(), deployment, id, entry)
			w.Must(err)
			if tested.Status != http.StatusOK || tested.Failure != "" {
				t.Errorf("%+v", tested)
			}
		}
		if body := string(full.all()[0].body); !strings.Contains(body, "Zebulon") {
			t.Fatalf("the endpoint that asks for personal data got %s", body)
		}
		everything := w.recorded() + log.text()
		for what, canary := range map[string]string{
			"a header": "hush-canary", "the secret": secrets[0], "its bytes": strings.Repeat("a", 32), "its base64": strings.TrimPrefix(secrets[0], "whsec_"), "a name": "Zebulon", "another name": "Quagmire",
			"an address": "canary.example", "the base64 of an address": base64.StdEncoding.EncodeToString([]byte("zeb@canary.example")),
		} {
			if at := strings.Index(everything, canary); at >= 0 {
				t.Errorf("%s is recorded or logged: %.200s", what, everything[max(0, at-100):])
			}
		}
		if !strings.Contains(everything, "user.disabled") || !strings.Contains(everything, "HTTP status 500") {
			t.Error("the search does not read the records")
		}
	})
}
