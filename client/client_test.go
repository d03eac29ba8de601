package client_test

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/oapi-codegen/nullable"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/client"
	"github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/client/decision"
	"github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/client/guard"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// world is a deployment with its server, and a key that may do everything.
type world struct {
	*frontendtest.World
	key                         string
	backend, decision, frontend string
	deployment                  document.Deployment
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: frontendtest.New(t, nil)}
	w.deployment = w.Settings()
	w.signBy("first")
	w.Put(v1alpha1.KindRateLimitScheme, "few", frontendtest.Deployment, "few", document.RateLimitScheme{Slug: "few", Name: "Few", Rules: []scheme.Rule{{Unit: "hour", Duration: 1, MaxRequests: 2, Endpoints: []string{"POST /v1/*"}}}})
	w.Put(v1alpha1.KindAPIAuthApp, "internal", frontendtest.Deployment, "internal", document.APIAuthApp{Slug: "internal", Name: "Internal", Permissions: []string{"*"}, Active: true})
	w.Put(v1alpha1.KindAPIAuthApp, "shop", frontendtest.Deployment, "shop", document.APIAuthApp{Slug: "shop", Name: "Shop", Permissions: []string{"orders:read"}, Active: true, Scheme: "few"})
	minted, err := apikey.Mint(rand.Reader, "ck")
	w.Must(err)
	w.key = minted.Plain()
	w.Put(v1alpha1.KindAPIKey, "all", frontendtest.Deployment, "", document.APIKey{
		App: "internal", Name: "All", Permissions: []string{"*"}, Verifiers: []document.Verifier{{ID: minted.ID(), Digest: minted.Digest(), Last4: minted.Last4()}},
	})
	serve := func(handler http.Handler) string {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		return server.URL
	}
	w.backend, w.decision = serve(w.Backend), serve(w.Decision)
	at, err := url.Parse(w.Server.URL)
	w.Must(err)
	w.frontend = "http://localhost:" + at.Port() // the host selects the deployment
	w.Eventually("the key is known", func() bool {
		made, err := w.newBackend().ListApiAuthApps(t.Context(), backend.ListApiAuthAppsParams{})
		return err == nil && len(made.Apps) == 2
	})
	return w
}

// signBy adds a signing key to the deployment.
func (w *world) signBy(id string) {
	key := w.OAuthKey(jose.ES256)
	der, err := w.Keyring.Open(document.SealedOAuthKey, key.ID, key.Sealed)
	w.Must(err)
	key.Sealed = w.Keyring.Seal(document.SealedSigningKey, key.ID, der)
	w.deployment.SigningKeys = append([]document.SigningKey{key}, w.deployment.SigningKeys...)
	w.Declare(w.deployment)
	w.Eventually("the key "+id+" is published", func() bool {
		set, err := w.newEndUser().GetKeySet(w.T.Context())
		if err != nil {
			return false
		}
		return len(set.Keys) == len(w.deployment.SigningKeys)
	})
}

func (w *world) newBackend() *backend.Client {
	c, err := backend.New(w.backend, client.WithToken(w.key), client.WithUserAgent("tests"))
	w.Must(err)
	return c
}

func (w *world) newEndUser() *enduser.Client {
	base := w.frontend
	if base == "" {
		at, err := url.Parse(w.Server.URL)
		w.Must(err)
		base = "http://localhost:" + at.Port()
	}
	c, err := enduser.New(base)
	w.Must(err)
	return c
}

// customer makes a key of the app shop.
func (w *world) customer() (id, plain string) {
	made, err := w.newBackend().CreateApiKey(w.T.Context(), "shop", backend.ApiKeyCreate{Name: "Globex", Permissions: &[]string{"orders:read"}})
	w.Must(err)
	return made.Key.Id, made.Secret
}

