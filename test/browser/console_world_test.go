package browser

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver"
	"github.com/cardea-iam/cardea/apiserver/backend"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/store/people"
)

// hostile is a name that is markup: it has no effect if shown as text. CARDEA_CONSOLE_NAME replaces it for pictures of
// the pages.
var hostile = cmp.Or(os.Getenv("CARDEA_CONSOLE_NAME"), `"><img src=x onerror="document.title='taken'"><script>document.title='taken'</script>`)

const consoleTenant = "acme/main"

// consoleWorld is a server over real HTTP, and a deployment with users.
type consoleWorld struct {
	*servertest.World
	backend, frontend *httptest.Server
	// admin is a key that may do everything; auditor is a key that may only read the audit.
	admin, auditor string
	// reader is a key that may only read agents and approvals.
	reader string
	// portal is the id of the OAuth app, agent that of the agent with tools, tool that of its tool with calls, and call
	// that of a failed call.
	portal, agent, tool, call int64
	// hook is the id of a webhook endpoint that is disabled, and delivery that of a failed delivery to it.
	hook, delivery int64
	// refuses makes the backend respond with 503 to requests whose path begins with the string.
	refuses atomic.Pointer[string]
}

// conditioned is a Kubernetes API that answers every Get with a resource that is ready.
type conditioned struct{ backend.Kubernetes }

func (conditioned) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	obj.SetName(key.Name)
	obj.SetUID(types.UID("uid-" + key.Name))
	obj.SetGeneration(1 << 20) // ahead of the active generation
	obj.(v1alpha1.Resource).CommonStatus().Conditions = []metav1.Condition{
		{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Synced", Message: hostile, LastTransitionTime: metav1.Now()},
	}
	return nil
}

func newConsoleWorld(t *testing.T) *consoleWorld {
	t.Helper()
	w := &consoleWorld{World: servertest.New(t, "", nil)}
	w.declareConsole()
	w.Must(w.Store.Change(t.Context(), consoleTenant, w.populate))
	server, err := apiserver.New(apiserver.Options{
		Feed: w.Store, People: w.Store, Keyring: w.Keyring, Kubernetes: conditioned{}, Clock: time.Now, Log: logr.Discard(), Registry: prometheus.NewRegistry(),
		PasswordCost: password.Cost{MemoryKiB: 64, Passes: 1},
	})
	w.Must(err)
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { _ = server.Follow(ctx) })
	w.backend = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if prefix := w.refuses.Load(); prefix != nil && strings.HasPrefix(r.URL.Path, *prefix) {
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintf(rw, `{"message":"the store is unavailable: try again","errors":[],"request_id":%q}`, r.Header.Get("X-Request-Id"))
			return
		}
		server.Backend().ServeHTTP(rw, r)
	}))
	w.frontend = httptest.NewServer(server.Frontend())
	t.Cleanup(func() {
		w.backend.Close()
		w.frontend.Close()
		cancel()
		following.Wait()
	})
	w.Eventually("the server is ready", server.Ready)
	return w
}

