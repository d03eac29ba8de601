package decision

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/credential/jwks"
	"github.com/cardea-iam/cardea/apiserver/credential/keycache"
	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/limits"
	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/store/people"
)

const tenant = "apps/acme"

// world is a decision API over a store, with the deployment apps/acme, its app shop and a key.
type world struct {
	// stated are further claims of the session tokens of signing.
	stated map[string]any
	*servertest.World
	api  *API
	keys *keycache.Cache
	// plain is the declared key, which has orders:read and orders:write.
	plain string
	// rows is how many runtime keys were made.
	rows int64
}

func newWorld(t testing.TB, change ...func(*Options)) *world {
	w := &world{World: servertest.New(t, "", nil)}
	w.Put(v1alpha1.KindIdentityDeployment, "acme", tenant, "", document.Deployment{
		DisplayName: "Acme", Mode: "Production", FrontendHosts: []string{"app.acme.test"}, OrganizationPermissions: []string{"orders:read"},
	})
	w.app(func(*document.APIAuthApp) {})
	w.plain = w.declare("k", func(*document.APIKey) {})
	follower := snapshot.NewFollower(w.Store, 10*time.Millisecond, w.Clock.Now, logr.Discard())
	w.Follow(follower)
	w.keys = keycache.New(keycache.Options{Store: w.Store, Clock: time.Now, Log: logr.Discard()})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = w.keys.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	proxies, err := credential.ParseProxies([]string{"192.0.2.1/32"})
	w.Must(err)
	tokens := credential.NewTokens(jwks.New(w.Clock.Now, egress.NewPolicy(nil, nil), jwks.Declared()), credential.NewReviews(nil, nil, w.Clock.Now), w.Clock.Now)
	opts := Options{
		Snapshots: follower, Authenticator: &credential.Authenticator{Tokens: tokens, Keys: w.keys, Proxies: proxies, Clock: w.Clock.Now},
		Limiter: limits.New(engine.NewEngine(engine.DefaultMaxBytes), w.instant, nil, follower.Current), People: w.Store, Clock: w.Clock.Now, Log: logr.Discard(),
		Metrics: httpapi.NewMetrics(prometheus.NewRegistry(), "decision", nil), Registry: prometheus.NewRegistry(),
	}
	for _, change := range change {
		change(&opts)
	}
	w.api, err = New(opts)
	w.Must(err)
	return w
}

func (w *world) instant() engine.Instant {
	now := w.Clock.Now().UnixMicro()
	return engine.Instant{Steady: now, Wall: now}
}

func (w *world) app(change func(*document.APIAuthApp)) {
	app := document.APIAuthApp{Slug: "shop", Name: "Shop", Permissions: []string{"orders:read", "orders:write"}, Active: true}
	change(&app)
	w.Put(v1alpha1.KindAPIAuthApp, "shop", tenant, "shop", app)
}

// declare puts a key of the app and returns it in plain text.
func (w *world) declare(name string, change func(*document.APIKey)) string {
	key, err := apikey.Mint(rand.Reader, "ck")
	w.Must(err)
	content := document.APIKey{
		App: "shop", Name: "Key " + name, Permissions: []string{"orders:read", "orders:write", "beyond:the-ceiling"},
		Verifiers: []document.Verifier{{ID: key.ID(), Digest: key.Digest(), Last4: key.Last4()}},
	}
	change(&content)
	w.Put(v1alpha1.KindAPIKey, name, tenant, "", content)
	return key.Plain()
}

// limit declares a scheme and makes it the app's.
func (w *world) limit(rules ...scheme.Rule) {
	w.Put(v1alpha1.KindRateLimitScheme, "limits", tenant, "limits", document.RateLimitScheme{Slug: "limits", Name: "Limits", Rules: rules})
	w.app(func(app *document.APIAuthApp) { app.Scheme = "limits" })
	w.Eventually("the scheme is known", func() bool {
		entry, found := w.api.Snapshots.Current().BySlug(v1alpha1.KindAPIAuthApp, tenant, "shop")
		return found && snapshot.ContentOf[snapshot.App](entry).Scheme == "limits"
	})
}

// given makes a runtime key and returns it in plain text.
func (w *world) given(change func(*people.APIKey)) string {
	key, err := apikey.Mint(rand.Reader, "ck")
	w.Must(err)
	w.rows++
	row := people.APIKey{
		ID: w.rows, PublicID: key.ID(), Digest: key.Digest(), Prefix: "ck", Suffix: key.Last4(), App: "shop", Name: "Customer",
		Permissions: []string{"orders:read"}, Metadata: json.RawMessage(`{"plan":"gold"}`), CreatedAt: w.Clock.Now(), UpdatedAt: w.Clock.Now(),
	}
	change(&row)
	w.Must(w.Store.Change(w.T.Context(), tenant, func(tx people.Tx) error { return tx.APIKeys().InsertAPIKey(row) }))
	return key.Plain()
}

type answer struct {
	*http.Response
	body map[string]any
}

// ask sends a request to the listener, headers as "Name: value".
func (w *world) ask(method, path, body string, headers ...string) answer {
	w.T.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr = "192.0.2.1:4000"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	recorder := httptest.NewRecorder()
	w.api.ServeHTTP(recorder, r)
	a := answer{Response: recorder.Result()}
	raw, err := io.ReadAll(a.Body)
	w.Must(err)
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &a.body); err != nil {
			w.T.Fatalf("%s %s: %s is no JSON: %v", method, path, raw, err)
		}
	}
	return a
}

// check asks POST /v1/authz/check about a key.
func (w *world) check(key, method, path string, more ...string) answer {
	w.T.Helper()
	body := `{"principal":{"type":"api_key","value":"` + key + `"},"method":"` + method + `","resource":"` + path + `"` + strings.Join(more, "") + `}`
	return w.ask(http.MethodPost, "/v1/authz/check", body)
}