// A backend creates, reads, changes and lists keys, and all refusals have the same type.
func TestBackend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	synced := ""
	c, err := backend.New(w.backend, client.WithToken(w.key), client.WithAnswer(func(answer *http.Response) { synced = answer.Header.Get("X-Request-Id") }))
	w.Must(err)
	id, plain := w.customer()
	if !strings.HasPrefix(plain, "ck_") {
		t.Error("the secret is no key")
	}
	read, err := c.GetApiKey(t.Context(), "shop", id)
	if err != nil || read.Name != "Globex" || synced == "" {
		t.Errorf("%+v: %v", read, err)
	}
	soon := w.Clock.Now().Add(time.Hour)
	if read, err = c.UpdateApiKey(t.Context(), "shop", id, backend.ApiKeyUpdate{ExpiresAt: nullable.NewNullableWithValue(soon)}); err != nil || read.ExpiresAt == nil {
		t.Errorf("set: %+v: %v", read, err)
	}
	if read, err = c.UpdateApiKey(t.Context(), "shop", id, backend.ApiKeyUpdate{}); err != nil || read.ExpiresAt == nil {
		t.Errorf("left: %+v: %v", read, err)
	}
	if read, err = c.UpdateApiKey(t.Context(), "shop", id, backend.ApiKeyUpdate{ExpiresAt: nullable.NewNullNullable[time.Time]()}); err != nil || read.ExpiresAt != nil {
		t.Errorf("cleared: %+v: %v", read, err)
	}
	limit := backend.Limit(1)
	page, err := c.ListApiKeys(t.Context(), "internal", backend.ListApiKeysParams{Limit: &limit})
	if err != nil || len(page.Keys) != 1 || page.Keys[0].Source != "declared" {
		t.Errorf("%+v: %v", page, err)
	}
	_, err = c.CreateApiKey(t.Context(), "shop", backend.ApiKeyCreate{Name: "\n"})
	refused := (*client.Error)(nil)
	if !errors.As(err, &refused) || refused.Status != 400 || len(refused.Faults) == 0 || refused.Faults[0].Field != "/name" || refused.RequestID == "" {
		t.Errorf("%v", err)
	}
	if _, err := c.GetApiKey(t.Context(), "shop", "1/../../x"); !client.IsStatus(err, 404) {
		t.Errorf("an id that is no other path: %v", err)
	}
	stranger, err := backend.New(w.backend, client.WithToken("ck_0"))
	w.Must(err)
	if _, err := stranger.ListUsers(t.Context(), backend.ListUsersParams{}); !client.IsStatus(err, 401) || client.IsStatus(err, 403) || strings.Contains(err.Error(), "ck_0") {
		t.Errorf("%v", err)
	}
}

// signUp signs a user up with an organization, and returns their session.
func (w *world) signUp(email string) *enduser.Client {
	w.T.Helper()
	c := w.newEndUser()
	begun, err := c.SignUp(w.T.Context(), enduser.SignUp{Email: email})
	w.Must(err)
	done, err := c.AttemptVerification(w.T.Context(), enduser.AttemptCode{Code: w.CodeFor(email, 1), SignupAttemptId: &begun.Session.SignupAttempts[0].Id})
	w.Must(err)
	if done.Session.ActiveSignin == nil {
		w.T.Fatal("nobody is signed in")
	}
	_, err = c.CreateOrganization(w.T.Context(), enduser.OwnOrganizationCreate{Name: "Harbour"})
	w.Must(err)
	return c
}

