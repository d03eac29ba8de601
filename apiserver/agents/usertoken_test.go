package agents_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	tokens "github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/client/guard"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
)

// atHost sends requests to a server under the host of the deployment.
type atHost struct{}

func (atHost) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host = "localhost"
	return http.DefaultTransport.RoundTrip(r)
}

func (w *peopleWorld) userTokens(audience string) *guard.Tokens {
	w.T.Helper()
	verifier, err := guard.NewUserTokens(guard.TokensOptions{
		Issuer: "https://localhost", Audiences: []string{audience}, KeysURL: w.Server.URL + "/.well-known/jwks.json", Clock: w.Clock.Now, HTTPClient: &http.Client{Transport: atHost{}},
	})
	w.Must(err)
	return verifier
}

func TestToolGetsTheUsersOwnToken(t *testing.T) {
	w := newPeopleWorld(t, func(a *document.AIAgent) { a.Tools = []string{"find-order", "mine"} })
	session := w.sessions()
	w.declareTool("mine", document.AITool{
		Name: "Mine", Method: "GET", Endpoint: w.up.URL + "/mine", Permissions: []string{"orders:read"}, Authorization: document.ToolAuthorization{AuthorizeAsUser: true},
	})
	const mine = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mine","_meta":{"sub":"1","user_id":"1"},"arguments":{}}}`
	verifier := w.userTokens(w.up.URL)
	agent := ids.Format(ids.Derive(v1alpha1.KindAIAgent, "acme", "support"))
	soon := w.Clock.Now().Add(20 * time.Second).Truncate(time.Second)
	for name, tc := range map[string]struct {
		credential, client, actor, organization string
		expires                                 time.Time
	}{
		"an OAuth token":                {w.token("orders:read"), w.family.Client, "client:" + w.family.Client, "50", w.Clock.Now().Add(time.Minute).Truncate(time.Second)},
		"an OAuth token that ends soon": {w.token("orders:read", func(c *tokens.AccessClaims) { c.Expiry = jwt.NewNumericDate(soon) }), w.family.Client, "client:" + w.family.Client, "50", soon},
		"a session token":               {session(agentURL, "orders:read"), "session", "session:12", "", w.Clock.Now().Add(time.Minute).Truncate(time.Second)},
	} {
		w.Eventually(name, func() bool {
			return strings.Contains(w.post("support", tc.credential, mine, "X-User-Id", "1").raw, `open`)
		})
		sent, _ := w.up.last()
		raw, found := strings.CutPrefix(sent.header.Get("Authorization"), "Bearer ")
		who, err := verifier.Verify(t.Context(), raw)
		if !found || err != nil {
			t.Fatalf("%s: the tool got %q: %v", name, sent.header.Get("Authorization"), err)
		}
		if who.UserID != "7" || who.ClientID != tc.client || who.OrganizationID != tc.organization || !who.Can("orders:read") || who.Can("orders:write") || !who.ExpiresAt.Equal(tc.expires) {
			t.Errorf("%s: the token is that of %+v", name, who)
		}
		if who.Actor == nil || who.Actor.Kind+":"+who.Actor.ID != "agent:"+agent || who.Actor.Actor == nil || who.Actor.Actor.Kind+":"+who.Actor.Actor.ID != tc.actor {
			t.Errorf("%s: the actor is %+v", name, who.Actor)
		}
		if _, err := w.userTokens("https://else.example").Verify(t.Context(), raw); err == nil {
			t.Errorf("%s: another audience accepts the token", name)
		}
		if a := w.post("support", raw, listing); a.status != 401 {
			t.Errorf("%s: the agent accepts the tool's token: %d", name, a.status)
		}
		if status, body := w.backendText(raw, "/ai/agents"); status != 401 {
			t.Errorf("%s: the backend API accepts the tool's token: %d %s", name, status, body)
		}
		w.answering(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "text/plain")
			_, _ = rw.Write([]byte("open: " + r.Header.Get("Authorization")))
		})
		if a := w.post("support", tc.credential, mine); strings.Contains(a.raw, "eyJ") || !strings.Contains(a.raw, "[redacted]") {
			t.Errorf("%s: the answer repeats the token: %s", name, a.raw)
		}
	}
}

