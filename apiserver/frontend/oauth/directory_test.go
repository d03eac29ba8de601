package oauth_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// directoryWorld is a world with a directory of an organization, whose user ann signs in by the organization's provider
// and grants a client access.
type directoryWorld struct {
	*world
	organization, user           any
	directory, connection, token string
	provider                     *identityprovider.Provider
	client                       *client
}

func (w *world) withDirectory() *directoryWorld {
	w.T.Helper()
	d := &directoryWorld{world: w, provider: w.Provider()}
	w.DeclareOAuthScope("orders-read", document.OAuthScope{Scope: "orders:read", DisplayName: "Read orders", Category: "organization"})
	owner := w.signUp("owner@globex.example")
	owner.ask("POST", "/organizations", map[string]any{"name": "Globex"})
	organization := owner.ask("GET", "/me/organization-memberships", nil)["data"].([]any)[0].(map[string]any)["organization"].(map[string]any)
	slug := organization["slug"].(string)
	d.organization = organization["id"]
	d.connection = w.DeclareConnection("globex", d.provider, func(c *document.Connection) { c.Organization, c.Domains = slug, []string{"globex.example"} })
	token, verifier := w.DirectoryToken()
	d.token = token
	d.directory = w.DeclareDirectory(document.Directory{Slug: "globex", Organization: slug, Connection: "globex", Active: true, Verifiers: []document.Verifier{verifier}})
	d.user = d.scim(http.StatusCreated, "POST", "/Users", `{"userName":"ann@globex.example"}`)["id"]
	d.client = w.web("reports", nil)
	return d
}

// scim sends a request of the directory, which must have a status.
func (d *directoryWorld) scim(want int, method, path, body string) map[string]any {
	d.T.Helper()
	status, _, raw := d.SCIM("localhost", d.directory, d.token, method, path, body)
	if status != want {
		d.T.Fatalf("%s %s: %d %s", method, path, status, raw)
	}
	out := map[string]any{}
	d.Must(json.Unmarshal([]byte(raw), &out))
	return out
}

// activates sets whether the user is active.
func (d *directoryWorld) activates(active bool) {
	d.T.Helper()
	d.scim(http.StatusOK, "PATCH", fmt.Sprint("/Users/", d.user), fmt.Sprintf(`{"Operations":[{"op":"replace","value":{"active":%t}}]}`, active))
}

// signsIn signs the user in.
func (d *directoryWorld) signsIn() *person {
	d.T.Helper()
	ann := d.anonymous()
	ann.sso(d.connection, d.provider, identityprovider.User{"sub": "1", "email": "ann@globex.example"}, "sign_in")
	return ann
}

// grants lets a client act for a signed-in user in the organization, and returns its tokens.
func (d *directoryWorld) grants(ann *person, c *client) (access, refresh string) {
	d.T.Helper()
	done := ann.decide(ann.authorize(c.request("orders:read offline_access")), map[string]any{"decision": "allow", "organization_id": d.organization})
	to, err := url.Parse(fmt.Sprint(done["redirect_to"]))
	d.Must(err)
	issued := c.post("/token", redeem(to.Query().Get("code")))
	return issued.text("access_token"), issued.text("refresh_token")
}

// decides reports whether a server's decision API accepts an access token.
func (d *directoryWorld) decides(handler http.Handler, access string) bool {
	d.T.Helper()
	raw, err := json.Marshal(map[string]any{"principal": map[string]any{"type": "oauth_access_token", "value": access}, "method": "GET", "resource": "/orders", "required_permissions": []string{"orders:read"}})
	d.Must(err)
	answer := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/v1/authz/check", bytes.NewReader(raw))
	r.Header.Set("Content-Type", "application/json")
	handler.ServeHTTP(answer, r)
	out := map[string]any{}
	d.Must(json.Unmarshal(answer.Body.Bytes(), &out))
	return out["allowed"] == true
}

// A deactivation by a directory ends the tokens of the user in the organization on every server. Activation does not
// bring them back.
func TestDeactivationByADirectoryEndsTokens(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		d := w.withDirectory()
		ann := d.signsIn()
		access, refresh := d.grants(ann, d.client)
		unused := w.web("unused", nil) // sends no request until the user is active again
		unusedAccess, unusedRefresh := d.grants(ann, unused)
		first := w.Decision
		w.Serve(w.Store, w.Store)
		second := w.Decision
		if d.client.introspect(access).body["active"] != true || !d.decides(first, access) || !d.decides(second, access) {
			t.Fatal("the token is not accepted before the deactivation")
		}
		d.activates(false)
		ended := func(when string) {
			t.Helper()
			if d.client.introspect(access).body["active"] != false {
				t.Errorf("%s: the token is active", when)
			}
			if status, _, _ := ann.send("GET", "/me", nil); status != http.StatusUnauthorized {
				t.Errorf("%s: the session is alive", when)
			}
			w.Clock.Advance(time.Second) // decisions use an evaluated token for half of it
			for i, handler := range []http.Handler{first, second} {
				if d.decides(handler, access) {
					t.Errorf("%s: server %d accepts the token", when, i+1)
				}
			}
			if got := d.client.refresh(refresh); got.status != http.StatusBadRequest {
				t.Errorf("%s: refreshed: %d %s", when, got.status, got.raw)
			}
		}
		ended("deactivated")
		d.activates(true)
		ended("activated")
		if unused.introspect(unusedAccess).body["active"] != false {
			t.Error("the token of another client is active after the activation")
		}
		if got := unused.refresh(unusedRefresh); got.status != http.StatusBadRequest {
			t.Errorf("another client refreshed after the activation: %d %s", got.status, got.raw)
		}
	})
}

// Of requests that are concurrent with a deactivation, each gets no token or one that has ended: those of a refresh,
// and those of a code.
func TestDeactivationByADirectoryEndsConcurrentRefreshes(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		d := w.withDirectory()
		for round := range 5 {
			ann := d.signsIn()
			var all sync.WaitGroup
			issued := make(chan answer, 4)
			for range 3 {
				_, refresh := d.grants(ann, d.client)
				all.Go(func() { issued <- d.client.refresh(refresh) })
			}
			done := ann.decide(ann.authorize(d.client.request("orders:read offline_access")), map[string]any{"decision": "allow", "organization_id": d.organization})
			to, err := url.Parse(fmt.Sprint(done["redirect_to"]))
			w.Must(err)
			all.Go(func() { issued <- d.client.post("/token", redeem(to.Query().Get("code"))) })
			all.Go(func() { d.activates(false) })
			all.Wait()
			close(issued)
			w.Clock.Advance(time.Second) // decisions use an evaluated token for half of it
			for got := range issued {
				if got.status == http.StatusBadRequest {
					continue
				}
				if got.status != http.StatusOK {
					t.Fatalf("round %d: %d %s", round, got.status, got.raw)
				}
				access, refresh := got.text("access_token"), got.text("refresh_token")
				if d.client.introspect(access).body["active"] != false || d.decides(w.Decision, access) {
					t.Errorf("round %d: a token outlives the deactivation", round)
				}
				if again := d.client.refresh(refresh); again.status != http.StatusBadRequest {
					t.Errorf("round %d: refreshed after the deactivation: %d %s", round, again.status, again.raw)
				}
			}
			d.activates(true)
		}
	})
}