// A program signs a user in and keeps the session. A guard accepts the user's tokens, which it verifies with the
// published keys, until they expire.
func TestEndUserAndSessionTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	person := w.signUp("ada@example.com")
	_, err := person.AttemptVerification(t.Context(), enduser.AttemptCode{Code: "000000", SigninAttemptId: new(string)})
	if !client.IsCode(err, "INVALID_ATTEMPT") && !client.IsCode(err, "VALIDATION_ERROR") {
		t.Errorf("%v", err)
	}
	if _, err := w.newEndUser().GetMe(t.Context()); !client.IsCode(err, "NOT_AUTHENTICATED") || !client.IsStatus(err, 401) {
		t.Errorf("another browser: %v", err)
	}
	me, err := person.GetMe(t.Context())
	w.Must(err)
	tokens, err := guard.NewSessionTokens(guard.TokensOptions{Issuer: "https://localhost", Audiences: []string{"cardea:acme:staging"}, KeysURL: w.frontend + "/.well-known/jwks.json", Clock: w.Clock.Now})
	w.Must(err)
	issue := func() string {
		issued, err := person.IssueToken(t.Context(), enduser.SessionTokenRequest{})
		w.Must(err)
		return issued.Data.Token
	}
	first := issue()
	who, err := tokens.Verify(t.Context(), first)
	if err != nil || who.UserID != me.Data.Id || who.OrganizationID == "" || who.WorkspaceID == "" || who.SessionID == "" || !who.Can("billing:read", "documents:read") || who.Can("*") {
		t.Fatalf("%+v: %v", who, err)
	}
	other, err := guard.NewSessionTokens(guard.TokensOptions{Issuer: "https://localhost", Audiences: []string{"cardea:acme:other"}, KeysURL: w.frontend + "/.well-known/jwks.json", Clock: w.Clock.Now})
	w.Must(err)
	if _, err := other.Verify(t.Context(), first); !errors.Is(err, guard.ErrNotAccepted) {
		t.Errorf("for another deployment: %v", err)
	}

	w.Clock.Advance(31 * time.Second)
	w.signBy("second")
	if _, err := tokens.Verify(t.Context(), issue()); err != nil {
		t.Errorf("by the next signing key: %v", err)
	}
	if _, err := tokens.Verify(t.Context(), first); err != nil {
		t.Errorf("by the one before: %v", err)
	}
	w.Clock.Advance(35 * time.Second)
	if _, err := tokens.Verify(t.Context(), first); !errors.Is(err, guard.ErrNotAccepted) {
		t.Errorf("after its minute: %v", err)
	}
}

// A guard accepts a client's access token only for the token's resource.
func TestAccessTokensOfAnOAuthApp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app := w.DeclareOAuthApp(w.frontend)
	w.DeclareOAuthScope("jobs", document.OAuthScope{Scope: "jobs:run", DisplayName: "Run jobs"})
	minted, err := apikey.Mint(rand.Reader, "cs")
	w.Must(err)
	id := w.Put(v1alpha1.KindOAuthClient, "machine", frontendtest.Deployment, "", document.OAuthClient{
		App: "portal", Name: "Machine", Authentication: string(v1alpha1.ClientAuthenticationSecretBasic), GrantTypes: []string{string(v1alpha1.GrantTypeClientCredentials)},
		Verifiers: []document.Verifier{{ID: minted.ID(), Digest: minted.Digest(), Last4: minted.Last4()}}, AccessTokenSeconds: 600, Active: true,
	})
	config := clientcredentials.Config{
		ClientID: strconv.FormatInt(id, 10), ClientSecret: minted.Plain(), TokenURL: app.Issuer + "/token", Scopes: []string{"jobs:run"}, EndpointParams: url.Values{"resource": {app.Resources[0]}},
	}
	token := ""
	w.Eventually("the client is known", func() bool {
		issued, err := config.Token(t.Context())
		if err == nil {
			token = issued.AccessToken
		}
		return err == nil
	})
	guardOf := func(audience string) *guard.Tokens {
		tokens, err := guard.NewAccessTokens(guard.TokensOptions{Issuer: app.Issuer, Audiences: []string{audience}, Clock: w.Clock.Now})
		w.Must(err)
		return tokens
	}
	who, err := guardOf(app.Resources[0]).Verify(t.Context(), token)
	if err != nil || !who.Can("jobs:run") || who.Can("jobs:read") || who.ClientID != config.ClientID || who.UserID != "" {
		t.Errorf("%+v: %v", who, err)
	}
	for _, other := range []string{app.Resources[1], app.Issuer} {
		if _, err := guardOf(other).Verify(t.Context(), token); !errors.Is(err, guard.ErrNotAccepted) {
			t.Errorf("at %s: %v", other, err)
		}
	}
}

