package oauth_test

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
)

// apiKey declares an API key of a deployment, and returns it when the backend accepts it.
func (w *world) apiKey(name, deployment string, permissions ...string) string {
	w.T.Helper()
	minted, err := apikey.Mint(rand.Reader, "ck")
	w.Must(err)
	w.Put(v1alpha1.KindAPIAuthApp, "tools", deployment, "tools", document.APIAuthApp{Slug: "tools", Active: true, Permissions: []string{"*"}})
	w.Put(v1alpha1.KindAPIKey, name, deployment, "", document.APIKey{App: "tools", Permissions: permissions, Verifiers: []document.Verifier{{ID: minted.ID(), Digest: minted.Digest()}}})
	w.Eventually("the key is known", func() bool { return w.backend(minted.Plain(), "GET", "/oauth/apps", "").status != 401 })
	return minted.Plain()
}

// backend sends a request to the management API.
func (w *world) backend(key, method, path, body string) answer {
	w.T.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	w.Backend.ServeHTTP(recorder, r)
	a := answer{status: recorder.Code, header: recorder.Header(), raw: recorder.Body.String()}
	_ = json.Unmarshal(recorder.Body.Bytes(), &a.body) // a body that is not JSON leaves a.body empty
	return a
}

// asks introspects a token with an API key.
func (w *world) asks(key, token string) answer {
	w.T.Helper()
	r, err := http.NewRequest(http.MethodPost, w.Server.URL+"/oauth/portal/introspect", strings.NewReader(url.Values{"token": {token}}.Encode()))
	w.Must(err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer "+key)
	return w.send(r)
}

const clientsPath = "/oauth/apps/portal/clients"

func TestBackendClientWorksUntilItIsDeleted(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		key := w.apiKey("admin", frontendtest.Deployment, "oauth_clients:read", "oauth_clients:write")
		made := w.backend(key, "POST", clientsPath, `{"client_name":"Reports","redirect_uris":["`+callback+`"],"grant_types":["authorization_code","refresh_token","client_credentials"]}`)
		if made.status != 200 {
			t.Fatalf("%d %s", made.status, made.raw)
		}
		c, p := &client{w: w, id: made.text("client_id"), secret: made.text("client_secret")}, w.signUp("ada@example.com")
		page := p.authorize(c.request("jobs:read"))
		shown := p.ask("GET", "/session/authorizations/"+strings.TrimPrefix(page.Path, "/authorize/"), nil)["data"].(map[string]any)["client"].(map[string]any)
		if shown["name"] != "Reports" || shown["verified"] != true {
			t.Errorf("shown as %v", shown)
		}
		token := c.post("/token", redeem(p.allow(c.request("jobs:read")).Get("code")))
		if own := c.post("/token", url.Values{"grant_type": {"client_credentials"}, "scope": {"jobs:run"}}); own.status != 200 || token.status != 200 {
			t.Fatalf("%s %s", token.raw, own.raw)
		}

		path := clientsPath + "/" + c.id
		rotated := w.backend(key, "POST", path+"/rotate-secret", `{"overlap_seconds":60}`)
		next := &client{w: w, id: c.id, secret: rotated.text("client_secret")}
		active := func(by *client) bool {
			return by.post("/introspect", url.Values{"token": {token.text("access_token")}}).body["active"] == true
		}
		if !active(c) || !active(next) {
			t.Error("both secrets are good for a while")
		}
		w.Clock.Advance(time.Minute)
		if a := c.post("/introspect", url.Values{"token": {"x"}}); a.status != 401 || !active(next) {
			t.Errorf("the secret of before, after the overlap: %d", a.status)
		}

		grants := w.backend(key, "GET", path+"/grants?user_id="+p.id, "")
		grant := grants.body["grants"].([]any)[0].(map[string]any)
		if revoked := w.backend(key, "POST", "/oauth/apps/portal/grants/"+grant["id"].(string)+"/revoke", ""); revoked.status != 200 || active(next) || w.asks(key, token.text("access_token")).body["active"] != false {
			t.Errorf("a revoked grant: %s", revoked.raw)
		}
		if a := next.post("/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.text("refresh_token")}}); a.text("error") != "invalid_grant" {
			t.Errorf("refreshed after the grant was revoked: %s", a.raw)
		}

		w.backend(key, "PATCH", path, `{"is_active":false}`)
		if a := next.post("/introspect", url.Values{"token": {"x"}}); a.status != 401 {
			t.Errorf("out of use: %d", a.status)
		}
		if a := w.backend(key, "DELETE", path, ""); a.status != 204 {
			t.Errorf("%d %s", a.status, a.raw)
		}
		if status, _, _ := p.send("GET", "/oauth/portal/authorize?"+c.request("jobs:read").Encode(), nil); status != 400 {
			t.Errorf("a deleted client asks: %d", status)
		}
	})
}

func TestAPIKeysIntrospectTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reader, other := w.apiKey("reader", frontendtest.Deployment, "oauth_clients:read"), w.apiKey("other", frontendtest.Deployment, "users:read")
	w.Put(v1alpha1.KindIdentityDeployment, "foreign", "foreign/foreign", "foreign", document.Deployment{ManagementWrites: "Enabled", FieldConflicts: "Reject"})
	foreign := w.apiKey("foreign", "foreign/foreign", "*")
	c, p := w.web("reports", nil), w.signUp("ada@example.com")
	token := c.post("/token", redeem(p.allow(c.request("openid jobs:read")).Get("code")))
	machine := w.declare("machine", nil)
	own := machine.post("/token", url.Values{"grant_type": {"client_credentials"}, "scope": {"jobs:run"}})
	for what, raw := range map[string]string{"an access token": token.text("access_token"), "a refresh token": token.text("refresh_token"), "a client's own": own.text("access_token")} {
		introspected := w.asks(reader, raw)
		if introspected.status != 200 || introspected.body["active"] != true || introspected.text("client_id") == "" {
			t.Errorf("%s: %d %s", what, introspected.status, introspected.raw)
		}
		if introspected := w.asks(other, raw); introspected.status != 200 || introspected.raw != `{"active":false}` {
			t.Errorf("%s, without the permission: %d %s", what, introspected.status, introspected.raw)
		}
		for whose, key := range map[string]string{"another deployment's": foreign, "an unknown": strings.Replace(reader, "ck_", "ck_x", 1), "no key": "x", "a session's": raw} {
			if introspected := w.asks(key, raw); introspected.status != 401 || introspected.text("error") != "invalid_token" || !strings.HasPrefix(introspected.header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s, with %s key: %d %s", what, whose, introspected.status, introspected.raw)
			}
		}
	}
	if introspected := w.asks(reader, "x"); introspected.raw != `{"active":false}` {
		t.Errorf("what is no token: %s", introspected.raw)
	}
	if introspected := w.asks(reader, ""); introspected.status != 400 {
		t.Errorf("no token: %d", introspected.status)
	}
	w.switchOff("reports", c)
	w.Eventually("a client out of use has no tokens", func() bool {
		return w.asks(reader, token.text("access_token")).body["active"] == false && w.asks(reader, token.text("refresh_token")).body["active"] == false
	})
}

// An address that presented too many unknown API keys is asked to slow down, and its key is not reported as inactive.
func TestIntrospectionWithManyUnknownKeysIsThrottled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 200 {
		minted, err := apikey.Mint(rand.Reader, "ck")
		w.Must(err)
		refused := w.asks(minted.Plain(), "x")
		if refused.status == http.StatusUnauthorized {
			continue
		}
		if refused.status != http.StatusTooManyRequests || refused.text("error") != "slow_down" || refused.header.Get("Retry-After") != "60" {
			t.Errorf("%d %s", refused.status, refused.raw)
		}
		return
	}
	t.Error("200 unknown keys of one address were not throttled")
}

