package agents_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	tokens "github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// issuer is an OAuth app with a client, a user who authorized it, and an agent that takes its tokens.
type issuer struct {
	w          *peopleWorld
	app        document.OAuthApp
	family     people.TokenFamily
	url        string
	deployment string
}

// declareIssuer declares an OAuth app in a deployment on a host, with an agent that takes its tokens.
func (w *peopleWorld) declareIssuer(deployment, host, app, agent string) *issuer {
	w.T.Helper()
	namespace, _, _ := strings.Cut(deployment, "/")
	i := &issuer{w: w, deployment: deployment, url: "http://" + host + "/mcp/" + agent, app: document.OAuthApp{
		Slug: app, Name: app, Active: true, Issuer: "http://" + host + "/oauth/" + app, FrontendURL: "http://" + host, SigningKeys: []document.SigningKey{w.OAuthKey(jose.ES256)},
	}}
	w.Put(v1alpha1.KindOAuthApp, app, deployment, app, i.app)
	w.Put(v1alpha1.KindOAuthScope, app+"-read", deployment, document.ScopeKey(app, "orders:read"), document.OAuthScope{App: app, Scope: "orders:read"})
	client := w.Put(v1alpha1.KindOAuthClient, app+"-cli", deployment, "", document.OAuthClient{
		App: app, Name: "CLI", Active: true, Authentication: "None", GrantTypes: []string{"AuthorizationCode", "RefreshToken"}, RedirectURIs: []string{"https://client.example/callback"},
	})
	w.Put(v1alpha1.KindAIAgent, agent, deployment, "", document.AIAgent{Name: agent, Active: true, URL: i.url, OAuthApp: app, Sessions: true})
	i.family = w.family
	i.family.ID, i.family.Grant, i.family.Session, i.family.SignIn, i.family.Organization = w.newID(), w.newID(), w.newID(), w.newID(), 0
	i.family.App, i.family.Client, i.family.Scopes = ids.Derive(v1alpha1.KindOAuthApp, namespace, app), ids.Format(client), []string{"orders:read"}
	i.family.Resources = []string{agentURL, i.url}
	w.insertFamily(deployment, &i.family)
	return i
}

// token signs an access token of the issuer, for its own agent and for the agent support.
func (i *issuer) token(change ...func(*tokens.AccessClaims)) string {
	now := i.w.Clock.Now()
	claims := tokens.AccessClaims{
		Claims: jwt.Claims{
			Issuer: i.app.Issuer, Subject: ids.Format(i.family.User), Audience: jwt.Audience{agentURL, i.url}, IssuedAt: jwt.NewNumericDate(now),
			Expiry: jwt.NewNumericDate(now.Add(10 * time.Minute)), ID: "1",
		},
		ClientID: i.family.Client, Scope: "orders:read", Authorization: ids.Format(i.family.ID),
	}
	for _, one := range change {
		one(&claims)
	}
	return i.w.signed(i.app.SigningKeys[0], document.SealedOAuthKey, tokens.TypeAccessToken, claims)
}

// expectRefused checks that the agent support refuses a credential on both listeners, and that nothing is sent.
func (w *peopleWorld) expectRefused(name, credential string) {
	w.T.Helper()
	_, before := w.up.last()
	const challenge = `Bearer error="invalid_token", resource_metadata="http://localhost/.well-known/oauth-protected-resource/mcp/support"`
	for _, body := range []string{listing, calling} {
		if a := w.post("support", credential, body); a.status != 401 || a.header.Get("Www-Authenticate") != challenge || strings.Contains(a.raw, "find-order") {
			w.T.Errorf("%s: %d %s %s", name, a.status, a.header.Get("Www-Authenticate"), a.raw)
		}
	}
	if a := w.directAnswer(credential, "acme", "support", "find-order", findingOrder); a.Code != 401 {
		w.T.Errorf("%s, without MCP: %d %s", name, a.Code, a.Body)
	}
	if _, after := w.up.last(); after != before {
		w.T.Errorf("%s: %d calls reached the tool", name, after-before)
	}
}

func (w *peopleWorld) declareRival() {
	w.T.Helper()
	key := w.OAuthKey(jose.ES256)
	der, err := w.Keyring.Open(document.SealedOAuthKey, key.ID, key.Sealed)
	w.Must(err)
	key.Sealed = w.Keyring.Seal(document.SealedSigningKey, key.ID, der)
	w.Put(v1alpha1.KindIdentityDeployment, "rival", "rival/rival", "rival", document.Deployment{
		DisplayName: "Rival", Mode: "Staging", FrontendHosts: []string{"rival.localhost"}, ManagementWrites: "Enabled", FieldConflicts: "Reject", SigningKeys: []document.SigningKey{key},
	})
}

