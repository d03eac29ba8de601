package management

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/cardea-iam/cardea/apiserver/openapi"
	"github.com/cardea-iam/cardea/store/document"
)

// exampleWorld serves what the document's examples speak of.
func exampleWorld(t *testing.T) served {
	t.Helper()
	at := time.Unix(1700000000, 0)
	k := newCluster()
	k.put("free", "free", nil)
	k.objects["scope"] = `{"metadata":{"namespace":"ns","name":"scope","uid":"uid-11","resourceVersion":"1","generation":1},"spec":{"oauthAppRef":{"name":"shop"},"scope":"read:orders"}}`
	for _, app := range []string{"shop", "idle"} {
		k.objects["app-"+app] = `{"metadata":{"namespace":"ns","name":"app-` + app + `","uid":"uid-` + app + `","resourceVersion":"1","generation":1},"spec":{"deploymentRef":{"name":"acme"},"slug":"` + app + `"}}`
	}
	return serveWith(t, k, nil,
		fixed(t, "APIAuthApp", "app-shop", "uid-shop", 17, "shop", at, document.APIAuthApp{Slug: "shop", Name: "Shop", Active: true, Permissions: []string{"orders:read"}}),
		fixed(t, "APIAuthApp", "app-idle", "uid-idle", 18, "idle", at, document.APIAuthApp{Slug: "idle", Name: "Idle", Active: true}),
		fixed(t, "OAuthApp", "shop", "uid-10", 10, "shop", at, document.OAuthApp{Slug: "shop", Name: "Shop", Active: true}),
		fixed(t, "OAuthScope", "scope", "uid-11", 11, document.ScopeKey("shop", "read:orders"), at, document.OAuthScope{App: "shop", Scope: "read:orders", DisplayName: "Read orders"}),
		fixed(t, "AITool", "tool", "uid-12", 12, "", at, document.AITool{Name: "Weather", Type: "api", Active: true, Method: "GET", TimeoutSeconds: 30}),
		fixed(t, "AIAgent", "agent", "uid-13", 13, "", at, document.AIAgent{Name: "Helper", Active: true, Tools: []string{"tool"}}),
		fixed(t, "B2BSettings", "b2b", "uid-14", 14, document.B2BKey, at, document.B2BSettings{Enabled: true, DefaultWorkspaceLimit: 5}),
		fixed(t, "MembershipRole", "organization", "uid-15", 7306112409600000005, "", at, document.MembershipRole{Level: "Organization", Name: "Member"}),
		fixed(t, "MembershipRole", "workspace", "uid-16", 7306112409600000006, "", at, document.MembershipRole{Level: "Workspace", Name: "Member"}),
	)
}

// makes makes something and returns its id.
func (s served) makes(t *testing.T, path, body string) string {
	t.Helper()
	answer := s.send("POST", path, body)
	var made struct{ ID string }
	if err := json.Unmarshal(answer.Body.Bytes(), &made); err != nil || answer.Code != 200 {
		t.Fatalf("POST %s: %d %s", path, answer.Code, answer.Body)
	}
	return made.ID
}

// The document's own bodies are sent to the operations they are shown for: each is accepted, and answered as documented.
func TestTheDocumentsExamplesWork(t *testing.T) {
	contract, err := openapi.Load()
	if err != nil {
		t.Fatal(err)
	}
	backend := exampleWorld(t)
	user := backend.makes(t, "/users", `{"email":"grace@example.com"}`)
	organization := backend.makes(t, "/organizations", `{"name":"Navy"}`)
	values := strings.NewReplacer(
		"{slug}", "free", "{oauth_app_slug}", "shop", "{scope}", "read:orders", "{deployment_id}", "7", "{tool_id}", "12", "{agent_id}", "13",
		"{user_id}", user, "{organization_id}", organization,
		`"7306112409600000001"`, strconv.Quote(user), `"slug":"free"`, `"slug":"new"`, `"app_slug":"shop"`, `"app_slug":"fresh"`,
	)
	// What makes comes before what changes, and what deletes comes last.
	order := func(pattern string) int {
		return slices.Index([]string{"POST", "GET", "PUT", "PATCH", "DELETE"}, strings.Fields(pattern)[0])
	}
	var patterns []string
	for pattern := range contract.Routes() {
		patterns = append(patterns, pattern)
	}
	slices.SortFunc(patterns, func(a, b string) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	for _, pattern := range patterns {
		t.Run(pattern, func(t *testing.T) {
			method, path, _ := strings.Cut(pattern, " ")
			op := contract.Spec().Paths.Find(path).GetOperation(method)
			switch {
			case method == "DELETE" && path == "/api-auth/apps/{slug}":
				path = "/api-auth/apps/idle"
			case strings.HasPrefix(path, "/api-auth/apps"):
				path = strings.ReplaceAll(path, "{slug}", "shop")
			}
			if strings.Contains(path, "{id}") { // a key of its own for each
				key, _ := backend.creates(t, "shop", `{"name":"key"}`)
				path = strings.ReplaceAll(path, "{id}", key.ID)
			}
			path = strings.ReplaceAll(path, "{file}", strings.Repeat("a", 64))
			if strings.HasSuffix(path, "/batches") {
				path += "?offset=0"
			}
			if path == "/analytics" || path == "/analytics/export" {
				path += "?from=2026-05-01T00:00:00Z&to=2026-06-01T00:00:00Z"
			}
			expectExample(t, op, backend.send(method, values.Replace(path), values.Replace(exampleBody(t, op))))
		})
	}
}

func exampleBody(t *testing.T, op *openapi3.Operation) string {
	t.Helper()
	if op.RequestBody == nil {
		return ""
	}
	if lines := op.RequestBody.Value.Content.Get(openapi.MediaTypeLines); lines != nil {
		return lines.Examples["typical"].Value.Value.(string)
	}
	raw, err := json.Marshal(op.RequestBody.Value.Content.Get("application/json").Examples["typical"].Value.Value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func expectExample(t *testing.T, op *openapi3.Operation, answer *httptest.ResponseRecorder) {
	t.Helper()
	documented := op.Responses.Status(answer.Code)
	if documented == nil || answer.Code >= 300 {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	if answer.Code == http.StatusNoContent {
		return
	}
	var body any
	if err := json.Unmarshal(answer.Body.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	if err := documented.Value.Content.Get("application/json").Schema.Value.VisitJSON(body, openapi3.VisitAsResponse()); err != nil {
		t.Errorf("%v\n%s", err, answer.Body)
	}
}
