package upstream

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	testDeployment = "acme/home"
	testSecret     = "the-client-secret-of-the-test"
	testCode       = "the-code-of-the-test"
	testVerifier   = "the-verifier-of-the-test"
	testAccess     = "the-access-token-of-the-test"
	testIDToken    = "the.id-token-of-the.test"
)

// loopback permits addresses of this machine.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// testKey is a provider's key. Its making takes longer than most tests.
var testKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// provider is a stand-in for an identity provider, over TLS on this machine.
type provider struct {
	*httptest.Server
	mu    sync.Mutex
	pages map[string]http.HandlerFunc
	hits  map[string]int
	seen  map[string]*http.Request
}

// newProvider returns a provider that serves a discovery document and a key set with the key k1.
func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{pages: map[string]http.HandlerFunc{}, hits: map[string]int{}, seen: map[string]*http.Request{}}
	p.Server = httptest.NewTLSServer(p)
	t.Cleanup(p.Close)
	p.discovery(nil)
	p.keys("k1")
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	p.mu.Lock()
	p.hits[r.URL.Path]++
	p.seen[r.URL.Path] = r.Clone(r.Context())
	page := p.pages[r.URL.Path]
	p.mu.Unlock()
	if page == nil {
		http.NotFound(w, r)
		return
	}
	page(w, r)
}

// serve serves a path from now on.
func (p *provider) serve(path string, page http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pages[path] = page
}

// says returns a page with a status and a JSON text.
func says(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json;charset=UTF-8")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}
}

// hit returns how many requests a path got.
func (p *provider) hit(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hits[path]
}

// last returns the last request of a path.
func (p *provider) last(path string) *http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[path]
}

// discovery serves a discovery document with changes; nil removes a member.
func (p *provider) discovery(changes map[string]any) {
	all := map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/jwks",
		"userinfo_endpoint": p.URL + "/userinfo", "end_session_endpoint": p.URL + "/end", "authorization_response_iss_parameter_supported": true,
	}
	for name, value := range changes {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	p.serve(discoveryPath, says(200, encoded(all)))
}

// keys serves a key set with ids. All have the same key.
func (p *provider) keys(kids ...string) {
	set := jose.JSONWebKeySet{}
	for _, kid := range kids {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: testKey().Public(), KeyID: kid, Algorithm: "RS256", Use: "sig"})
	}
	p.serve("/jwks", says(200, encoded(set)))
}

func encoded(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// world is servers over one store, with a clock that tests move.
type world struct {
	*servertest.World
	provider *provider
	follower *snapshot.Follower
	// logged are the lines of all servers.
	mu     sync.Mutex
	logged strings.Builder
}

func newWorld(t *testing.T, url string) *world {
	t.Helper()
	w := &world{World: servertest.New(t, url, nil), provider: newProvider(t)}
	w.follower = snapshot.NewFollower(w.Store, 0, w.Clock.Now, w.log("snapshot"))
	return w
}

// log returns a logger whose lines the world keeps.
func (w *world) log(name string) logr.Logger {
	return funcr.New(func(_, args string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.logged.WriteString(name + " " + args + "\n")
	}, funcr.Options{Verbosity: 1})
}

// server returns a server of the world's store that trusts the provider's certificate. Without allowed ranges, it
// permits this machine.
func (w *world) server(allowed ...netip.Prefix) *Providers {
	w.T.Helper()
	if allowed == nil {
		allowed = loopback
	}
	p := New(Options{
		Store: w.Store, Snapshots: w.follower, Keyring: w.Keyring, Egress: egress.NewPolicy(allowed, nil), Clock: w.Clock.Now, Log: w.log("upstream"), Registry: prometheus.NewRegistry(),
	})
	p.web.secure.(*http.Transport).TLSClientConfig = w.provider.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	w.T.Cleanup(p.web.closeIdle)
	return p
}

// connection returns a connection of the type OIDC with the provider. Each has another id.
func (w *world) connection(change func(*document.Connection)) Connection {
	c := &document.Connection{
		Slug: "globex", Type: "OIDC", Active: true, Provider: document.UpstreamProvider{Issuer: w.provider.URL, Userinfo: "IfMissing", Algs: []string{"RS256"}},
		Client: document.ConnectionClient{ID: "client-1", Authentication: string(v1alpha1.UpstreamAuthenticationBasic)},
	}
	id := int64(4711)
	c.Client.Sealed = w.Keyring.Seal(document.SealedConnectionSecret, ids.Format(id), []byte(testSecret))
	if change != nil {
		change(c)
	}
	return Connection{Deployment: testDeployment, ID: id, Connection: c}
}

// direct changes a connection to endpoints that are declared.
func (w *world) direct(c *document.Connection) {
	c.Provider.AuthorizationURL, c.Provider.TokenURL = w.provider.URL+"/authorize", w.provider.URL+"/token"
	c.Provider.JWKSURL, c.Provider.UserinfoURL = w.provider.URL+"/jwks", w.provider.URL+"/userinfo"
}

// row returns what the store has of a connection's document.
func (w *world) row(c Connection, kind string) (row people.UpstreamDocument) {
	w.T.Helper()
	w.Must(w.Store.View(w.T.Context(), c.Deployment, func(tx people.Tx) (err error) {
		row, _, err = tx.Connections().UpstreamDocument(c.ID, kind)
		return err
	}))
	return row
}

// silent ends the test if a text, a line of a log or a row has a secret of the test.
func (w *world) silent(c Connection, texts ...string) {
	w.T.Helper()
	w.mu.Lock()
	texts = append(texts, w.logged.String())
	w.mu.Unlock()
	for _, kind := range []string{people.UpstreamDiscovery, people.UpstreamJWKS} {
		texts = append(texts, fmt.Sprint(w.row(c, kind)))
	}
	for _, text := range texts {
		for _, secret := range []string{testSecret, testCode, testVerifier, testAccess, testIDToken, "PRIVATE KEY"} {
			if strings.Contains(text, secret) {
				w.T.Errorf("%q is in %q", secret, text)
			}
		}
	}
}
