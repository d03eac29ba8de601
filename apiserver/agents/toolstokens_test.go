package agents_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	tokens "github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

// frontendAnswer sends a request to the end-user listener as a page of the host does.
func (w *world) frontendAnswer(method, path, mediaType, body string, header ...string) (status int, text string) {
	w.T.Helper()
	r, err := http.NewRequestWithContext(w.T.Context(), method, w.Server.URL+path, strings.NewReader(body))
	w.Must(err)
	r.Host = "localhost"
	if mediaType != "" {
		r.Header.Set("Content-Type", mediaType)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	w.Must(err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	w.Must(err)
	return resp.StatusCode, string(raw)
}

// expectUseless checks that no listener accepts a token.
func (w *peopleWorld) expectUseless(what, token, introspector string) {
	w.T.Helper()
	for _, agent := range []string{"support", "other"} {
		if a := w.post(agent, token, listing); a.status != 401 {
			w.T.Errorf("%s at the agent %s: %d", what, agent, a.status)
		}
		if a := w.directAnswer(token, "acme", agent, "find-order", findingOrder); a.Code != 401 {
			w.T.Errorf("%s at the agent %s without MCP: %d", what, agent, a.Code)
		}
	}
	for _, kind := range []string{"session_token", "oauth_access_token", "api_key"} {
		r := httptest.NewRequest("POST", "/v1/authz/check", strings.NewReader(fmt.Sprintf(`{"principal":{"type":%q,"value":%q},"method":"GET","resource":"/"}`, kind, token)))
		r.Header.Set("Content-Type", "application/json")
		recorder := httptest.NewRecorder()
		w.Decision.ServeHTTP(recorder, r)
		if recorder.Code == 200 && strings.Contains(recorder.Body.String(), `"allowed":true`) || recorder.Code != 200 && recorder.Code != 401 {
			w.T.Errorf("%s as %s of a decision: %d %s", what, kind, recorder.Code, recorder.Body)
		}
	}
	form := url.Values{"token": {token}}.Encode()
	if status, text := w.frontendAnswer("POST", "/oauth/portal/introspect", "application/x-www-form-urlencoded", form, "Authorization", "Bearer "+introspector); status != 200 || strings.TrimSpace(text) != `{"active":false}` {
		w.T.Errorf("%s introspected: %d %s", what, status, text)
	}
	for _, path := range []string{"/oauth/portal/userinfo", "/me", "/me/tool-approvals", "/me/signins", "/tool-results/1"} {
		method := "GET"
		if path == "/tool-results/1" {
			method = "POST"
		}
		for _, header := range [][]string{{"Authorization", "Bearer " + token}, {"Cookie", "__session=" + token}} {
			if status, text := w.frontendAnswer(method, path, "", "", header...); status != 401 {
				w.T.Errorf("%s at %s as %s: %d %s", what, path, header[0], status, text)
			}
		}
	}
}

// expectNoBackendPath checks that no documented operation of the backend listener accepts a token.
func (w *peopleWorld) expectNoBackendPath(token string) {
	w.T.Helper()
	documented, err := openapi.Load()
	w.Must(err)
	parameters, tried := regexp.MustCompile(`\{\w+\}`), 0
	agent := ids.Format(ids.Derive(v1alpha1.KindAIAgent, "acme", "support"))
	for pattern := range documented.Routes() {
		method, path, _ := strings.Cut(pattern, " ")
		tried++
		if a := w.backendAnswer(method, parameters.ReplaceAllString(strings.Replace(path, "{agent_id}", agent, 1), "1"), token, "{}"); a.Code != 401 {
			w.T.Errorf("%s: %d %s", pattern, a.Code, a.Body)
		}
	}
	if tried < 50 {
		w.T.Errorf("%d operations", tried)
	}
}

// The audiences of a tool's token may be those of our own listeners: tokens differ in type and issuer.
func TestNoOwnListenerAcceptsAToolsToken(t *testing.T) {
	audiences := map[string]string{
		"its-own": "", "resource": "https://api.acme.example", "agent": agentURL, "app": "http://localhost/oauth/portal", "host": "https://localhost",
	}
	var tools []string
	for name := range audiences {
		tools = append(tools, name)
	}
	w := newPeopleWorld(t, func(a *document.AIAgent) { a.Tools = tools })
	w.sessionToken()
	w.Put(v1alpha1.KindAIAgent, "other", frontendtest.Deployment, "", document.AIAgent{Name: "Other", Active: true, URL: "http://localhost/mcp/other", OAuthApp: "portal", Sessions: true})
	introspector := w.declareKey("introspector", frontendtest.Deployment, "oauth_clients:read")
	for name, audience := range audiences {
		authorization := document.ToolAuthorization{AuthorizeAsUser: true, Audience: audience}
		if name != "its-own" && name != "resource" { // a tool may not name these itself
			template := w.Put(v1alpha1.KindJWTTemplate, name, frontendtest.Deployment, "", document.JWTTemplate{Name: name, LifetimeSeconds: 60, Audiences: []string{audience}})
			authorization = document.ToolAuthorization{AuthorizeAsUser: true, JWTTemplateID: ids.Format(template)}
		}
		w.declareTool(name, document.AITool{
			Name: name, Method: "GET", Endpoint: w.up.URL + "/mine", Permissions: []string{"orders:read"}, Authorization: authorization,
		})
		if a := w.post("support", w.token("orders:read"), callBody(name, `{}`)); !strings.Contains(a.raw, `"open"`) {
			t.Fatalf("%s: %s", name, a.raw)
		}
		request, _ := w.up.last()
		token := strings.TrimPrefix(request.header.Get("Authorization"), "Bearer ")
		expected := audience
		if audience == "" {
			expected = w.up.URL
		}
		if _, err := w.userTokens(expected).Verify(t.Context(), token); err != nil {
			t.Fatalf("the token for %s: %v", expected, err)
		}
		w.expectUseless("a token for "+expected, token, introspector)
		if name == "agent" {
			w.expectNoBackendPath(token)
		}
	}
}

func TestToolsTokenOfAUsersKeyNamesTheKey(t *testing.T) {
	w := newPeopleWorld(t, func(a *document.AIAgent) { a.Tools = []string{"mine"} })
	w.sessionToken()
	w.declareTool("mine", document.AITool{Name: "Mine", Method: "GET", Endpoint: w.up.URL + "/mine", Authorization: document.ToolAuthorization{AuthorizeAsUser: true}})
	key := w.declareKeyOf(7)
	if a := w.post("support", key.Plain(), callBody("mine", `{}`)); !strings.Contains(a.raw, `"open"`) {
		t.Fatalf("the call: %s", a.raw)
	}
	request, _ := w.up.last()
	claims := w.claimsOf(request)
	act, err := json.Marshal(claims["act"])
	w.Must(err)
	agent := "agent:" + ids.Format(ids.Derive(v1alpha1.KindAIAgent, "acme", "support"))
	if want := fmt.Sprintf(`{"act":{"sub":"key:%s"},"sub":%q}`, key.ID(), agent); string(act) != want || claims["sub"] != "7" || claims["client_id"] != "key:"+key.ID() || claims["aud"] != w.up.URL {
		t.Errorf("the token has %v, want act %s", claims, want)
	}
	if claims["exp"].(float64)-claims["iat"].(float64) != 60 {
		t.Errorf("the token is valid from %v to %v", claims["iat"], claims["exp"])
	}
	token, verifier := strings.TrimPrefix(request.header.Get("Authorization"), "Bearer "), w.userTokens(w.up.URL)
	w.Clock.Advance(59 * time.Second)
	if _, err := verifier.Verify(t.Context(), token); err != nil {
		t.Errorf("within its minute: %v", err)
	}
	w.Clock.Advance(2 * time.Minute) // beyond the verifier's leeway
	if _, err := verifier.Verify(t.Context(), token); err == nil {
		t.Error("the token is valid after its minute")
	}
}

// userlessCallers returns credentials without a user: for MCP, and for the backend listener.
func (w *peopleWorld) userlessCallers() map[string][2]string {
	w.T.Helper()
	key := w.OAuthKey(jose.ES256)
	settings := w.Settings()
	settings.SigningKeys, settings.WebhookKeys = w.signingKeys, []document.SigningKey{w.webhookKey(nil)}
	settings.JWTIssuers = []document.JWTIssuer{{
		Name: "ci", Issuer: "https://ci.example", Audiences: []string{agentURL, "https://tools.example"}, Algorithms: []string{"ES256"}, PermissionsClaim: "permissions",
		JWKS: json.RawMessage(`{"keys":[` + string(key.Public) + `]}`),
	}}
	w.Declare(settings)
	now := w.Clock.Now()
	declared := w.signed(key, document.SealedOAuthKey, "JWT", map[string]any{
		"iss": "https://ci.example", "sub": "7", "aud": []string{agentURL, "https://tools.example"}, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "permissions": []string{"ai_agents:call"},
	})
	machine := ids.Format(w.Put(v1alpha1.KindOAuthClient, "machine", frontendtest.Deployment, "", document.OAuthClient{
		App: "portal", Name: "Machine", Active: true, Authentication: "ClientSecretBasic", GrantTypes: []string{"ClientCredentials"},
	}))
	own := w.token("orders:read", func(c *tokens.AccessClaims) { c.Authorization, c.Subject, c.ClientID = "", machine, machine })
	return map[string][2]string{"a key": {w.key, w.key}, "a client's own token": {own, own}, "a declared issuer's token": {declared, declared}}
}

func TestCallersWithoutAUserGetNoUsersToken(t *testing.T) {
	asUser := document.ToolAuthorization{AuthorizeAsUser: true}
	tools := []string{"read", "write", "templated", "function", "webhook"}
	w := newPeopleWorld(t, func(a *document.AIAgent) { a.Tools = append([]string{"find-order"}, tools...) })
	w.sessionToken()
	template := w.Put(v1alpha1.KindJWTTemplate, "orders", frontendtest.Deployment, "", document.JWTTemplate{Name: "Orders", LifetimeSeconds: 60})
	templated := document.ToolAuthorization{AuthorizeAsUser: true, JWTTemplateID: ids.Format(template)}
	for name, tool := range map[string]document.AITool{
		"read": {Method: "GET", Authorization: asUser}, "write": {Method: "POST", Authorization: asUser}, "templated": {Method: "POST", Authorization: templated},
		"function": {Type: "function", Method: "POST", Authorization: asUser}, "webhook": {Type: "webhook", Method: "POST", Authorization: asUser},
	} {
		tool.Name, tool.Endpoint, tool.RequestBodySchema = name, w.up.URL+"/"+name, nil
		if tool.Method == "POST" {
			tool.RequestBodySchema = []schemafield.Field{{Name: "sub", FieldType: "STRING"}}
		}
		w.declareTool(name, tool)
	}
	for kind, credential := range w.userlessCallers() {
		if list := names(w.post("support", credential[0], listing)); len(list) != 1 || list[0] != "find-order" {
			t.Errorf("%s lists %v", kind, list)
		}
		_, before := w.up.last()
		for _, tool := range tools {
			arguments := `{}`
			if tool != "read" {
				arguments = `{"sub":"7"}`
			}
			if a := w.post("support", credential[0], callBody(tool, arguments), "X-User-Id", "7"); !strings.Contains(a.raw, `"code":"user_required"`) || !strings.Contains(a.raw, `"isError":true`) {
				t.Errorf("%s, %s: %d %s", kind, tool, a.status, a.raw)
			}
			if a := w.directWith(credential[1], tool, `{"arguments":`+arguments+`}`, "X-User-Id", "7"); a.Code != 200 || !strings.Contains(a.Body.String(), `"code":"user_required"`) {
				t.Errorf("%s, %s without MCP: %d %s", kind, tool, a.Code, a.Body)
			}
		}
		if _, after := w.up.last(); after != before {
			t.Errorf("%s: %d calls were sent", kind, after-before)
		}
		if a := w.post("support", credential[0], calling); !strings.Contains(a.raw, `"open"`) {
			t.Errorf("%s, a tool that needs no user: %d %s", kind, a.status, a.raw)
		}
		if request, _ := w.up.last(); request.header.Get("Authorization") != "" {
			t.Errorf("%s: a tool that needs no token got one", kind)
		}
	}
}
