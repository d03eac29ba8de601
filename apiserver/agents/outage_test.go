package agents_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// outage is the whole store as a server sees it, which a test can interrupt.
type outage struct {
	people.Store
	feed store.Feed
	away atomic.Bool
}

func (o *outage) err() error {
	if o.away.Load() {
		return fmt.Errorf("%w: interrupted by a test", store.ErrUnavailable)
	}
	return nil
}

func (o *outage) Single(ctx context.Context, deployment string, do func(people.Tx) error) error {
	return o.Change(ctx, deployment, do)
}

func (o *outage) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	if err := o.err(); err != nil {
		return err
	}
	return o.Store.Change(ctx, deployment, do)
}

func (o *outage) View(ctx context.Context, deployment string, do func(people.Tx) error) error {
	if err := o.err(); err != nil {
		return err
	}
	return o.Store.View(ctx, deployment, do)
}

// interruptedFeed is the feed of an outage.
type interruptedFeed struct{ *outage }

func (f interruptedFeed) Load(ctx context.Context) ([]store.Document, store.Position, error) {
	if err := f.err(); err != nil {
		return nil, store.Position{}, err
	}
	return f.feed.Load(ctx)
}

func (f interruptedFeed) Changes(ctx context.Context, after store.Position) ([]store.Change, store.Position, error) {
	if err := f.err(); err != nil {
		return nil, after, err
	}
	return f.feed.Changes(ctx, after)
}

func (f interruptedFeed) Signals(ctx context.Context) <-chan struct{} { return f.feed.Signals(ctx) }

// Without the store, read-only calls of known keys continue until the configuration is older than --max-staleness.
func TestWithoutTheStoreCallsEndWithMaxStaleness(t *testing.T) {
	w := newPeopleWorld(t, nil)
	interrupted := &outage{Store: w.Store, feed: w.Store}
	w.MaxStaleness = time.Minute
	w.Server, _ = w.Serve(interruptedFeed{interrupted}, interrupted)
	token := w.token("orders:read")
	finding, changing := callBody("find-order", `{"number":"1"}`), callBody("cancel-order", `{"number":"1"}`)
	for _, credential := range []string{w.key, token} {
		if a := w.post("support", credential, finding); !strings.Contains(a.raw, `"open"`) {
			t.Fatalf("before the outage: %d %s", a.status, a.raw)
		}
	}
	interrupted.away.Store(true)
	w.Clock.Advance(50 * time.Second)
	if a := w.post("support", w.key, finding); !strings.Contains(a.raw, `"open"`) {
		t.Errorf("a call that reads, within the bound: %d %s", a.status, a.raw)
	}
	if status, _, raw := w.direct(w.key, "support", "find-order", findingOrder); status != 200 {
		t.Errorf("a call without MCP, within the bound: %d %s", status, raw)
	}
	_, sent := w.up.last()
	for name, a := range map[string]answer{
		"a call that changes":   w.post("support", w.key, changing),
		"a token of the store":  w.post("support", token, finding),
		"a list with the token": w.post("support", token, listing),
	} {
		if a.status != 503 || a.header.Get("Retry-After") == "" {
			t.Errorf("%s, within the bound: %d %s", name, a.status, a.raw)
		}
	}
	w.Clock.Advance(11 * time.Second)
	for name, a := range map[string]answer{
		"a call that reads": w.post("support", w.key, finding), "a list": w.post("support", w.key, listing), "a call that changes": w.post("support", w.key, changing),
		"an unknown agent": w.post("unknown", w.key, listing), "no credential": w.post("support", "", listing),
	} {
		if a.status != 503 || a.header.Get("Retry-After") == "" || !strings.Contains(a.raw, "--max-staleness") {
			t.Errorf("%s, beyond the bound: %d %s", name, a.status, a.raw)
		}
	}
	if status, _, raw := w.direct(w.key, "support", "find-order", findingOrder); status != 503 {
		t.Errorf("a call without MCP, beyond the bound: %d %s", status, raw)
	}
	if _, now := w.up.last(); now != sent {
		t.Errorf("%d calls were sent that had to be refused", now-sent)
	}
	interrupted.away.Store(false)
	w.Eventually("the calls continue", func() bool { return strings.Contains(w.post("support", w.key, changing).raw, `"open"`) })
}

// untilEnded is a store whose writes fail until a context has ended.
type untilEnded struct {
	people.Store
	ctx context.Context
}

