// Package frontendtest is the test environment of tests that act as end users: a store with a Staging deployment on
// localhost, a server over real HTTP, and the local message gateway, which receives mails and texts.
package frontendtest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver"
	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// Deployment is the "namespace/name" of the world's deployment.
const Deployment = "acme/staging"

// World is a deployment with its server.
type World struct {
	*servertest.World
	Carrier *messagegateway.Gateway
	Server  *httptest.Server
	Handler http.Handler
	// Backend and Decision are the other listeners of the server that started last.
	Backend, Decision http.Handler
	// Registry has the metrics of that server.
	Registry *prometheus.Registry
	Logs     *Logs
	servers  []*apiserver.Server
	// PasswordCost is the cost of hashing passwords on servers that start after it is set. It is low by default,
	// because tests hash hundreds of passwords.
	PasswordCost password.Cost
	// MaxStaleness bounds how long servers that start after it is set answer without contact to the store; 0: no bound.
	MaxStaleness time.Duration
}

// Logs is the log of the servers.
type Logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *Logs) add(prefix, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(&l.text, prefix, args)
}

// String returns everything that was logged.
func (l *Logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// New returns a world with SQLite. change, if not nil, may change the deployment before it is declared.
func New(t testing.TB, change func(*document.Deployment)) *World {
	t.Helper()
	return NewOver(t, "", nil, change)
}

// NewOver is New with the store of a URL, "" for SQLite. trace, if not nil, is called with every statement on users'
// rows.
func NewOver(t testing.TB, storeURL string, trace func(query string, args []any), change func(*document.Deployment)) *World {
	t.Helper()
	return newWorld(t, servertest.New(t, storeURL, trace), change)
}

// NewTraced is New with a tracer for the servers and the store's transactions.
func NewTraced(t testing.TB, tracer *tracing.Tracer) *World {
	t.Helper()
	return newWorld(t, servertest.NewTraced(t, tracer), nil)
}

func newWorld(t testing.TB, over *servertest.World, change func(*document.Deployment)) *World {
	t.Helper()
	w := &World{World: over, Logs: &Logs{}, PasswordCost: password.Cost{MemoryKiB: 64, Passes: 1}}
	var err error
	w.Carrier, err = messagegateway.Start(messagegateway.Options{})
	w.Must(err)
	t.Cleanup(func() { _ = w.Carrier.Close() })
	d := w.Settings()
	if change != nil {
		change(&d)
	}
	w.Declare(d)
	w.DeclareB2B(document.B2BSettings{Enabled: true, AllowWorkspaceCreation: true, DefaultWorkspaceLimit: 5})
	w.Server, w.Handler = w.Serve(w.Store, w.Store)
	return w
}

// Settings returns a Staging deployment that sends through the message gateway.
func (w *World) Settings() document.Deployment {
	token := w.Keyring.Seal(document.SealedTwilioToken, document.SecretID(Deployment, document.SealedTwilioToken), []byte(messagegateway.DefaultAuthToken))
	return document.Deployment{
		DisplayName: "Acme", Mode: "Staging", FrontendHosts: []string{"localhost", "app.localhost"}, FieldConflicts: "Reject", ManagementWrites: "Enabled",
		AllowedOrigins: []string{"https://app.example.com"}, OrganizationPermissions: []string{"organization:invite", "workspace:create", "billing:read"}, WorkspacePermissions: []string{"documents:read"},
		Email: &document.Email{From: "no-reply@acme.example", FromName: "Acme", SMTP: &document.SMTP{Host: "127.0.0.1", Port: w.Carrier.SMTPPort(), Security: "None"}},
		SMS: &document.SMS{
			Provider: "Twilio", DailyBudget: 1000, AllowedCountries: &[]string{"US"},
			Twilio: &document.Twilio{AccountSID: messagegateway.DefaultAccountSID, SealedAuthToken: token, From: "+15005550006", BaseURL: w.Carrier.URL()},
		},
	}
}

// Put writes a document as the operator does, waits until every server of the world has it, and returns its id.
func (w *World) Put(kind, name, deployment, key string, content any) int64 {
	w.T.Helper()
	id := w.World.Put(kind, name, deployment, key, content)
	w.current()
	return id
}

// Withdraw deletes a document as the operator does, and waits until no server of the world has it.
func (w *World) Withdraw(kind, namespace, name string) {
	w.T.Helper()
	w.World.Withdraw(kind, namespace, name)
	w.current()
}

// current waits until every server of the world has the current content of the store.
func (w *World) current() {
	w.T.Helper()
	_, position, err := w.Store.Load(w.T.Context())
	w.Must(err)
	for _, server := range w.servers {
		w.Eventually("every server has the current configuration", func() bool { return server.Position().Revision >= position.Revision })
	}
}

// Declare writes the deployment.
func (w *World) Declare(d document.Deployment) {
	w.T.Helper()
	w.Put(v1alpha1.KindIdentityDeployment, "staging", Deployment, "staging", d)
}

// DeclareB2B writes the deployment's B2B settings.
func (w *World) DeclareB2B(b document.B2BSettings) {
	w.T.Helper()
	w.Put(v1alpha1.KindB2BSettings, "b2b", Deployment, "b2b", b)
}

// Serve starts a server that reads its configuration from feed and stores users in st.
func (w *World) Serve(feed store.Feed, st people.Store) (*httptest.Server, http.Handler) {
	w.T.Helper()
	proxies, err := credential.ParseProxies([]string{"127.0.0.0/8"})
	w.Must(err)
	w.Registry = prometheus.NewRegistry()
	server, err := apiserver.New(apiserver.Options{
		Feed: feed, People: st, Keyring: w.Keyring, TrustedProxies: proxies, Clock: w.Clock.Now, Log: funcr.New(w.Logs.add, funcr.Options{Verbosity: 1}),
		Registry: w.Registry, Tracer: w.Tracer, PasswordCost: w.PasswordCost, MaxStaleness: w.MaxStaleness, EgressAllowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		DNSResolver: w.Carrier.DNS().Address(), LeaveEvents: true,
	})
	w.Must(err)
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { _ = server.Follow(ctx) })
	served := httptest.NewServer(server.Frontend())
	w.Backend, w.Decision = server.Backend(), server.Decision()
	w.T.Cleanup(func() {
		served.Close()
		cancel()
		following.Wait()
	})
	w.Eventually("the configuration is loaded", server.Ready)
	w.servers = append(w.servers, server)
	return served, server.Frontend()
}

