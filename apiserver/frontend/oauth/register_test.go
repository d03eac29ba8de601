package oauth_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// openToAll lets clients register themselves.
func (w *world) openToAll() {
	w.T.Helper()
	w.app.AllowDynamicClientRegistration = true
	w.Put(v1alpha1.KindOAuthApp, "portal", frontendtest.Deployment, "portal", w.app)
	w.Eventually("registration is on", func() bool {
		return strings.Contains(w.get("/oauth/portal/.well-known/openid-configuration").raw, "registration_endpoint")
	})
}

// ask sends a JSON request with a registration access token, "" for none.
func (w *world) ask(method, path, token string, body any) answer {
	w.T.Helper()
	return w.askFrom("", method, path, token, body)
}

// askFrom is ask from an address, "" for the test's own.
func (w *world) askFrom(from, method, path, token string, body any) answer {
	w.T.Helper()
	raw, err := json.Marshal(body)
	w.Must(err)
	r, err := http.NewRequest(method, w.Server.URL+"/oauth/portal"+path, bytes.NewReader(raw))
	w.Must(err)
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if from != "" {
		r.Header.Set("X-Forwarded-For", from)
	}
	return w.send(r)
}

func TestRegisterPublicClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	says := map[string]any{"client_name": "Agent", "redirect_uris": []string{"http://127.0.0.1/callback"}, "token_endpoint_auth_method": "none", "grant_types": []string{"authorization_code", "refresh_token"}}
	if a := w.ask("POST", "/register", "", says); a.status != 404 {
		t.Errorf("registration is off: %d %s", a.status, a.raw)
	}
	w.openToAll()
	made := w.ask("POST", "/register", "", says)
	if made.status != 201 || made.text("client_id") == "" || made.text("application_type") != "native" || made.text("id_token_signed_response_alg") != "RS256" || made.text("registration_access_token") != "" || made.text("client_secret") != "" {
		t.Fatalf("%d %s", made.status, made.raw)
	}
	if again := w.ask("POST", "/register", "", says); again.status != 201 || again.raw != made.raw {
		t.Errorf("the same registration again: %s", again.raw)
	}
	says["client_name"] = "Agent 2"
	if other := w.ask("POST", "/register", "", says); other.status != 201 || other.text("client_id") == made.text("client_id") {
		t.Errorf("another: %s", other.raw)
	}

	c, p := &client{w: w, id: made.text("client_id")}, w.signUp("ada@example.com")
	request := c.request("openid jobs:read")
	request.Set("redirect_uri", "http://127.0.0.1:7777/callback")
	page := p.authorize(request)
	shown := p.ask("GET", "/session/authorizations/"+strings.TrimPrefix(page.Path, "/authorize/"), nil)["data"].(map[string]any)["client"].(map[string]any)
	if shown["name"] != "Agent" || shown["verified"] != false {
		t.Errorf("shown as %v", shown)
	}
	form := redeem(p.allow(request).Get("code"))
	form.Set("redirect_uri", "http://127.0.0.1:7777/callback")
	token := c.post("/token", form)
	if token.status != 200 || token.text("refresh_token") == "" {
		t.Fatalf("%d %s", token.status, token.raw)
	}
	if a := c.post("/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.text("refresh_token")}}); a.status != 200 {
		t.Errorf("refreshed: %s", a.raw)
	}
	for _, grant := range p.ask("GET", "/me/oauth-grants", nil)["data"].([]any) {
		if grant.(map[string]any)["client_name"] != "Agent" {
			t.Errorf("%v", grant)
		}
	}
}

