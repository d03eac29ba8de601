package enduser

import (
	"net/http"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
)

// Operations with POST and PATCH document a body, and operations with GET document none. New checks that each
// documented operation is served, and the reverse.
func TestBodiesAreDocumented(t *testing.T) {
	t.Parallel()
	document, err := openapi.LoadEndUser()
	if err != nil {
		t.Fatal(err)
	}
	for key, item := range document.Spec().Paths.Map() {
		for method, op := range item.Operations() {
			takesBody := method == http.MethodPost || method == http.MethodPatch
			if mayTake := takesBody || method == http.MethodDelete; takesBody && op.RequestBody == nil || !mayTake && op.RequestBody != nil {
				t.Errorf("%s %s: documented with a body: %t", method, key, !takesBody)
			}
		}
	}
}

// An operation is refused at start if it writes for signed-in users without a daily limit, or has no function.
func TestOperationWithoutLimitOrFunctionIsRefused(t *testing.T) {
	t.Parallel()
	for pattern, needs := range map[string]openapi.Route{
		"PATCH /me":       {Session: openapi.SignedIn, Write: true},
		"GET /me":         {Session: openapi.NoSession},
		"GET /me/nothing": {Session: openapi.SignedIn},
	} {
		if err := (&API{}).handle(pattern, needs); err == nil {
			t.Errorf("%s with %+v was accepted", pattern, needs)
		}
	}
}
