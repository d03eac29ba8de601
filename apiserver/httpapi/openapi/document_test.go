package openapi

import (
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// Every operation has a description, and examples of a response, of a body if it reads one, and of a typical failure,
// each valid by its schema.
func TestOperationsHaveDescriptionsAndExamples(t *testing.T) {
	for name, load := range map[string]func() (*Document, error){"backend.yaml": Load, "enduser.yaml": LoadEndUser, "decision.yaml": LoadDecision} {
		document, err := load()
		if err != nil {
			t.Fatal(err)
		}
		for path, item := range document.Spec().Paths.Map() {
			for method, op := range item.Operations() {
				at := name + " " + method + " " + path
				if op.Description == "" || op.Summary == "" {
					t.Errorf("%s: no description or summary", at)
				}
				if op.RequestBody != nil {
					expectExamples(t, at+": the body", op.RequestBody.Value.Content, openapi3.VisitAsRequest())
				}
				failures := 0
				for status, response := range op.Responses.Map() {
					if len(response.Value.Content) > 0 && status != "default" {
						expectExamples(t, at+": "+status, response.Value.Content, openapi3.VisitAsResponse())
					}
					if strings.HasPrefix(status, "4") {
						failures++
						expectStatus(t, at+": "+status, status, response.Value.Content)
					}
				}
				if failures == 0 {
					t.Errorf("%s: no failure", at)
				}
			}
		}
	}
}

func expectExamples(t *testing.T, at string, content openapi3.Content, how openapi3.SchemaValidationOption) {
	t.Helper()
	media := content.Get("application/json")
	if media == nil {
		media = content.Get("application/x-www-form-urlencoded")
	}
	if media == nil {
		media = content.Get(MediaTypeLines)
	}
	if media == nil && len(content) == 1 { // a page, or XML
		for _, only := range content {
			media = only
		}
	}
	if media == nil || len(media.Examples) == 0 {
		t.Errorf("%s: no example", at)
		return
	}
	for name, example := range media.Examples {
		if err := media.Schema.Value.VisitJSON(example.Value.Value, how); err != nil {
			t.Errorf("%s: example %s: %v", at, name, err)
		}
	}
}

// expectStatus compares the status in a failure's example with the status that it is shown for.
func expectStatus(t *testing.T, at, status string, content openapi3.Content) {
	t.Helper()
	for _, example := range content.Get("application/json").Examples {
		body := example.Value.Value.(map[string]any)
		if body["allowed"] != nil { // a decision: the same object with every status
			continue
		}
		if body["error"] != nil { // the form of OAuth, without a status
			continue
		}
		said := body["status"]
		if said == nil { // the backend's form
			said = body["errors"].([]any)[0].(map[string]any)["code"]
		}
		if got := strconv.FormatFloat(said.(float64), 'f', 0, 64); got != status {
			t.Errorf("%s: the example says %s", at, got)
		}
	}
}
