package agents_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/apiserver/users/approvals"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/schemafield"
	"github.com/cardea-iam/cardea/store/people"
)

// everyTool are the names that a caller tries: tools of each kind, tools that cannot be called, and no tool.
var everyTool = []string{"find-order", "change", "purge", "mine", "pay", "sign-off", "print", "ship", "draw-chart", "retired", "again", "sealed", "unsafe", "elsewhere", "none"}

// declareEveryTool declares tools of each kind, and an agent that names all of them.
func (w *peopleWorld) declareEveryTool() {
	w.T.Helper()
	number := []schemafield.Field{{Name: "number", FieldType: "STRING", Required: true}}
	declare := func(name string, change func(*document.AITool)) {
		tool := document.AITool{Name: name, Type: "api", Active: true, TimeoutSeconds: 10, Method: "POST", Endpoint: w.up.URL + "/" + name, RequestBodySchema: number}
		if change != nil {
			change(&tool)
		}
		w.Put(v1alpha1.KindAITool, name, frontendtest.Deployment, "", tool)
	}
	declare("change", func(t *document.AITool) { t.Permissions = []string{"orders:write"} })
	declare("purge", func(t *document.AITool) { t.Permissions = []string{"orders:purge"} })
	declare("mine", func(t *document.AITool) { t.Authorization.AuthorizeAsUser = true })
	declare("pay", func(t *document.AITool) { t.RequiresUserApproval = true })
	declare("sign-off", func(t *document.AITool) {
		t.RequiresUserApproval, t.Approval = true, &document.ToolApproval{Permission: "orders:write"}
	})
	declare("print", func(t *document.AITool) { t.Type = "function" })
	declare("ship", func(t *document.AITool) { t.Type = "webhook" })
	declare("draw-chart", func(t *document.AITool) { t.Type, t.Endpoint = "function", "" })
	declare("retired", func(t *document.AITool) { t.Active = false })
	declare("again", func(t *document.AITool) { t.ToolName = "find-order" })
	declare("sealed", func(t *document.AITool) { t.Headers = []document.ToolHeader{{Name: "X-Key", Secret: true}} })
	declare("unsafe", func(t *document.AITool) { t.Endpoint = "http://{number}/" })
	declare("elsewhere", nil)
	w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", document.AIAgent{
		Name: "Support", Active: true, URL: agentURL, OAuthApp: "portal", Sessions: true,
		Tools: slices.DeleteFunc(slices.Clone(everyTool), func(name string) bool { return name == "elsewhere" || name == "none" }),
	})
}

// tryAs calls a tool with a credential, and approves the call if it asks for that. It returns the last answer.
func (w *peopleWorld) tryAs(credential, tool string) answer {
	w.T.Helper()
	w.Clock.Advance(time.Millisecond)
	body := callBody(tool, `{"number":"7"}`)
	a := w.post("support", credential, body)
	code, approval, _ := failureOf(a)
	if code != "approval_required" {
		return a
	}
	id, err := ids.Parse(approval)
	w.Must(err)
	now := w.Clock.Now().UTC()
	w.Must(w.Store.Change(w.T.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		_, err := tx.Approvals().DecideApproval(id, people.ApprovalApproved, 7, now, now.Add(approvals.UsableFor))
		return err
	}))
	return w.post("support", credential, body)
}

// requestsOf returns the number of requests of a tool that the API got.
func (u *upstream) requestsOf(tool string) (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, one := range u.requests {
		if strings.HasPrefix(one.url, "/"+tool) || tool == "find-order" && strings.HasPrefix(one.url, "/orders/") {
			n++
		}
	}
	return n
}

// Every tool of a caller's list works for the caller, over both protocols. Every other tool is unknown, with the answer
// of a tool that does not exist, unless the call only lacks the user that the tool needs.
func TestEveryCallerCallsExactlyTheToolsOfItsList(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, engine string) {
		w := newPeopleWorldIn(t, newWorldOver(t, engine), nil)
		w.declareEveryTool()
		w.insertSession()
		f := &flowWorld{world: w.world}
		settings := f.declareSessionKey()
		settings.WebhookKeys = []document.SigningKey{w.webhookKey(nil)}
		issued, now := f.declaredIssuersToken(settings, agentURL), w.Clock.Now()
		session := w.signed(settings.SigningKeys[0], document.SealedSigningKey, "JWT", map[string]any{
			"iss": "https://localhost", "sub": "7", "aud": agentURL, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "sid": "12", "permissions": []string{"orders:read"},
		})
		needUser := []string{"mine", "pay", "sign-off"}
		for name, tc := range map[string]struct {
			credential       string
			listed, needUser []string
		}{
			"an API key":                      {w.key, []string{"find-order", "print", "ship"}, needUser},
			"an API key with all permissions": {w.declareKey("all", frontendtest.Deployment, "*"), []string{"find-order", "change", "purge", "print", "ship"}, needUser},
			"an API key of a user":            {w.declareKeyOf(7).Plain(), []string{"find-order", "change", "purge", "mine", "pay", "print", "ship"}, []string{"sign-off"}},
			"an access token":                 {w.token("orders:read orders.change"), []string{"find-order", "change", "mine", "pay", "sign-off", "print", "ship"}, nil},
			"a session token":                 {session, []string{"find-order", "mine", "pay", "print", "ship"}, []string{"sign-off"}},
			"a token of a declared issuer":    {issued, []string{"find-order", "print", "ship"}, needUser},
		} {
			w.Eventually("the credential is known", func() bool { return w.post("support", tc.credential, listing).status == 200 })
			if got := names(w.post("support", tc.credential, listing)); !slices.Equal(got, tc.listed) {
				t.Errorf("%s lists %v, want %v", name, got, tc.listed)
			}
			w.expectCallable(t, name, tc.credential, tc.listed, tc.needUser)
		}
	})
}