func TestManageRegistration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openToAll()
	says := map[string]any{"client_name": "Shop", "redirect_uris": []string{callback}}
	made := w.ask("POST", "/register", "", says)
	token, path := made.text("registration_access_token"), "/register/"+made.text("client_id")
	if made.status != 201 || made.text("client_secret") == "" || made.body["client_secret_expires_at"] != 0.0 || made.text("registration_client_uri") != issuer+path {
		t.Fatalf("%d %s", made.status, made.raw)
	}
	if again := w.ask("POST", "/register", "", says); again.text("client_id") == made.text("client_id") {
		t.Error("registering a client with a secret twice returned the same client")
	}
	read := w.ask("GET", path, token, nil)
	if read.status != 200 || read.text("client_name") != "Shop" || strings.Contains(read.raw, made.text("client_secret")) {
		t.Errorf("%d %s", read.status, read.raw)
	}
	for what, a := range map[string]answer{
		"no token": w.ask("GET", path, "", nil), "a wrong token": w.ask("GET", path, strings.Repeat("A", 43), nil), "another client": w.ask("DELETE", "/register/1", token, nil),
	} {
		if a.status != 401 {
			t.Errorf("%s: %d", what, a.status)
		}
	}
	c, p := &client{w: w, id: made.text("client_id"), secret: made.text("client_secret")}, w.signUp("ada@example.com")
	first := c.post("/token", redeem(p.allow(c.request("jobs:read")).Get("code")))
	if first.status != 200 {
		t.Fatalf("%s", first.raw)
	}
	says["redirect_uris"] = []string{"https://client.example/other"}
	if a := w.ask("PUT", path, token, says); a.status != 200 || !strings.Contains(a.raw, "/other") {
		t.Errorf("rewritten: %d %s", a.status, a.raw)
	}
	if status, _, _ := p.send("GET", "/oauth/portal/authorize?"+c.request("jobs:read").Encode(), nil); status != 400 {
		t.Errorf("with the previous redirect URI: %d", status)
	}
	if a := w.ask("PUT", path, token, map[string]any{"redirect_uris": []string{callback}, "token_endpoint_auth_method": "none"}); a.text("error") != "invalid_client_metadata" {
		t.Errorf("made public: %s", a.raw)
	}
	if a := w.ask("DELETE", path, token, nil); a.status != 204 {
		t.Errorf("deleted: %d %s", a.status, a.raw)
	}
	if a := c.post("/introspect", url.Values{"token": {first.text("access_token")}}); a.text("error") != "invalid_client" {
		t.Errorf("after the client was deleted: %s", a.raw)
	}
	if grants := p.ask("GET", "/me/oauth-grants", nil)["data"].([]any); len(grants) != 0 {
		t.Errorf("its grants stay: %v", grants)
	}
}

func TestHostileRegistrationsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openToAll()
	for what, tt := range map[string]struct {
		says map[string]any
		code string
	}{
		"no redirect URI":               {map[string]any{}, "invalid_redirect_uri"},
		"a fragment":                    {map[string]any{"redirect_uris": []string{callback + "#x"}}, "invalid_redirect_uri"},
		"plain http":                    {map[string]any{"redirect_uris": []string{"http://client.example/"}}, "invalid_redirect_uri"},
		"a script":                      {map[string]any{"redirect_uris": []string{"javascript:alert(1)"}, "token_endpoint_auth_method": "none"}, "invalid_redirect_uri"},
		"a scheme of the system":        {map[string]any{"redirect_uris": []string{"ms-settings:x"}, "token_endpoint_auth_method": "none"}, "invalid_redirect_uri"},
		"a scheme of another program":   {map[string]any{"redirect_uris": []string{"vscode://x/cb"}, "token_endpoint_auth_method": "none"}, "invalid_redirect_uri"},
		"a sign-out URI of a program":   {map[string]any{"redirect_uris": []string{callback}, "post_logout_redirect_uris": []string{"steam://run/1"}, "token_endpoint_auth_method": "none"}, "invalid_redirect_uri"},
		"an app's scheme with a secret": {map[string]any{"redirect_uris": []string{"com.example.app:/cb"}}, "invalid_redirect_uri"},
		"loopback of a web client":      {map[string]any{"redirect_uris": []string{"http://127.0.0.1/"}, "application_type": "web"}, "invalid_redirect_uri"},
		"seventeen URIs":                {map[string]any{"redirect_uris": strings.Fields(strings.Repeat(callback+" ", 17))}, "invalid_redirect_uri"},
		"client credentials":            {map[string]any{"redirect_uris": []string{callback}, "grant_types": []string{"client_credentials"}}, "invalid_client_metadata"},
		"the implicit flow":             {map[string]any{"redirect_uris": []string{callback}, "response_types": []string{"token"}}, "invalid_client_metadata"},
		"an unknown method":             {map[string]any{"redirect_uris": []string{callback}, "token_endpoint_auth_method": "tls_client_auth"}, "invalid_client_metadata"},
		"the algorithm none":            {map[string]any{"redirect_uris": []string{callback}, "id_token_signed_response_alg": "none"}, "invalid_client_metadata"},
		"keys without signing":          {map[string]any{"redirect_uris": []string{callback}, "jwks_uri": "https://client.example/jwks"}, "invalid_client_metadata"},
		"signing without keys":          {map[string]any{"redirect_uris": []string{callback}, "token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"},
		"a name that reads backwards":   {map[string]any{"redirect_uris": []string{callback}, "client_name": "moc\u202eelgoog"}, "invalid_client_metadata"},
		"a logo without TLS":            {map[string]any{"redirect_uris": []string{callback}, "logo_uri": "http://client.example/x.png"}, "invalid_client_metadata"},
		"a policy that is a script":     {map[string]any{"redirect_uris": []string{callback}, "policy_uri": "javascript:alert(1)"}, "invalid_client_metadata"},
		"1,900 small keys":              {signsBy(1900, "AQ"), "invalid_client_metadata"},
		"33 keys":                       {signsBy(33, "AQ"), "invalid_client_metadata"},
		"an RSA key of one bit":         {signsBy(1, "AQ"), "invalid_client_metadata"},
		"keys longer than 32 KiB":       {signsBy(1, strings.Repeat("A", 33<<10)), "invalid_client_metadata"},
		"a string instead of a list":    {map[string]any{"redirect_uris": "https://client.example"}, "invalid_client_metadata"},
	} {
		if a := w.ask("POST", "/register", "", tt.says); a.status != 400 || a.text("error") != tt.code {
			t.Errorf("%s: %d %s", what, a.status, a.raw)
		}
	}
	if a := w.ask("POST", "/register", "", map[string]any{"client_name": strings.Repeat("x", 70_000)}); a.status != 413 {
		t.Errorf("too long: %d", a.status)
	}
}

