package agents_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// declareSessionKey gives the deployment a key that signs session tokens, and returns the deployment.
func (w *flowWorld) declareSessionKey() document.Deployment {
	w.T.Helper()
	key := w.OAuthKey(jose.ES256)
	der, err := w.Keyring.Open(document.SealedOAuthKey, key.ID, key.Sealed)
	w.Must(err)
	key.Sealed = w.Keyring.Seal(document.SealedSigningKey, key.ID, der)
	settings := w.Settings()
	settings.SigningKeys = []document.SigningKey{key}
	w.Declare(settings)
	return settings
}

// declareClient declares a client of the app portal, and returns its id and secret.
func (w *flowWorld) declareClient(name string, change func(*document.OAuthClient)) (id, secret string) {
	w.T.Helper()
	minted, err := apikey.Mint(rand.Reader, "cs")
	w.Must(err)
	content := document.OAuthClient{
		App: "portal", Name: name, Active: true, Authentication: string(v1alpha1.ClientAuthenticationSecretBasic), AccessTokenSeconds: 600,
		Verifiers: []document.Verifier{{ID: minted.ID(), Digest: minted.Digest(), Last4: minted.Last4()}},
	}
	change(&content)
	return ids.Format(w.Put(v1alpha1.KindOAuthClient, name, frontendtest.Deployment, "", content)), minted.Plain()
}

// ownToken returns the access token of a client for itself.
func (w *flowWorld) ownToken(client, secret string) string {
	w.T.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "resource": {w.at("support")}}
	r, err := http.NewRequestWithContext(w.T.Context(), "POST", w.base+"/oauth/portal/token", strings.NewReader(form.Encode()))
	w.Must(err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(client, secret)
	resp, err := http.DefaultClient.Do(r)
	w.Must(err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	w.Must(err)
	var issued struct {
		AccessToken string `json:"access_token"`
	}
	w.Must(json.Unmarshal(raw, &issued))
	if issued.AccessToken == "" {
		w.T.Fatalf("the client's own token: %d %s", resp.StatusCode, raw)
	}
	return issued.AccessToken
}

// Every credential that the agent accepts over MCP calls its tools without MCP, for the same user.
func TestEveryKindOfCallerCallsToolsWithoutMCP(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, engine string) {
		w := newFlowWorld(t, newWorldOver(t, engine))
		settings := w.declareSessionKey()
		w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", document.AIAgent{
			Name: "Support", Active: true, Tools: []string{"find-order"}, URL: w.at("support"), OAuthApp: "portal", Sessions: true,
		})
		ada := w.browser()
		ada.signUp("ada@example.com")
		opaque, _ := w.declareClient("opaque", func(c *document.OAuthClient) {
			c.Authentication, c.Verifiers, c.OpaqueTokens = "None", nil, true
			c.GrantTypes, c.RedirectURIs = []string{string(v1alpha1.GrantTypeAuthorizationCode)}, []string{redirectURI}
		})
		machine, secret := w.declareClient("machine", func(c *document.OAuthClient) { c.GrantTypes = []string{string(v1alpha1.GrantTypeClientCredentials)} })
		registered := w.register()
		var user int64
		w.Must(w.Store.View(t.Context(), frontendtest.Deployment, func(tx people.Tx) error {
			found, _, err := tx.Users().UserByEmail(people.FoldEmail("ada@example.com"))
			user = found.ID
			return err
		}))
		for name, tc := range map[string]struct {
			credential, kind string
			user             int64
		}{
			"an access token":           {w.tokenFor(ada, registered, "orders:read"), people.CallerClient, user},
			"an opaque access token":    {w.tokenFor(ada, opaque, "orders:read"), people.CallerClient, user},
			"a client's own token":      {w.ownToken(machine, secret), people.CallerClient, 0},
			"a session token":           {fmt.Sprint(ada.ask("/session/token", map[string]any{"resource": w.at("support")}).Data["token"]), people.CallerSession, user},
			"an API key":                {w.key, people.CallerKey, 0},
			"an API key of the user":    {w.declareKeyOf(user).Plain(), people.CallerKey, user},
			"a declared issuer's token": {w.declaredIssuersToken(settings, "https://tools.example"), people.CallerToken, 0},
		} {
			w.Clock.Advance(time.Millisecond)
			before := len(w.records(w.Store))
			if status, answer, raw := w.direct(tc.credential, "support", "find-order", findingOrder); status != 200 || answer["status"] != "completed" {
				t.Errorf("%s: %d %s", name, status, raw)
				continue
			}
			w.Eventually("the call is recorded", func() bool { return len(w.records(w.Store)) > before })
			calls := w.records(w.Store)
			if who := calls[len(calls)-1].Caller; who.Kind != tc.kind || who.User != tc.user {
				t.Errorf("%s is recorded as %+v", name, who)
			}
		}
	})
}

// declaredIssuersToken declares an issuer for an audience, and returns a token of it that may call tools.
func (w *flowWorld) declaredIssuersToken(settings document.Deployment, audience string) string {
	w.T.Helper()
	key := w.OAuthKey(jose.ES256)
	now := w.Clock.Now()
	settings.JWTIssuers = []document.JWTIssuer{{
		Name: "ci", Issuer: "https://ci.example", Audiences: []string{audience}, Algorithms: []string{"ES256"}, PermissionsClaim: "permissions",
		JWKS: json.RawMessage(`{"keys":[` + string(key.Public) + `]}`),
	}}
	w.Declare(settings)
	return (&peopleWorld{world: w.world}).signed(key, document.SealedOAuthKey, "JWT", map[string]any{
		"iss": "https://ci.example", "sub": "builder", "aud": audience, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "permissions": []string{"ai_agents:call"},
	})
}