func (u *untilEnded) Single(ctx context.Context, deployment string, do func(people.Tx) error) error {
	return u.Change(ctx, deployment, do)
}

func (u *untilEnded) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	if u.ctx.Err() == nil {
		return fmt.Errorf("%w: interrupted by a test", store.ErrUnavailable)
	}
	return u.Store.Change(ctx, deployment, do)
}

func TestServerWritesItsLastRecordsWhenItEnds(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server, err := apiserver.New(apiserver.Options{
		Feed: w.Store, People: &untilEnded{w.Store, ctx}, Keyring: w.Keyring, Clock: w.Clock.Now, Log: logr.Discard(), Registry: prometheus.NewRegistry(),
		BackendAddress: "127.0.0.1:0", FrontendAddress: "127.0.0.1:0", DecisionAddress: "127.0.0.1:0", EgressAllowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	w.Must(err)
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	w.Eventually("the server is ready", server.Ready)
	for range 3 {
		w.Clock.Advance(time.Millisecond)
		r := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost/mcp/support", strings.NewReader(callBody("find-order", `{"number":"1"}`)))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+w.key)
		recorder := httptest.NewRecorder()
		server.Frontend().ServeHTTP(deadlines{recorder}, r)
		if recorder.Code != http.StatusOK || !strings.Contains(recorder.Body.String(), `"open"`) {
			t.Fatalf("the call: %d %s", recorder.Code, recorder.Body)
		}
	}
	if calls := w.records(w.Store); len(calls) != 0 {
		t.Fatalf("%d calls are recorded before the end", len(calls))
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if calls := w.records(w.Store); len(calls) != 3 {
		t.Errorf("%d calls are recorded after the end, want 3", len(calls))
	}
}

// taken is a store in which another call has the first id that is recorded.
type taken struct {
	people.Store
	id atomic.Int64
}

func (s *taken) Single(ctx context.Context, deployment string, do func(people.Tx) error) error {
	return s.Change(ctx, deployment, do)
}

func (s *taken) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	return s.Store.Change(ctx, deployment, func(tx people.Tx) error { return do(takenTx{tx, s}) })
}

type takenTx struct {
	people.Tx
	store *taken
}

func (tx takenTx) Records() people.Records { return takenRecords{tx.Tx.Records(), tx.store} }

type takenRecords struct {
	people.Records
	store *taken
}

func (r takenRecords) InsertToolCall(c people.ToolCall) error {
	if r.store.id.CompareAndSwap(0, c.ID) || c.ID == r.store.id.Load() {
		return people.ErrDuplicate
	}
	return r.Records.InsertToolCall(c)
}

// A call whose id another call has is sent under the id of its record, also in the user's token.
func TestCallWithATakenIDIsSentUnderItsNewID(t *testing.T) {
	w := newPeopleWorld(t, func(a *document.AIAgent) { a.Tools = []string{"mine"} })
	session := w.sessions()(agentURL)
	w.declareTool("mine", document.AITool{Name: "Mine", Method: "POST", Endpoint: w.up.URL + "/mine", Authorization: document.ToolAuthorization{AuthorizeAsUser: true}})
	other := &taken{Store: w.Store}
	w.Server, _ = w.Serve(w.Store, other)
	if a := w.post("support", session, callBody("mine", `{}`)); !strings.Contains(a.raw, `"open"`) {
		t.Fatalf("the call: %d %s", a.status, a.raw)
	}
	calls := w.recorded(1)
	request, count := w.up.last()
	id := ids.Format(calls[0].ID)
	if calls[0].ID == other.id.Load() || calls[0].Outcome != people.CallSucceeded {
		t.Errorf("the record is %+v", calls[0])
	}
	if count != 1 || request.header.Get("Cardea-Call-Id") != id || request.header.Get("Idempotency-Key") != id {
		t.Errorf("the request has the ids %s and %s, want %s", request.header.Get("Cardea-Call-Id"), request.header.Get("Idempotency-Key"), id)
	}
	var claims jwt.Claims
	parsed, err := jwt.ParseSigned(strings.TrimPrefix(request.header.Get("Authorization"), "Bearer "), []jose.SignatureAlgorithm{jose.ES256})
	w.Must(err)
	w.Must(parsed.UnsafeClaimsWithoutVerification(&claims))
	if claims.ID != id || claims.Subject != "7" {
		t.Errorf("the token has the id %s, want %s", claims.ID, id)
	}
}
