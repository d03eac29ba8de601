package oauth_test

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
)

// elsewhere is a certificate that this process trusts, for servers of clients.
var elsewhere tls.Certificate

// trustElsewhere makes this process trust the certificate. The roots are read once, at the first use.
func trustElsewhere() (cleanup func(), err error) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	elsewhere = s.TLS.Certificates[0]
	dir, err := os.MkdirTemp("", "cardea-roots-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "roots.pem")
	raw := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		return nil, err
	}
	return func() { _ = os.RemoveAll(dir) }, os.Setenv("SSL_CERT_FILE", file)
}

// site serves a client's metadata.
type site struct {
	*httptest.Server
	asked atomic.Int64
	mu    sync.Mutex
	serve http.HandlerFunc
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		s.mu.Lock()
		serve := s.serve
		s.mu.Unlock()
		serve(w, r)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{elsewhere}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *site) answers(serve http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serve = serve
}

// says responds with metadata, and a header for their freshness ("" for none).
func (s *site) says(metadata map[string]any, cache string) {
	raw, _ := json.Marshal(metadata)
	s.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if cache != "" {
			w.Header().Set("Cache-Control", cache)
		}
		_, _ = w.Write(raw)
	})
}

func TestClientIDMetadataDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := newSite(t)
	id := at.URL + "/agents/one.json"
	metadata := map[string]any{"client_id": id, "client_name": "Agent", "redirect_uris": []string{"http://127.0.0.1/callback"}, "grant_types": []string{"authorization_code", "refresh_token"}}
	at.says(metadata, "max-age=600")
	c, p := &client{w: w, id: id}, w.signUp("ada@example.com")
	request := c.request("jobs:read")
	request.Set("redirect_uri", "http://127.0.0.1:7777/callback")
	open := func() int {
		status, _, _ := p.send("GET", "/oauth/portal/authorize?"+request.Encode(), nil)
		return status
	}
	if got := open(); got != 400 || at.asked.Load() != 0 {
		t.Errorf("where registration is off: %d, asked %d times", got, at.asked.Load())
	}
	w.openToAll()
	form := redeem(p.allow(request).Get("code"))
	form.Set("redirect_uri", "http://127.0.0.1:7777/callback")
	token := c.post("/token", form)
	if token.status != 200 || token.text("refresh_token") == "" {
		t.Fatalf("%d %s", token.status, token.raw)
	}
	use := func() string { return c.post("/token", url.Values{"grant_type": {"x"}}).text("error") }
	w.app.AllowDynamicClientRegistration = false
	w.Put(v1alpha1.KindOAuthApp, "portal", frontendtest.Deployment, "portal", w.app)
	w.Eventually("the client is refused while registration is off", func() bool { return use() == "invalid_client" })
	w.openToAll()
	w.Eventually("the client is accepted while registration is on", func() bool { return use() == "unsupported_grant_type" })
	if open() != 303 || at.asked.Load() != 1 {
		t.Errorf("asked %d times within the time that its header says", at.asked.Load())
	}
	w.Clock.Advance(11 * time.Minute)
	at.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	if open() != 303 || at.asked.Load() != 2 {
		t.Errorf("while the address does not answer: asked %d times", at.asked.Load())
	}
	if open(); at.asked.Load() != 2 {
		t.Errorf("asked %d times within a minute after a failure, want 2", at.asked.Load())
	}
	w.Clock.Advance(61 * time.Second)
	metadata["redirect_uris"] = []string{"http://127.0.0.1/elsewhere"}
	at.says(metadata, "")
	if got := open(); got != 400 {
		t.Errorf("at the redirect URI of before: %d", got)
	}
	w.Clock.Advance(6 * time.Minute)
	at.answers(http.NotFound)
	request.Set("redirect_uri", "http://127.0.0.1/elsewhere")
	if got := open(); got != 400 {
		t.Errorf("after its end: %d", got)
	}
}

func TestHostileMetadataAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openToAll()
	at, p := newSite(t), w.signUp("ada@example.com")
	good := func(id string) map[string]any {
		return map[string]any{"client_id": id, "client_name": "Agent", "redirect_uris": []string{callback}}
	}
	with := func(member string, value any) func(string) map[string]any {
		return func(id string) map[string]any {
			says := good(id)
			says[member] = value
			return says
		}
	}
	n := 0
	visit := func(serve func(id string) http.HandlerFunc) int {
		n++
		id := fmt.Sprintf("%s/%d", at.URL, n)
		at.answers(serve(id))
		// Each request comes from its own address, so that no limit is reached.
		query := (&client{w: w, id: id}).request("jobs:read")
		r, err := http.NewRequest("GET", w.Server.URL+"/oauth/portal/authorize?"+query.Encode(), nil)
		w.Must(err)
		r.Host = "localhost"
		r.Header.Set("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", n))
		response, err := p.client.Do(r)
		w.Must(err)
		_ = response.Body.Close()
		return response.StatusCode
	}
	document := func(says func(string) map[string]any) func(string) http.HandlerFunc {
		return func(id string) http.HandlerFunc {
			raw, _ := json.Marshal(says(id))
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write(raw)
			}
		}
	}
	if got := visit(document(good)); got != 303 {
		t.Fatalf("good ones: %d", got)
	}
	for what, serve := range map[string]func(string) http.HandlerFunc{
		"another client's":     document(with("client_id", "https://other.example/x")),
		"with a secret":        document(with("client_secret", "x")),
		"with a secret method": document(with("token_endpoint_auth_method", "client_secret_basic")),
		"of bad redirect URIs": document(with("redirect_uris", []string{"http://client.example/"})),
		"too long":             document(with("padding", strings.Repeat("x", 70_000))),
		"a page": func(string) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "<html>") }
		},
		"elsewhere": func(id string) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, id+"/x", http.StatusFound) }
		},
		"endless": func(string) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}
		},
	} {
		if got := visit(serve); got != 400 {
			t.Errorf("%s: %d", what, got)
		}
	}
	before := at.asked.Load()
	for _, id := range []string{at.URL, at.URL + "/", at.URL + "/a/../b", at.URL + "/a#b", "http://client.example/x", "https://ada@client.example/x", strings.ToUpper(at.URL) + "/x", at.URL + "/%2e%2e/x", "https://10.0.0.1/x"} {
		query := (&client{w: w, id: id}).request("jobs:read")
		if status, _, _ := p.send("GET", "/oauth/portal/authorize?"+query.Encode(), nil); status != 400 {
			t.Errorf("%s: %d", id, status)
		}
	}
	if at.asked.Load() != before {
		t.Error("ids that are no addresses of metadata are fetched")
	}
	at.answers(document(good)("x"))
	limited := 0
	for i := range 30 {
		query := (&client{w: w, id: fmt.Sprintf("%s/many/%d", at.URL, i)}).request("jobs:read")
		if status, _, _ := p.send("GET", "/oauth/portal/authorize?"+query.Encode(), nil); status == 429 {
			limited++
		}
	}
	if limited == 0 {
		t.Error("the fetches for one network are not limited")
	}
}

// Stores refuse text that is not UTF-8. The error is the client's, not the server's.
func TestClientIDThatIsNotUTF8IsRefused(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		p := w.signUp("ada@example.com")
		for _, id := range []string{"https://client.example/x?\xff", "https://client.example/x?\u00e4"} {
			if status, _, raw := p.send("GET", "/oauth/portal/authorize?"+(&client{w: w, id: id}).request("jobs:read").Encode(), nil); status != 400 {
				t.Errorf("%q: %d %.200s", id, status, raw)
			}
		}
	})
}

// Fetches of one network are bounded before they begin, so that a client cannot aim them at a third party or delay
// others.
func TestMetadataFetchesAreBoundedPerNetwork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openToAll()
	at := newSite(t)
	at.answers(http.NotFound)
	ask := func(n int, from string) int {
		c := &client{w: w, id: fmt.Sprintf("%s/agents/%d.json", at.URL, n)}
		r, err := http.NewRequest(http.MethodGet, w.Server.URL+"/oauth/portal/authorize?"+c.request("jobs:read").Encode(), nil)
		w.Must(err)
		r.Header.Set("X-Forwarded-For", from)
		return w.send(r).status
	}
	slowed := 0
	for n := range 30 {
		if ask(n, fmt.Sprintf("203.0.113.%d", n+1)) == http.StatusTooManyRequests {
			slowed++
		}
	}
	if slowed != 10 || at.asked.Load() != 20 {
		t.Errorf("of 30 fetches for one network %d were refused and %d made, want 10 and 20", slowed, at.asked.Load())
	}
	if got := ask(99, "198.51.100.1"); got != http.StatusBadRequest || at.asked.Load() != 21 {
		t.Errorf("another network: %d, asked %d times", got, at.asked.Load())
	}
}