func TestFormerKeysVerifyAndArchivedScopesAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.apiKey("reader", frontendtest.Deployment, "oauth_clients:read")
	c, p := w.web("reports", nil), w.signUp("ada@example.com")
	token := c.post("/token", redeem(p.allow(c.request("jobs:read jobs:run")).Get("code"))).text("access_token")
	until := w.Clock.Now().Add(24 * time.Hour)
	before := w.app.SigningKeys
	w.app.SigningKeys = []document.SigningKey{w.OAuthKey(jose.ES256), w.OAuthKey(jose.RS256)}
	for _, old := range before {
		old.ExpiresAt = &until
		w.app.SigningKeys = append(w.app.SigningKeys, old)
	}
	w.Put(v1alpha1.KindOAuthApp, "portal", frontendtest.Deployment, "portal", w.app)
	var listed answer
	w.Eventually("the new keys sign", func() bool {
		listed = w.backend(key, "GET", "/oauth/apps/portal/signing-keys", "")
		return strings.Contains(listed.raw, w.app.SigningKeys[0].ID)
	})
	if strings.Count(listed.raw, `"active"`) != 2 || strings.Count(listed.raw, `"retired"`) != 2 || strings.Contains(listed.raw, before[0].Sealed) {
		t.Errorf("%s", listed.raw)
	}
	if keys := w.get("/oauth/portal/jwks"); !strings.Contains(keys.raw, before[0].ID) || !strings.Contains(keys.raw, w.app.SigningKeys[0].ID) {
		t.Errorf("the key set: %s", keys.raw)
	}
	if introspected := w.asks(key, token); introspected.body["active"] != true || introspected.text("scope") != "jobs:read jobs:run" {
		t.Errorf("signed by a key of before: %s", introspected.raw)
	}
	w.DeclareOAuthScope("jobs-run", document.OAuthScope{Scope: "jobs:run", DisplayName: "Run", Archived: true})
	w.Eventually("an archived scope is no longer listed", func() bool { return w.asks(key, token).text("scope") == "jobs:read" })
	if to := p.authorize(c.request("jobs:run")); to.Query().Get("error") != "invalid_scope" {
		t.Errorf("an archived scope is asked for: %s", to)
	}
}

// New metadata do not reactivate a client that a backend deactivated.
func TestDeactivatedMetadataClientStaysDeactivated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openToAll()
	key, at, p := w.apiKey("admin", frontendtest.Deployment, "*"), newSite(t), w.signUp("ada@example.com")
	id := at.URL + "/agent.json"
	at.says(map[string]any{"client_id": id, "client_name": "Agent", "redirect_uris": []string{callback}}, "")
	open := func() int {
		status, _, _ := p.send("GET", "/oauth/portal/authorize?"+(&client{w: w, id: id}).request("jobs:read").Encode(), nil)
		return status
	}
	if got := open(); got != 303 {
		t.Fatalf("%d", got)
	}
	path := clientsPath + "/" + url.PathEscape(id)
	if a := w.backend(key, "PATCH", path, `{"is_active":false}`); a.status != 200 || a.text("source") != "metadata_document" {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	w.Clock.Advance(time.Hour)
	if got := open(); got != 400 || at.asked.Load() != 1 {
		t.Errorf("blocked: %d, asked %d times", got, at.asked.Load())
	}
	w.backend(key, "PATCH", path, `{"is_active":true}`)
	if got := open(); got != 303 || at.asked.Load() != 2 {
		t.Errorf("let in again: %d, asked %d times", got, at.asked.Load())
	}
}

// A new registration does not reactivate a client that a backend deactivated.
func TestDeactivatedClientCannotReactivateItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openToAll()
	key := w.apiKey("admin", frontendtest.Deployment, "*")
	says := map[string]any{"client_name": "Shop", "redirect_uris": []string{callback}}
	made := w.ask("POST", "/register", "", says)
	path := "/register/" + made.text("client_id")
	if a := w.backend(key, "PATCH", clientsPath+"/"+made.text("client_id"), `{"is_active":false}`); a.status != 200 || a.text("source") != "registered" {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	if a := w.ask("PUT", path, made.text("registration_access_token"), says); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	c := &client{w: w, id: made.text("client_id"), secret: made.text("client_secret")}
	if a := c.post("/introspect", url.Values{"token": {"x"}}); a.status != 401 {
		t.Errorf("it is in use again: %d %s", a.status, a.raw)
	}
	w.backend(key, "PATCH", clientsPath+"/"+c.id, `{"is_active":true}`)
	if a := c.post("/introspect", url.Values{"token": {"x"}}); a.status != 200 {
		t.Errorf("it was let in again: %d %s", a.status, a.raw)
	}
}
