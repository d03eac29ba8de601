package bench

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	oauthAppID, oauthClientID = 77, 78
	oauthCallback             = "https://client.example/callback"
	oauthVerifier             = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	oauthChallenge            = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
	// oauthCodes are how many codes each person has ready before a round; a round redeems fewer.
	oauthCodes = 2500
)

// oauthWorld is a peopleWorld whose deployment has an authorization server, and a client that every person authorized.
type oauthWorld struct {
	*peopleWorld
	secret  string
	private *ecdsa.PrivateKey
	// Of each person: the latest tokens, their token family, and the codes that are not yet redeemed.
	access, refresh map[*person]string
	families        map[*person]people.TokenFamily
	codes           map[*person][]string
	mu              sync.Mutex
}

// TestBenchOAuth compares the requests of an authorization server with the same statements run bare, on an empty store
// and on one with many grants (CARDEA_BENCH_GRANTS; by default a million). It also measures how much of a token's time
// signing takes, for a token that needs no statement.
func TestBenchOAuth(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for minutes")
	}
	many := 1_000_000
	if told := os.Getenv("CARDEA_BENCH_GRANTS"); told != "" {
		var err error
		many, err = strconv.Atoi(told)
		check(t, err)
	}
	for _, engine := range []string{"SQLite", "PostgreSQL"} {
		t.Run(engine, func(t *testing.T) {
			w := newOAuthWorld(t, engine)
			empty := w.measure(t, engine)
			w.fillGrants(t, many)
			for what, rate := range w.measure(t, fmt.Sprintf("%s, %d grants", engine, many)) {
				row(fmt.Sprintf("%s, %s: as often with %d grants as with none", engine, what, many), "0.83", "%.2f", rate/empty[what])
			}
		})
	}
	t.Run("signing", func(t *testing.T) { newOAuthWorld(t, "SQLite").measureMachine(t) })
}

// measure compares each kind of request, and returns how many per second were answered.
func (w *oauthWorld) measure(t *testing.T, engine string) map[string]float64 {
	t.Helper()
	rates := map[string]float64{}
	// Each kind is a subtest, so that it can be measured alone: -run TestBenchOAuth/SQLite/code
	compare := func(name, what string, request func(*testing.T, *person), prepare ...func()) {
		t.Run(name, func(t *testing.T) { rates[what] = w.compare(t, engine, what, request, prepare...) })
	}
	compare("code", "token by code", w.redeem, func() { w.prepareCodes(t) })
	compare("refresh", "token by refresh", w.refreshToken)
	compare("introspection", "introspection", func(t *testing.T, p *person) {
		if w.post(t, "/introspect", url.Values{"token": {w.access[p]}})["active"] != true {
			t.Error("a token is not active")
		}
	})
	compare("userinfo", "userinfo", w.userinfo)
	return rates
}

