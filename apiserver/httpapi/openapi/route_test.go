package openapi

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

func TestSessionAndDailyLimitOfAnOperation(t *testing.T) {
	t.Parallel()
	session := openapi3.NewSecurityRequirement().Authenticate("session")
	none := openapi3.NewSecurityRequirement()
	for name, tc := range map[string]struct {
		security   *openapi3.SecurityRequirements
		extensions map[string]any
		session    Session
		limit      int
	}{
		"no security is the document's": {nil, nil, SignedIn, 0},
		"empty security":                {&openapi3.SecurityRequirements{}, nil, NoSession, 0},
		"with a session or without":     {&openapi3.SecurityRequirements{none, session}, nil, AnySession, 0},
		"with a session":                {&openapi3.SecurityRequirements{session}, map[string]any{"x-cardea-daily-limit": 40.0}, SignedIn, 40},
		"fresh":                         {&openapi3.SecurityRequirements{session}, map[string]any{"x-cardea-session": "fresh", "x-cardea-daily-limit": "none"}, Fresh, NoDailyLimit},
		"a misspelled session":          {&openapi3.SecurityRequirements{session}, map[string]any{"x-cardea-session": "frehs"}, Fresh, 0},
		"a limit that is no number":     {&openapi3.SecurityRequirements{session}, map[string]any{"x-cardea-daily-limit": "200"}, SignedIn, 0},
	} {
		op := &openapi3.Operation{Security: tc.security, Extensions: tc.extensions}
		route := routeOf(op)
		if route.Session != tc.session || route.DailyLimit != tc.limit {
			t.Errorf("%s: session %d and limit %d, want %d and %d", name, route.Session, route.DailyLimit, tc.session, tc.limit)
		}
	}
}
