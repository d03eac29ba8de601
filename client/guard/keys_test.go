package guard_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/client/guard"
)

const key = "ck_aaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbcccccc"

// decisions is a stand-in for the decision listener that returns the response a test sets. TestKeysByTheRealListener
// tests the real listener.
type decisions struct {
	*httptest.Server
	status int
	header http.Header
	answer string
	mu     sync.Mutex
	asked  []map[string]any
	opened atomic.Int32
}

func allowed(more string) string {
	return `{"request_id":"r1","allowed":true,"reason":null,"blocked_rule":null,"identity":{"key_id":"k1","deployment_id":"7","app_slug":"shop","key_name":"Globex","owner_user_id":"9"},
	"permissions":["orders:read"],"metadata":{"plan":"gold"},"rate_limits":[],"retry_after":null,"headers":{"RateLimit":"\"5/1s\";r=4;t=1","RateLimit-Policy":"p","Set-Cookie":"x=y"}` + more + `}`
}

func decide(t *testing.T, status int, answer string) *decisions {
	t.Helper()
	d := &decisions{status: status, answer: answer, header: http.Header{}}
	d.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question := map[string]any{}
		_ = json.NewDecoder(r.Body).Decode(&question)
		d.mu.Lock()
		d.asked = append(d.asked, question)
		d.mu.Unlock()
		for name, values := range d.header {
			w.Header()[name] = values
		}
		w.WriteHeader(d.status)
		_, _ = io.WriteString(w, d.answer)
	}))
	d.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			d.opened.Add(1)
		}
	}
	d.Start()
	t.Cleanup(d.Close)
	return d
}

// last returns the last request for a decision.
func (d *decisions) last() map[string]any {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.asked) == 0 {
		return nil
	}
	return d.asked[len(d.asked)-1]
}

// guarded is a handler behind a guard, which records the callers that were admitted.
type guarded struct {
	http.Handler
	who    *guard.Identity
	header http.Header
	passed int
}

func behind(middleware func(http.Handler) http.Handler) *guarded {
	g := &guarded{}
	g.Handler = middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		g.who, g.header, g.passed = guard.From(r.Context()), r.Header, g.passed+1
	}))
	return g
}

// get sends a request for a path with header lines.
func (g *guarded) get(path string, lines ...string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	recorder := httptest.NewRecorder()
	g.ServeHTTP(recorder, r)
	return recorder.Result()
}

