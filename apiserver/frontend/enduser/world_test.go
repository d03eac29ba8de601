package enduser_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

func TestMain(m *testing.M) {
	if servertest.IsKillable() {
		fmt.Fprintln(os.Stderr, servertest.ServeUntilKilled(serveUntilKilled))
		os.Exit(1)
	}
	os.Exit(pgtest.Main(m))
}

// world is a frontendtest.World that can record the store's statements.
type world struct {
	*frontendtest.World
	traced      statements
	addresses   sync.Mutex
	lastAddress netip.Addr
}

// statements records the texts of the store's statements while it is enabled.
type statements struct {
	mu   sync.Mutex
	on   bool
	list []string
}

func (s *statements) add(query string, _ []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on {
		s.list = append(s.list, query)
	}
}

// of returns the statements of do.
func (s *statements) of(do func()) []string {
	set := func(on bool) []string {
		s.mu.Lock()
		defer s.mu.Unlock()
		list := s.list
		s.on, s.list = on, nil
		return list
	}
	set(true)
	do()
	return set(false)
}

const (
	deploymentName = frontendtest.Deployment
	anotherName    = "acme/other"
)

// onEngines runs a test on each database engine.
func onEngines(t *testing.T, story func(t *testing.T, w *world)) {
	t.Helper()
	servertest.OnEngines(t, func(t *testing.T, url string) { story(t, newWorld(t, url)) })
}

// onOneEngine runs a test of rules that do not depend on the engine; see servertest.OnOneEngine.
func onOneEngine(t *testing.T, story func(t *testing.T, w *world)) {
	t.Helper()
	servertest.OnOneEngine(t, func(t *testing.T, url string) { story(t, newWorld(t, url)) })
}

// onSQLite runs a test that does not depend on the engine.
func onSQLite(t *testing.T, story func(w *world)) {
	t.Helper()
	t.Parallel()
	story(newWorld(t, ""))
}

func newWorld(t *testing.T, storeURL string) *world {
	t.Helper()
	w := &world{}
	w.World = frontendtest.NewOver(t, storeURL, w.traced.add, nil)
	other := w.Settings()
	other.FrontendHosts, other.DisplayName = []string{"other.localhost"}, "Other"
	w.Put(v1alpha1.KindIdentityDeployment, "other", anotherName, "other", other)
	return w
}

// serve starts a server for a store.
func (w *world) serve(st store.Store) *httptest.Server {
	w.T.Helper()
	server, _ := w.Serve(st, st)
	return server
}

// tx runs do on the deployment's rows.
func (w *world) tx(do func(people.Tx) error) {
	w.T.Helper()
	w.Must(w.Store.Change(w.T.Context(), deploymentName, do))
}

// browser is a client with a cookie jar and its own address.
type browser struct {
	w       *world
	base    string
	host    string
	address string
	client  *http.Client
	// last is the last response.
	last answer
}

type answer struct {
	Status int
	Header http.Header
	Raw    string
	Body   struct {
		Status  int
		Message string
		Data    json.RawMessage
		Session struct {
			SignInAttempts []map[string]any `json:"signin_attempts"`
			SignIns        []map[string]any `json:"signins"`
			SignUpAttempts []map[string]any `json:"signup_attempts"`
			ActiveSignIn   map[string]any   `json:"active_signin"`
		}
		Errors []struct {
			Code              string
			Message           string
			RetryAfterSeconds *int `json:"retry_after_seconds"`
			AttemptsRemaining *int `json:"attempts_remaining"`
		}
	}
}

// code returns the first error's code, "" for a success.
func (a answer) code() string {
	if len(a.Body.Errors) == 0 {
		return ""
	}
	return a.Body.Errors[0].Code
}

// data returns the response's data as an object.
func (a answer) data() map[string]any {
	var out map[string]any
	_ = json.Unmarshal(a.Body.Data, &out)
	return out
}

