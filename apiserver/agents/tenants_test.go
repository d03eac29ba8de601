package agents_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// otherTenant is another deployment of the same server, with an agent, a tool, a key with all permissions, and a
// signed-in user. It has the names of the first deployment's resources where it can.
type otherTenant struct {
	*approvalWorld
	deployment, host, key string
	agent                 string // its resource name
	browser               *browser
}

// newTenant declares a deployment and signs a user up there. Its agent also names the tools of the first deployment.
func (w *approvalWorld) newTenant(deployment, agent string) *otherTenant {
	w.T.Helper()
	_, name, _ := strings.Cut(deployment, "/")
	o := &otherTenant{approvalWorld: w, deployment: deployment, host: name + ".localhost", agent: agent}
	settings := w.Settings()
	settings.FrontendHosts, settings.SMS = []string{o.host}, nil
	w.Put(v1alpha1.KindIdentityDeployment, name, deployment, name, settings)
	o.key = w.declareKey("key-"+name, deployment, "*")
	w.Put(v1alpha1.KindAITool, "own-"+name, deployment, "", document.AITool{Name: "Own", Type: "api", Active: true, Method: "GET", Endpoint: w.up.URL + "/own", TimeoutSeconds: 5})
	w.Put(v1alpha1.KindAIAgent, agent, deployment, "", document.AIAgent{
		Name: "Theirs", Active: true, Tools: []string{"own-" + name, "find-order", "pay"}, URL: "http://" + o.host + "/mcp/" + agent, Sessions: true, OAuthApp: "portal",
	})
	jar, err := cookiejar.New(nil)
	w.Must(err)
	address := w.Server.Listener.Addr().String()
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	w.T.Cleanup(transport.CloseIdleConnections)
	o.browser = &browser{&flowWorld{w.world, "http://" + o.host}, &http.Client{
		Jar: jar, Timeout: time.Minute, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	o.browser.signUp("eve@" + name + ".example")
	return o
}

func (o *otherTenant) id(kind, name string) string {
	namespace, _, _ := strings.Cut(o.deployment, "/")
	return ids.Format(ids.Derive(kind, namespace, name))
}

// missingID is an id that no object has.
const missingID = "4611686018427387905"

// anyID finds ids and other random characters of a page.
var anyID = regexp.MustCompile(`[0-9A-Za-z_-]{12,}`)

// without returns a body without the id of its request, and without an id that the request named.
func without(body, id string) string {
	return strings.ReplaceAll(requestID.ReplaceAllString(body, ""), id, "")
}

// The ids of a deployment's agents, tools, calls and approvals are unknown to every other deployment, also to one in
// the same namespace. The answer is that to an id that does not exist.
func TestIDsOfAnotherDeploymentAreUnknown(t *testing.T) {
	w := newApprovalWorld(t, nil)
	w.declareAgent("desk", "find-order")
	approval := w.asks(w.token, 500)
	w.call("find-order", `{"number":"1"}`)
	var call string
	for _, one := range w.recorded(2) {
		if one.ToolName == "find-order" {
			call = ids.Format(one.ID)
		}
	}
	agent, tool := ids.Format(ids.Derive(v1alpha1.KindAIAgent, "acme", "support")), ids.Format(ids.Derive(v1alpha1.KindAITool, "acme", "find-order"))
	_, sent := w.up.last()
	for _, o := range []*otherTenant{w.newTenant("rival/rival", "support"), w.newTenant("acme/second", "theirs")} {
		w.Eventually("the other deployment's agent is served", func() bool { return w.post(o.agent, o.key, listing, "Host", o.host).status == 200 })
		o.expectUnknownOnBackend(t, agent, tool, call)
		o.expectUnknownAgents(t, tool)
		o.expectUnknownApproval(t, approval)
	}
	if _, now := w.up.last(); now != sent {
		t.Errorf("%d calls of tools of another deployment were sent", now-sent)
	}
	w.Must(w.Store.View(t.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		a, found, err := tx.Approvals().Approval(approval)
		if !found || a.Status != people.ApprovalPending {
			t.Errorf("the approval is %+v", a)
		}
		return err
	}))
}

// expectUnknownOnBackend tries ids of the first deployment in the backend API.
func (o *otherTenant) expectUnknownOnBackend(t *testing.T, agent, tool, call string) {
	t.Helper()
	const period = "?from=2000-01-01T00:00:00Z&to=2002-01-01T00:00:00Z"
	own := o.id(v1alpha1.KindAIAgent, o.agent)
	for _, tc := range []struct{ method, path, id string }{
		{"GET", "/ai/agents/%s/mcp", agent}, {"GET", "/ai/agents/%s/tools", agent}, {"GET", "/ai/agents/%s/tool-definitions", agent},
		{"GET", "/ai/agents/%s/tool-definitions?format=anthropic", agent}, {"GET", "/ai/agents/%s/analytics" + period, agent}, {"POST", "/ai/agents/%s/tools/find-order/call", agent},
		{"POST", "/ai/agents/%s/tools/pay/call", agent}, {"POST", "/ai/agents/%s/tools/" + tool + "/call", agent}, {"POST", "/ai/agents/" + own + "/tools/%s/call", tool},
		{"GET", "/ai/tools/%s", tool}, {"GET", "/ai/tool-calls/%s", call},
	} {
		foreign := o.backendAnswer(tc.method, fmt.Sprintf(tc.path, tc.id), o.key, map[string]string{"POST": `{"arguments":{"number":"7"}}`}[tc.method])
		missing := o.backendAnswer(tc.method, fmt.Sprintf(tc.path, missingID), o.key, map[string]string{"POST": `{"arguments":{"number":"7"}}`}[tc.method])
		if foreign.Code != http.StatusNotFound || without(foreign.Body.String(), tc.id) != without(missing.Body.String(), missingID) {
			t.Errorf("%s %s of another deployment: %d %s, of none: %s", tc.method, tc.path, foreign.Code, foreign.Body, missing.Body)
		}
	}
	for _, path := range []string{
		"/ai/tool-calls", "/ai/tool-calls?agent_id=" + agent, "/ai/tool-calls?tool_id=" + tool, "/ai/tool-calls?user_id=7", "/ai/tool-approvals", "/ai/tool-approvals?agent_id=" + agent,
		"/ai/tool-approvals?user_id=7", "/ai/tool-approvals?status=pending",
	} {
		if a := o.backendAnswer("GET", path, o.key, ""); a.Code != http.StatusOK || !strings.Contains(a.Body.String(), `"data":[]`) {
			t.Errorf("%s: %d %s", path, a.Code, a.Body)
		}
	}
	for _, path := range []string{"/ai/agents?limit=100", "/ai/tools?limit=100", "/ai/mcp-servers?limit=100"} {
		if a := o.backendAnswer("GET", path, o.key, ""); a.Code != http.StatusOK || strings.Contains(a.Body.String(), `"`+agent+`"`) || strings.Contains(a.Body.String(), `"`+tool+`"`) {
			t.Errorf("%s: %d %s", path, a.Code, a.Body)
		}
	}
}

// expectUnknownAgents tries agents and tools of the first deployment at MCP endpoints.
func (o *otherTenant) expectUnknownAgents(t *testing.T, tool string) {
	t.Helper()
	if a := o.post("desk", o.key, listing, "Host", o.host); a.status != http.StatusNotFound {
		t.Errorf("the agent of another deployment at this host: %d %s", a.status, a.raw)
	}
	if a := o.post(o.agent, o.approvalWorld.key, listing, "Host", o.host); a.status != http.StatusUnauthorized {
		t.Errorf("the key of another deployment: %d %s", a.status, a.raw)
	}
	if a := o.post("desk", o.key, listing); a.status != http.StatusUnauthorized {
		t.Errorf("this key at another deployment: %d %s", a.status, a.raw)
	}
	_, name, _ := strings.Cut(o.deployment, "/")
	if list := names(o.post(o.agent, o.key, listing, "Host", o.host)); len(list) != 1 || list[0] != "own-"+name {
		t.Errorf("the agent lists %v", list)
	}
	for _, one := range []string{"find-order", "pay", tool} {
		if a := o.post(o.agent, o.key, callBody(one, `{"number":"7"}`), "Host", o.host); !strings.Contains(a.raw, "Unknown tool: "+one) {
			t.Errorf("the tool %s of another deployment: %s", one, a.raw)
		}
	}
}

// expectUnknownApproval tries an approval of the first deployment with the session of a user of this one.
func (o *otherTenant) expectUnknownApproval(t *testing.T, approval int64) {
	t.Helper()
	var digest string
	o.Must(o.Store.View(t.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		a, _, err := tx.Approvals().Approval(approval)
		digest = a.Digest
		return err
	}))
	base := "http://" + o.host
	for _, tc := range []struct{ method, path, body string }{
		{"GET", "/me/tool-approvals/%s", ""}, {"POST", "/me/tool-approvals/%s/approve", `{"arguments_digest":"` + digest + `"}`}, {"POST", "/me/tool-approvals/%s/deny", `{}`},
	} {
		status, _, foreign := o.browser.send(tc.method, base+fmt.Sprintf(tc.path, ids.Format(approval)), "application/json", tc.body)
		missing, _, unknown := o.browser.send(tc.method, base+fmt.Sprintf(tc.path, missingID), "application/json", tc.body)
		if status != http.StatusNotFound || missing != status || !strings.Contains(foreign, "APPROVAL_NOT_FOUND") || without(foreign, ids.Format(approval)) != without(unknown, missingID) {
			t.Errorf("%s %s: %d %s, of none: %s", tc.method, tc.path, status, foreign, unknown)
		}
	}
	if status, _, raw := o.browser.send("GET", base+"/me/tool-approvals", "application/json", ""); status != http.StatusOK || !strings.Contains(raw, `"data":[]`) {
		t.Errorf("the list of approvals: %d %s", status, raw)
	}
	// Requests and approvals have ids of digits: one may contain the amount.
	if status, _, raw := o.browser.send("GET", base+"/approvals/"+ids.Format(approval), "", ""); status != http.StatusNotFound || strings.Contains(anyID.ReplaceAllString(raw, ""), "500") {
		t.Errorf("the page of the approval: %d %s", status, raw)
	}
}