func newKeys(t *testing.T, options guard.KeysOptions) *guard.Keys {
	t.Helper()
	options.Deployment = "apps/acme"
	if options.Timeout == 0 {
		options.Timeout = time.Minute // a slow test machine must not look like an outage
	}
	keys, err := guard.NewKeys(options)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestKeysAreLetThroughWithWhoTheyAre(t *testing.T) {
	t.Parallel()
	d := decide(t, 200, allowed(""))
	g := behind(newKeys(t, guard.KeysOptions{URL: d.URL}).Require("orders:read"))
	for _, line := range []string{"Authorization: Bearer " + key, "authorization: bearer " + key, "X-API-Key: " + key} {
		answer := g.get("/v1/%6Frders?key=other#x", line)
		if answer.StatusCode != 200 || answer.Header.Get("RateLimit") != `"5/1s";r=4;t=1` || answer.Header.Get("Set-Cookie") != "" {
			t.Errorf("%d %v", answer.StatusCode, answer.Header)
		}
		if g.who == nil || g.who.KeyID != "k1" || g.who.App != "shop" || g.who.KeyName != "Globex" || g.who.UserID != "9" || g.who.DeploymentID != "7" || g.who.Metadata["plan"] != "gold" {
			t.Errorf("%+v", g.who)
		}
		if !g.who.Can("orders:read") || g.who.Can("orders:read", "orders:write") {
			t.Errorf("can: %v", g.who.Permissions)
		}
	}
	asked, _ := json.Marshal(d.last())
	want := `{"client_ip":"192.0.2.1","deployment":"apps/acme","method":"GET","principal":{"type":"api_key","value":"` + key + `"},"required_permissions":["orders:read"],"resource":"/v1/%6Frders"}`
	if string(asked) != want {
		t.Errorf("asked %s, want %s", asked, want)
	}
	if n := d.opened.Load(); n != 1 {
		t.Errorf("%d connections for three decisions", n)
	}
}

// The path is the one that the client sent, even if a router stripped a part.
func TestResourceIsWhatTheClientSent(t *testing.T) {
	t.Parallel()
	d := decide(t, 200, allowed(""))
	stripped := http.StripPrefix("/v1", newKeys(t, guard.KeysOptions{URL: d.URL}).Require()(http.NotFoundHandler()))
	for sent, want := range map[string]string{"/v1/orders": "/v1/orders", "http://elsewhere/v1/a/../b": "/v1/a/../b", "/v1//x": "/v1//x"} {
		r := httptest.NewRequest(http.MethodGet, sent, nil)
		r.Header.Set("X-Api-Key", key)
		stripped.ServeHTTP(httptest.NewRecorder(), r)
		if got := d.last()["resource"]; got != want {
			t.Errorf("%s: asked about %v", sent, got)
		}
	}
}

// A request that does not have exactly one valid credential in its headers causes no call.
func TestCredentialsThatAreNone(t *testing.T) {
	t.Parallel()
	d := decide(t, 200, allowed(""))
	g := behind(newKeys(t, guard.KeysOptions{URL: d.URL, WhenAway: guard.Admit}).Require())
	for name, lines := range map[string][]string{
		"none": nil, "basic": {"Authorization: Basic " + key}, "no scheme": {"Authorization: " + key}, "empty": {"Authorization: Bearer "}, "two lines": {"Authorization: Bearer " + key, "Authorization: Bearer " + key},
		"both headers": {"Authorization: Bearer " + key, "X-API-Key: " + key}, "two keys": {"X-API-Key: " + key, "X-API-Key: " + key}, "joined by a proxy": {"X-API-Key: " + key + ", " + key},
		"a blank in it": {"Authorization: Bearer " + key + " " + key}, "not ASCII": {"X-API-Key: ключ"}, "a control character": {"X-API-Key: a\x00b"}, "huge": {"X-API-Key: " + strings.Repeat("x", 17<<10)},
		"a cookie": {"Cookie: api_key=" + key}, "another header": {"X_API_Key: " + key},
	} {
		answer := g.get("/v1/orders?api_key="+key+"&access_token="+key+"&X-API-Key="+key, lines...)
		if answer.StatusCode != 401 || answer.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: %d %v", name, answer.StatusCode, answer.Header)
		}
	}
	if g.passed != 0 || d.last() != nil {
		t.Errorf("%d passed, asked about %v", g.passed, d.last())
	}
}

// An identity that a client claims reaches no handler.
func TestClaimedIdentityIsDropped(t *testing.T) {
	t.Parallel()
	d := decide(t, 200, allowed(""))
	g := behind(newKeys(t, guard.KeysOptions{URL: d.URL}).Require())
	sent := httptest.NewRequest(http.MethodGet, "/", nil)
	for _, name := range []string{"X-Api-Key", "X-Cardea-Key-Id", "X-Cardea-Permissions", "x_cardea_owner_user_id", "X-CARDEA-App", "X-Other"} {
		sent.Header[name] = []string{key}
	}
	g.ServeHTTP(httptest.NewRecorder(), sent)
	if len(g.header) != 2 || g.header.Get("X-Other") == "" || g.header.Get("X-Api-Key") == "" {
		t.Errorf("passed on: %v", g.header)
	}
	if len(sent.Header) != 6 {
		t.Error("the guard changed its caller's request")
	}
}