// declareConsole stores the configuration of the deployment.
func (w *consoleWorld) declareConsole() {
	w.T.Helper()
	w.Put(v1alpha1.KindIdentityDeployment, "main", consoleTenant, "main", document.Deployment{
		DisplayName: "Acme", Mode: "Staging", FrontendHosts: []string{"localhost"}, FieldConflicts: "Reject", ManagementWrites: "Enabled",
		Assurance: &document.Assurance{Passkey: true, TOTP: true, RelyingParty: "localhost"},
	})
	w.Put(v1alpha1.KindB2BSettings, "b2b", consoleTenant, document.B2BKey, document.B2BSettings{Enabled: true, AllowWorkspaceCreation: true, DefaultWorkspaceLimit: 5})
	w.Put(v1alpha1.KindRateLimitScheme, "free", consoleTenant, "free", document.RateLimitScheme{Slug: "free", Name: "Free " + hostile, Rules: []scheme.Rule{
		{Unit: "minute", Duration: 1, MaxRequests: 100000}, {Unit: "second", Duration: 1, MaxRequests: 10000, Mode: "per_app", Endpoints: []string{"GET /users", "GET /audit"}},
	}})
	w.Put(v1alpha1.KindAPIAuthApp, "operations", consoleTenant, "operations", document.APIAuthApp{Slug: "operations", Name: "Operations", Active: true, Permissions: []string{"*"}, Scheme: "free"})
	w.Put(v1alpha1.KindAPIAuthApp, "shop", consoleTenant, "shop", document.APIAuthApp{Slug: "shop", Name: "Shop " + hostile, Active: true, Permissions: []string{"orders:read"}, KeyPrefix: "shop"})
	w.portal = w.Put(v1alpha1.KindOAuthApp, "portal", consoleTenant, "portal", document.OAuthApp{Slug: "portal", Name: "Portal " + hostile, Active: true, AllowDynamicClientRegistration: true})
	w.Put(v1alpha1.KindOAuthScope, "orders", consoleTenant, document.ScopeKey("portal", "orders:write"), document.OAuthScope{
		App: "portal", Scope: "orders:write", DisplayName: "Orders " + hostile, OrganizationPermission: "orders:write",
	})
	w.Put(v1alpha1.KindOAuthClient, "reports", consoleTenant, "", document.OAuthClient{
		App: "portal", Name: "Reports", Authentication: "None", GrantTypes: []string{"AuthorizationCode"}, RedirectURIs: []string{"https://reports.example/callback"}, Active: true,
	})
	w.declareAgents()
	w.declareWebhook()
	for name, permission := range map[string]string{"admin": "*", "auditor": "audit:read", "reader": "ai_agents:read"} {
		minted, err := apikey.Mint(rand.Reader, "ck")
		w.Must(err)
		w.Put(v1alpha1.KindAPIKey, name, consoleTenant, "", document.APIKey{
			App: "operations", Name: name, Permissions: []string{permission}, Verifiers: []document.Verifier{{ID: minted.ID(), Digest: minted.Digest(), Last4: minted.Plain()[len(minted.Plain())-4:]}},
		})
		switch name {
		case "admin":
			w.admin = minted.Plain()
		case "auditor":
			w.auditor = minted.Plain()
		default:
			w.reader = minted.Plain()
		}
	}
}

// declareAgents stores an agent with tools of each type, and an inactive agent.
func (w *consoleWorld) declareAgents() {
	w.T.Helper()
	w.tool = w.Put(v1alpha1.KindAITool, "cancel-order", consoleTenant, "", document.AITool{
		Name: "Cancel " + hostile, Type: document.ToolTypeAPI, Active: true, RequiresUserApproval: true, Method: "POST", TimeoutSeconds: 30, Permissions: []string{"orders:write"},
		Endpoint: "https://api.acme.example/v1/cancellations",
	})
	w.Put(v1alpha1.KindAITool, "find-order", consoleTenant, "", document.AITool{Name: "Find an order", Type: document.ToolTypeAPI, Active: true, Method: "GET", TimeoutSeconds: 30, Endpoint: "https://api.acme.example:8443/v1/orders"})
	w.Put(v1alpha1.KindAITool, "draw-chart", consoleTenant, "", document.AITool{Name: "Draw a chart", Type: document.ToolTypeFunction, Active: true, Method: "GET"})
	w.agent = w.Put(v1alpha1.KindAIAgent, "support", consoleTenant, "", document.AIAgent{
		Name: "Support " + hostile, Active: true, Tools: []string{"cancel-order", "find-order", "draw-chart"}, Permissions: []string{"orders:read"}, URL: "https://id.acme.example/mcp/support",
	})
	w.Put(v1alpha1.KindAIAgent, "paused", consoleTenant, "", document.AIAgent{Name: "Paused", URL: "https://id.acme.example/mcp/paused"})
}

// address returns the address of a view, with the ids of the agent, of the failed call, of the webhook endpoint and of
// the failed delivery in place of AGENT, CALL, HOOK and DELIVERY.
func (w *consoleWorld) address(view string) string {
	return strings.NewReplacer("AGENT", ids.Format(w.agent), "CALL", ids.Format(w.call), "HOOK", ids.Format(w.hook), "DELIVERY", ids.Format(w.delivery)).Replace(view)
}

