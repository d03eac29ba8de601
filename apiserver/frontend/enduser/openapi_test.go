package enduser

import (
	"net/http"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
)

// The document names what this listener serves, with the credential each operation needs, and nothing else.
func TestEveryEndpointIsDocumented(t *testing.T) {
	t.Parallel()
	document, err := openapi.LoadEndUser()
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for key, item := range document.Spec().Paths.Map() {
		for method, op := range item.Operations() {
			pattern := method + " " + key
			e, served := endpoints[pattern]
			if !served {
				t.Errorf("%s is documented and not served", pattern)
				continue
			}
			documented[pattern] = true
			if got, want := credentials(op), credentialsOf(e); got != want {
				t.Errorf("%s is documented with %s, and served with %s", pattern, got, want)
			}
			takesBody := method == http.MethodPost || method == http.MethodPatch
			if mayTake := takesBody || method == http.MethodDelete; takesBody && op.RequestBody == nil || !mayTake && op.RequestBody != nil {
				t.Errorf("%s: documented with a body: %t", pattern, !takesBody)
			}
		}
	}
	for pattern := range endpoints {
		if !documented[pattern] {
			t.Errorf("%s is served and not documented", pattern)
		}
	}
}

// credentials is what the document says of the session.
func credentials(op *openapi3.Operation) string {
	if op.Security == nil {
		return "an API key"
	}
	switch sessions := len(*op.Security); sessions {
	case 0:
		return "no session"
	case 1:
		return "a session"
	}
	return "a session or none"
}

func credentialsOf(e endpoint) string {
	switch {
	case e.public != nil:
		return "no session"
	case e.signedIn:
		return "a session"
	}
	return "a session or none"
}