var sixDigits = regexp.MustCompile(`\b\d{6}\b`)

// CodeIn returns the code in a message, "" if there is none.
func CodeIn(body string) string { return sixDigits.FindString(body) }

// Numbered returns the slug of the oldest organization whose slug is name, a hyphen and a suffix. An organization that
// a user creates has such a slug. If there is no such organization, Numbered returns name.
func (w *World) Numbered(name string) string {
	w.T.Helper()
	db := w.Open()
	defer func() { _ = db.Close() }()
	slug := name
	if err := db.QueryRowContext(w.T.Context(), "SELECT slug FROM organizations WHERE slug LIKE '"+name+"-%' ORDER BY id LIMIT 1").Scan(&slug); !errors.Is(err, sql.ErrNoRows) {
		w.Must(err)
	}
	return slug
}

// CodeFor waits for the nth code that was sent to a recipient.
func (w *World) CodeFor(to string, nth int) string {
	w.T.Helper()
	return w.sent(to, nth, CodeIn)
}

var tokenLine = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// InvitationFor waits for the nth invitation to a recipient, and returns its token.
func (w *World) InvitationFor(to string, nth int) string {
	w.T.Helper()
	return w.sent(to, nth, InvitationIn)
}

// InvitationIn returns the token in an invitation, "" if there is none.
func InvitationIn(body string) string {
	for line := range strings.Lines(body) {
		if line = strings.TrimSpace(line); tokenLine.MatchString(line) {
			return line
		}
	}
	return ""
}

// sent waits for the nth message to a recipient in which find finds something new.
func (w *World) sent(to string, nth int, find func(body string) string) string {
	w.T.Helper()
	var found []string
	began := time.Now()
	w.Eventually(fmt.Sprintf("message %d to %s", nth, to), func() bool {
		// A send that failed on a busy machine is retried only after the test's clock was advanced.
		if time.Since(began) > 2*time.Second {
			w.Clock.Advance(10 * time.Millisecond)
		}
		found = nil
		for _, m := range w.Carrier.Messages(to) {
			// Delivery is at least once: a message that was delivered twice counts once.
			if what := find(m.Body); what != "" && !slices.Contains(found, what) {
				found = append(found, what)
			}
		}
		return len(found) >= nth
	})
	return found[nth-1]
}
