package claimtemplate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
)

func declared(expressions ...string) document.JWTTemplate {
	t := document.JWTTemplate{}
	for _, expression := range expressions {
		t.Claims = append(t.Claims, document.TemplateClaim{Name: "x", Expression: expression})
	}
	return t
}

func TestExpressionsYieldJSON(t *testing.T) {
	in := Input{
		User: map[string]any{"id": "7", "email": "ada@acme.example", "email_verified": true}, Permissions: []string{"orders:read"},
		Agent: map[string]any{"id": "1", "name": "support"}, Tool: map[string]any{"id": "2", "name": "find"}, Call: map[string]any{"id": "3"},
	}
	for expression, want := range map[string]string{
		`user.id`: `"7"`, `user.email.split("@")`: "calls split()", `user.email_verified`: `true`, `organization == null ? "none" : organization.slug`: `"none"`,
		`{"roles": permissions, "n": 1}`: `{"n":1,"roles":["orders:read"]}`, `agent.name + "/" + tool.name + "/" + call.id`: `"support/find/3"`,
		`user.nothing`: "no such key", `int(user.email)`: "claim x: fails: a function refuses its argument", `timestamp(user.email)`: "a function refuses", `{"a": 1}[user.email]`: "no such key",
		`workspace.id`: "no such", `1`: `1`, `duration("1s")`: `"1s"`, `type(1)`: "no JSON",
		`lists.range(1000).map(i, "0123456789")`: "at most 4096", `lists.range(1001)`: "", `request.path`: "undeclared reference", `user.`: "does not compile",
	} {
		compiled, err := Compile(declared(expression))
		var claims map[string]json.RawMessage
		if err == nil {
			claims, err = compiled.Claims(in)
		}
		var got string
		if err != nil {
			if got = err.Error(); strings.Contains(got, "ada@") {
				t.Errorf("%s: the error quotes the input: %s", expression, got)
			}
		} else {
			var value any
			_ = json.Unmarshal(claims["x"], &value)
			raw, _ := json.Marshal(value)
			got = string(raw)
		}
		if !strings.Contains(got, want) || err == nil && got != want && want != "" {
			t.Errorf("%s: %s, want %s", expression, got, want)
		}
	}
}

func TestAudiencesOfCardeaAreRefused(t *testing.T) {
	for audience, accepted := range map[string]bool{
		"https://api.acme.example": true, "urn:acme:orders": true, "cardea:acme:acme": false, "CARDEA:acme:acme": false, "api.acme.example": false, "https://%": false,
	} {
		if _, err := Compile(document.JWTTemplate{Audiences: []string{"urn:acme", audience}}); (err == nil) != accepted || err != nil && !strings.Contains(err.Error(), "audiences[1]") {
			t.Errorf("%s: %v", audience, err)
		}
	}
}

func TestTemplatesThatAreRefused(t *testing.T) {
	value := json.RawMessage(`1`)
	for name, claim := range map[string]document.TemplateClaim{
		"neither": {Name: "x"}, "both": {Name: "x", Value: value, Expression: "1"}, "large": {Name: "x", Value: json.RawMessage(`"` + strings.Repeat("x", 4095) + `"`)},
	} {
		if _, err := Compile(document.JWTTemplate{Claims: []document.TemplateClaim{{Name: "a", Value: value}, claim}}); err == nil || !strings.Contains(err.Error(), "claims[1]") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
