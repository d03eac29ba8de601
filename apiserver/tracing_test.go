package apiserver_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/collector"
)

// traced is a server whose spans all go to a collector, with a key that has every permission.
type traced struct {
	*frontendtest.World
	collector *collector.Collector
	key       string
}

func newTraced(t *testing.T, options ...trace.TracerProviderOption) *traced {
	t.Helper()
	c, tracer := servertest.Collect(t, options...)
	w := &traced{World: frontendtest.NewTraced(t, tracer), collector: c}
	key, err := apikey.Mint(rand.Reader, "ck")
	w.Must(err)
	w.key = key.Plain()
	w.Put(v1alpha1.KindAPIAuthApp, "app", frontendtest.Deployment, "app", document.APIAuthApp{Slug: "app", Name: "App", Active: true, Permissions: []string{"*"}})
	w.Put(v1alpha1.KindAPIKey, "admin", frontendtest.Deployment, "", document.APIKey{App: "app", Permissions: []string{"*"}, Verifiers: []document.Verifier{{ID: key.ID(), Digest: key.Digest()}}})
	w.Eventually("the key is known", func() bool { return w.ask(w.Backend, "GET", "/users", "").Code == http.StatusOK })
	return w
}

const (
	proxy     = "127.0.0.1:4000"    // in --trusted-proxies
	untrusted = "198.51.100.9:4000" // not in --trusted-proxies
)