func TestRefusalsAreThoseOfTheDecision(t *testing.T) {
	t.Parallel()
	refused := func(reason, identity, retry, more string) string {
		return `{"request_id":"r1","allowed":false,"reason":` + reason + `,"identity":` + identity + `,"permissions":[],"metadata":{},"rate_limits":[],"retry_after":` + retry + `,"headers":{` + more + `},"message":"why"}`
	}
	who := `{"key_id":"k","deployment_id":"7","app_slug":"a","key_name":"n"}`
	for name, c := range map[string]struct {
		status, want int
		answer       string
		retry        string
		challenge    string
	}{
		"not accepted":            {401, 401, refused("null", "null", "null", ""), "", `Bearer error="invalid_token"`},
		"not permitted":           {200, 403, refused(`"permission_denied"`, who, "null", ""), "", `Bearer error="insufficient_scope"`},
		"a reason that is new":    {200, 403, refused(`"sleeping"`, who, "null", ""), "", `Bearer error="insufficient_scope"`},
		"limited":                 {200, 429, refused(`"rate_limited"`, who, "14", `"RateLimit":"x;r=0","Retry-After":"14"`), "14", ""},
		"limited without headers": {200, 429, refused(`"rate_limited"`, who, "14", ""), "14", ""},
		"too many guesses":        {429, 429, `{"message":"wait","errors":[{"message":"wait","code":429}],"request_id":"r1"}`, "1", ""},
		"a path that is refused":  {400, 400, `{"message":"no","errors":[{"message":"no","code":400}],"request_id":"r1"}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := decide(t, c.status, c.answer)
			g := behind(newKeys(t, guard.KeysOptions{URL: d.URL, WhenAway: guard.Admit}).Require("x"))
			answer := g.get("/", "X-API-Key: "+key)
			var body struct {
				Message   string
				Errors    []struct{ Code int }
				RequestID string `json:"request_id"`
			}
			if err := json.NewDecoder(answer.Body).Decode(&body); err != nil || body.Message == "" || len(body.Errors) != 1 || body.Errors[0].Code != c.want || body.RequestID != "r1" {
				t.Errorf("%+v: %v", body, err)
			}
			if answer.StatusCode != c.want || answer.Header.Get("Retry-After") != c.retry || answer.Header.Get("WWW-Authenticate") != c.challenge || g.passed != 0 {
				t.Errorf("%d %v", answer.StatusCode, answer.Header)
			}
		})
	}
}

// While Cardea does not decide, a guard refuses all requests, unless it is set to admit requests during an outage.
func TestAway(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	hanging := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hanging }))
	t.Cleanup(slow.Close)
	trickle := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"request_id"`)
		w.(http.Flusher).Flush()
		<-hanging
	}))
	t.Cleanup(trickle.Close)
	t.Cleanup(func() { close(hanging) }) // runs before the servers close, which wait for their handlers
	for name, c := range map[string]struct {
		url   string
		admit bool
	}{
		"nobody there":      {gone.URL, true},
		"slow":              {slow.URL, true},
		"slow in the body":  {trickle.URL, true},
		"503":               {decide(t, 503, `{"message":"m","errors":[{"message":"m","code":503}],"request_id":"r"}`).URL, true},
		"500 of a proxy":    {decide(t, 500, "<html>").URL, true},
		"a decision in 500": {decide(t, 500, allowed("")).URL, true},
		"a page":            {decide(t, 200, "<html>").URL, false},
		"nothing":           {decide(t, 200, "").URL, false},
		"another object":    {decide(t, 200, `{"allowed":true}`).URL, false},
		"nobody allowed":    {decide(t, 200, `{"request_id":"r","allowed":true,"identity":null}`).URL, false},
		"allowed by reason": {decide(t, 200, strings.Replace(allowed(""), `"reason":null`, `"reason":"rate_limited"`, 1)).URL, false},
		"allowed in 401":    {decide(t, 401, allowed("")).URL, false},
		"another path":      {decide(t, 404, `{"message":"m","errors":[{"message":"m","code":404}],"request_id":"r"}`).URL, false},
		"a redirect":        {decide(t, 302, "").URL, false},
		"too long":          {decide(t, 200, allowed(`,"x":"`+strings.Repeat("x", 1<<20)+`"`)).URL, false},
		"400 of a proxy":    {decide(t, 400, "bad").URL, false},
		"429 of a proxy":    {decide(t, 429, "").URL, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patience := time.Minute
			if strings.HasPrefix(name, "slow") {
				patience = 50 * time.Millisecond // these servers never respond
			}
			for _, away := range []guard.Away{guard.Refuse, guard.Admit} {
				told := error(nil)
				g := behind(newKeys(t, guard.KeysOptions{URL: c.url, Timeout: patience, WhenAway: away, OnAway: func(_ *http.Request, err error) { told = err }}).Require("x"))
				answer := g.get("/", "X-API-Key: "+key, "X-Cardea-Key-Id: forged")
				if told == nil || strings.Contains(told.Error(), key) {
					t.Errorf("OnAway was called with %v", told)
				}
				if away == guard.Admit && c.admit {
					if answer.StatusCode != 200 || g.passed != 1 || g.who != nil || g.who.Can("x") || g.who.Can() || g.header.Get("X-Cardea-Key-Id") != "" {
						t.Errorf("not admitted without an identity: %d, %+v", answer.StatusCode, g.who)
					}
				} else if answer.StatusCode != 503 || answer.Header.Get("Retry-After") != "1" || g.passed != 0 {
					t.Errorf("%v: %d %v", away, answer.StatusCode, answer.Header)
				}
			}
		})
	}
}

