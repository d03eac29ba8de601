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

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// A deactivation by a directory ends the tokens of the user in the organization on every server. Activation does not
// bring them back.
func TestDeactivationByADirectoryEndsTokens(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.DeclareOAuthScope("orders-read", document.OAuthScope{Scope: "orders:read", DisplayName: "Read orders", Category: "organization"})
		owner := w.signUp("owner@globex.example")
		owner.ask("POST", "/organizations", map[string]any{"name": "Globex"})
		organization := owner.ask("GET", "/me/organization-memberships", nil)["data"].([]any)[0].(map[string]any)["organization"].(map[string]any)
		slug := organization["slug"].(string)
		provider := w.Provider()
		conn := w.DeclareConnection("globex", provider, func(c *document.Connection) { c.Organization, c.Domains = slug, []string{"globex.example"} })
		token, verifier := w.DirectoryToken()
		directory := w.DeclareDirectory(document.Directory{Slug: "globex", Organization: slug, Connection: "globex", Active: true, Verifiers: []document.Verifier{verifier}})
		scim := func(want int, method, path, body string) map[string]any {
			t.Helper()
			status, _, raw := w.SCIM("localhost", directory, token, method, path, body)
			if status != want {
				t.Fatalf("%s %s: %d %s", method, path, status, raw)
			}
			out := map[string]any{}
			w.Must(json.Unmarshal([]byte(raw), &out))
			return out
		}
		user := scim(http.StatusCreated, "POST", "/Users", `{"userName":"ann@globex.example"}`)["id"]
		c, ann := w.web("reports", nil), w.anonymous()
		ann.sso(conn, provider, identityprovider.User{"sub": "1", "email": "ann@globex.example"}, "sign_in")
		done := ann.decide(ann.authorize(c.request("orders:read offline_access")), map[string]any{"decision": "allow", "organization_id": organization["id"]})
		to, err := url.Parse(fmt.Sprint(done["redirect_to"]))
		w.Must(err)
		issued := c.post("/token", redeem(to.Query().Get("code")))
		access, refresh := issued.text("access_token"), issued.text("refresh_token")
		decide := func(handler http.Handler) any {
			t.Helper()
			raw, err := json.Marshal(map[string]any{"principal": map[string]any{"type": "oauth_access_token", "value": access}, "method": "GET", "resource": "/orders", "required_permissions": []string{"orders:read"}})
			w.Must(err)
			answer := httptest.NewRecorder()
			r := httptest.NewRequest("POST", "/v1/authz/check", bytes.NewReader(raw))
			r.Header.Set("Content-Type", "application/json")
			handler.ServeHTTP(answer, r)
			out := map[string]any{}
			w.Must(json.Unmarshal(answer.Body.Bytes(), &out))
			return out["allowed"]
		}
		first := w.Decision
		w.Serve(w.Store, w.Store)
		second := w.Decision
		if c.introspect(access).body["active"] != true || decide(first) != true || decide(second) != true {
			t.Fatal("the token is not accepted before the deactivation")
		}
		scim(http.StatusOK, "PATCH", fmt.Sprint("/Users/", user), `{"Operations":[{"op":"replace","value":{"active":false}}]}`)
		ended := func(when string) {
			t.Helper()
			if c.introspect(access).body["active"] != false {
				t.Errorf("%s: the token is active", when)
			}
			if status, _, _ := ann.send("GET", "/me", nil); status != http.StatusUnauthorized {
				t.Errorf("%s: the session is alive", when)
			}
			w.Clock.Advance(time.Second) // decisions use an evaluated token for half of it
			for i, handler := range []http.Handler{first, second} {
				if decide(handler) == true {
					t.Errorf("%s: server %d accepts the token", when, i+1)
				}
			}
			if got := c.refresh(refresh); got.status != http.StatusBadRequest {
				t.Errorf("%s: refreshed: %d %s", when, got.status, got.raw)
			}
		}
		ended("deactivated")
		scim(http.StatusOK, "PATCH", fmt.Sprint("/Users/", user), `{"Operations":[{"op":"replace","value":{"active":true}}]}`)
		ended("activated")
	})
}
