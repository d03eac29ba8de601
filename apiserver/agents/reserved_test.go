package agents_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
)

// reservedClaims are the claims of a token that no template sets.
var reservedClaims = []string{"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "act", "client_id", "typ", "scope", "org_id", "workspace_id"}

// tokenOfLastCall returns the header and the claims of the token that the tool got.
func (w *world) tokenOfLastCall() (header jose.Header, claims map[string]any) {
	w.T.Helper()
	request, _ := w.up.last()
	parsed, err := jwt.ParseSigned(strings.TrimPrefix(request.header.Get("Authorization"), "Bearer "), []jose.SignatureAlgorithm{jose.ES256})
	w.Must(err)
	w.Must(parsed.UnsafeClaimsWithoutVerification(&claims))
	return parsed.Headers[0], claims
}

// The API server refuses templates that set reserved claims. A stored template that does so anyway sets none of them:
// each claim has the value of a token without a template, or is absent.
func TestTemplatesSetNoReservedClaim(t *testing.T) {
	w := newPeopleWorld(t, func(a *document.AIAgent) { a.Tools = []string{"plain", "templated", "computed", "own"} })
	w.sessions()
	var values, expressions []document.TemplateClaim
	for _, name := range reservedClaims {
		forged := map[bool]string{true: "4102444800", false: `"forged-` + name + `"`}[slices.Contains([]string{"exp", "nbf", "iat"}, name)]
		values = append(values, document.TemplateClaim{Name: name, Value: json.RawMessage(forged)})
		expressions = append(expressions, document.TemplateClaim{Name: name, Expression: forged})
	}
	free := document.TemplateClaim{Name: "tier", Value: json.RawMessage(`"gold"`)}
	for name, claims := range map[string][]document.TemplateClaim{"values": values, "expressions": expressions} {
		w.Put(v1alpha1.KindJWTTemplate, name, frontendtest.Deployment, "", document.JWTTemplate{Name: name, LifetimeSeconds: 60, Claims: append(claims, free)})
	}
	declare := func(name string, a document.ToolAuthorization) {
		a.Audience = "https://api.acme.example"
		w.declareTool(name, document.AITool{Name: name, Method: "POST", Endpoint: w.up.URL + "/" + name, Permissions: []string{"orders:read"}, Authorization: a})
	}
	declare("plain", document.ToolAuthorization{AuthorizeAsUser: true})
	declare("templated", document.ToolAuthorization{AuthorizeAsUser: true, JWTTemplate: "values"})
	declare("computed", document.ToolAuthorization{AuthorizeAsUser: true, JWTTemplateID: ids.Format(ids.Derive(v1alpha1.KindJWTTemplate, "acme", "expressions"))})
	declare("own", document.ToolAuthorization{JWTTemplate: "values"})
	token := w.token("orders:read")
	w.Eventually("the tools are listed", func() bool { return len(names(w.post("support", token, listing))) == 4 })
	call := func(credential, tool string) map[string]any {
		if a := w.post("support", credential, callBody(tool, `{}`)); !strings.Contains(a.raw, `"open"`) {
			t.Fatalf("%s: %s", tool, a.raw)
		}
		header, claims := w.tokenOfLastCall()
		if header.Algorithm != "ES256" || header.ExtraHeaders["typ"] != "at+jwt" {
			t.Errorf("%s: the header of the token is %+v", tool, header)
		}
		if request, _ := w.up.last(); claims["jti"] != request.header.Get("Cardea-Call-Id") {
			t.Errorf("%s: the token has the id %v", tool, claims["jti"])
		}
		return claims
	}
	plain := call(token, "plain")
	for _, tool := range []string{"templated", "computed"} {
		claims := call(token, tool)
		if claims["tier"] != "gold" {
			t.Errorf("%s: the template is not used: %v", tool, claims)
		}
		for _, name := range reservedClaims {
			if name != "jti" && fmt.Sprint(claims[name]) != fmt.Sprint(plain[name]) {
				t.Errorf("%s: the claim %s is %v, without a template %v", tool, name, claims[name], plain[name])
			}
		}
		for _, absent := range []string{"nbf", "typ", "workspace_id"} {
			if _, has := claims[absent]; has {
				t.Errorf("%s: the token has the claim %s", tool, absent)
			}
		}
	}
	own := call(w.declareKey("reader", frontendtest.Deployment, "ai_agents:call", "orders:read"), "own")
	if subject, _ := own["sub"].(string); !strings.HasPrefix(subject, "agent:") || own["act"] != nil || own["org_id"] != nil || own["nbf"] != nil || own["typ"] != nil || strings.Contains(fmt.Sprint(own), "forged") {
		t.Errorf("the agent's own token has %v", own)
	}
}
