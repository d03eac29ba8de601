package identityprovider

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
)

// GitHub stands in for GitHub. It issues no ID tokens, reports errors of its token endpoint with status 200, and has
// users and their addresses at an API.
type GitHub struct {
	// URL is the base URL of its pages, and of its API.
	URL    string
	server *httptest.Server

	mu     sync.Mutex
	codes  map[string]gitHubGrant
	tokens map[string]GitHubUser
}

// GitHubUser is a user of GitHub. The login can change, the ID cannot.
type GitHubUser struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
	Name  string `json:"name"`
	// Email is the address of the public profile, which the user chooses.
	Email  string        `json:"email"`
	Emails []GitHubEmail `json:"-"`
}

// GitHubEmail is an address of a user.
type GitHubEmail struct {
	Email    string `json:"email"`
	Primary  bool   `json:"primary"`
	Verified bool   `json:"verified"`
}

// gitHubGrant is what an authorization request asked for.
type gitHubGrant struct {
	user                   GitHubUser
	challenge, redirectURI string
}

// StartGitHub starts a GitHub on loopback.
func StartGitHub() *GitHub {
	g := &GitHub{codes: map[string]gitHubGrant{}, tokens: map[string]GitHubUser{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login/oauth/access_token", g.token)
	mux.HandleFunc("GET /user", g.of(func(u GitHubUser) any { return u }))
	mux.HandleFunc("GET /user/emails", g.of(func(u GitHubUser) any { return u.Emails }))
	g.server = httptest.NewServer(mux)
	g.URL = g.server.URL
	return g
}

// Close ends the server.
func (g *GitHub) Close() { g.server.Close() }

// Authorize acts as the browser of a user at the authorization endpoint, and returns the parameters of the response.
func (g *GitHub) Authorize(address string, user GitHubUser) (url.Values, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	query := u.Query()
	if u.Path != "/login/oauth/authorize" || query.Get("client_id") != ClientID || query.Get("code_challenge_method") != "S256" || query.Get("state") == "" {
		return nil, fmt.Errorf("GitHub cannot read the request %s", address)
	}
	code := rand.Text()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.codes[code] = gitHubGrant{user: user, challenge: query.Get("code_challenge"), redirectURI: query.Get("redirect_uri")}
	return url.Values{"code": {code}, "state": {query.Get("state")}}, nil
}

// token redeems a code, once. GitHub answers with status 200 whatever is wrong.
func (g *GitHub) token(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	code := r.PostFormValue("code")
	grant, found := g.codes[code]
	delete(g.codes, code)
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	switch {
	case r.PostFormValue("client_id") != ClientID || r.PostFormValue("client_secret") != ClientSecret:
		answer(w, http.StatusOK, map[string]any{"error": "incorrect_client_credentials"})
	case !found || grant.challenge != base64.RawURLEncoding.EncodeToString(sum[:]):
		answer(w, http.StatusOK, map[string]any{"error": "bad_verification_code"})
	case grant.redirectURI != r.PostFormValue("redirect_uri"):
		answer(w, http.StatusOK, map[string]any{"error": "redirect_uri_mismatch"})
	default:
		access := rand.Text()
		g.tokens[access] = grant.user
		answer(w, http.StatusOK, map[string]any{"access_token": access, "scope": "read:user,user:email", "token_type": "bearer"})
	}
}

// of returns the handler of a part of the user whose token a request has.
func (g *GitHub) of(part func(GitHubUser) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		user, found := g.tokens[trimBearer(r.Header.Get("Authorization"))]
		g.mu.Unlock()
		if !found || r.Header.Get("X-GitHub-Api-Version") == "" {
			answer(w, http.StatusUnauthorized, map[string]any{"message": "Bad credentials"})
			return
		}
		answer(w, http.StatusOK, part(user))
	}
}