func TestWithoutAUserNoTokenIsSent(t *testing.T) {
	w := newPeopleWorld(t, func(a *document.AIAgent) { a.Tools = []string{"find-order", "mine"} })
	w.sessions()
	w.declareTool("mine", document.AITool{Name: "Mine", Method: "GET", Endpoint: w.up.URL + "/mine", Authorization: document.ToolAuthorization{AuthorizeAsUser: true}})
	_, before := w.up.last()
	w.Eventually("the tool is declared", func() bool {
		return strings.Contains(w.post("support", w.key, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mine"}}`).raw, `"code":"user_required"`)
	})
	if _, after := w.up.last(); after != before {
		t.Error("the tool was called")
	}
	if list := names(w.post("support", w.key, listing)); len(list) != 1 || list[0] != "find-order" {
		t.Errorf("the list is %v", list)
	}
}

func TestTemplatesShapeTheTokensOfTools(t *testing.T) {
	w := newPeopleWorld(t, func(a *document.AIAgent) { a.Tools = []string{"find-order", "mine", "own", "broken", "lost"} })
	w.sessions()
	template := w.Put(v1alpha1.KindJWTTemplate, "orders", frontendtest.Deployment, "", document.JWTTemplate{
		Name: "Orders", LifetimeSeconds: 300, Audiences: []string{"urn:acme:orders"}, Claims: []document.TemplateClaim{
			{Name: "tenant", Value: json.RawMessage(`{"region":"eu"}`)}, {Name: "mail", Expression: `user == null ? "none" : user.email`},
			{Name: "org", Expression: `organization == null ? "none" : organization.slug`}, {Name: "sub", Value: json.RawMessage(`"1"`)}, {Name: "act", Value: json.RawMessage(`null`)},
		},
	})
	w.Put(v1alpha1.KindJWTTemplate, "broken", frontendtest.Deployment, "", document.JWTTemplate{
		Name: "Broken", LifetimeSeconds: 60, Claims: []document.TemplateClaim{{Name: "x", Expression: `user.nothing`}},
	})
	declare := func(name string, a document.ToolAuthorization) {
		w.declareTool(name, document.AITool{Name: name, Method: "POST", Endpoint: w.up.URL + "/" + name, Authorization: a})
	}
	declare("mine", document.ToolAuthorization{AuthorizeAsUser: true, JWTTemplateID: ids.Format(template)})
	declare("own", document.ToolAuthorization{JWTTemplate: "orders", JWTTemplateID: ids.Format(template)})
	declare("broken", document.ToolAuthorization{JWTTemplate: "broken"})
	declare("lost", document.ToolAuthorization{JWTTemplate: "nowhere"})
	user := w.token("orders:read")
	call := func(credential, name string) string {
		return w.post("support", credential, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`"}}`).raw
	}
	sent := func() (claims map[string]any) {
		request, _ := w.up.last()
		raw := strings.TrimPrefix(request.header.Get("Authorization"), "Bearer ")
		if _, err := w.userTokens("urn:acme:orders").Verify(t.Context(), raw); err != nil && claims["act"] != nil {
			t.Errorf("the token %s: %v", raw, err)
		}
		parsed, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.ES256})
		w.Must(err)
		w.Must(parsed.UnsafeClaimsWithoutVerification(&claims))
		return claims
	}
	w.Eventually("the templates are declared", func() bool {
		return strings.Contains(call(user, "mine"), `"open"`) && strings.Contains(call(user, "broken"), "not_configured")
	})
	if !strings.Contains(call(user, "mine"), `"open"`) {
		t.Fatal("the user's call failed")
	}
	claims := sent()
	if act, _ := claims["act"].(map[string]any); claims["sub"] != "7" || act == nil || claims["mail"] != "ada@example.com" || claims["org"] != "acme" || claims["aud"] != "urn:acme:orders" || claims["exp"].(float64)-claims["iat"].(float64) != 300 {
		t.Errorf("the user's token has %v", claims)
	}
	if !strings.Contains(call(w.key, "own"), `"open"`) {
		t.Fatal("the agent's call failed")
	}
	claims = sent()
	if subject, _ := claims["sub"].(string); !strings.HasPrefix(subject, "agent:") || claims["act"] != nil || claims["mail"] != "none" {
		t.Errorf("the agent's own token has %v", claims)
	}
	_, before := w.up.last()
	for _, name := range []string{"broken", "lost"} {
		if answer := call(user, name); !strings.Contains(answer, `"code":"not_configured"`) || strings.Contains(answer, "nothing\"") {
			t.Errorf("%s: %s", name, answer)
		}
	}
	if _, after := w.up.last(); after != before {
		t.Error("a call without its token was sent")
	}
}
