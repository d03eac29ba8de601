package oauth_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// Until client and redirect URI are verified, the server shows errors itself and does not send them to the client (RFC
// 9700).
func TestAuthorizeShowsErrorsHereUntilRedirectURIIsVerified(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.web("reports", nil)
	local := w.web("terminal", func(d *document.OAuthClient) {
		d.Authentication, d.Verifiers, d.RedirectURIs = string(v1alpha1.ClientAuthenticationNone), nil, []string{"http://127.0.0.1/callback"}
	})
	off := w.web("off", func(d *document.OAuthClient) { d.Active = false })
	p := w.signUp("ada@example.com")
	for what, change := range map[string]func(url.Values){
		"no client":                func(q url.Values) { q.Del("client_id") },
		"an unknown client":        func(q url.Values) { q.Set("client_id", "1") },
		"an inactive client":       func(q url.Values) { q.Set("client_id", off.id) },
		"a client with a zero":     func(q url.Values) { q.Set("client_id", "0"+c.id) },
		"two clients":              func(q url.Values) { q.Add("client_id", c.id) },
		"no redirect URI":          func(q url.Values) { q.Del("redirect_uri") },
		"two redirect URIs":        func(q url.Values) { q.Add("redirect_uri", callback) },
		"another path":             func(q url.Values) { q.Set("redirect_uri", callback+"/x") },
		"a slash more":             func(q url.Values) { q.Set("redirect_uri", callback+"/") },
		"a query more":             func(q url.Values) { q.Set("redirect_uri", callback+"?x=1") },
		"a fragment":               func(q url.Values) { q.Set("redirect_uri", callback+"#") },
		"another case":             func(q url.Values) { q.Set("redirect_uri", "https://Client.example/callback") },
		"a scheme in capitals":     func(q url.Values) { q.Set("redirect_uri", "HTTPS://client.example/callback") },
		"without TLS":              func(q url.Values) { q.Set("redirect_uri", "http://client.example/callback") },
		"a port":                   func(q url.Values) { q.Set("redirect_uri", "https://client.example:443/callback") },
		"a user before an at sign": func(q url.Values) { q.Set("redirect_uri", "https://client.example@evil.example/callback") },
		"a longer host":            func(q url.Values) { q.Set("redirect_uri", "https://client.example.evil.example/callback") },
		"a dot segment":            func(q url.Values) { q.Set("redirect_uri", "https://client.example/x/../callback") },
		"another client's URI":     func(q url.Values) { q.Set("client_id", local.id) },
		"another path on the same machine": func(q url.Values) {
			q.Set("client_id", local.id)
			q.Set("redirect_uri", "http://127.0.0.1:8123/other")
		},
		"another name of the same machine": func(q url.Values) {
			q.Set("client_id", local.id)
			q.Set("redirect_uri", "http://localhost/callback")
		},
		"a query over 8 KiB": func(q url.Values) { q.Set("state", strings.Repeat("x", 9<<10)) },
	} {
		query := c.request("jobs:read")
		change(query)
		if status, header, raw := p.send("GET", "/oauth/portal/authorize?"+query.Encode(), nil); status != 400 || header.Get("Location") != "" {
			t.Errorf("%s: %d %s %s", what, status, header.Get("Location"), raw)
		}
	}
	query := local.request("jobs:read")
	query.Set("redirect_uri", "http://127.0.0.1:8123/callback")
	if to := p.authorize(query); !strings.HasPrefix(to.Path, "/authorize/") {
		t.Errorf("a loopback URI with another port: %s", to)
	}
}

func TestAuthorizeReturnsErrorsToTheClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.web("reports", func(d *document.OAuthClient) { d.Scopes = &[]string{"jobs:read", "old", "openid"} })
	machine := w.web("machine", func(d *document.OAuthClient) { d.GrantTypes = []string{"ClientCredentials"} })
	p := w.signUp("ada@example.com")
	for what, tt := range map[string]struct {
		change func(url.Values)
		code   string
	}{
		"no response type":       {func(q url.Values) { q.Del("response_type") }, "invalid_request"},
		"the implicit flow":      {func(q url.Values) { q.Set("response_type", "token") }, "unsupported_response_type"},
		"a hybrid flow":          {func(q url.Values) { q.Set("response_type", "code id_token") }, "unsupported_response_type"},
		"another response mode":  {func(q url.Values) { q.Set("response_mode", "fragment") }, "invalid_request"},
		"no challenge":           {func(q url.Values) { q.Del("code_challenge") }, "invalid_request"},
		"a short challenge":      {func(q url.Values) { q.Set("code_challenge", "abc") }, "invalid_request"},
		"a plain challenge":      {func(q url.Values) { q.Set("code_challenge_method", "plain") }, "invalid_request"},
		"no challenge method":    {func(q url.Values) { q.Del("code_challenge_method") }, "invalid_request"},
		"a scope twice over":     {func(q url.Values) { q.Add("scope", "openid") }, "invalid_request"},
		"two nonces":             {func(q url.Values) { q.Add("nonce", "x") }, "invalid_request"},
		"a NUL":                  {func(q url.Values) { q.Set("nonce", "a\x00b") }, "invalid_request"},
		"a request object":       {func(q url.Values) { q.Set("request", "x") }, "request_not_supported"},
		"a request URI":          {func(q url.Values) { q.Set("request_uri", "https://client.example/request") }, "request_uri_not_supported"},
		"an unknown scope":       {func(q url.Values) { q.Set("scope", "nope") }, "invalid_scope"},
		"an archived scope":      {func(q url.Values) { q.Set("scope", "old") }, "invalid_scope"},
		"a scope not permitted":  {func(q url.Values) { q.Set("scope", "jobs:run") }, "invalid_scope"},
		"a scope with a quote":   {func(q url.Values) { q.Set("scope", `jo"bs`) }, "invalid_scope"},
		"an unknown resource":    {func(q url.Values) { q.Set("resource", "https://evil.example") }, "invalid_target"},
		"an unknown prompt":      {func(q url.Values) { q.Set("prompt", "create") }, "invalid_request"},
		"prompt none and login":  {func(q url.Values) { q.Set("prompt", "none login") }, "invalid_request"},
		"max_age not a number":   {func(q url.Values) { q.Set("max_age", "soon") }, "invalid_request"},
		"a negative max_age":     {func(q url.Values) { q.Set("max_age", "-1") }, "invalid_request"},
		"a client without codes": {func(q url.Values) { q.Set("client_id", machine.id); q.Set("scope", "") }, "unauthorized_client"},
		"a very long state":      {func(q url.Values) { q.Set("state", strings.Repeat("x", 5<<10)) }, "invalid_request"},
	} {
		query := c.request("jobs:read")
		tt.change(query)
		to := p.authorize(query)
		if got := to.Query(); !strings.HasPrefix(to.String(), callback+"?") || got.Get("error") != tt.code || got.Get("iss") != issuer || got.Get("code") != "" {
			t.Errorf("%s: %s", what, to)
		}
	}
	doubled := c.request("jobs:read")
	doubled.Add("state", "other")
	if to := p.authorize(doubled); to.Query().Get("error") != "invalid_request" || to.Query().Has("state") {
		t.Errorf("two states: %s", to)
	}
}

