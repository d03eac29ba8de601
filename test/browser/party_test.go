package browser

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// party is a third-party application that signs users in with Acme by a published client library. It is served at its
// own origin, on another site than the pages.
type party struct {
	t      testing.TB
	name   string
	server *httptest.Server
	config oauth2.Config
	// provider and verifier are what the library derives from the issuer's metadata.
	provider *oidc.Provider
	verifier *oidc.IDTokenVerifier

	mu sync.Mutex
	// asked are the authorization requests under way, by their state.
	asked map[string]asked
	// tokens are the tokens received so far, the newest last.
	tokens []*oauth2.Token
}

// asked holds the values that the response to an authorization request must match.
type asked struct{ verifier, nonce string }

// shownClaims are the claims of an ID token and of the userinfo endpoint that the party shows.
type shownClaims struct {
	Subject      string `json:"sub"`
	Email        string `json:"email"`
	Organization string `json:"org_slug"`
}

// newParty serves an application with a client id of an issuer; without a secret it is a public client.
func newParty(t testing.TB, name, issuer, id, secret string, now func() time.Time) *party {
	t.Helper()
	p := &party{t: t, name: name, asked: map[string]asked{}}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /{$}", p.home)
	routes.HandleFunc("GET /go", p.ask)
	routes.HandleFunc("GET /callback", p.answered)
	routes.HandleFunc("GET /bye", func(w http.ResponseWriter, _ *http.Request) { p.page(w, "Signed out of "+p.name, "") })
	p.server = httptest.NewServer(routes)
	t.Cleanup(p.server.Close)
	var err error
	if p.provider, err = oidc.NewProvider(context.Background(), issuer); err != nil {
		t.Fatal(err)
	}
	p.verifier = p.provider.Verifier(&oidc.Config{ClientID: id, Now: now})
	p.config = oauth2.Config{ClientID: id, ClientSecret: secret, Endpoint: p.provider.Endpoint(), RedirectURL: p.server.URL + "/callback"}
	p.config.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if secret == "" {
		p.config.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return p
}

// page responds with an HTML page of the party.
func (p *party) page(w http.ResponseWriter, heading, body string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprintf(w, `<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>%[1]s</title><style>:focus{outline:3px solid}</style><h1>%[1]s</h1>%[2]s`,
		html.EscapeString(heading), body)
}

// home responds with a page that links to /go, with the query's parameters for the authorization request.
func (p *party) home(w http.ResponseWriter, r *http.Request) {
	p.page(w, p.name, `<p><a href="/go?`+html.EscapeString(r.URL.RawQuery)+`">Sign in with Acme</a>`)
}

// ask redirects the browser to the authorization server.
func (p *party) ask(w http.ResponseWriter, r *http.Request) {
	one := asked{verifier: oauth2.GenerateVerifier(), nonce: oauth2.GenerateVerifier()}
	state := oauth2.GenerateVerifier()
	p.mu.Lock()
	p.asked[state] = one
	p.mu.Unlock()
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(one.verifier), oidc.Nonce(one.nonce)}
	for name, values := range r.URL.Query() {
		options = append(options, oauth2.SetAuthURLParam(name, values[0]))
	}
	http.Redirect(w, r, p.config.AuthCodeURL(state, options...), http.StatusFound)
}

// answered handles the authorization response and shows its outcome.
func (p *party) answered(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	p.mu.Lock()
	one, known := p.asked[query.Get("state")]
	delete(p.asked, query.Get("state"))
	p.mu.Unlock()
	switch who, err := p.redeem(r.Context(), one, query.Get("code")); {
	case !known:
		p.page(w, "An answer that nobody waits for", "")
	case query.Has("error"):
		p.page(w, "Refused: "+query.Get("error"), "")
	case err != nil:
		p.page(w, "Not signed in", html.EscapeString(err.Error()))
	default:
		p.page(w, "Signed in to "+p.name, fmt.Sprintf("<p>%s, %s, time %d", html.EscapeString(who.Email), html.EscapeString(who.Organization), p.times()))
	}
}

// redeem redeems a code for tokens, and requests the user's claims with them.
func (p *party) redeem(ctx context.Context, one asked, code string) (who shownClaims, err error) {
	if code == "" {
		return who, nil
	}
	token, err := p.config.Exchange(ctx, code, oauth2.VerifierOption(one.verifier))
	if err != nil {
		return who, err
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := p.verifier.Verify(ctx, raw)
	if err != nil {
		return who, err
	}
	if id.Nonce != one.nonce {
		return who, errors.New("the ID token is for another request")
	}
	info, err := p.provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return who, err
	}
	p.mu.Lock()
	p.tokens = append(p.tokens, token)
	p.mu.Unlock()
	return who, info.Claims(&who)
}

// times returns how often the party signed a user in.
func (p *party) times() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.tokens)
}

// who returns the claims of the nth sign-in's tokens.
func (p *party) who(nth int) (out shownClaims) {
	p.t.Helper()
	info, err := p.provider.UserInfo(context.Background(), oauth2.StaticTokenSource(p.tokens[nth-1]))
	if err == nil {
		err = info.Claims(&out)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// proven is what an ID token says about the proofs of its user.
type proven struct {
	ACR string   `json:"acr"`
	AMR []string `json:"amr"`
	// AuthTime is the time of the newest proof that ACR depends on, in Unix seconds.
	AuthTime int64 `json:"auth_time"`
}

// proven returns the claims of the nth sign-in's ID token about its proofs.
func (p *party) proven(nth int) (out proven) {
	p.t.Helper()
	raw, _ := p.tokens[nth-1].Extra("id_token").(string)
	id, err := p.verifier.Verify(context.Background(), raw)
	if err == nil {
		err = id.Claims(&out)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// expectOver fails the test if the access token or the refresh token of the nth sign-in still works.
func (p *party) expectOver(nth int) {
	p.t.Helper()
	if _, err := p.provider.UserInfo(context.Background(), oauth2.StaticTokenSource(p.tokens[nth-1])); err == nil {
		p.t.Errorf("the access token of sign-in %d is good", nth)
	}
	var refused *oauth2.RetrieveError
	if err := p.refresh(nth); !errors.As(err, &refused) || refused.ErrorCode != "invalid_grant" {
		p.t.Errorf("the refresh token of sign-in %d: %v", nth, err)
	}
}

// refreshes fails the test if the refresh token of the nth sign-in no longer works.
func (p *party) refreshes(nth int) {
	p.t.Helper()
	if err := p.refresh(nth); err != nil {
		p.t.Fatal(err)
	}
}

// refresh replaces the nth sign-in's tokens, as the library does once the access token has expired.
func (p *party) refresh(nth int) error {
	token := *p.tokens[nth-1]
	token.Expiry = time.Unix(1, 0)
	next, err := p.config.TokenSource(context.Background(), &token).Token()
	if err == nil {
		p.tokens[nth-1] = next
	}
	return err
}

// link returns the URL of the party's page that requests scopes; pairs are further parameters.
func (p *party) link(scope string, pairs ...string) string {
	query := url.Values{"scope": {scope}}
	for ; len(pairs) > 1; pairs = pairs[2:] {
		query.Set(pairs[0], pairs[1])
	}
	return p.server.URL + "/?" + query.Encode()
}

// post posts a form to an endpoint of the issuer as the party.
func (p *party) post(endpoint string, form url.Values) (*http.Response, error) {
	form.Set("client_id", p.config.ClientID)
	return http.Post(endpoint, "application/x-www-form-urlencoded", strings.NewReader(form.Encode()))
}
