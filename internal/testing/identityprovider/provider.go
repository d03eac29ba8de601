// Package identityprovider is an OpenID provider for tests, over real HTTP. It signs users in without asking, checks
// what a client must send, and can be made to lie. It stands in for providers of the internet; the tests of real
// providers are in test/integration.
package identityprovider

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/internal/testing/rsapool"
)

// The client that the provider knows.
const (
	ClientID     = "cardea"
	ClientSecret = "secret-of-the-client"
)

// User is a user of the provider, as claims.
type User map[string]any

// Provider is an OpenID provider.
type Provider struct {
	// URL is its issuer.
	URL    string
	server *httptest.Server
	clock  func() time.Time

	mu    sync.Mutex
	key   *rsa.PrivateKey
	loan  rsapool.Loan
	keyID string
	// keyIssuer is the issuer that the key set states for the key, "" for none.
	keyIssuer string
	codes     map[string]grant
	tokens    map[string]User
	sign      func(claims map[string]any)
	down      bool
	secret    string
	// silent reports that the provider does not serve its metadata and keys.
	silent   bool
	redeemed int
	present  User
}

// grant is what an authorization request asked for.
type grant struct {
	user                          User
	nonce, challenge, redirectURI string
}

// Start starts a provider on loopback.
func Start(clock func() time.Time) *Provider {
	p := &Provider{clock: clock, codes: map[string]grant{}, tokens: map[string]User{}, secret: ClientSecret}
	p.Rotate()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /jwks", p.keys)
	mux.HandleFunc("GET /authorize", p.page)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /userinfo", p.userinfo)
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		down := p.down || p.silent && (r.URL.Path == "/jwks" || r.URL.Path == "/.well-known/openid-configuration")
		p.mu.Unlock()
		if down {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	p.URL = p.server.URL
	return p
}

// Close ends the provider.
func (p *Provider) Close() {
	p.server.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key = nil
	p.loan.Return()
}

// SetDown makes the provider answer every request with 502, or serve again.
func (p *Provider) SetDown(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

// SetSilent sets whether the provider's metadata and keys are unavailable while its other endpoints work.
func (p *Provider) SetSilent(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = silent
}

// SetSecret sets the client secret that the provider takes from now on.
func (p *Provider) SetSecret(secret string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.secret = secret
}

// Rotate replaces the key that signs ID tokens.
func (p *Provider) Rotate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.keyID = p.loan.Take(), rand.Text()
}

// SetKeyIssuer sets the issuer that the key set states for the key, as Microsoft's does; "" for none.
func (p *Provider) SetKeyIssuer(issuer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keyIssuer = issuer
}

// Lie sets a function that changes the claims of every ID token before it is signed, nil for none.
func (p *Provider) Lie(change func(claims map[string]any)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sign = change
}

// Redeemed returns how many codes were redeemed.
func (p *Provider) Redeemed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.redeemed
}

// Authorize acts as the browser of a user at the authorization endpoint, and returns the parameters of the response.
func (p *Provider) Authorize(address string, user User) (url.Values, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	query := u.Query()
	for name, want := range map[string]string{"response_type": "code", "client_id": ClientID, "code_challenge_method": "S256"} {
		if query.Get(name) != want {
			return nil, fmt.Errorf("%s is %q, want %q", name, query.Get(name), want)
		}
	}
	for _, name := range []string{"state", "nonce", "code_challenge", "redirect_uri", "scope"} {
		if query.Get(name) == "" {
			return nil, fmt.Errorf("%s is missing", name)
		}
	}
	code := rand.Text()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.codes[code] = grant{user: user, nonce: query.Get("nonce"), challenge: query.Get("code_challenge"), redirectURI: query.Get("redirect_uri")}
	return url.Values{"code": {code}, "state": {query.Get("state")}, "iss": {p.URL}}, nil
}

// SetUser sets the user that browsers have at the provider's page, nil for none. The page has a link back.
func (p *Provider) SetUser(user User) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.present = user
}

// page is the authorization endpoint for real browsers.
func (p *Provider) page(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	user := p.present
	p.mu.Unlock()
	values, err := p.Authorize(r.URL.String(), user)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if user == nil {
		values = url.Values{"error": {"access_denied"}, "state": values["state"], "iss": values["iss"]}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprintf(w, `<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>Globex</title><style>:focus{outline:3px solid}</style><h1>Sign in at Globex</h1>
<p>%s</p><a href="%s">Continue</a>`, html.EscapeString(r.URL.Query().Get("login_hint")), html.EscapeString(r.URL.Query().Get("redirect_uri")+"?"+values.Encode()))
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "userinfo_endpoint": p.URL + "/userinfo",
		"jwks_uri": p.URL + "/jwks", "end_session_endpoint": p.URL + "/end", "response_types_supported": []string{"code"},
		"subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"RS256"},
		"authorization_response_iss_parameter_supported": true,
	})
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := jose.JSONWebKey{Key: p.key.Public(), KeyID: p.keyID, Algorithm: "RS256", Use: "sig"}
	if p.keyIssuer == "" {
		answer(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{own}})
		return
	}
	raw, err := own.MarshalJSON()
	if err != nil {
		panic(err) // the key is valid
	}
	var key map[string]any
	if err := json.Unmarshal(raw, &key); err != nil {
		panic(err) // a key is an object
	}
	key["issuer"] = p.keyIssuer
	answer(w, http.StatusOK, map[string]any{"keys": []any{key}})
}

// token redeems a code, once.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, ok := r.BasicAuth()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !ok || id != ClientID || secret != p.secret {
		answer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	p.redeemed++
	g, found := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !found || g.redirectURI != r.PostFormValue("redirect_uri") || g.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
		answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	access := rand.Text()
	p.tokens[access] = g.user
	claims := map[string]any{"nonce": g.nonce}
	maps.Copy(claims, g.user)
	answer(w, http.StatusOK, map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 300, "id_token": p.issue("JWT", claims)})
}

// issue signs a token of a type with claims. p is locked.
func (p *Provider) issue(kind jose.ContentType, own map[string]any) string {
	now := p.clock()
	claims := map[string]any{"iss": p.URL, "aud": ClientID, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix()}
	maps.Copy(claims, own)
	if p.sign != nil {
		p.sign(claims)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: p.key, KeyID: p.keyID}}, (&jose.SignerOptions{}).WithType(kind))
	if err != nil {
		panic(err) // the key is valid
	}
	raw, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		panic(err) // tests send claims that JSON can express
	}
	return raw
}

// LogoutToken returns a logout token with claims in addition to the required ones, and without those that are nil.
func (p *Provider) LogoutToken(own map[string]any) string {
	claims := map[string]any{"jti": rand.Text(), "events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}}
	maps.Copy(claims, own)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.issue("logout+jwt", claims)
}

func (p *Provider) userinfo(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	user, found := p.tokens[trimBearer(r.Header.Get("Authorization"))]
	p.mu.Unlock()
	if !found {
		answer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_token"})
		return
	}
	answer(w, http.StatusOK, user)
}

func trimBearer(header string) string {
	const prefix = "Bearer "
	if len(header) < len(prefix) {
		return ""
	}
	return header[len(prefix):]
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // an error means that the client disconnected
}