func TestAuthorizeFollowsPromptAndMaxAge(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		c := w.web("reports", nil)
		p, signedOut := w.signUp("ada@example.com"), &person{w: w, client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
		goOn := func(p *person, pairs ...string) map[string]any {
			query := c.request("jobs:read")
			for ; len(pairs) > 0; pairs = pairs[2:] {
				query.Set(pairs[0], pairs[1])
			}
			return p.decide(p.authorize(query), map[string]any{"decision": "continue"})
		}
		errorOf := func(data map[string]any) string {
			to, _ := data["redirect_to"].(string)
			u, err := url.Parse(to)
			w.Must(err)
			return u.Query().Get("error")
		}
		if got := goOn(signedOut); got["step"] != "sign_in" {
			t.Errorf("signed out: %v", got)
		}
		if got := goOn(signedOut, "prompt", "none"); errorOf(got) != "login_required" {
			t.Errorf("signed out, silently: %v", got)
		}
		if got := goOn(p, "prompt", "none"); errorOf(got) != "consent_required" {
			t.Errorf("silently, before anything was granted: %v", got)
		}
		if got := goOn(p); got["step"] != "decide" {
			t.Errorf("first: %v", got)
		}
		if denied := p.decide(p.authorize(c.request("jobs:read")), map[string]any{"decision": "deny"}); errorOf(denied) != "access_denied" {
			t.Errorf("denied: %v", denied)
		}
		p.allow(c.request("jobs:read"))
		for _, prompt := range []string{"", "none"} {
			if got := goOn(p, "prompt", prompt); got["step"] != "answer" || errorOf(got) != "" {
				t.Errorf("granted before, prompt %q: %v", prompt, got)
			}
		}
		for _, prompt := range []string{"consent", "select_account"} {
			if got := goOn(p, "prompt", prompt); got["step"] != "decide" {
				t.Errorf("prompt %q: %v", prompt, got)
			}
		}
		if got := goOn(p, "scope", "jobs:read jobs:run"); got["step"] != "decide" {
			t.Errorf("more than was granted: %v", got)
		}
		w.Clock.Advance(time.Hour)
		if got := goOn(p, "max_age", "7200"); got["step"] != "answer" {
			t.Errorf("young enough: %v", got)
		}
		for _, pair := range [][]string{{"max_age", "60"}, {"max_age", "0"}, {"prompt", "login"}} {
			query := c.request("jobs:read")
			query.Set(pair[0], pair[1])
			page := p.authorize(query)
			if got := p.decide(page, map[string]any{"decision": "continue"}); got["step"] != "reauthenticate" {
				t.Errorf("%v: %v", pair, got)
			}
			status, _, raw := p.send("POST", "/session/authorizations/"+strings.TrimPrefix(page.Path, "/authorize/"), map[string]any{"decision": "allow"})
			if status != 403 || !strings.Contains(string(raw), "REAUTHENTICATION_REQUIRED") {
				t.Errorf("%v, allowed without a proof: %d %s", pair, status, raw)
			}
			p.ask("POST", "/session/reauthenticate", map[string]any{"strategy": "password", "password": goodPassword})
			if got := p.decide(page, map[string]any{"decision": "continue"}); got["step"] != "answer" {
				t.Errorf("%v, proven: %v", pair, got)
			}
			w.Clock.Advance(time.Hour)
		}
		query := c.request("jobs:read")
		query.Set("prompt", "none")
		query.Set("max_age", "60")
		if got := p.decide(p.authorize(query), map[string]any{"decision": "continue"}); errorOf(got) != "login_required" {
			t.Errorf("silently, too old: %v", got)
		}

		page := p.authorize(c.request("jobs:run"))
		p.decide(page, map[string]any{"decision": "allow"})
		if status, _, raw := p.send("POST", "/session/authorizations/"+strings.TrimPrefix(page.Path, "/authorize/"), map[string]any{"decision": "allow"}); status != 404 {
			t.Errorf("allowed twice: %d %s", status, raw)
		}
		page = p.authorize(c.request("jobs:run"))
		w.Clock.Advance(10 * time.Minute)
		if status, _, raw := p.send("GET", "/session/authorizations/"+strings.TrimPrefix(page.Path, "/authorize/"), nil); status != 404 {
			t.Errorf("after its time: %d %s", status, raw)
		}
	})
}