// signsBy returns the metadata of a client that declares a number of RSA keys with the same modulus.
func signsBy(keys int, modulus string) map[string]any {
	var set []map[string]string
	for range keys {
		set = append(set, map[string]string{"kty": "RSA", "n": modulus, "e": "Aw"})
	}
	return map[string]any{"redirect_uris": []string{callback}, "token_endpoint_auth_method": "private_key_jwt", "jwks": map[string]any{"keys": set}}
}

// registers registers the public client "Agent n" from an address.
func (w *world) registers(from string, n int) answer {
	w.T.Helper()
	return w.askFrom(from, "POST", "/register", "", map[string]any{"client_name": fmt.Sprint("Agent ", n), "redirect_uris": []string{"http://127.0.0.1/"}, "token_endpoint_auth_method": "none"})
}

// fillRegistrations registers 1,000 clients from five networks. The 200 clients of a network have different addresses.
func (w *world) fillRegistrations() {
	w.T.Helper()
	for n := range 1000 {
		if a := w.registers(fmt.Sprintf("203.0.%d.%d", n/200, n%200+1), n); a.status != 201 {
			w.T.Fatalf("%d: %d %s", n, a.status, a.raw)
		}
	}
}

func TestUnusedRegistrationsAreEvicted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openToAll()
	first := w.registers("203.0.0.1", 0)
	w.Clock.Advance(time.Second)
	w.fillRegistrations()
	if a := w.registers("203.0.4.7", 1000); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("another client from a network that has its maximum of clients: %d %s", a.status, a.raw)
	}
	if a := w.registers("203.0.4.7", 5); a.status != 201 {
		t.Errorf("a client that is already registered: %d %s", a.status, a.raw)
	}
	w.Clock.Advance(9*time.Minute + 59*time.Second) // the first is 10 minutes old, unlike the others
	if a := w.registers("198.51.100.1", 1000); a.status != 201 {
		t.Errorf("later: %d %s", a.status, a.raw)
	}
	if n := w.count("SELECT count(*) FROM oauth_clients"); n != 1000 {
		t.Errorf("%d clients", n)
	}
	gone := &client{w: w, id: first.text("client_id")}
	if a := gone.post("/token", url.Values{"grant_type": {"x"}}); a.text("error") != "invalid_client" {
		t.Errorf("the oldest: %s", a.raw)
	}
}

// Networks that fill all places and renew them lose places to clients of other networks.
func TestFewNetworksCannotBlockRegistration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openToAll()
	w.fillRegistrations()
	for hour := range 3 {
		for n := range 20 {
			if a := w.registers("198.51.100.1", 2000+100*hour+n); a.status != 201 {
				t.Fatalf("an honest client of another network, %d: %d %s", hour, a.status, a.raw)
			}
		}
		w.Clock.Advance(9 * time.Minute)
		for n := range 1000 { // all again, from one address
			w.registers("203.0.0.1", n)
		}
	}
	if n := w.count("SELECT count(*) FROM oauth_clients WHERE network = '203.0.0.0/24'"); n > 200 {
		t.Errorf("one network has %d places", n)
	}
	if n := w.count("SELECT count(*) FROM oauth_clients"); n > 1000 {
		t.Errorf("%d clients", n)
	}
}

// A private-use scheme is shown in place of a host, even if the URI seems to have a host.
func TestRedirectHostOfPrivateUseSchemeIsTheScheme(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openToAll()
	p := w.signUp("ada@example.com")
	for uri, shown := range map[string]string{
		"com.example.app://accounts.bank.example/cb": "com.example.app", "com.example.app:/cb": "com.example.app", "http://127.0.0.1/cb": "127.0.0.1", "https://shop.example/cb": "shop.example",
	} {
		made := w.ask("POST", "/register", "", map[string]any{"redirect_uris": []string{uri}, "token_endpoint_auth_method": "none"})
		if strings.Contains(made.text("client_name"), "bank") {
			t.Errorf("%s is called %s", uri, made.text("client_name"))
		}
		request := (&client{w: w, id: made.text("client_id")}).request("jobs:read")
		request.Set("redirect_uri", uri)
		page := p.authorize(request)
		said := p.ask("GET", "/session/authorizations/"+strings.TrimPrefix(page.Path, "/authorize/"), nil)["data"].(map[string]any)
		if said["redirect_host"] != shown {
			t.Errorf("%s is shown as %v", uri, said["redirect_host"])
		}
	}
}