// browser returns a browser at a new address on the deployment's host. The first 255 browsers of a world are in one
// wide network, whatever other tests run.
func (w *world) browser() *browser {
	w.addresses.Lock()
	defer w.addresses.Unlock()
	if !w.lastAddress.IsValid() {
		w.lastAddress = netip.MustParseAddr("10.0.0.0")
	}
	w.lastAddress = w.lastAddress.Next()
	return w.browserAt(w.lastAddress.String())
}

func (w *world) browserAt(address string) *browser {
	jar, err := cookiejar.New(nil)
	w.Must(err)
	return &browser{w: w, base: w.Server.URL, host: "localhost", address: address, client: &http.Client{Jar: jar, Timeout: 60 * time.Second}}
}

// do sends a request and checks that the response is a valid envelope.
func (b *browser) do(method, path, body string, header ...string) answer {
	b.w.T.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, b.base+path, reader)
	b.w.Must(err)
	req.Host = b.host
	req.Header.Set("X-Forwarded-For", b.address)
	req.Header.Set("User-Agent", "test browser")
	if body != "" || method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i+1] == "" {
			req.Header.Del(header[i])
			continue
		}
		req.Header.Add(header[i], header[i+1])
	}
	if req.Header.Get("Host") != "" {
		req.Host = req.Header.Get("Host")
	}
	resp, err := b.client.Do(req)
	b.w.Must(err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	b.w.Must(err)
	b.last = answer{Status: resp.StatusCode, Header: resp.Header, Raw: string(raw)}
	if strings.HasPrefix(path, "/.well-known/") && resp.StatusCode == 200 || resp.StatusCode == http.StatusNoContent {
		return b.last
	}
	b.w.Must(json.Unmarshal(raw, &b.last.Body))
	b.checkEnvelope()
	b.checkDocumented(method, path)
	return b.last
}

// checkEnvelope checks a response against section 2.8 of the interface contract.
func (b *browser) checkEnvelope() {
	b.w.T.Helper()
	var members map[string]json.RawMessage
	b.w.Must(json.Unmarshal([]byte(b.last.Raw), &members))
	for _, name := range []string{"status", "message", "data", "session", "errors"} {
		if _, found := members[name]; !found {
			b.w.T.Fatalf("the envelope lacks %s: %s", name, b.last.Raw)
		}
	}
	success := b.last.Status == 200
	if len(members) != 5 || b.last.Body.Status != b.last.Status || success != (b.last.Body.Message == "") || success != (len(b.last.Body.Errors) == 0) ||
		!success && string(members["data"]) != "null" || b.last.Header.Get("Cache-Control") != "no-store" {
		b.w.T.Fatalf("HTTP status %d, envelope %s", b.last.Status, b.last.Raw)
	}
	active := b.last.Body.Session.ActiveSignIn
	for _, g := range b.last.Body.Session.SignIns {
		if active != nil && g["id"] == active["id"] {
			active = nil
		}
	}
	if active != nil {
		b.w.T.Fatalf("the active sign-in is not among the session's sign-ins: %s", b.last.Raw)
	}
}