func TestConsentIsSkippedForFirstPartiesButNotForLocalPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own := w.web("own", func(d *document.OAuthClient) { d.SkipsConsent = true })
	local := w.web("terminal", func(d *document.OAuthClient) {
		d.Authentication, d.Verifiers, d.RedirectURIs = string(v1alpha1.ClientAuthenticationNone), nil, []string{"http://127.0.0.1/callback"}
	})
	p := w.signUp("ada@example.com")
	if got := p.decide(p.authorize(own.request("openid jobs:read")), map[string]any{"decision": "continue"}); got["step"] != "answer" {
		t.Errorf("a first party: %v", got)
	}
	query := local.request("jobs:read")
	query.Set("redirect_uri", "http://127.0.0.1:9999/callback")
	code := p.allow(query).Get("code")
	form := redeem(code)
	form.Set("redirect_uri", "http://127.0.0.1:9999/callback")
	if a := local.post("/token", form); a.status != 200 {
		t.Errorf("a public client: %s", a.raw)
	}
	if got := p.decide(p.authorize(query), map[string]any{"decision": "continue"}); got["step"] != "decide" {
		t.Errorf("a local program, granted before: %v", got)
	}
}

func TestOrganizationScopesAreGrantedInPlacesThatPermitThem(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.DeclareOAuthScope("orders-read", document.OAuthScope{Scope: "orders:read", DisplayName: "Read orders", Category: "organization", OrganizationPermission: "billing:read"})
		c, boss, clerk := w.web("reports", nil), w.signUp("boss@example.com"), w.signUp("clerk@example.com")
		made := func(p *person, name string) (id, slug string) {
			o := p.ask("POST", "/organizations", map[string]any{"name": name})["data"].(map[string]any)["organization"].(map[string]any)
			return o["id"].(string), o["slug"].(string)
		}
		theirs, _ := made(boss, "Theirs")
		own, slug := made(clerk, "Own")
		boss.ask("POST", "/organizations/"+theirs+"/invitations", map[string]any{"email": "clerk@example.com"})
		clerk.ask("POST", "/organizations/invitations/accept", map[string]any{"token": w.InvitationFor("clerk@example.com", 1)})

		page := clerk.authorize(c.request("openid groups orders:read"))
		path := "/session/authorizations/" + strings.TrimPrefix(page.Path, "/authorize/")
		missing := map[string]int{}
		for _, place := range clerk.ask("GET", path, nil)["data"].(map[string]any)["places"].([]any) {
			place := place.(map[string]any)
			missing[place["organization_name"].(string)] = len(place["missing"].([]any))
		}
		if missing["Theirs"] != 1 || missing["Own"] != 0 || len(missing) != 2 {
			t.Errorf("places %v", missing)
		}
		for _, where := range []map[string]any{{"decision": "allow"}, {"decision": "allow", "organization_id": theirs}, {"decision": "allow", "organization_id": "1"}} {
			if status, _, raw := clerk.send("POST", path, where); status != 400 || !strings.Contains(string(raw), "INVALID_PLACE") {
				t.Errorf("%v: %d %s", where, status, raw)
			}
		}
		answer := clerk.decide(page, map[string]any{"decision": "allow", "organization_id": own})
		to, err := url.Parse(answer["redirect_to"].(string))
		w.Must(err)
		token := c.post("/token", redeem(to.Query().Get("code")))
		if token.text("scope") != "openid groups orders:read" {
			t.Fatalf("%s", token.raw)
		}
		claims := claimsIn(t, w, token.text("id_token"))
		if groups, _ := claims["groups"].([]any); claims["org_id"] != own || len(groups) != 1 || groups[0] != slug+":owner" {
			t.Errorf("%v", claims)
		}
		errorOf := func() string {
			return c.post("/introspect", url.Values{"token": {token.text("access_token")}}).text("scope")
		}
		if errorOf() != "openid groups orders:read" {
			t.Errorf("introspected: %q", errorOf())
		}
		clerk.ask("POST", "/session/reauthenticate", map[string]any{"strategy": "password", "password": goodPassword})
		clerk.ask("DELETE", "/organizations/"+own, map[string]any{"confirmation": slug})
		if errorOf() != "openid groups" {
			t.Errorf("after the organization's end: %q", errorOf())
		}
		next := c.post("/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.text("refresh_token")}})
		if next.text("scope") != "openid groups" {
			t.Errorf("refreshed: %s", next.raw)
		}
	})
}