// recordCalls records thirty calls of the agent's tool, among them a failed one, and two approvals.
func (w *consoleWorld) recordCalls(tx people.Tx) error {
	now := w.Clock.Now()
	for n := int64(1); n <= 30; n++ {
		at := now.Add(-time.Duration(31-n) * 11 * time.Hour)
		c := people.ToolCall{
			ID: ids.From(at) + n, At: at, Agent: w.agent, AgentName: "support " + hostile, Tool: w.tool, ToolName: "cancel-order", Revision: "2026-07-28",
			Caller: people.ToolCaller{Kind: people.CallerKey, ID: "7Gk2hPz0QwXe", User: n, Organization: 1, Address: "192.0.2.7"}, Decision: people.CallAllowed, Digest: strings.Repeat("5f0c6a2d9b7e4c1f", 4),
			CallResult: people.CallResult{Outcome: people.CallSucceeded, Status: 200, Latency: 48 * time.Millisecond, Upstream: 41 * time.Millisecond, BytesIn: 19, BytesOut: 23},
		}
		switch n {
		case 2:
			w.call = c.ID
			c.Outcome, c.Status, c.Code = people.CallFailed, 502, "upstream_status"
			c.Arguments = w.Keyring.Seal(people.SealedCallArguments, c.SealedFor(consoleTenant), []byte(`{"note":`+quoted(hostile)+`}`))
		case 28:
			c.Caller.User = 7306112409600000021
		case 29:
			c.Decision, c.CallResult = people.CallInvalid, people.CallResult{Code: "invalid_arguments", Latency: time.Millisecond}
		case 30:
			c.Outcome, c.Status, c.Code = people.CallTimeout, 0, "timeout"
		}
		if err := tx.Records().InsertToolCall(c); err != nil {
			return err
		}
	}
	for id, status := range []string{people.ApprovalPending, people.ApprovalDenied} {
		a := people.Approval{
			ID: int64(id) + 1, Agent: w.agent, AgentName: "support " + hostile, Tool: w.tool, ToolName: "cancel-order", Caller: people.ToolCaller{Kind: people.CallerKey, ID: "7Gk2hPz0QwXe", User: 7306112409600000021, Organization: 7306112409600000022},
			Key: fmt.Sprint("key ", id), Content: "of an earlier declaration", Digest: "d", Arguments: "sealed", Status: status, RequestedAt: now, EndsAt: now.Add(10 * time.Minute),
		}
		if status == people.ApprovalDenied {
			a.DecidedAt, a.DecidedBy = now, 7306112409600000021
		}
		if _, err := tx.Approvals().InsertApproval(a); err != nil {
			return err
		}
	}
	return nil
}

// populate creates thirty users and their activity, spread over about thirty days.
func (w *consoleWorld) populate(tx people.Tx) error {
	now := w.Clock.Now()
	for n := int64(1); n <= 30; n++ {
		at := now.Add(-time.Duration(n) * 23 * time.Hour)
		first, last := fmt.Sprintf("Person %d", n), "Example"
		if n == 1 {
			first, last = "Ada", hostile
		}
		err := tx.Users().InsertUser(people.User{ID: n, FirstName: first, LastName: last, CreatedAt: at, UpdatedAt: at},
			people.Email{ID: n, User: n, Address: fmt.Sprintf("person%d@example.com", n), Primary: true, CreatedAt: at, VerifiedAt: at})
		if err != nil {
			return err
		}
		for i, kind := range []string{people.EventSignUp, people.EventSignIn, people.EventSignIn} {
			event := people.Event{ID: n*10 + int64(i), Kind: kind, At: at.Add(time.Duration(i*int(n)) * time.Minute), User: n, Method: people.MethodPassword, Address: "192.0.2.7", UserAgent: hostile}
			if err := tx.Records().RecordEvent(event); err != nil {
				return err
			}
		}
		if err := tx.Records().RecordAudit(people.Audit{ID: n, At: at, Actor: "system", Action: "user.created", Object: fmt.Sprintf("user:%d", n), Address: "192.0.2.7"}); err != nil {
			return err
		}
	}
	for _, err := range []error{
		tx.Factors().InsertAuthenticator(people.Authenticator{ID: 1, User: 1, Name: "Phone " + hostile, Sealed: "sealed", Algorithm: "SHA1", Digits: 6, Period: 30 * time.Second, ConfirmedAt: now, CreatedAt: now}),
		tx.Factors().InsertAuthenticator(people.Authenticator{ID: 2, User: 5, Name: "Phone", Sealed: "sealed", Algorithm: "SHA1", Digits: 6, Period: 30 * time.Second, ConfirmedAt: now, CreatedAt: now}),
		tx.Factors().InsertPasskey(people.Passkey{ID: 3, User: 5, RelyingParty: "localhost", Credential: []byte("c"), Handle: []byte("h"), PublicKey: []byte("k"), AAGUID: make([]byte, 16), Name: "Laptop", CreatedAt: now}),
		tx.Factors().SetTwoStep(1, true), tx.Factors().SetTwoStep(5, true),
	} {
		if err != nil {
			return err
		}
	}
	for n := int64(1); n <= 3; n++ {
		o := people.Organization{ID: n, Name: fmt.Sprintf("Organization %d %s", n, hostile), Slug: fmt.Sprintf("organization-%d", n), CreatedAt: now.Add(-time.Duration(n) * time.Hour)}
		if err := tx.Organizations().InsertOrganization(o); err != nil {
			return err
		}
		if err := tx.Organizations().InsertMember(people.Member{ID: n, User: 1, Organization: o, Owner: true, CreatedAt: now}); err != nil {
			return err
		}
	}
	if err := errors.Join(w.recordCalls(tx), w.recordDeliveries(tx)); err != nil {
		return err
	}
	return w.grant(tx)
}