// ask sends a request with the key directly to a listener, from the proxy. header are pairs of names and values; the
// value of RemoteAddr replaces the peer's address.
func (w *traced) ask(listener http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr = proxy
	r.Header.Set("Authorization", "Bearer "+w.key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "RemoteAddr" {
			r.RemoteAddr = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	answer := httptest.NewRecorder()
	listener.ServeHTTP(answer, r)
	return answer
}

// newest waits for a span of a name and returns the latest one.
func (w *traced) newest(name string) collector.Span {
	w.T.Helper()
	var named []collector.Span
	w.Eventually("a span "+name, func() bool { named = w.collector.Named(name); return len(named) > 0 })
	return named[len(named)-1]
}

// within returns the child spans of a span.
func (w *traced) within(of collector.Span) []collector.Span {
	return slices.DeleteFunc(w.collector.Spans(), func(s collector.Span) bool { return s.Parent() != of.ID() })
}

func TestWriteIsOneTraceWithItsTransactions(t *testing.T) {
	t.Parallel()
	w := newTraced(t)
	if answer := w.ask(w.Backend, "POST", "/users", `{"email":"ada@acme.example"}`); answer.Code != http.StatusOK {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	request := w.newest("POST /users")
	for key, want := range map[string]string{
		"http.request.method": "POST", "http.route": "/users", "http.response.status_code": "200", "cardea.listener": "backend",
	} {
		if got := request.Attribute(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if request.Kind != tracepb.Span_SPAN_KIND_SERVER || request.Parent() != "" {
		t.Errorf("kind %s, parent %q", request.Kind, request.Parent())
	}
	writes := slices.DeleteFunc(w.within(request), func(s collector.Span) bool { return s.Name != "store write" })
	if len(writes) == 0 || writes[0].Trace() != request.Trace() || writes[0].Attribute("db.system.name") != "sqlite" || writes[0].Attribute("cardea.store.transaction") != "write" {
		t.Errorf("transactions of the write: %v", writes)
	}
	if status := w.ask(w.Backend, "GET", "/nothing/"+w.key, "").Code; status != http.StatusNotFound {
		t.Fatal(status)
	}
	if span := w.newest("GET"); span.Attribute("http.route") != "" || span.Attribute("http.response.status_code") != "404" {
		t.Errorf("a request without a route: %v", span)
	}
}

func TestDecisionHasSpan(t *testing.T) {
	t.Parallel()
	w := newTraced(t)
	check := func(key string) string {
		return fmt.Sprintf(`{"principal":{"type":"api_key","value":%q},"method":"GET","resource":"/things"}`, key)
	}
	w.ask(w.Decision, "POST", "/v1/authz/check", check(w.key))
	request := w.newest("POST /v1/authz/check")
	inside := w.within(request)
	if len(inside) != 1 || inside[0].Name != "decision" || inside[0].Attribute("cardea.decision.outcome") != "allowed" ||
		inside[0].Attribute("cardea.decision.credential") != "api_key" || inside[0].Attribute("cardea.deployment") != frontendtest.Deployment {
		t.Errorf("the decision: %v", inside)
	}
	w.ask(w.Decision, "GET", "/v1/forward/nginx", "", "X-Original-Method", "GET", "X-Original-Uri", "/things", "Authorization", "Bearer nonsense")
	inside = w.within(w.newest("GET /v1/forward/nginx"))
	if len(inside) != 1 || inside[0].Attribute("cardea.decision.outcome") != "unauthenticated" {
		t.Errorf("the refusal: %v", inside)
	}
}

const (
	theirTrace  = "0af7651916cd43dd8448eb211c80319c"
	theirSpan   = "b7ad6b7169203331"
	theirParent = "00-" + theirTrace + "-" + theirSpan + "-01"
)

func TestTrustedTraceContinuesAndUntrustedTraceIsLinked(t *testing.T) {
	t.Parallel()
	w := newTraced(t)
	w.ask(w.Backend, "GET", "/users", "", "traceparent", theirParent, "tracestate", "vendor=value")
	if span := w.newest("GET /users"); span.Trace() != theirTrace || span.Parent() != theirSpan || span.TraceState != "vendor=value" || len(span.Links) != 0 {
		t.Errorf("behind a trusted proxy: %v", span)
	}
	w.ask(w.Backend, "GET", "/audit", "", "RemoteAddr", untrusted, "traceparent", theirParent, "tracestate", "vendor=value")
	span := w.newest("GET /audit")
	if span.Trace() == theirTrace || span.Parent() != "" || span.TraceState != "" {
		t.Errorf("the trace of an untrusted client goes on: %v", span)
	}
	if len(span.Links) != 1 || fmt.Sprintf("%x", span.Links[0].TraceId) != theirTrace || span.Links[0].TraceState != "" {
		t.Errorf("links %v", span.Links)
	}
	for _, wrong := range []string{"00-" + theirTrace + "-" + theirSpan, "00-0-0-01", strings.Repeat("0", 9999), "ff-" + theirTrace + "-" + theirSpan + "-01"} {
		w.ask(w.Backend, "GET", "/ai-tools", "", "traceparent", wrong)
		if span := w.newest("GET /ai-tools"); span.Parent() != "" || len(span.Links) != 0 {
			t.Errorf("traceparent %.40q: %v", wrong, span)
		}
	}
}

// An untrusted client cannot make the sampler sample its requests.
func TestUntrustedClientCannotForceSampling(t *testing.T) {
	t.Parallel()
	w := newTraced(t, trace.WithSampler(trace.ParentBased(trace.NeverSample())))
	for range 3 {
		w.ask(w.Backend, "GET", "/users", "", "RemoteAddr", untrusted, "traceparent", theirParent)
	}
	w.ask(w.Backend, "GET", "/users", "", "traceparent", theirParent) // the sampler follows a trusted proxy
	w.newest("GET /users")
	for _, span := range w.collector.Spans() {
		if span.Trace() != theirTrace {
			t.Errorf("sampled: %v", span)
		}
	}
	if n := len(w.collector.Named("GET /users")); n != 1 {
		t.Errorf("%d requests were sampled", n)
	}
}

// visit is a browser at the end-user listener that records all responses.
type visit struct {
	w      *traced
	client *http.Client
	header http.Header
}

func (w *traced) visit() *visit {
	jar, err := cookiejar.New(nil)
	w.Must(err)
	return &visit{w: w, client: &http.Client{Jar: jar}, header: http.Header{"Content-Type": {"application/json"}}}
}

// ask sends a request and returns the session of the response.
func (v *visit) ask(method, path, body string) (session struct {
	SignUpAttempts []struct{ ID string } `json:"signup_attempts"`
}) {
	v.w.T.Helper()
	r, err := http.NewRequest(method, v.w.Server.URL+path, strings.NewReader(body))
	v.w.Must(err)
	r.Header, r.Host = v.header.Clone(), "app.localhost"
	answer, err := v.client.Do(r)
	v.w.Must(err)
	raw, err := io.ReadAll(answer.Body)
	v.w.Must(errors.Join(err, answer.Body.Close()))
	var envelope struct{ Session *json.RawMessage }
	if json.Unmarshal(raw, &envelope) == nil && envelope.Session != nil {
		v.w.Must(json.Unmarshal(*envelope.Session, &session))
	}
	return session
}

// signUp creates an account and returns the code of its mail.
func (v *visit) signUp(email, password string) string {
	v.w.T.Helper()
	session := v.ask("POST", "/auth/signup", fmt.Sprintf(`{"email":%q,"password":%q}`, email, password))
	if len(session.SignUpAttempts) != 1 {
		v.w.T.Fatalf("no sign-up began")
	}
	code := v.w.CodeFor(email, 1)
	v.ask("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signup_attempt_id":%q,"code":%q}`, session.SignUpAttempts[0].ID, code))
	return code
}

func TestSendSpanLinksToItsRequest(t *testing.T) {
	t.Parallel()
	w := newTraced(t)
	w.visit().signUp("ada@acme.example", "correct horse battery staple 7")
	request, send := w.newest("POST /auth/signup"), w.newest("outbox send")
	if send.Trace() == request.Trace() || len(send.Links) != 1 || !bytes.Equal(send.Links[0].TraceId, request.TraceId) {
		t.Errorf("the send of %s links to %v", request.Trace(), send.Links)
	}
	for key, want := range map[string]string{"cardea.message.channel": "mail", "cardea.message.state": "sent", "cardea.message.tries": "1", "cardea.deployment": frontendtest.Deployment} {
		if got := send.Attribute(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

// No span contains secret or personal data, wherever a request carries it.
func TestSpansContainNoSecretOrPersonalData(t *testing.T) {
	t.Parallel()
	w := newTraced(t)
	const (
		email, number, password = "Canary.Person@acme.example", "+12025550177", "canary-passphrase Zx81 unlikely"
		header, query, path     = "canary-in-a-header", "canary-in-a-query", "canary-in-a-path"
		state, method, agent    = "canary-in-the-state", "CANARYMETHOD", "canary-agent"
	)
	v := w.visit()
	v.header.Set("User-Agent", agent)
	v.header.Set("X-Request-Id", header)
	v.header.Set("X-Forwarded-For", "203.0.113.77")
	code := v.signUp(email, password)
	v.ask("POST", "/me/phone-numbers", fmt.Sprintf(`{"phone_number":%q}`, number))
	v.ask("GET", "/me/phone-numbers?search="+query, "")
	v.ask("DELETE", "/me/phone-numbers/"+path, "")
	v.ask("POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":%q,"password":"wrong %s"}`, email, password))
	v.ask(method, "/me", "")
	w.ask(w.Backend, "GET", "/users?search="+url.QueryEscape(email)+"&canary="+query, "", "X-Canary", header)
	w.ask(w.Backend, "POST", "/users", fmt.Sprintf(`{"email":%q,"first_name":"canary-name"}`, email), "tracestate", "c="+state, "traceparent", theirParent, "RemoteAddr", untrusted)
	w.ask(w.Backend, "GET", "/api-auth/apps/"+path, "")
	w.ask(w.Decision, "POST", "/v1/authz/check?status="+query, "")
	w.ask(w.Decision, "POST", "/v1/authz/check", fmt.Sprintf(`{"principal":{"type":"api_key","value":%q},"method":"GET","resource":"/%s?q=%s","client_ip":"203.0.113.77"}`, w.key, path, query))
	w.ask(w.Decision, "GET", "/v1/forward/envoy/"+path, "")
	w.ask(w.Decision, "GET", "/v1/forward/nginx?"+query, "", "X-Original-Uri", "/"+path)
	w.newest("outbox send")
	sent := w.collector.Raw()
	if !bytes.Contains(sent, []byte("POST /auth/signup")) || !bytes.Contains(sent, []byte("GET /api-auth/apps/{slug}")) || len(w.collector.Named("decision")) == 0 {
		t.Fatal("the collector has no spans, or not in readable form, so this test checks nothing")
	}
	cookies := v.client.Jar.Cookies(&url.URL{Scheme: "http", Host: "app.localhost"})
	planted := []string{
		email, strings.ToLower(email), number, password, code, header, query, path, state, method, agent, "203.0.113.77", "198.51.100.9", "canary-name", "app.localhost", w.key,
		base64.StdEncoding.EncodeToString([]byte(password)),
	}
	for _, cookie := range cookies {
		planted = append(planted, cookie.Value)
	}
	for _, secret := range planted {
		if bytes.Contains(sent, []byte(secret)) {
			t.Errorf("a span holds %q", secret)
		}
	}
}

// A log line of a request has the ids of its span.
func TestLogLinesHaveSpanIDs(t *testing.T) {
	t.Parallel()
	w := newTraced(t)
	d := w.Settings()
	d.Email = &document.Email{From: "no-reply@acme.example", Log: true}
	w.Declare(d)
	w.Eventually("the mail is logged", func() bool {
		v := w.visit()
		v.ask("POST", "/auth/signup", `{"email":"ada@acme.example","password":"correct horse battery staple 7"}`)
		return strings.Contains(w.Logs.String(), "ada@acme.example")
	})
	for line := range strings.Lines(w.Logs.String()) {
		if !strings.Contains(line, "ada@acme.example") {
			continue
		}
		w.Eventually("the span that the line names", func() bool {
			return slices.ContainsFunc(w.collector.Named("outbox send"), func(s collector.Span) bool {
				return strings.Contains(line, fmt.Sprintf(`"trace_id"=%q`, s.Trace())) && strings.Contains(line, fmt.Sprintf(`"span_id"=%q`, s.ID()))
			})
		})
	}
}