func newOAuthWorld(t *testing.T, engine string) *oauthWorld {
	t.Helper()
	w := &oauthWorld{peopleWorld: newPeopleWorld(t, engine), access: map[*person]string{}, refresh: map[*person]string{}, families: map[*person]people.TokenFamily{}, codes: map[*person][]string{}}
	var err error
	w.private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	public, err := json.Marshal(jose.JSONWebKey{Key: w.private.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"})
	check(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(w.private)
	check(t, err)
	minted, err := apikey.Mint(rand.Reader, "cs")
	check(t, err)
	w.secret = minted.Plain()
	check(t, w.filler.put(t.Context(), v1alpha1.KindOAuthApp, "portal", "portal", oauthAppID, document.OAuthApp{
		Slug: "portal", Name: "Portal", Active: true, Issuer: "http://localhost/oauth/portal", FrontendURL: "http://localhost", IDTokenSigningAlg: "ES256",
		SigningKeys: []document.SigningKey{{ID: "k", Public: public, Sealed: w.keyring.Seal(document.SealedOAuthKey, "k", der)}},
	}))
	check(t, w.filler.put(t.Context(), v1alpha1.KindOAuthClient, "web", "", oauthClientID, document.OAuthClient{
		App: "portal", Name: "Web", Authentication: "ClientSecretBasic", GrantTypes: []string{"AuthorizationCode", "RefreshToken", "ClientCredentials"},
		Verifiers:    []document.Verifier{{ID: minted.ID(), Digest: minted.Digest(), Last4: minted.Last4()}},
		RedirectURIs: []string{oauthCallback}, AccessTokenSeconds: 600, RefreshTokenSeconds: 86400, RefreshIdleSeconds: 86400, Active: true, SkipsConsent: true,
	}))
	await(t, time.Minute, 10*time.Millisecond, func() bool { return w.ask(&person{}, "GET", w.authorizePath(), "").Code == http.StatusSeeOther })
	for _, p := range w.persons {
		w.letIn(t, p)
	}
	return w
}

// authorizePath returns the path of an authorization request of the client.
func (w *oauthWorld) authorizePath() string {
	return "/oauth/portal/authorize?" + url.Values{
		"client_id": {ids.Format(oauthClientID)}, "redirect_uri": {oauthCallback}, "response_type": {"code"}, "scope": {"openid email"},
		"code_challenge": {oauthChallenge}, "code_challenge_method": {"S256"},
	}.Encode()
}

// letIn takes a person through the whole authorization code flow once.
func (w *oauthWorld) letIn(t *testing.T, p *person) {
	t.Helper()
	page := w.ask(p, "GET", w.authorizePath(), "").Result().Header.Get("Location")
	_, request, _ := strings.Cut(page, "/authorize/")
	data := w.do(t, p, "POST", "/session/authorizations/"+request, `{"decision":"allow"}`)
	to, err := url.Parse(fmt.Sprint(data["redirect_to"]))
	check(t, err)
	w.keep(t, p, w.post(t, "/token", redemption(to.Query().Get("code"))))
	check(t, w.store.View(t.Context(), benchDeployment, func(tx people.Tx) error {
		hash, _ := session.Hash(w.refresh[p])
		token, _, err := tx.OAuth().RefreshToken(hash)
		if err == nil {
			w.families[p], _, err = tx.OAuth().TokenFamily(token.Family)
		}
		return err
	}))
}

func redemption(code string) url.Values {
	return url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {oauthCallback}, "code_verifier": {oauthVerifier}}
}

// keep stores the tokens of a token response.
func (w *oauthWorld) keep(t *testing.T, p *person, answer map[string]any) {
	t.Helper()
	access, _ := answer["access_token"].(string)
	refresh, _ := answer["refresh_token"].(string)
	if access == "" || refresh == "" || answer["id_token"] == nil {
		t.Fatalf("no tokens came: %v", answer)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.access[p], w.refresh[p] = access, refresh
}

// post posts a form as the client.
func (w *oauthWorld) post(t *testing.T, path string, form url.Values) (answer map[string]any) {
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, w.request(path, form))
	if recorder.Code != http.StatusOK {
		t.Errorf("%s: %d %s", path, recorder.Code, recorder.Body)
		return nil
	}
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
		t.Error(err)
	}
	return answer
}

// request returns a request that posts a form as the client.
func (w *oauthWorld) request(path string, form url.Values) *http.Request {
	r := httptest.NewRequest("POST", "http://"+benchHost+"/oauth/portal"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(ids.Format(oauthClientID), url.QueryEscape(w.secret))
	return r
}

// prepareCodes gives each person codes, each with its own token family.
func (w *oauthWorld) prepareCodes(t *testing.T) {
	t.Helper()
	for _, p := range w.persons {
		check(t, w.store.Change(t.Context(), benchDeployment, func(tx people.Tx) error {
			codes := w.codes[p][:min(len(w.codes[p]), oauthCodes)]
			for len(codes) < oauthCodes {
				plain, hash, err := session.Mint(rand.Reader)
				if err != nil {
					return err
				}
				family := w.families[p]
				family.ID = 1<<40 + fresh.Add(1)
				if err := tx.OAuth().InsertTokenFamily(family, 1<<20); err != nil {
					return err
				}
				code := people.AuthorizationCode{Hash: hash, Family: family.ID, RedirectURI: oauthCallback, Challenge: oauthChallenge, CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}
				if err := tx.OAuth().InsertAuthorizationCode(code); err != nil {
					return err
				}
				codes = append(codes, plain)
			}
			w.codes[p] = codes
			return nil
		}))
	}
}

func (w *oauthWorld) redeem(t *testing.T, p *person) {
	w.mu.Lock()
	codes := w.codes[p]
	if len(codes) > 0 {
		w.codes[p] = codes[1:]
	}
	w.mu.Unlock()
	if len(codes) == 0 {
		t.Error("there were not enough codes for a round")
		return
	}
	if w.post(t, "/token", redemption(codes[0]))["id_token"] == nil {
		t.Error("a code gave no ID token")
	}
}

func (w *oauthWorld) refreshToken(t *testing.T, p *person) {
	w.mu.Lock()
	refresh := w.refresh[p]
	w.mu.Unlock()
	w.keep(t, p, w.post(t, "/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}}))
}

func (w *oauthWorld) userinfo(t *testing.T, p *person) {
	w.mu.Lock()
	access := w.access[p]
	w.mu.Unlock()
	r := httptest.NewRequest("GET", "http://"+benchHost+"/oauth/portal/userinfo", http.NoBody)
	r.Header.Set("Authorization", "Bearer "+access)
	recorder := httptest.NewRecorder()
	if w.handler.ServeHTTP(recorder, r); recorder.Code != http.StatusOK {
		t.Errorf("userinfo: %d %s", recorder.Code, recorder.Body)
	}
}

// fillGrants writes grants of other users, each with a token family and a refresh token.
func (w *oauthWorld) fillGrants(t *testing.T, many int) {
	t.Helper()
	numbers, hash := "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < "+fmt.Sprint(many)+")", "randomblob(32)"
	if w.numbered {
		numbers, hash = "WITH n(i) AS (SELECT generate_series(1, "+fmt.Sprint(many)+"))", "sha256(('stranger' || i)::bytea)"
	}
	now := time.Now().UnixMicro()
	far := time.Now().Add(24 * time.Hour).UnixMicro()
	from := fmt.Sprintf("FROM n ORDER BY %s", map[bool]string{true: "md5(i::text)", false: "(i * 7919) % 1000003"}[w.numbered])
	for _, query := range []string{
		fmt.Sprintf(`%s INSERT INTO oauth_grants (deployment, id, app_id, client, user_id, organization_id, workspace_id, scopes, resources, created_at, updated_at)
			SELECT '%s', 1000000000 + i, %d, '%d', 1000000000 + i, 0, 0, 'openid email', '', %d, %d %s`, numbers, benchDeployment, oauthAppID, oauthClientID, now, now, from),
		fmt.Sprintf(`%s INSERT INTO oauth_families (deployment, id, grant_id, app_id, client, user_id, organization_id, workspace_id, session_id, signin_id, scopes, resources, nonce, method, authenticated_at, offline, backchannel, created_at, used_at, expires_at)
			SELECT '%s', 2000000000 + i, 1000000000 + i, %d, '%d', 1000000000 + i, 0, 0, 1, 1, 'openid email', '', '', 'password', %d, 1, 0, %d, %d, %d %s`, numbers, benchDeployment, oauthAppID, oauthClientID, now, now, now, far, from),
		fmt.Sprintf(`%s INSERT INTO oauth_refresh_tokens (deployment, hash, family_id, parent, network, created_at, used_at, dies_at, expires_at)
			SELECT '%s', %s, 2000000000 + i, '', '', %d, 0, 0, %d %s`, numbers, benchDeployment, hash, now, far, from),
	} {
		_, err := w.write.ExecContext(context.Background(), query)
		check(t, err)
	}
	if w.numbered {
		_, err := w.write.ExecContext(context.Background(), "VACUUM ANALYZE oauth_grants, oauth_families, oauth_refresh_tokens")
		check(t, err)
	}
}

// measureMachine measures client_credentials tokens, which need no statement, on one processor. It also measures how
// much of that time the signature takes.
func (w *oauthWorld) measureMachine(t *testing.T) {
	t.Helper()
	const each = 3000
	own := url.Values{"grant_type": {"client_credentials"}}
	token, _ := w.post(t, "/token", own)["access_token"].(string)
	if strings.Count(token, ".") != 2 {
		t.Fatal("no token came")
	}
	statements := w.recording.of(func() { w.post(t, "/token", own) })
	if len(statements) > 0 {
		t.Errorf("client_credentials took %d statements", len(statements))
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: w.private, KeyID: "k"}}, nil)
	check(t, err)
	payload := make([]byte, 300)
	var rates, shares []float64
	var took []time.Duration
	for range peopleRounds {
		var whole time.Duration
		for range each { // only the handler's time, without the client's work
			r, recorder := w.request("/token", own), httptest.NewRecorder()
			start := time.Now()
			w.handler.ServeHTTP(recorder, r)
			took = append(took, time.Since(start))
			whole += took[len(took)-1]
			if recorder.Code != http.StatusOK {
				t.Fatalf("%d %s", recorder.Code, recorder.Body)
			}
		}
		begin := time.Now()
		for range each {
			_, err := signer.Sign(payload)
			check(t, err)
		}
		rates, shares = append(rates, each/whole.Seconds()), append(shares, time.Since(begin).Seconds()/whole.Seconds())
	}
	row("token by client_credentials, a second and processor", "-", "%.0f", median(rates))
	row("token by client_credentials, p50 and p99", "-", "%s, %s", ms(quantile(took, 0.5)), ms(quantile(took, 0.99)))
	row("share of its time that signing (ES256) alone takes", "0.5", "%.2f", median(shares))
}
