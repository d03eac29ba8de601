package agents_test

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	tokens "github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	agentURL = "http://localhost/mcp/support"
	listing  = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	calling  = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"find-order","arguments":{"number":"7"}}}`
)

// peopleWorld is a world with an OAuth app, a client with a token family of a user, and an agent that accepts both.
type peopleWorld struct {
	*world
	app    document.OAuthApp
	family people.TokenFamily
	// signingKeys are those of session tokens, nil before sessions.
	signingKeys []document.SigningKey
}

func newPeopleWorld(t *testing.T, change func(*document.AIAgent)) *peopleWorld {
	t.Helper()
	return newPeopleWorldIn(t, newWorld(t), change)
}

func newPeopleWorldIn(t *testing.T, in *world, change func(*document.AIAgent)) *peopleWorld {
	t.Helper()
	w := &peopleWorld{world: in}
	w.app = w.DeclareOAuthApp("http://localhost")
	w.DeclareOAuthScope("read", document.OAuthScope{Scope: "orders:read"})
	w.DeclareOAuthScope("write", document.OAuthScope{Scope: "orders.change", Category: "organization", OrganizationPermission: "orders:write"})
	w.DeclareOAuthScope("old", document.OAuthScope{Scope: "old", Category: "organization", OrganizationPermission: "orders:read", Archived: true})
	role := w.Put(v1alpha1.KindMembershipRole, "clerk", frontendtest.Deployment, "", document.MembershipRole{Level: "Organization", Name: "clerk", Permissions: []string{"orders:write"}})
	w.DeclareB2B(document.B2BSettings{Enabled: true})
	client := w.Put(v1alpha1.KindOAuthClient, "cli", frontendtest.Deployment, "", document.OAuthClient{
		App: "portal", Name: "CLI", Active: true, Authentication: "None", GrantTypes: []string{"AuthorizationCode", "RefreshToken"}, RedirectURIs: []string{"https://client.example/callback"},
	})
	app := ids.Derive(v1alpha1.KindOAuthApp, "acme", "portal")
	now := w.Clock.Now()
	w.family = people.TokenFamily{
		ID: 40, Grant: 30, App: app, Client: ids.Format(client), User: 7, SignIn: 20, Organization: 50, Scopes: []string{"orders:read", "orders.change"}, Resources: []string{agentURL},
		Offline: true, CreatedAt: now, UsedAt: now, ExpiresAt: now.Add(time.Hour), AuthenticatedAt: now,
	}
	w.Must(w.Store.Change(t.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		_, granted := tx.OAuth().PutGrant(people.Grant{ID: 30, App: app, Client: ids.Format(client), User: 7, Organization: 50, Scopes: w.family.Scopes, Resources: w.family.Resources, CreatedAt: now, UpdatedAt: now}, 9)
		for _, err := range []error{
			granted, tx.Users().InsertUser(people.User{ID: 7, CreatedAt: now}, people.Email{ID: 8, Address: "ada@example.com", Primary: true, CreatedAt: now, VerifiedAt: now}),
			tx.Organizations().InsertOrganization(people.Organization{ID: 50, Name: "Acme", Slug: "acme", CreatedAt: now}),
			tx.Organizations().InsertMember(people.Member{ID: 51, Organization: people.Organization{ID: 50}, User: 7, Role: role, CreatedAt: now}),
			tx.OAuth().InsertTokenFamily(w.family, 9),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	}))
	agent := document.AIAgent{Name: "Support", Active: true, Tools: []string{"find-order", "cancel-order"}, URL: agentURL, OAuthApp: "portal", Sessions: true, Instructions: "Ask for the number first."}
	if change != nil {
		change(&agent)
	}
	w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", agent)
	w.Eventually("the agent accepts tokens", func() bool { return w.metadata().StatusCode != http.StatusNotFound || agent.OAuthApp == "" })
	return w
}

func (w *peopleWorld) metadata() *http.Response {
	w.T.Helper()
	r, err := http.NewRequestWithContext(w.T.Context(), "GET", w.Server.URL+"/.well-known/oauth-protected-resource/mcp/support", nil)
	w.Must(err)
	r.Host = "localhost"
	resp, err := http.DefaultClient.Do(r)
	w.Must(err)
	w.T.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// token signs an access token of the family with the given scopes.
func (w *peopleWorld) token(scopes string, change ...func(*tokens.AccessClaims)) string {
	w.T.Helper()
	now := w.Clock.Now()
	claims := tokens.AccessClaims{
		Claims: jwt.Claims{
			Issuer: w.app.Issuer, Subject: "7", Audience: jwt.Audience{agentURL}, Expiry: jwt.NewNumericDate(now.Add(10 * time.Minute)), IssuedAt: jwt.NewNumericDate(now), ID: rand.Text(),
		},
		ClientID: w.family.Client, Scope: scopes, Authorization: "40",
	}
	for _, one := range change {
		one(&claims)
	}
	return w.signed(w.app.SigningKeys[0], document.SealedOAuthKey, tokens.TypeAccessToken, claims)
}

func (w *peopleWorld) signed(key document.SigningKey, kind, tokenType string, claims any) string {
	w.T.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: w.private(key, kind), KeyID: key.ID}}, (&jose.SignerOptions{}).WithType(jose.ContentType(tokenType)))
	w.Must(err)
	raw, err := jwt.Signed(signer).Claims(claims).Serialize()
	w.Must(err)
	return raw
}

// private opens the private part of a signing key.
func (w *peopleWorld) private(key document.SigningKey, kind string) any {
	w.T.Helper()
	der, err := w.Keyring.Open(kind, key.ID, key.Sealed)
	w.Must(err)
	private, err := x509.ParsePKCS8PrivateKey(der)
	w.Must(err)
	return private
}

// sessions gives the deployment a signing key and the user a session, and returns a function that signs its tokens.
func (w *peopleWorld) sessions() func(audience string, permissions ...string) string {
	w.T.Helper()
	key := w.OAuthKey(jose.ES256)
	der, err := x509.MarshalPKCS8PrivateKey(w.private(key, document.SealedOAuthKey))
	w.Must(err)
	key.Sealed = w.Keyring.Seal(document.SealedSigningKey, key.ID, der)
	settings := w.Settings()
	w.signingKeys = []document.SigningKey{key}
	settings.SigningKeys = w.signingKeys
	w.Declare(settings)
	w.insertSession()
	now := w.Clock.Now()
	return func(audience string, permissions ...string) string {
		return w.signed(key, document.SealedSigningKey, "JWT", map[string]any{
			"iss": "https://localhost", "sub": "7", "aud": audience, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "sid": "12", "permissions": permissions,
		})
	}
}

// insertSession inserts the session 12, in which the user is signed in.
func (w *peopleWorld) insertSession() {
	w.T.Helper()
	now := w.Clock.Now()
	w.Must(w.Store.Change(w.T.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		if err := tx.Sessions().InsertSession(people.Session{ID: 12, ActiveSignIn: 21, CreatedAt: now, UsedAt: now, ExpiresAt: now.Add(24 * time.Hour)}); err != nil {
			return err
		}
		return tx.Sessions().InsertSignIn(people.SignIn{ID: 21, Session: 12, User: 7, Method: "password", CreatedAt: now})
	}))
}

func names(a answer) (list []string) {
	result, _ := a.body["result"].(map[string]any)
	tools, _ := result["tools"].([]any)
	for _, one := range tools {
		list = append(list, one.(map[string]any)["name"].(string))
	}
	return list
}

func TestAgentAcceptsAccessTokensForItsURL(t *testing.T) {
	w := newPeopleWorld(t, nil)
	good := w.token("orders:read")
	if a := w.post("support", good, listing); !slices.Equal(names(a), []string{"find-order", "cancel-order"}) {
		t.Fatalf("the list is %s", a.raw)
	}
	if a := w.post("support", good, calling); !strings.Contains(a.raw, `"open"`) {
		t.Fatalf("the call: %s", a.raw)
	}
	if up, _ := w.up.last(); strings.Contains(strings.Join(up.header.Values("Authorization"), ""), "Bearer") || up.header.Get("Cookie") != "" {
		t.Error("the caller's credential reached the tool")
	}
	w.declareAgent("other", "find-order")
	now := w.Clock.Now()
	for name, token := range map[string]string{
		"another audience":  w.token("orders:read", func(c *tokens.AccessClaims) { c.Audience = jwt.Audience{"https://api.acme.example"} }),
		"the app itself":    w.token("orders:read", func(c *tokens.AccessClaims) { c.Audience = jwt.Audience{w.app.Issuer} }),
		"expired":           w.token("orders:read", func(c *tokens.AccessClaims) { c.Expiry = jwt.NewNumericDate(now.Add(-time.Minute)) }),
		"another issuer":    w.token("orders:read", func(c *tokens.AccessClaims) { c.Issuer = "https://evil.example" }),
		"another client":    w.token("orders:read", func(c *tokens.AccessClaims) { c.ClientID = "9" }),
		"an unknown family": w.token("orders:read", func(c *tokens.AccessClaims) { c.Authorization = "99" }),
		"no token":          "",
		"a word":            "hello",
	} {
		a := w.post("support", token, listing)
		challenge := a.header.Get("Www-Authenticate")
		if a.status != 401 || !strings.Contains(challenge, `resource_metadata="http://localhost/.well-known/oauth-protected-resource/mcp/support"`) || strings.Contains(challenge, "invalid_token") != (token != "") {
			t.Errorf("%s: %d %s %s", name, a.status, challenge, a.raw)
		}
	}
	if a := w.post("other", good, listing); a.status != 401 {
		t.Errorf("another agent accepts the token: %s", a.raw)
	}
	w.Must(w.Store.Change(t.Context(), frontendtest.Deployment, func(tx people.Tx) error { _, err := tx.OAuth().EndTokenFamily(40); return err }))
	w.Eventually("the revoked token is refused", func() bool { return w.post("support", good, listing).status == 401 })
}

// Users behind one address share its attempts. Their clients present an expired token before they refresh it.
func TestExpiredTokensAreNoFailedAttempts(t *testing.T) {
	w := newPeopleWorld(t, nil)
	sign := w.sessions()
	w.Eventually("a session token is accepted", func() bool { return w.post("support", sign(agentURL), listing).status == 200 })
	expired := []string{w.token("orders:read"), sign(agentURL)}
	w.Clock.Advance(11 * time.Minute)
	for _, token := range expired {
		for n := range 150 {
			if a := w.post("support", token, listing); a.status != 401 {
				t.Fatalf("expired token %d: %d %s", n, a.status, a.raw)
			}
		}
	}
	statuses := map[int]int{}
	for range 150 {
		statuses[w.post("support", "unknown", listing).status]++
	}
	if statuses[429] == 0 {
		t.Fatalf("unknown tokens are not throttled: %v", statuses)
	}
	if a := w.post("support", expired[0], listing); a.status != 401 {
		t.Errorf("an expired token from a throttled address: %d %s", a.status, a.raw)
	}
}

func TestListHasWhatTheCallerMayCall(t *testing.T) {
	w := newPeopleWorld(t, func(a *document.AIAgent) {
		a.Permissions = []string{"orders:read"}
		a.Tools = []string{"find-order", "cancel-order", "purge"}
	})
	w.declareTool("cancel-order", document.AITool{Name: "Cancel", Method: "POST", Endpoint: w.up.URL + "/cancellations", Permissions: []string{"orders:write"}})
	w.declareTool("purge", document.AITool{Name: "Purge", Method: "DELETE", Endpoint: w.up.URL + "/orders", Permissions: []string{"orders:purge"}})
	const cancelling = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"cancel-order"}}`
	const purging = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"purge"}}`

	reader := w.token("orders:read")
	w.Eventually("the user sees what the user may grant", func() bool {
		return slices.Equal(names(w.post("support", reader, listing)), []string{"find-order", "cancel-order"})
	})
	a := w.post("support", reader, cancelling)
	if want := `Bearer error="insufficient_scope", scope="orders.change orders:read", resource_metadata="http://localhost/.well-known/oauth-protected-resource/mcp/support"`; a.status != 403 || a.header.Get("Www-Authenticate") != want {
		t.Errorf("a call without the scope: %d %s", a.status, a.header.Get("Www-Authenticate"))
	}
	if a := w.post("support", w.token("orders.change orders:read"), cancelling); !strings.Contains(a.raw, `"open"`) {
		t.Errorf("a call with both scopes: %s", a.raw)
	}
	if a := w.post("support", w.token("orders.change"), listing); a.status != 403 || !strings.Contains(a.header.Get("Www-Authenticate"), `scope="orders:read"`) {
		t.Errorf("a token without the agent's scope: %d %s", a.status, a.header.Get("Www-Authenticate"))
	}
	forbidden := w.post("support", reader, purging)
	unknown := w.post("support", reader, strings.Replace(purging, "purge", "other", 1))
	if forbidden.status != 200 || strings.Replace(forbidden.raw, "purge", "other", 1) != unknown.raw {
		t.Errorf("a forbidden tool: %s, an unknown one: %s", forbidden.raw, unknown.raw)
	}

	for permissions, want := range map[string][]string{
		"ai_agents:call orders:read": {"find-order"}, "ai_agents:call orders:read orders:write": {"find-order", "cancel-order"}, "*": {"find-order", "cancel-order", "purge"},
	} {
		key := w.declareKey("k"+ids.Format(int64(len(permissions))), frontendtest.Deployment, strings.Fields(permissions)...)
		w.Eventually("a key with "+permissions, func() bool { return slices.Equal(names(w.post("support", key, listing)), want) })
	}
	if a := w.post("support", w.key, listing); a.status != 403 || a.header.Get("Www-Authenticate") != "" {
		t.Errorf("a key without the agent's permission: %d %s", a.status, a.raw)
	}
}

func TestMetadataOfAnAgent(t *testing.T) {
	w := newPeopleWorld(t, func(a *document.AIAgent) { a.Permissions = []string{"orders:read"} })
	var got map[string]any
	w.Must(json.NewDecoder(w.metadata().Body).Decode(&got))
	want := `{"authorization_servers":["http://localhost/oauth/portal"],"bearer_methods_supported":["header"],"resource":"http://localhost/mcp/support","resource_name":"Support","scopes_supported":["orders:read"]}`
	if raw, _ := json.Marshal(got); string(raw) != want {
		t.Errorf("the metadata is %s", raw)
	}
	if a := w.post("support", "", listing); !strings.Contains(a.header.Get("Www-Authenticate"), `scope="orders:read"`) {
		t.Errorf("the challenge is %s", a.header.Get("Www-Authenticate"))
	}
	initialized := w.post("support", w.token("orders:read"), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	if !strings.Contains(initialized.raw, `"instructions":"Ask for the number first."`) {
		t.Errorf("initialize: %s", initialized.raw)
	}
	w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", document.AIAgent{Name: "Support", Active: true, URL: agentURL})
	w.Eventually("an agent without an app has no metadata", func() bool { return w.metadata().StatusCode == 404 })
	if a := w.post("support", "", listing); a.header.Get("Www-Authenticate") != "Bearer" {
		t.Errorf("its challenge is %s", a.header.Get("Www-Authenticate"))
	}
}

func TestPagesOfDeclaredOriginsMayCall(t *testing.T) {
	w := newPeopleWorld(t, nil)
	settings := w.Settings()
	settings.AllowedOrigins = []string{"https://app.example"}
	w.Declare(settings)
	w.Eventually("the origin is declared", func() bool { return w.post("support", w.key, listing, "Origin", "https://app.example").status == 200 })
	a := w.post("support", "", listing, "Origin", "https://app.example")
	if a.header.Get("Access-Control-Allow-Origin") != "https://app.example" || !strings.Contains(a.header.Get("Access-Control-Expose-Headers"), "WWW-Authenticate") || a.header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("the headers are %v", a.header)
	}
	for _, origin := range []string{"https://evil.example", "null", "https://app.example.evil.example"} {
		if a := w.post("support", w.key, listing, "Origin", origin); a.status != 403 || a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d %v", origin, a.status, a.header)
		}
	}
	for origin, want := range map[string]int{"https://app.example": 204, "https://evil.example": 403} {
		r, err := http.NewRequestWithContext(t.Context(), "OPTIONS", w.Server.URL+"/mcp/support", nil)
		w.Must(err)
		r.Host = "localhost"
		r.Header.Set("Origin", origin)
		r.Header.Set("Access-Control-Request-Method", "POST")
		resp, err := http.DefaultClient.Do(r)
		w.Must(err)
		w.Must(resp.Body.Close())
		if resp.StatusCode != want || strings.Contains(resp.Header.Get("Access-Control-Allow-Headers"), "Authorization") != (want == 204) {
			t.Errorf("preflight of %s: %d %v", origin, resp.StatusCode, resp.Header)
		}
	}
}

func TestLimitsOfAgentAndToolCountTogether(t *testing.T) {
	w := newPeopleWorld(t, func(a *document.AIAgent) { a.Scheme = "agent" })
	w.Put(v1alpha1.KindRateLimitScheme, "agent", frontendtest.Deployment, "agent", document.RateLimitScheme{Name: "agent", Rules: []scheme.Rule{{Unit: "hour", Duration: 1, MaxRequests: 3, Mode: "per_app"}}})
	w.Put(v1alpha1.KindRateLimitScheme, "tool", frontendtest.Deployment, "tool", document.RateLimitScheme{Name: "tool", Rules: []scheme.Rule{{Unit: "hour", Duration: 1, MaxRequests: 1, Mode: "per_key"}}})
	w.declareTool("find-order", document.AITool{Name: "Find", Method: "GET", Endpoint: w.up.URL + "/orders", Scheme: "tool"})
	const finding = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"find-order","arguments":{}}}`
	const cancelling = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"cancel-order","arguments":{"number":"7"}}}`
	user := w.token("orders:read")
	w.Eventually("the schemes bind", func() bool { return strings.Contains(w.post("support", user, finding).raw, `"open"`) })
	refused := w.post("support", user, finding)
	if !strings.Contains(refused.raw, `"code":"rate_limited"`) || !strings.Contains(refused.raw, `"retry_after":`) {
		t.Fatalf("the second call of the tool: %s", refused.raw)
	}
	// The refusal by the tool's scheme consumed nothing of the agent's: two calls are left.
	for range 2 {
		if a := w.post("support", user, cancelling); !strings.Contains(a.raw, `"open"`) {
			t.Fatalf("a call of the other tool: %s", a.raw)
		}
	}
	if a := w.post("support", user, cancelling); !strings.Contains(a.raw, `"code":"rate_limited"`) {
		t.Fatalf("beyond the agent's scheme: %s", a.raw)
	}
	if a := w.post("support", w.key, finding); !strings.Contains(a.raw, `"open"`) {
		t.Errorf("a key, which has an app of its own: %s", a.raw)
	}
}

func TestAgentAcceptsSessionTokensForItsURL(t *testing.T) {
	w := newPeopleWorld(t, func(a *document.AIAgent) { a.Permissions = []string{"orders:read"} })
	token := w.sessions()
	w.Eventually("a session token is accepted", func() bool {
		return strings.Contains(w.post("support", token(agentURL, "orders:read"), calling).raw, `"open"`)
	})
	if a := w.post("support", token(agentURL), listing); a.status != 403 || a.header.Get("Www-Authenticate") != "" {
		t.Errorf("without the permission: %d %s", a.status, a.raw)
	}
	for _, audience := range []string{"cardea:acme:home", agentURL + "2", "http://localhost"} {
		if a := w.post("support", token(audience, "orders:read"), listing); a.status != 401 {
			t.Errorf("for %s: %d", audience, a.status)
		}
	}
	w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", document.AIAgent{Name: "Support", Active: true, URL: agentURL, OAuthApp: "portal"})
	w.Eventually("an agent that denies sessions refuses them", func() bool { return w.post("support", token(agentURL, "orders:read"), listing).status == 401 })
}

func TestAgentAcceptsTokensOfIssuersDeclaredForItsURL(t *testing.T) {
	w := newPeopleWorld(t, nil)
	key := w.OAuthKey(jose.ES256)
	settings := w.Settings()
	settings.JWTIssuers = []document.JWTIssuer{{
		Name: "ci", Issuer: "https://ci.example", Audiences: []string{agentURL, "https://else.example"}, Algorithms: []string{"ES256"}, PermissionsClaim: "permissions",
		JWKS: json.RawMessage(`{"keys":[` + string(key.Public) + `]}`),
	}}
	w.Declare(settings)
	now := w.Clock.Now()
	token := func(audience string, permissions ...string) string {
		return w.signed(key, document.SealedOAuthKey, "JWT", map[string]any{
			"iss": "https://ci.example", "sub": "builder", "aud": audience, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "permissions": permissions,
		})
	}
	w.Eventually("the issuer is declared", func() bool {
		return strings.Contains(w.post("support", token(agentURL, "ai_agents:call"), calling).raw, `"open"`)
	})
	if a := w.post("support", token(agentURL, "orders:read"), listing); a.status != 403 {
		t.Errorf("without ai_agents:call: %d", a.status)
	}
	if a := w.post("support", token("https://else.example", "ai_agents:call"), listing); a.status != 401 {
		t.Errorf("for another audience of the issuer: %d", a.status)
	}
}