// expectCallable calls every tool with a credential over both protocols.
func (w *peopleWorld) expectCallable(t *testing.T, name, credential string, listed, needUser []string) {
	t.Helper()
	nonexistent := w.post("support", credential, callBody("none", `{}`))
	for _, tool := range everyTool {
		before := w.up.requestsOf(tool)
		a := w.tryAs(credential, tool)
		status, direct, raw := w.direct(credential, "support", tool, `{"arguments":{"number":"8"}}`)
		failed, _ := direct["error"].(map[string]any)
		sent := w.up.requestsOf(tool) - before
		switch {
		case slices.Contains(listed, tool):
			asks := map[bool]int{true: 1, false: 2}[tool == "pay" || tool == "sign-off"] // without MCP the call is asked about first
			if !strings.Contains(a.raw, `"open"`) || status != 200 || sent != asks || (direct["status"] != "completed") != (asks == 1) {
				t.Errorf("%s calls %s: %d %s; without MCP: %d %s; %d requests", name, tool, a.status, a.raw, status, raw, sent)
			}
		case slices.Contains(needUser, tool):
			if code, _, _ := failureOf(a); code != "user_required" || failed["code"] != "user_required" || sent != 0 {
				t.Errorf("%s calls %s, which needs a user: %s; without MCP: %d %s; %d requests", name, tool, a.raw, status, raw, sent)
			}
		default:
			if strings.Replace(a.raw, tool, "none", 1) != nonexistent.raw || a.status != http.StatusOK || !strings.Contains(a.raw, fmt.Sprintf("Unknown tool: %s\"", tool)) || status != 404 || sent != 0 {
				t.Errorf("%s calls %s, which is not in its list: %d %s; without MCP: %d %s; %d requests", name, tool, a.status, a.raw, status, raw, sent)
			}
		}
	}
}

// A tool in the list of an OAuth client whose token lacks a scope works as soon as the token has the scopes that the
// refusal names.
func TestListedToolWorksWithTheScopesOfTheChallenge(t *testing.T) {
	w := newFlowWorld(t, newWorld(t))
	ada := w.browser()
	ada.signUp("ada@example.com")
	client := w.register()
	token := w.tokenFor(ada, client, "orders:read")
	if list := names(w.post("support", token, listing)); !slices.Contains(list, "cancel-order") {
		t.Fatalf("the list is %v", list)
	}
	cancelling := callBody("cancel-order", `{"number":"7"}`)
	a := w.post("support", token, cancelling)
	status, _, raw := w.direct(token, "support", "cancel-order", `{"arguments":{"number":"7"}}`)
	challenge := a.header.Get("Www-Authenticate")
	_, rest, found := strings.Cut(challenge, `scope="`)
	scopes, _, _ := strings.Cut(rest, `"`)
	if a.status != 403 || status != 403 || !found || scopes != "orders:read orders:write" || !strings.Contains(challenge, `error="insufficient_scope"`) || w.up.sentTo("/cancellations") != 0 {
		t.Fatalf("without the scope: %d %s %s; without MCP: %d %s", a.status, challenge, a.raw, status, raw)
	}
	wider := w.tokenFor(ada, client, scopes)
	if a := w.post("support", wider, cancelling); !strings.Contains(a.raw, `"open"`) || w.up.sentTo("/cancellations") != 1 {
		t.Errorf("with the scopes of the challenge: %d %s", a.status, a.raw)
	}
	if a := w.post("support", wider, callBody("find-order", `{"number":"7"}`)); !strings.Contains(a.raw, `"open"`) {
		t.Errorf("the wider token lost a right: %d %s", a.status, a.raw)
	}
}
