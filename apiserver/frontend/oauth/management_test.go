package oauth_test

import (
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
)

// A deployment that accepts its own app as an issuer can be managed with client_credentials.
func TestClientCredentialsManageTheTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const audience = "cardea:acme:staging"
	w.app.Resources = append(w.app.Resources, audience)
	w.Put("OAuthApp", "portal", "acme/staging", "portal", w.app)
	settings := w.Settings()
	settings.JWTIssuers = []document.JWTIssuer{{Name: "portal", OAuthApp: "portal", Audiences: []string{audience}, Algorithms: []string{"ES256"}, PermissionsClaim: "permissions"}}
	w.Declare(settings)
	c, reports, p := w.declare("machine", nil), w.web("reports", nil), w.signUp("ada@example.com")
	status := func(token, path string) int {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		answer := httptest.NewRecorder()
		w.Backend.ServeHTTP(answer, r)
		return answer.Code
	}
	credentials := url.Values{"grant_type": {"client_credentials"}, "resource": {audience}}
	token := ""
	w.Eventually("the token manages", func() bool {
		token = c.post("/token", credentials).text("access_token")
		return status(token, "/users") == 200
	})
	if got := status(token, "/organizations"); got != 403 {
		t.Errorf("beyond its permissions: %d", got)
	}
	if got := status(c.post("/token", url.Values{"grant_type": {"client_credentials"}}).text("access_token"), "/users"); got != 401 {
		t.Errorf("for another audience: %d", got)
	}
	request := reports.request("openid")
	request.Set("resource", audience)
	ofPerson := reports.post("/token", redeem(p.allow(request).Get("code")))
	for _, kind := range []string{"access_token", "id_token"} {
		if got := status(ofPerson.text(kind), "/users"); got != 401 {
			t.Errorf("a person's %s: %d", kind, got)
		}
	}
	opaque := w.declare("opaque", func(d *document.OAuthClient) { d.OpaqueTokens = true })
	if got := status(opaque.post("/token", credentials).text("access_token"), "/users"); got != 401 {
		t.Errorf("an opaque token: %d", got)
	}
	given := c.declared.MachinePermissions
	has := func(permissions ...string) {
		c.declared.MachinePermissions = permissions
		w.Put("OAuthClient", "machine", "acme/staging", "", c.declared)
	}
	has("organizations:read")
	w.Eventually("a permission that the client lost is not effective", func() bool { return status(token, "/users") == 403 })
	if got := status(token, "/organizations"); got != 403 {
		t.Errorf("a permission that the client got after the token was issued: %d", got)
	}
	has("*")
	w.Eventually("it counts again", func() bool { return status(token, "/users") == 200 })
	if got := status(token, "/organizations"); got != 403 {
		t.Errorf("a client with all permissions, with a token from before: %d", got)
	}
	all := ""
	w.Eventually("a token of all permissions", func() bool {
		all = c.post("/token", credentials).text("access_token")
		return status(all, "/organizations") == 200
	})
	has(given...)
	w.Eventually("the token keeps only the current permissions of the client", func() bool { return status(all, "/organizations") == 403 && status(all, "/users") == 200 })
	w.app.Active = false
	w.Put("OAuthApp", "portal", "acme/staging", "portal", w.app)
	w.Eventually("an inactive app issues no valid tokens", func() bool { return status(token, "/users") == 401 })
	w.app.Active = true
	w.Put("OAuthApp", "portal", "acme/staging", "portal", w.app)
	w.Eventually("it does again", func() bool { return status(token, "/users") == 200 })
	w.switchOff("machine", c)
	w.Eventually("a client out of use manages nothing", func() bool { return status(token, "/users") == 401 })

	next := w.declare("next", nil)
	token = next.post("/token", credentials).text("access_token")
	if got := status(token, "/users"); got != 200 {
		t.Fatalf("another client: %d", got)
	}
	settings.JWTIssuers = nil
	w.Declare(settings)
	w.Eventually("the app is accepted no more", func() bool { return status(token, "/users") == 401 })
	w.Clock.Advance(time.Hour)
	if got := status(token, "/users"); got != 401 {
		t.Errorf("after its time: %d", got)
	}
}
