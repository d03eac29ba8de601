package enduser_test

import (
	"encoding/json"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
)

func TestSessionTokenForAnAgent(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		for name, agent := range map[string]document.AIAgent{
			"open": {Sessions: true, Active: true}, "closed": {Active: true}, "inactive": {Sessions: true},
		} {
			agent.Name, agent.URL = name, "https://auth.acme.example/mcp/"+name
			w.Put(v1alpha1.KindAIAgent, name, frontendtest.Deployment, "", agent)
		}
		w.sign()
		b := w.browser()
		b.signUp("ada@example.com")
		issue := func(resource string) (string, string) {
			body, err := json.Marshal(map[string]string{"resource": resource})
			w.Must(err)
			a := b.do("POST", "/session/token", string(body))
			token, _ := a.data()["token"].(string)
			return token, a.code()
		}
		token, code := "", ""
		w.Eventually("a token is issued for the agent", func() bool { token, code = issue("https://auth.acme.example/mcp/open"); return token != "" })
		parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
		w.Must(err)
		var claims jwt.Claims
		w.Must(parsed.UnsafeClaimsWithoutVerification(&claims))
		if len(claims.Audience) != 1 || claims.Audience[0] != "https://auth.acme.example/mcp/open" {
			t.Errorf("the audience is %v: %s", claims.Audience, code)
		}
		for _, resource := range []string{"https://auth.acme.example/mcp/closed", "https://auth.acme.example/mcp/inactive", "https://auth.acme.example/mcp/none", "https://evil.example/mcp/open", "", "open"} {
			if token, code := issue(resource); token != "" || code != "VALIDATION_ERROR" {
				t.Errorf("%q: %s", resource, code)
			}
		}
	})
}
