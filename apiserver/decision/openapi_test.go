package decision

import (
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// Responses of each kind match the document's schemas, and the document's example is accepted.
func TestResponsesMatchDocument(t *testing.T) {
	document, err := openapi.LoadDecision()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.limit(scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: 1})
	schemas := document.Spec().Components.Schemas
	hold := func(what, schema string, a answer, status int) {
		t.Helper()
		if a.StatusCode != status {
			t.Errorf("%s: %d %v", what, a.StatusCode, a.body)
			return
		}
		if err := schemas[schema].Value.VisitJSON(a.body, openapi3.VisitAsResponse()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	hold("allowed", "AuthzDecision", w.check(w.plain, "GET", "/"), 200)
	hold("limited", "AuthzDecision", w.check(w.plain, "GET", "/"), 200)
	hold("denied", "AuthzDecision", w.check(w.plain, "GET", "/", `,"required_permissions":["x"]`), 200)
	hold("unknown", "AuthzDecision", w.check("ck_x", "GET", "/"), 401)
	hold("bad", "Error", w.ask("POST", "/v1/authz/check", "{}"), 400)
	example, err := document.Spec().Components.Examples["AuthzCheck"].MarshalJSON()
	w.Must(err)
	_, body, _ := strings.Cut(string(example), `"value":`)
	hold("the example", "AuthzDecision", w.ask("POST", "/v1/authz/check", strings.TrimSuffix(body, "}")), 401)
	hold("explained", "AuthzExplanation", w.ask("GET", "/v1/authz/explain?method=GET&resource=/&key_id="+w.plain[3:15], "", "Authorization: Bearer "+w.operator()), 200)
	for path, item := range document.Spec().Paths.Map() {
		for method := range item.Operations() {
			if h, served := handlers[path]; !served || h.methods != method {
				t.Errorf("%s %s is documented and not served", method, path)
			}
		}
	}
	if a := w.ask(http.MethodGet, "/openapi.json", ""); a.StatusCode != 200 || a.body["openapi"] != "3.1.0" {
		t.Errorf("/openapi.json: %d", a.StatusCode)
	}
}
