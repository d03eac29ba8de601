package guard_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/client/guard"
)

const (
	issuedBy = "https://app.acme.example"
	meant    = "cardea:acme:acme"
)

// issuer publishes keys as Cardea does, and signs the tokens of a test.
type issuer struct {
	*httptest.Server
	t       *testing.T
	mu      sync.Mutex
	set     jose.JSONWebKeySet
	status  int
	fetched atomic.Int32
	now     time.Time
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t, status: 200, now: time.Now().Truncate(time.Second)}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.fetched.Add(1)
		i.mu.Lock()
		defer i.mu.Unlock()
		w.WriteHeader(i.status)
		_ = json.NewEncoder(w).Encode(i.set)
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) clock() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.now
}

func (i *issuer) advance(d time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.now = i.now.Add(d)
}

// answers sets the status of the following responses.
func (i *issuer) answers(status int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.status = status
}

// publish creates a key and publishes it, alone or with the others.
func (i *issuer) publish(id string, beside bool) *ecdsa.PrivateKey {
	i.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if !beside {
		i.set.Keys = nil
	}
	i.set.Keys = append(i.set.Keys, jose.JSONWebKey{Key: private.Public(), KeyID: id, Algorithm: "ES256", Use: "sig"})
	return private
}

// claims returns the claims of a session token, with changes; nil removes a claim.
func (i *issuer) claims(change map[string]any) map[string]any {
	now := i.clock()
	all := map[string]any{
		"iss": issuedBy, "aud": meant, "sub": "42", "sid": "7", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "jti": "x",
		"organization": "11", "workspace": nil, "permissions": []string{"orders:read"},
	}
	maps.Copy(all, change)
	for name, value := range change {
		if value == nil {
			delete(all, name)
		}
	}
	return all
}