// The owner of an organization with the slug "system" must not be in a group such as system:masters.
func TestOrganizationNamedSystemHasNoGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, p := w.web("cluster", nil), w.signUp("ada@example.com")
	user, err := strconv.ParseInt(p.id, 10, 64)
	w.Must(err)
	for n, slug := range []string{"harbour", "system"} { // as a backend creates them, with a chosen slug
		o := people.Organization{ID: int64(1000 + n), Name: slug, Slug: slug, CreatedAt: w.Clock.Now()}
		w.Must(w.Store.Change(t.Context(), frontendtest.Deployment, func(tx people.Tx) error {
			if err := tx.Organizations().InsertOrganization(o); err != nil {
				return err
			}
			return tx.Organizations().InsertMember(people.Member{ID: o.ID, User: user, Organization: o, Owner: true, CreatedAt: o.CreatedAt})
		}))
		answer := p.decide(p.authorize(c.request("openid groups")), map[string]any{"decision": "allow", "organization_id": fmt.Sprint(o.ID)})
		to, err := url.Parse(answer["redirect_to"].(string))
		w.Must(err)
		want := map[string]string{"harbour": "[harbour:owner]", "system": "[]"}[slug]
		if got := fmt.Sprint(claimsIn(t, w, c.post("/token", redeem(to.Query().Get("code"))).text("id_token"))["groups"]); got != want {
			t.Errorf("%s: %s, want %s", slug, got, want)
		}
	}
}

// A system that trusts a group by its name must not trust a later organization with the same name.
func TestGroupOfDeletedOrganizationIsNotReused(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		c, owner, eve := w.web("cluster", nil), w.signUp("ada@example.com"), w.signUp("eve@example.com")
		groups := func(p *person) (organization, slug, groups string) {
			made := p.ask("POST", "/organizations", map[string]any{"name": "Harbour"})["data"].(map[string]any)["organization"].(map[string]any)
			answer := p.decide(p.authorize(c.request("openid groups")), map[string]any{"decision": "allow", "organization_id": made["id"]})
			to, err := url.Parse(answer["redirect_to"].(string))
			w.Must(err)
			return made["id"].(string), made["slug"].(string), fmt.Sprint(claimsIn(t, w, c.post("/token", redeem(to.Query().Get("code"))).text("id_token"))["groups"])
		}
		organization, slug, deleted := groups(owner)
		if deleted != "["+slug+":owner]" {
			t.Fatal(deleted, slug)
		}
		if status, _, raw := owner.send("DELETE", "/organizations/"+organization, map[string]any{"confirmation": slug}); status != 200 {
			t.Fatalf("%d %s", status, raw)
		}
		for _, p := range []*person{eve, owner} {
			if _, _, got := groups(p); got == deleted {
				t.Errorf("an organization made later has the groups of the deleted one: %s", got)
			}
		}
	})
}

// The setting SkipsConsent of a client does not cover offline_access.
func TestOfflineAccessNeedsOneConsent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own, p := w.web("own", func(d *document.OAuthClient) { d.SkipsConsent = true }), w.signUp("ada@example.com")
	step := func(scope string) any {
		return p.decide(p.authorize(own.request(scope)), map[string]any{"decision": "continue"})["step"]
	}
	if got := step("openid"); got != "answer" {
		t.Errorf("without offline_access: %v", got)
	}
	for range 2 {
		if got := step("openid offline_access"); got != "decide" {
			t.Errorf("offline_access, before consent: %v", got)
		}
	}
	p.allow(own.request("openid offline_access"))
	if got := step("openid offline_access jobs:read"); got != "decide" {
		t.Errorf("with a scope more: %v", got)
	}
	if got := step("openid offline_access"); got != "answer" {
		t.Errorf("once it was granted: %v", got)
	}
}