// A guard lets keys through as the server decides: permissions, limits, revocation.
func TestKeysByTheRealListener(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, plain := w.customer()
	keys, err := guard.NewKeys(guard.KeysOptions{URL: w.decision, Deployment: "acme/staging", Timeout: time.Minute, OnAway: func(_ *http.Request, err error) { t.Error(err) }})
	w.Must(err)
	var who *guard.Identity
	mux := http.NewServeMux()
	mux.Handle("/v1/orders", keys.Require("orders:read")(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { who = guard.From(r.Context()) })))
	mux.Handle("/v1/admin", keys.Require("admin")(http.NotFoundHandler()))
	application := httptest.NewServer(mux)
	t.Cleanup(application.Close)
	ask := func(method, path, key string) *http.Response {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, application.URL+path, nil)
		w.Must(err)
		request.Header.Set("Authorization", "Bearer "+key)
		answer, err := http.DefaultClient.Do(request)
		w.Must(err)
		w.Must(answer.Body.Close())
		return answer
	}
	for range 2 {
		if answer := ask("POST", "/v1/orders", plain); answer.StatusCode != 200 || !strings.HasPrefix(answer.Header.Get("RateLimit"), `"2/1h";r=`) {
			t.Fatalf("%d %v", answer.StatusCode, answer.Header)
		}
	}
	if who == nil || who.App != "shop" || who.KeyName != "Globex" || !who.Can("orders:read") || who.KeyID != strings.Split(plain, "_")[1][:12] {
		t.Errorf("%+v", who)
	}
	if answer := ask("POST", "/v1/orders", plain); answer.StatusCode != 429 || answer.Header.Get("Retry-After") == "" || !strings.HasPrefix(answer.Header.Get("RateLimit"), `"2/1h";r=0`) {
		t.Errorf("beyond the limit: %d %v", answer.StatusCode, answer.Header)
	}
	for path, want := range map[string]int{"/v1/orders": 200, "/v1/admin": 403, "/v1/orders?x=%2F": 200} {
		if answer := ask("GET", path, plain); answer.StatusCode != want {
			t.Errorf("GET %s: %d", path, answer.StatusCode)
		}
	}
	if answer := ask("GET", "/v1/orders", plain+"x"); answer.StatusCode != 401 {
		t.Errorf("no key: %d", answer.StatusCode)
	}
	_, err = w.newBackend().RevokeApiKey(t.Context(), "shop", id, backend.ApiKeyRevoke{Reason: nullable.NewNullableWithValue("lost")})
	w.Must(err)
	w.Eventually("the revocation is in force", func() bool { return ask("GET", "/v1/orders", plain).StatusCode == 401 })
}

// A decision is a result, whether it allows or not; a response without a decision is an error.
func TestDecisions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, plain := w.customer()
	c, err := decision.New(w.decision, client.WithToken(w.key))
	w.Must(err)
	check := func(value, method, path string) (*decision.AuthzDecision, error) {
		question := decision.AuthzCheck{Method: method, Resource: path}
		question.Principal.Type, question.Principal.Value = decision.ApiKey, value
		return c.CheckAuthz(t.Context(), decision.CheckAuthzParams{}, question)
	}
	made, err := check(plain, "GET", "/v1/orders")
	if err != nil || !made.Allowed || made.Identity.AppSlug != "shop" {
		t.Errorf("%+v: %v", made, err)
	}
	if made, err = check("ck_0", "GET", "/"); err != nil || made.Allowed || made.Identity != nil {
		t.Errorf("not accepted: %+v: %v", made, err)
	}
	if _, err = check(plain, "get", "/"); !client.IsStatus(err, 400) {
		t.Errorf("no method: %v", err)
	}
	explained, err := c.ExplainAuthz(t.Context(), decision.ExplainAuthzParams{KeyId: id, Method: "POST", Resource: "/v1/orders"})
	if err != nil || !explained.Allowed || len(explained.Rules) != 1 {
		t.Errorf("%+v: %v", explained, err)
	}
}
