package oauth_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// An access token permits what the user granted to the client, as long as the user still has that permission.
func TestDecisionAcceptsAccessTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.DeclareOAuthScope("orders-read", document.OAuthScope{Scope: "orders:read", DisplayName: "Read orders", Category: "organization", OrganizationPermission: "billing:read"})
	w.Put(v1alpha1.KindRateLimitScheme, "few", frontendtest.Deployment, "few", document.RateLimitScheme{Slug: "few", Name: "Few", Rules: []scheme.Rule{{Unit: "hour", Duration: 1, MaxRequests: 5, Mode: "per_key"}}})
	limited := func(d *document.OAuthClient) { d.Scheme = "few" }
	c := w.web("reports", limited)
	opaque := w.web("opaque", func(d *document.OAuthClient) { d.OpaqueTokens = true })
	p, other := w.signUp("ada@example.com"), w.signUp("eve@example.com")
	organization := func(p *person) string {
		return p.ask("POST", "/organizations", map[string]any{"name": "Own " + p.id})["data"].(map[string]any)["organization"].(map[string]any)["id"].(string)
	}
	decide := func(token string, more map[string]any) (int, map[string]any) {
		principal := map[string]any{"type": "oauth_access_token", "value": token}
		body := map[string]any{"principal": principal, "method": "GET", "resource": "/orders", "required_permissions": []string{"orders:read", "billing:read"}}
		for name, value := range more {
			if name == "audience" {
				principal[name] = value
			} else {
				body[name] = value
			}
		}
		raw, err := json.Marshal(body)
		w.Must(err)
		answer := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/v1/authz/check", bytes.NewReader(raw))
		r.Header.Set("Content-Type", "application/json")
		w.Decision.ServeHTTP(answer, r)
		out := map[string]any{}
		w.Must(json.Unmarshal(answer.Body.Bytes(), &out))
		return answer.Code, out
	}
	get := func(c *client, p *person, organization string, resource ...string) string {
		request := c.request("orders:read")
		if len(resource) > 0 {
			request.Set("resource", resource[0])
		}
		done := p.decide(p.authorize(request), map[string]any{"decision": "allow", "organization_id": organization})
		to, err := url.Parse(fmt.Sprint(done["redirect_to"]))
		w.Must(err)
		return c.post("/token", redeem(to.Query().Get("code"))).text("access_token")
	}
	own := organization(p)
	token := get(c, p, own)
	_, said := decide(token, nil)
	who, _ := said["identity"].(map[string]any)
	if said["allowed"] != true || who["owner_user_id"] != p.id || who["organization_id"] != own || fmt.Sprint(said["permissions"]) != "[billing:read orders:read]" || said["metadata"].(map[string]any)["client_id"] != c.id {
		t.Errorf("%v", said)
	}
	if _, said := decide(token, map[string]any{"required_permissions": []string{"workspace:create"}}); said["allowed"] != false || said["reason"] != "permission_denied" {
		t.Errorf("beyond what was granted: %v", said)
	}
	for range 4 {
		decide(token, nil)
	}
	if _, said := decide(token, nil); said["reason"] != "rate_limited" {
		t.Errorf("beyond the client's scheme: %v", said)
	}
	elsewhere := get(c, other, organization(other))
	if _, said := decide(elsewhere, nil); said["allowed"] != true {
		t.Errorf("another person of the same client: %v", said)
	}

	const resource = "https://api.acme.example"
	bound := get(opaque, p, own, resource)
	if _, said := decide(bound, map[string]any{"audience": resource}); said["allowed"] != true {
		t.Errorf("an opaque token for a resource: %v", said)
	}
	for what, audience := range map[string]any{"the deployment": nil, "another resource": "https://mcp.acme.example/mcp", "an unknown one": "https://evil.example"} {
		more := map[string]any{}
		if audience != nil {
			more["audience"] = audience
		}
		if _, said := decide(bound, more); said["allowed"] != false || said["identity"] != nil {
			t.Errorf("for %s: %v", what, said)
		}
	}
	for what, bad := range map[string]string{"torn": token[:len(token)-4] + "AAAA", "nothing": "x", "a dot": "a.b.c", "four parts": "a.b.c.d"} {
		if status, said := decide(bad, nil); said["allowed"] != false {
			t.Errorf("%s: %d %v", what, status, said)
		}
	}
	p.ask("POST", "/session/reauthenticate", map[string]any{"strategy": "password", "password": goodPassword})
	p.ask("DELETE", "/organizations/"+own, map[string]any{"confirmation": w.Numbered("own-" + p.id)})
	w.Clock.Advance(time.Second)
	if _, said := decide(bound, map[string]any{"audience": resource}); said["allowed"] != false {
		t.Errorf("after the organization's end: %v", said)
	}
}

// Expired access tokens do not count as failed attempts, so a client that reuses one does not throttle its address.
func TestExpiredAccessTokensDoNotThrottleTheirAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	signed, opaque, p := w.web("reports", nil), w.web("opaque", func(d *document.OAuthClient) { d.OpaqueTokens = true }), w.signUp("ada@example.com")
	decide := func(token string) int {
		raw, err := json.Marshal(map[string]any{"principal": map[string]any{"type": "oauth_access_token", "value": token}, "method": "GET", "resource": "/"})
		w.Must(err)
		r, answer := httptest.NewRequest("POST", "/v1/authz/check", bytes.NewReader(raw)), httptest.NewRecorder()
		r.Header.Set("Content-Type", "application/json")
		w.Decision.ServeHTTP(answer, r)
		return answer.Code
	}
	var expired []string
	for _, c := range []*client{signed, opaque} {
		expired = append(expired, c.post("/token", redeem(p.allow(c.request("jobs:read")).Get("code"))).text("access_token"))
	}
	w.Clock.Advance(time.Hour)
	for range 100 {
		for _, token := range expired {
			if status := decide(token); status != http.StatusUnauthorized {
				t.Fatalf("an expired token: %d", status)
			}
		}
	}
	if status := decide("unknown"); status != http.StatusUnauthorized {
		t.Errorf("the address is throttled: %d", status)
	}
}
