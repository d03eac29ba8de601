package agents_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/schemafield"
	"github.com/cardea-iam/cardea/store/people"
)

// claimed are arguments named as the claims of tokens, for user 1 and another audience.
const claimed = `"sub":"1","user_id":"1","user":"1","aud":"https://evil.example","iss":"https://evil.example","client_id":"9","org_id":"9","scope":"*","exp":"99999999999","act":{"sub":"agent:1"},"number":"1007"`

// newSubjectWorld is a world whose tools act for the user: "closed" takes the argument number alone, "open" and
// "function" take arguments named as claims, and "query" and "header" put them in the URL and in headers.
func newSubjectWorld(t *testing.T) *peopleWorld {
	t.Helper()
	tools := []string{"closed", "open", "function", "query", "header"}
	w := newPeopleWorld(t, func(a *document.AIAgent) { a.Tools = tools })
	var fields, texts []schemafield.Field
	for _, name := range []string{"sub", "user_id", "user", "aud", "iss", "client_id", "org_id", "scope", "exp", "number"} {
		texts = append(texts, schemafield.Field{Name: name, FieldType: "STRING"})
	}
	fields = append(texts[:len(texts):len(texts)], schemafield.Field{Name: "act", FieldType: "OBJECT"})
	asUser := document.ToolAuthorization{AuthorizeAsUser: true}
	headers := asUser
	headers.CustomHeaders = []schemafield.Field{{Name: "X-User-Id", FieldType: "STRING"}, {Name: "Sub", FieldType: "STRING"}}
	w.declareTool("closed", document.AITool{Name: "Closed", Method: "POST", Endpoint: w.up.URL + "/closed", Authorization: asUser, RequestBodySchema: fields[len(texts)-1 : len(texts)]})
	w.declareTool("open", document.AITool{Name: "Open", Method: "POST", Endpoint: w.up.URL + "/open", Authorization: asUser, RequestBodySchema: fields})
	w.declareTool("function", document.AITool{Name: "Function", Type: "function", Method: "POST", Endpoint: w.up.URL + "/function", Authorization: asUser, RequestBodySchema: fields})
	w.declareTool("query", document.AITool{Name: "Query", Method: "GET", Endpoint: w.up.URL + "/query", Authorization: asUser, URLParamsSchema: texts})
	w.declareTool("header", document.AITool{Name: "Header", Method: "GET", Endpoint: w.up.URL + "/header", Authorization: headers})
	w.sessionToken()
	return w
}

// claimsOf returns the claims of the token that the newest request of a tool has.
func (w *peopleWorld) claimsOf(request sent) (claims map[string]any) {
	w.T.Helper()
	raw, found := strings.CutPrefix(request.header.Get("Authorization"), "Bearer ")
	if !found || len(request.header.Values("Authorization")) != 1 {
		w.T.Fatalf("the tool got the authorization %q", request.header.Values("Authorization"))
	}
	if _, err := w.userTokens(w.up.URL).Verify(w.T.Context(), raw); err != nil {
		w.T.Fatalf("the tool's token: %v", err)
	}
	parsed, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.ES256})
	w.Must(err)
	w.Must(parsed.UnsafeClaimsWithoutVerification(&claims))
	return claims
}

// expectOwnSubject checks all claims of the token that the newest request has, and the user of the newest record.
func (w *peopleWorld) expectOwnSubject(what string, before int) {
	w.T.Helper()
	request, after := w.up.last()
	if after != before+1 {
		w.T.Fatalf("%s: the tool got %d requests", what, after-before)
	}
	now := w.Clock.Now().Unix()
	want := map[string]any{
		"iss": "https://localhost", "sub": "7", "aud": w.up.URL, "client_id": w.family.Client, "org_id": "50", "iat": float64(now), "exp": float64(now + 60),
		"jti": request.header.Get("Cardea-Call-Id"),
		"act": map[string]any{
			"sub": "agent:" + ids.Format(ids.Derive(v1alpha1.KindAIAgent, "acme", "support")), "act": map[string]any{"sub": "client:" + w.family.Client},
		},
	}
	if got := w.claimsOf(request); !reflect.DeepEqual(got, want) {
		w.T.Errorf("%s: the token has %v, want %v", what, got, want)
	}
	call, err := ids.Parse(request.header.Get("Cardea-Call-Id"))
	w.Must(err)
	recorded := people.ToolCall{}
	w.Eventually("the call is recorded", func() bool {
		for _, one := range w.records(w.Store) {
			if one.ID == call {
				recorded = one
			}
		}
		return recorded.ID == call
	})
	if recorded.Caller.User != 7 || recorded.Caller.Client != w.family.Client || recorded.Caller.Organization != 50 {
		w.T.Errorf("%s: the record names %+v", what, recorded.Caller)
	}
}

