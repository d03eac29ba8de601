package agents_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
)

func TestBackendReturnsTheMCPEndpointOfAnAgent(t *testing.T) {
	w := newPeopleWorld(t, func(a *document.AIAgent) { a.Permissions = []string{"orders:read"} })
	reader := w.declareKey("reader", frontendtest.Deployment, "ai_agents:read")
	id := func(agent string) string { return ids.Format(ids.Derive(v1alpha1.KindAIAgent, "acme", agent)) }
	endpoint := func(key, agent string) (int, string) {
		a := w.backendAnswer("GET", "/ai/agents/"+agent+"/mcp", key, "")
		return a.Code, strings.TrimSpace(a.Body.String())
	}
	status, body := endpoint(reader, id("support"))
	for _, want := range []string{
		`{"id":"` + id("support") + `","name":"support",`, `"url":"http://localhost/mcp/support"`, `"is_active":true`, `"permissions":["orders:read"],"sessions":true,`,
		`"oauth":{"issuer":"http://localhost/oauth/portal","metadata_url":"http://localhost/.well-known/oauth-protected-resource/mcp/support","scopes":["orders:read"]}`,
	} {
		if status != 200 || !strings.Contains(body, want) {
			t.Errorf("%d %s, want %s", status, body, want)
		}
	}
	var metadata, stated struct {
		Resource             string
		URL                  string
		AuthorizationServers []string `json:"authorization_servers"`
		OAuth                struct{ Issuer string }
	}
	w.Must(json.NewDecoder(w.metadata().Body).Decode(&metadata))
	w.Must(json.Unmarshal([]byte(body), &stated))
	if metadata.Resource != stated.URL || metadata.AuthorizationServers[0] != stated.OAuth.Issuer {
		t.Errorf("the metadata is %+v, and the endpoint %+v", metadata, stated)
	}
	for name, tc := range map[string]struct {
		key, agent string
		status     int
	}{
		"an unknown agent":            {reader, "12", http.StatusNotFound},
		"an agent of another tenant":  {w.foreignKey("ai_agents:read"), id("support"), http.StatusNotFound},
		"a key without permission":    {w.key, id("support"), http.StatusForbidden},
		"the token of an agent's use": {w.token("orders:read"), id("support"), http.StatusUnauthorized},
	} {
		if status, body := endpoint(tc.key, tc.agent); status != tc.status {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

func TestAgentWithoutAFrontendHostHasNoMCPEndpoint(t *testing.T) {
	w := newWorld(t)
	reader := w.declareKey("reader", frontendtest.Deployment, "*")
	w.Put(v1alpha1.KindAIAgent, "idle", frontendtest.Deployment, "", document.AIAgent{Name: "Idle", OAuthApp: "portal", Sessions: true, Tools: []string{"find-order"}})
	id := ids.Format(ids.Derive(v1alpha1.KindAIAgent, "acme", "idle"))
	a := w.backendAnswer("GET", "/ai/agents/"+id+"/mcp", reader, "")
	for _, want := range []string{`{"id":"` + id + `","name":"idle"`, `"url":null`, `"is_active":false`, `"sessions":false,"oauth":null`} {
		if !strings.Contains(a.Body.String(), want) {
			t.Errorf("%d %s, want %s", a.Code, a.Body, want)
		}
	}
}