// raw sends a request concurrently with others and returns the response, which the caller closes.
func (b *browser) raw(method, path, body string) (*http.Response, error) {
	req, err := http.NewRequest(method, b.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Host = b.host
	req.Header.Set("X-Forwarded-For", b.address)
	req.Header.Set("Content-Type", "application/json")
	return b.client.Do(req)
}

// ok is do for a request that must succeed. It returns the data.
func (b *browser) ok(method, path, body string, header ...string) map[string]any {
	b.w.T.Helper()
	if a := b.do(method, path, body, header...); a.Status != 200 {
		b.w.T.Fatalf("%s %s %s: %s", method, path, body, a.Raw)
	}
	return b.last.data()
}

// refused is do for a request that must be refused.
func (b *browser) refused(status int, code, method, path, body string, header ...string) answer {
	b.w.T.Helper()
	if a := b.do(method, path, body, header...); a.Status != status || a.code() != code {
		b.w.T.Fatalf("%s %s %s: want %d %s, got %s", method, path, body, status, code, a.Raw)
	}
	return b.last
}

// site returns the URL of the deployment's host for the cookie jar.
func (b *browser) site() *url.URL { return &url.URL{Scheme: "http", Host: b.host, Path: "/"} }

// cookie returns the browser's session token, "" for none.
func (b *browser) cookie() string {
	for _, c := range b.client.Jar.Cookies(b.site()) {
		if c.Name == "__session" {
			return c.Value
		}
	}
	return ""
}

// setCookie sets the browser's session token.
func (b *browser) setCookie(token string) {
	b.client.Jar.SetCookies(b.site(), []*http.Cookie{{Name: "__session", Value: token, Path: "/"}})
}

const goodPassword = "correct horse battery staple"

// quote returns a text as a JSON string.
func quote(text string) string {
	raw, _ := json.Marshal(text)
	return string(raw)
}

// signUp signs a user up with password and code, and returns the user's id.
func (b *browser) signUp(email string, more ...string) string {
	b.w.T.Helper()
	body := fmt.Sprintf(`{"email":%s,"password":%s%s}`, quote(email), quote(goodPassword), strings.Join(more, ""))
	b.ok("POST", "/auth/signup", body)
	b.completeSignUp(email)
	return b.last.Body.Session.ActiveSignIn["user_id"].(string)
}

// completeSignUp sends the emailed code of the pending sign-up.
func (b *browser) completeSignUp(email string) {
	b.w.T.Helper()
	attempt := b.last.Body.Session.SignUpAttempts[0]["id"].(string)
	b.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signup_attempt_id":%q,"code":%q}`, attempt, b.w.CodeFor(email, 1)))
}

// signIn signs in with the password.
func (b *browser) signIn(email string) {
	b.w.T.Helper()
	b.ok("POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":%s,"password":%s}`, quote(email), quote(goodPassword)))
}

// addPhone adds a number and returns its id.
func (b *browser) addPhone(number string) string {
	b.w.T.Helper()
	return b.ok("POST", "/me/phone-numbers", fmt.Sprintf(`{"phone_number":%q}`, number))["id"].(string)
}

// wrong returns a code that differs from the given one.
func wrong(code string) string {
	if code[0] == '9' {
		return "0" + code[1:]
	}
	return string(code[0]+1) + code[1:]
}

// sign gives the deployment a signing key, as the operator creates it.
func (w *world) sign() {
	w.T.Helper()
	w.Declare(w.signedDeployment())
	w.Eventually("the key is published", func() bool {
		return strings.Contains(w.browser().do("GET", "/.well-known/jwks.json", "").Raw, "k1")
	})
}

// signedDeployment returns the deployment's settings with a new signing key.
func (w *world) signedDeployment() document.Deployment {
	w.T.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.Must(err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	w.Must(err)
	public, err := json.Marshal(jose.JSONWebKey{Key: key.Public(), KeyID: "k1", Algorithm: "ES256", Use: "sig"})
	w.Must(err)
	d := w.Settings()
	d.SigningKeys = []document.SigningKey{{ID: "k1", Public: public, Sealed: w.Keyring.Seal(document.SealedSigningKey, "k1", der)}}
	return d
}

// withdraw deletes a document as the operator does.
func (w *world) withdraw(kind, name string) {
	w.T.Helper()
	w.Withdraw(kind, "acme", name)
}

// deleteWorkspaceMembership deletes a row that no operation deletes on its own.
func (w *world) deleteWorkspaceMembership(id string) {
	w.T.Helper()
	db := w.Open()
	defer func() { _ = db.Close() }()
	_, err := db.ExecContext(w.T.Context(), "DELETE FROM workspace_memberships WHERE id = "+id)
	w.Must(err)
}