// The guard does not send the key to the target of a redirect.
func TestRedirectedDecisionsTakeTheKeyNowhere(t *testing.T) {
	t.Parallel()
	other := decide(t, 200, allowed(""))
	d := decide(t, 307, "")
	d.header.Set("Location", other.URL)
	g := behind(newKeys(t, guard.KeysOptions{URL: d.URL, HTTPClient: &http.Client{}}).Require())
	if answer := g.get("/", "X-API-Key: "+key); answer.StatusCode != 503 || other.last() != nil {
		t.Errorf("%d, the target of the redirect was asked %v", answer.StatusCode, other.last())
	}
}

func TestKeysOptions(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]guard.KeysOptions{
		"no URL": {Deployment: "apps/acme"}, "no scheme": {URL: "cardea:8082", Deployment: "apps/acme"}, "no deployment": {URL: "http://x"},
		"a negative time": {URL: "http://x", Deployment: "apps/acme", Timeout: -1}, "an unknown word": {URL: "http://x", Deployment: "apps/acme", WhenAway: 7},
	} {
		if _, err := guard.NewKeys(options); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	d := decide(t, 200, allowed(""))
	keys := newKeys(t, guard.KeysOptions{
		URL: d.URL, Resource: func(*http.Request) string { return "/other" }, ClientAddress: guard.Behind(netip.MustParsePrefix("192.0.2.0/24")),
		Refused: func(w http.ResponseWriter, _ *http.Request, refusal *guard.Refusal) {
			w.WriteHeader(refusal.Status + 17)
		},
	})
	g := behind(keys.Require())
	if answer := g.get("/"); answer.StatusCode != 418 {
		t.Errorf("not answered by Refused: %d", answer.StatusCode)
	}
	g.get("/", "X-API-Key: "+key, "X-Forwarded-For: 203.0.113.9")
	if asked := d.last(); asked["resource"] != "/other" || asked["client_ip"] != "203.0.113.9" || asked["deployment"] != "apps/acme" {
		t.Errorf("asked %v", asked)
	}
	if answer := behind(newKeys(t, guard.KeysOptions{URL: d.URL}).Require()).get("/"+strings.Repeat("x", 9000), "X-API-Key: "+key); answer.StatusCode != 400 {
		t.Errorf("a long path: %d", answer.StatusCode)
	}
	defer func() {
		if recover() == nil {
			t.Error("65 permissions: no panic")
		}
	}()
	keys.Require(make([]string, 65)...)
}

func TestBehind(t *testing.T) {
	t.Parallel()
	of := guard.Behind(netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"))
	for name, c := range map[string]struct {
		peer      string
		forwarded []string
		want      string
	}{
		"a stranger's word":      {"203.0.113.1:5", []string{"198.51.100.1"}, "203.0.113.1"},
		"a proxy's":              {"10.0.0.1:5", []string{"198.51.100.1"}, "198.51.100.1"},
		"the rightmost stranger": {"10.0.0.1:5", []string{"1.1.1.1, 198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		"over lines":             {"10.0.0.1:5", []string{"1.1.1.1", "198.51.100.1"}, "198.51.100.1"},
		"with a port":            {"10.0.0.1:5", []string{"198.51.100.1:80"}, "198.51.100.1"},
		"proxies alone":          {"10.0.0.1:5", []string{"10.0.0.3"}, "10.0.0.3"},
		"none":                   {"10.0.0.1:5", nil, "10.0.0.1"},
		"garbled":                {"10.0.0.1:5", []string{"198.51.100.1, unknown"}, "10.0.0.1"},
		"IPv6":                   {"[fd00::1%eth0]:5", []string{"2001:db8::1"}, "2001:db8::1"},
		"IPv4 in IPv6":           {"[::ffff:10.0.0.1]:5", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.peer
		if c.forwarded != nil {
			r.Header["X-Forwarded-For"] = c.forwarded
		}
		if got := of(r).String(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// ExampleKeys is a handler that keys with the permission orders:read may call.
func ExampleKeys() {
	keys, err := guard.NewKeys(guard.KeysOptions{URL: "http://cardea-decision.cardea-system:8082", Deployment: "acme/acme"})
	if err != nil {
		panic(err)
	}
	http.Handle("GET /v1/orders", keys.Require("orders:read")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "hello, %s\n", guard.From(r.Context()).KeyName)
	})))
}