// RFC 7592 is served only where RFC 7591 is.
func TestDisabledRegistrationCannotBeManaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openToAll()
	made := w.ask("POST", "/register", "", map[string]any{"redirect_uris": []string{callback}})
	token, path := made.text("registration_access_token"), "/register/"+made.text("client_id")
	if a := w.ask("GET", path, token, nil); a.status != 200 || a.text("registration_access_token") != token || a.text("registration_client_uri") != issuer+path {
		t.Errorf("RFC 7592 3 requires the registration access token and its URI: %d %s", a.status, a.raw)
	}
	if a := w.ask("PUT", path, token, map[string]any{"client_id": "1", "redirect_uris": []string{callback}}); a.status != 400 || a.text("error") != "invalid_client_metadata" {
		t.Errorf("the metadata of another client: %d %s", a.status, a.raw)
	}
	w.app.AllowDynamicClientRegistration = false
	w.Put(v1alpha1.KindOAuthApp, "portal", frontendtest.Deployment, "portal", w.app)
	w.Eventually("registration is off", func() bool { return w.ask("GET", path, token, nil).status == 404 })
	for _, method := range []string{"PUT", "DELETE"} {
		if a := w.ask(method, path, token, map[string]any{"redirect_uris": []string{callback}}); a.status != 404 {
			t.Errorf("%s: %d %s", method, a.status, a.raw)
		}
	}
}

// Callers that register the same public client get the same client. Its registration is renewed for each caller,
// so that no caller receives the id of a client that is about to be deleted.
func TestSharedRegistrationIsRenewed(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.openToAll()
		says := map[string]any{"client_name": "Agent", "redirect_uris": []string{"http://127.0.0.1/"}, "token_endpoint_auth_method": "none"}
		first := w.ask("POST", "/register", "", says)
		w.Clock.Advance(23 * time.Hour)
		if again := w.ask("POST", "/register", "", says); again.status != 201 || again.text("client_id") != first.text("client_id") {
			t.Fatalf("%s", again.raw)
		}
		w.Clock.Advance(2 * time.Hour)
		_, err := w.Store.Purge(t.Context(), w.Clock.Now(), people.Retention{Audit: time.Hour, ToolCalls: time.Hour}, 100)
		w.Must(err)
		c := &client{w: w, id: first.text("client_id")}
		if a := c.post("/token", url.Values{"grant_type": {"x"}}); a.text("error") != "unsupported_grant_type" {
			t.Errorf("two hours later: %s", a.raw)
		}
		w.Clock.Advance(23 * time.Hour)
		_, err = w.Store.Purge(t.Context(), w.Clock.Now(), people.Retention{Audit: time.Hour, ToolCalls: time.Hour}, 100)
		w.Must(err)
		if a := c.post("/token", url.Values{"grant_type": {"x"}}); a.text("error") != "invalid_client" {
			t.Errorf("a day later: %s", a.raw)
		}
	})
}

// A picture may imitate the deployment's logo, so clients that registered themselves have none.
func TestSelfRegisteredClientHasNoLogo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openToAll()
	const logo = "https://acme.example/logo.png"
	made := w.ask("POST", "/register", "", map[string]any{"client_name": "Acme Account Security", "logo_uri": logo, "redirect_uris": []string{callback}, "token_endpoint_auth_method": "none"})
	declared := w.web("reports", func(c *document.OAuthClient) { c.LogoURL = logo })
	p := w.signUp("ada@example.com")
	for _, c := range []struct {
		client *client
		want   any
	}{{&client{w: w, id: made.text("client_id")}, nil}, {declared, logo}} {
		page := p.authorize(c.client.request("jobs:read"))
		shown := p.ask("GET", "/session/authorizations/"+strings.TrimPrefix(page.Path, "/authorize/"), nil)["data"].(map[string]any)["client"].(map[string]any)
		if got := shown["logo_url"]; got != c.want && (c.want != nil || got != "") {
			t.Errorf("the picture of client %s is %v, want %v", c.client.id, got, c.want)
		}
		if status, text := p.read(page.Path); status != 200 || c.want == nil && strings.Contains(text, logo) {
			t.Errorf("the page of client %s: status %d, or it shows the picture of a self-registered client", c.client.id, status)
		}
	}
}