// Each token of another app or deployment is accepted by the agent that it is for.
func TestTokensOfAnotherAppOrDeploymentAreRefused(t *testing.T) {
	w := newPeopleWorld(t, nil)
	w.declareRival()
	shop := w.declareIssuer("acme/staging", "localhost", "shop", "shopper")
	rival := w.declareIssuer("rival/rival", "rival.localhost", "portal", "support")
	twin := w.declareIssuer("rival/rival", "rival.localhost", "shop", "other")
	for name, one := range map[string]struct {
		agent, host string
		of          *issuer
	}{
		"the other app":                        {"shopper", "localhost", shop},
		"the other deployment's app portal":    {"support", "rival.localhost", rival},
		"the other deployment's app like shop": {"other", "rival.localhost", twin},
	} {
		if a := w.post(one.agent, one.of.token(), listing, "Host", one.host); a.status != 200 {
			t.Errorf("a token of %s at its own agent: %d %s", name, a.status, a.raw)
		}
		w.expectRefused("a token of "+name, one.of.token())
		w.expectRefused("a token of "+name+" for this agent alone", one.of.token(forAudience(agentURL)))
		w.expectRefused("a token of "+name+" that names the agent's app as issuer", one.of.token(func(c *tokens.AccessClaims) { c.Issuer = w.app.Issuer }))
	}
	if a := w.post("support", w.token("orders:read"), listing, "Host", "rival.localhost"); a.status != 401 {
		t.Errorf("the token at the other deployment's agent of the same name: %d", a.status)
	}
	if a := w.post("shopper", w.token("orders:read", forAudience(agentURL, shop.url)), listing); a.status != 401 {
		t.Errorf("the token at an agent of the other app: %d", a.status)
	}
	if a := w.post("support", w.token("orders:read"), listing); a.status != 200 {
		t.Errorf("the agent's own token: %d %s", a.status, a.raw)
	}
	foreign := w.declareKey("rival", "rival/rival", "*")
	if a := w.post("support", foreign, listing, "Host", "rival.localhost"); a.status != 200 {
		t.Errorf("a key of the other deployment at its own agent: %d %s", a.status, a.raw)
	}
	if a := w.post("support", foreign, calling); a.status != 401 {
		t.Errorf("a key of the other deployment: %d %s", a.status, a.raw)
	}
	if a := w.directAnswer(foreign, "acme", "support", "find-order", findingOrder); a.Code != 404 { // the agent is unknown in its deployment
		t.Errorf("a key of the other deployment, without MCP: %d %s", a.Code, a.Body)
	}
}

func TestTokensForAnotherAudienceAndExpiredTokensAreRefused(t *testing.T) {
	w := newPeopleWorld(t, nil)
	session := w.sessions()
	w.declareIssuer("acme/staging", "localhost", "shop", "shopper")
	other := document.AIAgent{Name: "Other", Active: true, URL: "http://localhost/mcp/other", OAuthApp: "portal", Sessions: true}
	w.Put(v1alpha1.KindAIAgent, "other", "acme/staging", "", other)
	for name, audience := range map[string]string{
		"a resource of the app": "https://api.acme.example", "the app itself": w.app.Issuer, "another agent of the app": other.URL, "an agent of another app": "http://localhost/mcp/shopper",
		"the deployment": "cardea:acme:staging", "the host": "http://localhost", "a longer URL": agentURL + "/", "a URL that begins like the agent's": agentURL + "2",
		"the URL in capitals": strings.ToUpper(agentURL), "the URL with https": strings.Replace(agentURL, "http:", "https:", 1), "the URL with a query": agentURL + "?x", "nothing": "",
	} {
		w.expectRefused("an access token for "+name, w.token("orders:read", forAudience(audience)))
		w.expectRefused("a session token for "+name, session(audience))
	}
	for name, token := range map[string]string{"an access token": w.token("orders:read", forAudience(other.URL)), "a session token": session(other.URL)} {
		if a := w.post("other", token, listing); a.status != 200 {
			t.Errorf("%s at the agent that it is for: %d %s", name, a.status, a.raw)
		}
	}
	now := w.Clock.Now()
	w.expectRefused("an access token that expires now", w.token("orders:read", func(c *tokens.AccessClaims) { c.Expiry = jwt.NewNumericDate(now.Truncate(time.Second)) }))
	w.expectRefused("an access token without an end", w.token("orders:read", func(c *tokens.AccessClaims) { c.Expiry = nil }))
	w.expectRefused("an access token of another type", w.signed(w.app.SigningKeys[0], document.SealedOAuthKey, "JWT", map[string]any{
		"iss": w.app.Issuer, "sub": "7", "aud": agentURL, "exp": now.Add(time.Minute).Unix(), "iat": now.Unix(), "client_id": w.family.Client, "scope": "orders:read", "authorization_id": "40",
	}))
	w.expectRefused("an ID token", w.signed(w.app.SigningKeys[0], document.SealedOAuthKey, "JWT", map[string]any{
		"iss": w.app.Issuer, "sub": "7", "aud": agentURL, "exp": now.Add(time.Minute).Unix(), "iat": now.Unix(), "nonce": "n",
	}))
	good, short := w.token("orders:read"), session(agentURL)
	for name, token := range map[string]string{"an access token": good, "a session token": short} {
		if a := w.post("support", token, calling); a.status != 200 {
			t.Fatalf("%s: %d %s", name, a.status, a.raw)
		}
		for _, altered := range []string{token[:len(token)-8] + "AAAAAAAA", token[:strings.LastIndexByte(token, '.')+1], token + "A", "x" + token} {
			w.expectRefused(name+" that was altered", altered)
		}
	}
	w.Clock.Advance(time.Minute)
	w.expectRefused("a session token after its minute", short)
	w.Clock.Advance(9 * time.Minute)
	w.expectRefused("an access token after its ten minutes", good)
}
