package enduser_test

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
)

// documentedOperation is an operation of the document with the paths that it serves.
type documentedOperation struct {
	method string
	path   *regexp.Regexp
	op     *openapi3.Operation
}

var pathParameter = regexp.MustCompile(`\{[^}]*\}`)

// documentedOperations returns the end-user operations of the document.
var documentedOperations = sync.OnceValue(func() (all []documentedOperation) {
	document, err := openapi.LoadEndUser()
	if err != nil {
		panic(err)
	}
	for key, item := range document.Spec().Paths.Map() {
		for method, op := range item.Operations() {
			parts := pathParameter.Split(key, -1)
			for i := range parts {
				parts[i] = regexp.QuoteMeta(parts[i])
			}
			path := regexp.MustCompile("^" + strings.Join(parts, `[^/]+`) + "$")
			all = append(all, documentedOperation{method, path, op})
		}
	}
	return all
})

// checkDocumented checks the status and the schema of a documented operation's response against the document.
func (b *browser) checkDocumented(method, path string) {
	b.w.T.Helper()
	for _, d := range documentedOperations() {
		if d.method != method || !d.path.MatchString(path) {
			continue
		}
		response := d.op.Responses.Value(strconv.Itoa(b.last.Status))
		if response == nil {
			response = d.op.Responses.Default()
		}
		if response == nil {
			b.w.T.Fatalf("%s %s: the status %d is not documented: %s", method, path, b.last.Status, b.last.Raw)
		}
		var body any
		b.w.Must(json.Unmarshal([]byte(b.last.Raw), &body))
		if err := response.Value.Content.Get("application/json").Schema.Value.VisitJSON(body, openapi3.VisitAsResponse()); err != nil {
			b.w.T.Fatalf("%s %s: the answer is not as documented: %v\n%s", method, path, err, b.last.Raw)
		}
		return
	}
}