func TestUserOfACallIsThatOfTheCredential(t *testing.T) {
	w := newSubjectWorld(t)
	token := w.token("orders:read")
	headers := []string{
		"X-User-Id", "1", "X-Sub", "1", "Sub", "1", "X-Act", "1", "X-Forwarded-User", "1", "X-Owner-User-Id", "1", "X-Active-User", "1", "X-Active-Organization", "9", "X-Organization-Id", "9",
		"Cookie", "__session=1; sub=1", "Mcp-Param-Sub", "1",
	}
	const meta = `"_meta":{"sub":"1","user_id":"1","act":{"sub":"agent:1"},"aud":"https://evil.example","dev.cardea.iam/user":"1","dev.cardea.iam/sub":"1","dev.cardea.iam/user_id":"1"}`
	for name, body := range map[string]string{
		"_meta":               `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"closed","arguments":{"number":"1007"},` + meta + `}}`,
		"members of params":   `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + claimed + `,"name":"closed","arguments":{"number":"1007"}}}`,
		"members of the body": `{"jsonrpc":"2.0","id":1,"method":"tools/call",` + claimed + `,"params":{"name":"closed","arguments":{"number":"1007"}}}`,
		"the id":              `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"closed","arguments":{"number":"1007"}}}`,
		"input responses":     `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"closed","arguments":{"number":"1007"},"inputResponses":{"sub":{"action":"accept","content":{"sub":"1"}}}}}`,
	} {
		_, before := w.up.last()
		if a := w.post("support?sub=1&user_id=1", token, body, headers...); !strings.Contains(a.raw, `"open"`) {
			t.Fatalf("%s: %d %s", name, a.status, a.raw)
		}
		w.expectOwnSubject(name, before)
	}
	_, before := w.up.last()
	if a := w.directWith(token, "closed", `{"arguments":{"number":"1007"}}`, headers...); a.Code != 200 {
		t.Fatalf("headers without MCP: %d %s", a.Code, a.Body)
	}
	w.expectOwnSubject("headers without MCP", before)
	for _, member := range []string{"sub", "user_id", "user", "act", "aud", "_meta", "organization_id"} {
		if a := w.directWith(token, "closed", fmt.Sprintf(`{"arguments":{"number":"1007"},%q:"1"}`, member)); a.Code != 400 {
			t.Errorf("the member %s without MCP: %d %s", member, a.Code, a.Body)
		}
	}
	if _, after := w.up.last(); after != before+1 {
		t.Error("a faulty request reached the tool")
	}
}

func TestArgumentsNamedAsClaimsAreArgumentsAlone(t *testing.T) {
	w := newSubjectWorld(t)
	token := w.token("orders:read")
	_, before := w.up.last()
	if a := w.post("support", token, callBody("closed", `{`+claimed+`}`)); !strings.Contains(a.raw, `"code":"invalid_arguments"`) {
		t.Errorf("arguments beyond the schema: %s", a.raw)
	}
	if a := w.directWith(token, "closed", `{"arguments":{`+claimed+`}}`); a.Code != 400 {
		t.Errorf("arguments beyond the schema without MCP: %d %s", a.Code, a.Body)
	}
	if _, after := w.up.last(); after != before {
		t.Error("arguments beyond the schema reached the tool")
	}
	texts := `{` + strings.Replace(claimed, `"act":{"sub":"agent:1"},`, "", 1) + `}`
	var wanted map[string]any
	w.Must(json.Unmarshal([]byte(`{`+claimed+`}`), &wanted))
	for tool, arguments := range map[string]string{"open": `{` + claimed + `}`, "function": `{` + claimed + `}`, "query": texts, "header": `{"X-User-Id":"1","Sub":"1"}`} {
		for _, direct := range []bool{false, true} {
			what := fmt.Sprintf("%s, without MCP: %t", tool, direct)
			_, before := w.up.last()
			raw := ""
			if direct {
				raw = w.directWith(token, tool, `{"arguments":`+arguments+`}`).Body.String()
			} else {
				raw = w.post("support", token, callBody(tool, arguments)).raw
			}
			if !strings.Contains(raw, "open") {
				t.Fatalf("%s: %s", what, raw)
			}
			w.expectOwnSubject(what, before)
			request, _ := w.up.last()
			got := map[string]any{}
			switch tool {
			case "open":
				w.Must(json.Unmarshal([]byte(request.body), &got))
			case "function":
				e := w.envelope(request)
				if got = e.Data.Arguments; e.Data.UserID == nil || *e.Data.UserID != "7" {
					t.Errorf("%s: the function got the user %v", what, e.Data.UserID)
				}
			default:
				continue
			}
			if !reflect.DeepEqual(got, wanted) {
				t.Errorf("%s: the tool got the arguments %v", what, got)
			}
		}
	}
}

// A template's claims are arguments of no call, and never replace those of the user.
func TestArgumentsDoNotReachTheTemplateOfAToken(t *testing.T) {
	w := newPeopleWorld(t, func(a *document.AIAgent) { a.Tools = []string{"open"} })
	w.sessionToken()
	template := w.Put(v1alpha1.KindJWTTemplate, "orders", frontendtest.Deployment, "", document.JWTTemplate{
		Name: "Orders", LifetimeSeconds: 60, Claims: []document.TemplateClaim{{Name: "mail", Expression: "user.email"}},
	})
	w.declareTool("open", document.AITool{
		Name: "Open", Method: "POST", Endpoint: w.up.URL + "/open", Authorization: document.ToolAuthorization{AuthorizeAsUser: true, JWTTemplateID: ids.Format(template)},
		RequestBodySchema: []schemafield.Field{{Name: "sub", FieldType: "STRING"}, {Name: "mail", FieldType: "STRING"}, {Name: "user", FieldType: "OBJECT"}},
	})
	if a := w.post("support", w.token("orders:read"), callBody("open", `{"sub":"1","mail":"eve@example.com","user":{"email":"eve@example.com"}}`)); !strings.Contains(a.raw, `"open"`) {
		t.Fatalf("the call: %s", a.raw)
	}
	request, _ := w.up.last()
	if claims := w.claimsOf(request); claims["sub"] != "7" || claims["mail"] != "ada@example.com" || claims["user"] != nil {
		t.Errorf("the token has %v", claims)
	}
}