// signed returns a token with a header and claims, signed with a key.
func signed(t *testing.T, key any, algorithm jose.SignatureAlgorithm, header map[string]any, claims any) string {
	t.Helper()
	options := &jose.SignerOptions{ExtraHeaders: map[jose.HeaderKey]any{"typ": "JWT", "kid": "k1"}}
	for name, value := range header {
		options.ExtraHeaders[jose.HeaderKey(name)] = value
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	object, err := signer.Sign(raw)
	if err != nil {
		t.Fatal(err)
	}
	token, err := object.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (i *issuer) token(key any, change map[string]any) string {
	return signed(i.t, key, jose.ES256, nil, i.claims(change))
}

// tokens returns a guard of the issuer's session tokens.
func (i *issuer) tokens(change func(*guard.TokensOptions)) *guard.Tokens {
	i.t.Helper()
	options := guard.TokensOptions{Issuer: issuedBy, Audiences: []string{meant}, KeysURL: i.URL, Clock: i.clock}
	if change != nil {
		change(&options)
	}
	tokens, err := guard.NewSessionTokens(options)
	if err != nil {
		i.t.Fatal(err)
	}
	return tokens
}

func bearerOf(token string) string { return "Authorization: Bearer " + token }

func TestTokensAreLetThroughWithWhoTheyAre(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	k := i.publish("k1", false)
	tokens := i.tokens(nil)
	g := behind(tokens.Require("orders:read"))
	if answer := g.get("/", bearerOf(i.token(k, nil)), "X-Cardea-Owner-User-Id: 1", "X-API-Key: of a key's guard"); answer.StatusCode != 200 {
		t.Fatal(answer.StatusCode)
	}
	if g.who.UserID != "42" || g.who.Subject != "42" || g.who.SessionID != "7" || g.who.OrganizationID != "11" || g.who.WorkspaceID != "" || !g.who.ExpiresAt.Equal(i.clock().Add(time.Minute)) || g.header.Get("X-Cardea-Owner-User-Id") != "" {
		t.Errorf("%+v %v", g.who, g.header)
	}
	answer := behind(tokens.Require("orders:read", "orders:write")).get("/", bearerOf(i.token(k, nil)))
	if answer.StatusCode != 403 || answer.Header.Get("WWW-Authenticate") != `Bearer error="insufficient_scope"` {
		t.Errorf("a permission that is missing: %d %v", answer.StatusCode, answer.Header)
	}
	if i.fetched.Load() != 1 {
		t.Errorf("%d fetches for two tokens", i.fetched.Load())
	}
}

func TestAccessTokens(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	k := i.publish("k1", false)
	tokens, err := guard.NewAccessTokens(guard.TokensOptions{Issuer: issuedBy, Audiences: []string{"https://api.acme.example"}, KeysURL: i.URL, Clock: i.clock})
	if err != nil {
		t.Fatal(err)
	}
	access := func(typ string, change map[string]any) string {
		all := i.claims(map[string]any{"aud": []string{"https://x", "https://api.acme.example"}, "client_id": "c", "scope": "orders:read openid", "sid": nil})
		maps.Copy(all, change)
		return signed(t, k, jose.ES256, map[string]any{"typ": typ}, all)
	}
	for _, typ := range []string{"at+jwt", "application/at+jwt", "AT+JWT"} {
		who, err := tokens.Verify(t.Context(), access(typ, nil))
		if err != nil || !who.Can("orders:read", "openid") || who.ClientID != "c" || who.UserID != "42" || len(who.Permissions) != 0 {
			t.Errorf("%s: %+v: %v", typ, who, err)
		}
	}
	who, err := tokens.Verify(t.Context(), access("at+jwt", map[string]any{"sub": "c", "permissions": []string{"users:read"}}))
	if err != nil || !who.Can("users:read") || who.UserID != "" || who.Subject != "c" {
		t.Errorf("a client's own: %+v: %v", who, err)
	}
	who, err = tokens.Verify(t.Context(), access("at+jwt", map[string]any{"scope": "*", "permissions": []string{"*"}}))
	if err != nil || who.Can("users:read") {
		t.Errorf("a user's token with permissions and the scope *: %+v: %v", who, err)
	}
	for name, token := range map[string]string{
		"a session token": i.token(k, map[string]any{"aud": "https://api.acme.example"}), "an ID token": access("JWT", nil), "of no client": access("at+jwt", map[string]any{"client_id": ""}),
	} {
		if _, err := tokens.Verify(t.Context(), token); !errors.Is(err, guard.ErrNotAccepted) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := i.tokens(nil).Verify(t.Context(), access("at+jwt", map[string]any{"aud": meant, "sid": "7"})); !errors.Is(err, guard.ErrNotAccepted) {
		t.Errorf("an access token for a session token's guard: %v", err)
	}
}

// forgeries returns tokens that a guard of session tokens must refuse, by name. Some are signed with k, the issuer's
// key.
func forgeries(t *testing.T, i *issuer, k *ecdsa.PrivateKey) map[string]string {
	t.Helper()
	now := i.clock()
	part := func(v any) string {
		raw, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	spki, err := x509.MarshalPKIXPublicKey(k.Public())
	if err != nil {
		t.Fatal(err)
	}
	jwk, _ := json.Marshal(jose.JSONWebKey{Key: k.Public(), KeyID: "k1", Algorithm: "ES256", Use: "sig"})
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	wide, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	good := i.token(k, nil)
	parts := strings.Split(good, ".")
	claims := i.claims(nil)
	header := func(more map[string]any) string { return signed(t, k, jose.ES256, more, claims) }
	all := map[string]string{
		"none":                      part(map[string]string{"alg": "none", "typ": "JWT", "kid": "k1"}) + "." + part(claims) + ".",
		"NONE":                      part(map[string]string{"alg": "NonE", "typ": "JWT", "kid": "k1"}) + "." + part(claims) + ".",
		"none with a signature":     part(map[string]string{"alg": "none", "typ": "JWT", "kid": "k1"}) + "." + parts[1] + "." + parts[2],
		"two algorithms":            base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","ALG":"ES256","typ":"JWT","kid":"k1"}`)) + "." + parts[1] + ".",
		"HS256 with the public key": signed(t, spki, jose.HS256, nil, claims),
		"HS256 with the JWK":        signed(t, jwk, jose.HS256, nil, claims),
		"RS256, not listed":         signed(t, wide, jose.RS256, nil, claims),
		"another's key":             signed(t, stranger, jose.ES256, nil, claims),
		"a key that comes along":    signed(t, stranger, jose.ES256, map[string]any{"jwk": jose.JSONWebKey{Key: stranger.Public()}}, claims),
		"an address of keys":        header(map[string]any{"jku": "https://evil.example/jwks"}), "a certificate": header(map[string]any{"x5c": []string{"x"}}), "x5u": header(map[string]any{"x5u": "https://x"}),
		"crit":           header(map[string]any{"crit": []string{"exp"}, "exp": 1}),
		"b64":            header(map[string]any{"b64": true}),
		"zip":            header(map[string]any{"zip": "DEF"}),
		"no key's id":    header(map[string]any{"kid": ""}),
		"a number as id": part(map[string]any{"alg": "ES256", "typ": "JWT", "kid": 1}) + "." + parts[1] + "." + parts[2],
		"no type":        header(map[string]any{"typ": ""}), "a logout token": header(map[string]any{"typ": "logout+jwt"}), "an access token": header(map[string]any{"typ": "at+jwt"}),
		"other claims":      parts[0] + "." + part(i.claims(map[string]any{"sub": "1"})) + "." + parts[2],
		"no signature":      parts[0] + "." + parts[1] + ".",
		"cut":               good[:len(good)-8],
		"four parts":        good + ".x",
		"five parts":        good + "..",
		"JSON":              `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
		"padded":            parts[0] + "=." + parts[1] + "." + parts[2],
		"an array as head":  part([]int{1}) + "." + parts[1] + "." + parts[2],
		"null as head":      part(nil) + "." + parts[1] + "." + parts[2],
		"huge":              i.token(k, map[string]any{"x": strings.Repeat("x", 16<<10)}),
		"huge, no token":    strings.Repeat("a", 1<<20),
		"claims are a list": signed(t, k, jose.ES256, nil, []int{1}),
	}
	for name, change := range map[string]map[string]any{
		"wrong issuer": {"iss": "https://app.other.example"}, "issuer with a slash": {"iss": issuedBy + "/"}, "no issuer": {"iss": nil}, "issuers": {"iss": []string{issuedBy}},
		"another tenant's": {"aud": "cardea:other:other"}, "another tenant's, by prefix": {"aud": meant + "x"}, "no audience": {"aud": nil}, "empty audience": {"aud": []string{}},
		"about nobody": {"sub": ""}, "of no session": {"sid": nil}, "permissions as text": {"permissions": "*"},
		"expired": {"iat": now.Add(-2 * time.Minute).Unix(), "exp": now.Add(-5 * time.Second).Unix()},
		"no end":  {"exp": nil}, "no beginning": {"iat": nil}, "an end as text": {"exp": "9999999999"},
		"not yet": {"nbf": now.Add(6 * time.Second).Unix()}, "of the future": {"iat": now.Add(6 * time.Second).Unix()},
		"too long": {"exp": now.Add(25 * time.Hour).Unix()}, "for ever": {"exp": int64(1) << 60},
	} {
		all[name] = i.token(k, change)
	}
	return all
}

func TestForgedTokens(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	k := i.publish("k1", false)
	var why error
	g := behind(i.tokens(func(o *guard.TokensOptions) { o.OnRefused = func(_ *http.Request, err error) { why = err } }).Require())
	if answer := g.get("/", bearerOf(i.token(k, nil))); answer.StatusCode != 200 {
		t.Fatalf("a good one: %d %v", answer.StatusCode, why)
	}
	for name, token := range forgeries(t, i, k) {
		why = nil
		answer := g.get("/", bearerOf(token))
		if answer.StatusCode != 401 || !strings.HasPrefix(answer.Header.Get("WWW-Authenticate"), "Bearer") || g.passed != 1 {
			t.Errorf("%s: %d", name, answer.StatusCode)
		}
		if why != nil && (!errors.Is(why, guard.ErrNotAccepted) || strings.Contains(why.Error(), token)) {
			t.Errorf("%s: %v", name, why)
		}
	}
	good := i.token(k, nil)
	for name, lines := range map[string][]string{
		"two lines": {bearerOf(good), bearerOf(good)}, "basic": {"Authorization: Basic " + good}, "a key's header": {"X-API-Key: " + good}, "a cookie": {"Cookie: __session=" + good}, "joined": {bearerOf(good + ", " + good)},
	} {
		if answer := g.get("/?access_token="+good, lines...); answer.StatusCode != 401 {
			t.Errorf("%s: %d", name, answer.StatusCode)
		}
	}
}

// The clocks may differ by the leeway, and by no more.
func TestLeeway(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	k := i.publish("k1", false)
	ends := i.token(k, map[string]any{"iat": i.clock().Add(-time.Minute).Unix(), "exp": i.clock().Add(-4 * time.Second).Unix()})
	begins := i.token(k, map[string]any{"nbf": i.clock().Add(5 * time.Second).Unix()})
	for name, c := range map[string]struct {
		leeway time.Duration
		ok     bool
	}{"five seconds": {0, true}, "none": {-1, false}} {
		tokens := i.tokens(func(o *guard.TokensOptions) { o.Leeway = c.leeway })
		for _, token := range []string{ends, begins} {
			if _, err := tokens.Verify(t.Context(), token); (err == nil) != c.ok {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// However many tokens with unknown key ids arrive, the keys are fetched once per interval, and valid tokens are not
// delayed.
func TestUnknownKeysCauseNoStorm(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	k := i.publish("k1", false)
	tokens := i.tokens(nil)
	if _, err := tokens.Verify(t.Context(), i.token(k, nil)); err != nil {
		t.Fatal(err)
	}
	i.advance(31 * time.Second)
	good := i.token(k, nil)
	unknown := make([]string, 200)
	for n := range unknown {
		unknown[n] = signed(t, k, jose.ES256, map[string]any{"kid": rand.Text()}, i.claims(nil))
	}
	var all sync.WaitGroup
	for _, token := range unknown {
		all.Go(func() {
			if _, err := tokens.Verify(t.Context(), token); !errors.Is(err, guard.ErrNotAccepted) {
				t.Errorf("an unknown key: %v", err)
			}
			if _, err := tokens.Verify(t.Context(), good); err != nil {
				t.Errorf("a valid token at the same time: %v", err)
			}
		})
	}
	all.Wait()
	if n := i.fetched.Load(); n != 2 {
		t.Errorf("%d fetches, want 2: the first, and one for all unknown ids", n)
	}
	next := i.publish("k2", true)
	rotated := signed(t, next, jose.ES256, map[string]any{"kid": "k2"}, i.claims(nil))
	if _, err := tokens.Verify(t.Context(), rotated); !errors.Is(err, guard.ErrNotAccepted) {
		t.Errorf("a new key within the interval: %v", err)
	}
	i.advance(30 * time.Second)
	if _, err := tokens.Verify(t.Context(), signed(t, next, jose.ES256, map[string]any{"kid": "k2"}, i.claims(nil))); err != nil {
		t.Errorf("a new key after it: %v", err)
	}
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(20 * time.Second); !holds(); {
		select {
		case <-end:
			t.Fatal("never: " + what)
		case <-tick.C:
		}
	}
}

// Keys are fetched again in the background, and withdrawn keys are then no longer accepted. While the issuer is
// unavailable, the cached keys are used, at most for KeepFor.
func TestKeysGrowOld(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	k := i.publish("k1", false)
	had, failed := atomic.Int32{}, atomic.Int32{}
	tokens := i.tokens(func(o *guard.TokensOptions) {
		o.OnKeys = func(err error) {
			if err != nil {
				failed.Add(1)
			} else {
				had.Add(1)
			}
		}
	})
	verify := func(key crypto.Signer) error {
		_, err := tokens.Verify(t.Context(), i.token(key, nil))
		return err
	}
	if err := verify(k); err != nil {
		t.Fatal(err)
	}
	i.advance(6 * time.Minute)
	if err := verify(k); err != nil {
		t.Error(err)
	}
	eventually(t, "the keys are fetched again in the background", func() bool { return had.Load() == 2 })

	i.answers(500)
	i.advance(11 * time.Minute)
	for n := range int32(3) {
		if err := verify(k); err != nil {
			t.Errorf("away: %v", err)
		}
		eventually(t, "a fetch failed", func() bool { return failed.Load() == n+1 })
		i.advance(time.Hour)
	}
	i.advance(24 * time.Hour)
	if err := verify(k); !errors.Is(err, guard.ErrNoKeys) {
		t.Errorf("after a day: %v", err)
	}
	if answer := behind(tokens.Require()).get("/", bearerOf(i.token(k, nil))); answer.StatusCode != 503 || answer.Header.Get("Retry-After") != "1" {
		t.Errorf("without keys: %d", answer.StatusCode)
	}

	i.answers(200)
	i.advance(time.Minute)
	if err := verify(k); err != nil {
		t.Errorf("back: %v", err)
	}
	i.publish("k1", false)
	i.advance(time.Hour)
	if err := verify(k); !errors.Is(err, guard.ErrNotAccepted) {
		t.Errorf("a key that was withdrawn while nobody asked: %v", err)
	}
}

// A service that starts before Cardea refuses tokens, and accepts them within a second of Cardea's start.
func TestKeysAreThereLater(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.answers(404)
	k := i.publish("k1", false)
	tokens := i.tokens(nil)
	if _, err := tokens.Verify(t.Context(), i.token(k, nil)); !errors.Is(err, guard.ErrNoKeys) {
		t.Error(err)
	}
	i.answers(200)
	if _, err := tokens.Verify(t.Context(), i.token(k, nil)); !errors.Is(err, guard.ErrNoKeys) || i.fetched.Load() != 1 {
		t.Errorf("within the second: %v, %d fetches", err, i.fetched.Load())
	}
	i.advance(time.Second)
	if _, err := tokens.Verify(t.Context(), i.token(k, nil)); err != nil {
		t.Error(err)
	}
}

// Invalid key sets are not used, and redirects are not followed.
func TestKeySetsThatAreNone(t *testing.T) {
	t.Parallel()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]any{
		"empty": jose.JSONWebKeySet{}, "no set": []int{1}, "a shared secret": jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: []byte("0123456789abcdef0123456789abcdef"), KeyID: "k1", Algorithm: "HS256"}}},
		"a private key": jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: private, KeyID: "k1", Algorithm: "ES256"}}}, "huge": strings.Repeat("x", 300<<10),
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(body) }))
		t.Cleanup(server.Close)
		i := newIssuer(t)
		tokens := i.tokens(func(o *guard.TokensOptions) { o.KeysURL = server.URL })
		if _, err := tokens.Verify(t.Context(), i.token(private, nil)); !errors.Is(err, guard.ErrNoKeys) {
			t.Errorf("%s: %v", name, err)
		}
	}
	elsewhere := newIssuer(t)
	elsewhere.publish("k1", false)
	moved := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	t.Cleanup(moved.Close)
	if _, err := elsewhere.tokens(func(o *guard.TokensOptions) { o.KeysURL, o.HTTPClient = moved.URL, &http.Client{} }).Verify(t.Context(), elsewhere.token(private, nil)); !errors.Is(err, guard.ErrNoKeys) || elsewhere.fetched.Load() != 0 {
		t.Errorf("a redirect: %v", err)
	}
}

func TestTokensOptions(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*guard.TokensOptions){
		"no issuer": func(o *guard.TokensOptions) { o.Issuer = "" }, "no audience": func(o *guard.TokensOptions) { o.Audiences = nil }, "an empty audience": func(o *guard.TokensOptions) { o.Audiences = []string{"x", ""} },
		"keys over http": func(o *guard.TokensOptions) { o.KeysURL = "http://keys.example/jwks" }, "keys with a password": func(o *guard.TokensOptions) { o.KeysURL = "https://u:p@keys.example" }, "keys of a file": func(o *guard.TokensOptions) { o.KeysURL = "file:///x" },
		"none": func(o *guard.TokensOptions) { o.Algorithms = []string{"none"} }, "HS256": func(o *guard.TokensOptions) { o.Algorithms = []string{"ES256", "HS256"} }, "much leeway": func(o *guard.TokensOptions) { o.Leeway = time.Hour },
		"a negative time": func(o *guard.TokensOptions) { o.KeepFor = -1 },
	} {
		options := guard.TokensOptions{Issuer: issuedBy, Audiences: []string{meant}}
		if _, err := guard.NewSessionTokens(options); err != nil {
			t.Fatal(err)
		}
		change(&options)
		if _, err := guard.NewSessionTokens(options); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A client parses the challenge of a token that does not suffice, and learns what to ask of the user.
func TestRequireAssuranceChallenges(t *testing.T) {
	i := newIssuer(t)
	key := i.publish("k1", false)
	tokens, err := guard.NewSessionTokens(guard.TokensOptions{Issuer: issuedBy, Audiences: []string{meant}, KeysURL: i.URL, Clock: i.clock})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(acr string, maxAge time.Duration, claims map[string]any) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "/", nil)
		if claims != nil {
			r.Header.Set("Authorization", "Bearer "+signed(t, key, jose.ES256, map[string]any{"kid": "k1", "typ": "JWT"}, i.claims(claims)))
		}
		w := httptest.NewRecorder()
		tokens.RequireAssurance(acr, maxAge)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if who := guard.From(r.Context()); who.ACR != claims["acr"] || who.ProvenAt.IsZero() {
				t.Errorf("the identity is %+v", who)
			}
			w.WriteHeader(http.StatusNoContent)
		})).ServeHTTP(w, r)
		return w
	}
	now := i.clock()
	proven := func(acr string, age time.Duration) map[string]any {
		return map[string]any{"acr": acr, "auth_time": now.Add(-age).Unix()}
	}
	const challenge = `Bearer error="insufficient_user_authentication", error_description="the user must show a stronger or more recent proof: ` +
		`send an authorization request with these parameters", acr_values="2", max_age="300"`
	for name, c := range map[string]struct {
		claims map[string]any
		status int
		header string
	}{
		"two factors":          {proven("2", 0), 204, ""},
		"a passkey":            {proven("phr", 4*time.Minute), 204, ""},
		"within the leeway":    {proven("2", 303*time.Second), 204, ""},
		"an old proof":         {proven("2", 306*time.Second), 401, challenge},
		"one factor":           {proven("1", 0), 401, challenge},
		"no level":             {map[string]any{}, 401, challenge},
		"a level without time": {map[string]any{"acr": "2"}, 401, challenge},
		"an unknown level":     {proven("gold", 0), 401, challenge},
		"no token":             {nil, 401, "Bearer"},
		"a token of another":   {map[string]any{"acr": "2", "iss": "https://evil.example"}, 401, `Bearer error="invalid_token"`},
	} {
		w := ask("2", 5*time.Minute, c.claims)
		if w.Code != c.status || w.Header().Get("WWW-Authenticate") != c.header {
			t.Errorf("%s: %d %q", name, w.Code, w.Header().Get("WWW-Authenticate"))
		}
	}
	for _, wrong := range []struct {
		acr    string
		maxAge time.Duration
	}{{"3", 0}, {"2", -time.Second}, {"2", time.Millisecond}, {"2", 366 * 24 * time.Hour}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v is accepted", wrong)
				}
			}()
			tokens.RequireAssurance(wrong.acr, wrong.maxAge)
		}()
	}
}
