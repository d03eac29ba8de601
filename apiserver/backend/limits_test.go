package backend

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// TestAPIKeysAreLimited: the scheme of a key limits its requests to the backend API. A request that lacks a permission
// consumes nothing, and a response to an unlimited request has no fields about limits.
func TestAPIKeysAreLimited(t *testing.T) {
	limited := mint(t)
	created := time.Unix(1700000000, 0)
	s := serveWith(t, &fakeKubernetes{}, nil,
		fixed(t, "RateLimitScheme", "tight", "uid-6", 5, "tight", created, document.RateLimitScheme{
			Slug: "tight", Name: "Tight", Rules: []scheme.Rule{{Unit: "minute", Duration: 20, MaxRequests: 2, Endpoints: []string{"GET /api-auth/*"}}},
		}),
		fixed(t, "APIKey", "limited", "uid-7", 6, "", created, document.APIKey{
			App: "app", Scheme: "tight", Permissions: []string{"rate_limit_schemes:read"}, Verifiers: []document.Verifier{{ID: limited.ID(), Digest: limited.Digest()}},
		}),
	)
	ask := func(path, key string) *http.Response {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer "+key)
		recorder := httptest.NewRecorder()
		s.ServeHTTP(recorder, r)
		return recorder.Result()
	}
	const schemes = "/api-auth/rate-limit-schemes"
	if a := ask("/ai-tools", limited.Plain()); a.StatusCode != http.StatusForbidden || a.Header.Get("RateLimit") != "" {
		t.Errorf("without the permission: %d %v", a.StatusCode, a.Header)
	}
	for i, left := range []string{"1", "0"} {
		if a := ask(schemes, limited.Plain()); a.StatusCode != 200 || a.Header.Get("RateLimit") != `"2/20min";r=`+left+`;t=1200` || a.Header.Get("RateLimit-Policy") != `"2/20min";q=2;w=1200` {
			t.Errorf("request %d: %d %v", i, a.StatusCode, a.Header)
		}
	}
	a := ask(schemes+"/free", limited.Plain())
	if a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" || a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("the third: %d %v", a.StatusCode, a.Header)
	}
	if a := ask(schemes, s.key); a.StatusCode != 200 || a.Header.Get("RateLimit") != "" {
		t.Errorf("a key without a scheme: %d %v", a.StatusCode, a.Header)
	}
}

// TestUnknownSchemeIsNotUnlimited: a key whose scheme is not known on this server is refused with 503 until it is.
func TestUnknownSchemeIsNotUnlimited(t *testing.T) {
	key := mint(t)
	s := serveWith(t, &fakeKubernetes{}, nil, fixed(t, "APIKey", "early", "uid-7", 6, "", time.Unix(1700000000, 0), document.APIKey{
		App: "app", Scheme: "later", Permissions: []string{"*"}, Verifiers: []document.Verifier{{ID: key.ID(), Digest: key.Digest()}},
	}))
	r := httptest.NewRequest(http.MethodGet, "/api-auth/rate-limit-schemes", nil)
	r.Header.Set("Authorization", "Bearer "+key.Plain())
	recorder := httptest.NewRecorder()
	s.ServeHTTP(recorder, r)
	if recorder.Code != http.StatusServiceUnavailable || recorder.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v", recorder.Code, recorder.Header())
	}
}