// grant creates a client that registered itself, and two users' grants: one to this client, one to another.
func (w *consoleWorld) grant(tx people.Tx) error {
	at, app := w.Clock.Now(), w.portal
	content := `{"name":"Agent","authentication":"None","grant_types":["AuthorizationCode"],"redirect_uris":["https://agent.example/callback"],"active":true}`
	if err := tx.OAuthClients().InsertOAuthClient(people.OAuthClient{App: app, Client: "77", Content: content, CreatedAt: at, UpdatedAt: at}); err != nil {
		return err
	}
	for id, g := range map[int64]people.Grant{1: {Client: "77", User: 2, Organization: 1}, 2: {Client: "78", User: 3}} {
		g.ID, g.App, g.Scopes, g.CreatedAt, g.UpdatedAt = id, app, []string{"orders:write"}, at, at
		if _, err := tx.OAuth().PutGrant(g, 500); err != nil {
			return err
		}
	}
	return nil
}

// ask sends a request with the admin's key to the backend, reads the response into into, and returns the status.
func (w *consoleWorld) ask(method, path, body string, into any) int {
	w.T.Helper()
	r, err := http.NewRequest(method, w.backend.URL+path, strings.NewReader(body))
	w.Must(err)
	r.Header.Set("Authorization", "Bearer "+w.admin)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	w.Must(err)
	defer func() { _ = answer.Body.Close() }()
	if into != nil {
		w.Must(json.NewDecoder(answer.Body).Decode(into))
	}
	return answer.StatusCode
}

// visitor is an HTTP client of the end-user listener, with cookies.
type visitor struct {
	w      *consoleWorld
	client *http.Client
}

func (w *consoleWorld) visitor() *visitor {
	jar, err := cookiejar.New(nil)
	w.Must(err)
	return &visitor{w: w, client: &http.Client{Jar: jar}}
}

// send calls the end-user API, and returns the user that is signed in afterwards, or "" if there is none.
func (v *visitor) send(method, path, body string) (status int, user string) {
	v.w.T.Helper()
	r, err := http.NewRequest(method, strings.Replace(v.w.frontend.URL, "127.0.0.1", "localhost", 1)+path, strings.NewReader(body))
	v.w.Must(err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := v.client.Do(r)
	v.w.Must(err)
	defer func() { _ = answer.Body.Close() }()
	var envelope struct {
		Session struct {
			ActiveSignIn *struct {
				UserID string `json:"user_id"`
			} `json:"active_signin"`
		}
	}
	v.w.Must(json.NewDecoder(answer.Body).Decode(&envelope))
	if envelope.Session.ActiveSignIn != nil {
		user = envelope.Session.ActiveSignIn.UserID
	}
	return answer.StatusCode, user
}
