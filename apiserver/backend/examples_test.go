package backend

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/internal/apikey"
)

// Every operation is called with the parameters and the body of its documented example. In exampleWorld it responds as
// the example shows.
func TestDocumentExamplesMatchResponses(t *testing.T) {
	contract, err := openapi.Load()
	if err != nil {
		t.Fatal(err)
	}
	for pattern := range contract.Routes() {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			method, path, _ := strings.Cut(pattern, " ")
			item := contract.Spec().Paths.Find(path)
			op := item.GetOperation(method)
			for _, name := range exampleNames(op) {
				expectExample(t, name, op, exampleWorld(t), method, exampleURL(t, path, slices.Concat(op.Parameters, item.Parameters)))
			}
		})
	}
}

// exampleURL fills in the examples of the parameters in a path and its query. A required parameter without an example
// is an error.
func exampleURL(t *testing.T, path string, parameters openapi3.Parameters) string {
	t.Helper()
	asked := url.Values{}
	for _, ref := range parameters {
		p := ref.Value
		switch {
		case p.Example == nil && p.Required:
			t.Errorf("the parameter %s has no example", p.Name)
		case p.Example == nil:
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(fmt.Sprint(p.Example)))
		case p.In == "query":
			asked.Set(p.Name, fmt.Sprint(p.Example))
		}
	}
	if len(asked) > 0 {
		path += "?" + asked.Encode()
	}
	return path
}

// exampleNames returns the names of the examples of an operation: each is a body and the response to it.
func exampleNames(op *openapi3.Operation) []string {
	if op.RequestBody != nil {
		if media := op.RequestBody.Value.Content.Get("application/json"); media != nil {
			return slices.Sorted(maps.Keys(media.Examples))
		}
	}
	return []string{"typical"}
}

func exampleBody(t *testing.T, op *openapi3.Operation, name string) string {
	t.Helper()
	if op.RequestBody == nil {
		return ""
	}
	if lines := op.RequestBody.Value.Content.Get(openapi.MediaTypeLines); lines != nil {
		return lines.Examples[name].Value.Value.(string)
	}
	raw, err := json.Marshal(op.RequestBody.Value.Content.Get("application/json").Examples[name].Value.Value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func expectExample(t *testing.T, name string, op *openapi3.Operation, world served, method, target string) {
	t.Helper()
	answer := world.send(method, target, exampleBody(t, op, name))
	documented := op.Responses.Status(answer.Code)
	if documented == nil || answer.Code >= 300 {
		t.Fatalf("%s: %d %s", target, answer.Code, answer.Body)
	}
	if answer.Code == http.StatusNoContent {
		return
	}
	media := documented.Value.Content.Get("application/json")
	var body any
	if err := json.Unmarshal(answer.Body.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	if err := media.Schema.Value.VisitJSON(body, openapi3.VisitAsResponse()); err != nil {
		t.Errorf("%v\n%s", err, answer.Body)
	}
	hideSecret(t, body)
	got, want := indented(t, body), indented(t, media.Examples[name].Value.Value)
	if got != want {
		t.Errorf("the example is not the answer:\n%s\nbut:\n%s", want, got)
		if folder := os.Getenv("EXAMPLES_TO"); folder != "" {
			_ = os.WriteFile(folder+"/"+op.OperationID+".json", []byte(got), 0o600)
		}
	}
}

// hideSecret replaces a generated key by the placeholder that the document shows: a key in the document would alarm
// secret scanners.
func hideSecret(t *testing.T, body any) {
	t.Helper()
	object, ok := body.(map[string]any)
	if !ok {
		return
	}
	for _, member := range []string{"secret", "client_secret", "token"} {
		secret, ok := object[member].(string)
		if !ok || secret == input.MaskedSecret || secret == "" { // a connection of type SAML has none
			continue
		}
		if _, err := apikey.Read(secret); err != nil {
			t.Errorf("the %s is no key: %v", member, err)
		}
		prefix, _, _ := strings.Cut(secret, "_")
		object[member] = prefix + "_EXAMPLE0000000000000000000000000000000000000000000000000"
	}
}

func indented(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Every operation refuses an unknown credential, and an invalid limit, with the error that the document shows.
func TestDocumentedRefusalsAreTrue(t *testing.T) {
	contract, err := openapi.Load()
	if err != nil {
		t.Fatal(err)
	}
	world := exampleWorld(t)
	for pattern := range contract.Routes() {
		method, path, _ := strings.Cut(pattern, " ")
		item := contract.Spec().Paths.Find(path)
		op := item.GetOperation(method)
		parameters := slices.Concat(op.Parameters, item.Parameters)
		unknown := world
		unknown.key = "ck_0"
		refused := unknown.send(method, exampleURL(t, path, parameters), exampleBody(t, op, "typical"))
		expectRefusal(t, pattern, op, refused, 401)
		if limit := parameters.GetByInAndName("query", "limit"); limit != nil && op.Responses.Status(400) != nil {
			target := exampleURL(t, path, parameters)
			separator := "?"
			if strings.Contains(target, "?") {
				separator = "&"
			}
			expectRefusal(t, pattern, op, world.send(method, target+separator+"limit=0", ""), 400)
		}
	}
}

func expectRefusal(t *testing.T, pattern string, op *openapi3.Operation, answer *httptest.ResponseRecorder, status int) {
	t.Helper()
	if answer.Code != status {
		t.Errorf("%s: %d %s", pattern, answer.Code, answer.Body)
		return
	}
	var got map[string]any
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := op.Responses.Status(status).Value.Content.Get("application/json").Examples["typical"].Value.Value.(map[string]any)
	got["request_id"] = want["request_id"]
	if a, b := indented(t, got), indented(t, want); a != b {
		t.Errorf("%s: the example of %d is not the answer:\n%s\nbut:\n%s", pattern, status, b, a)
	}
}
