package upstream

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
)

var redemption = Redemption{Code: testCode, Verifier: testVerifier, RedirectURI: "https://app.acme.example/sso/4711/callback"}

// granted is a token endpoint's answer.
const granted = `{"access_token":"` + testAccess + `","id_token":"` + testIDToken + `","token_type":"Bearer","expires_in":3600,"refresh_token":"r"}`

// pemOf returns a private key as the operator accepts it.
func pemOf(t *testing.T, key any) string {
	t.Helper()
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

// seals replaces the secret of a connection.
func (w *world) seals(secret string) func(*document.Connection) {
	return func(c *document.Connection) {
		c.Client.Sealed = w.Keyring.Seal(document.SealedConnectionSecret, ids.Format(4711), []byte(secret))
	}
}

func TestCodeIsRedeemedOnceWithItsVerifier(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.provider.serve("/token", says(200, granted))
	c := w.connection(nil)
	got, err := w.server().Redeem(t.Context(), c, redemption)
	if err != nil || got != (Tokens{AccessToken: testAccess, IDToken: testIDToken}) {
		t.Fatalf("%+v, %v", got, err)
	}
	r := w.provider.last("/token")
	want := url.Values{"grant_type": {"authorization_code"}, "code": {testCode}, "code_verifier": {testVerifier}, "redirect_uri": {redemption.RedirectURI}}
	if r.Method != http.MethodPost || r.PostForm.Encode() != want.Encode() || r.URL.RawQuery != "" || w.provider.hit("/token") != 1 {
		t.Errorf("%s %s %v", r.Method, r.URL, r.PostForm)
	}
	w.silent(c)
}

// Both parts of HTTP Basic are encoded as in forms, so that a colon in the id does not end it.
func TestClientSecretsInTheHeaderAndInTheForm(t *testing.T) {
	t.Parallel()
	const id, secret = "acme:login app", "a+b c%&=:ü"
	w := newWorld(t, "")
	w.provider.serve("/token", says(200, granted))
	server := w.server()
	for _, authentication := range []string{"ClientSecretBasic", "ClientSecretPost"} {
		c := w.connection(func(c *document.Connection) {
			w.seals(secret)(c)
			c.Client.ID, c.Client.Authentication = id, authentication
		})
		if _, err := server.Redeem(t.Context(), c, redemption); err != nil {
			t.Fatal(err)
		}
		r := w.provider.last("/token")
		user, password, basic := r.BasicAuth()
		if basic {
			user, _ = url.QueryUnescape(user)
			password, _ = url.QueryUnescape(password)
		} else {
			user, password = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
		}
		if user != id || password != secret || basic != (authentication == "ClientSecretBasic") || basic && r.PostForm.Has("client_secret") {
			t.Errorf("%s: %q, %q, in the header: %t", authentication, user, password, basic)
		}
	}
	if got := basic("a:b c", "ü+"); got != "Basic YSUzQWIrYzolQzMlQkMlMkI=" {
		t.Error(got)
	}
}

// asserted verifies a signed assertion, or Apple's secret, and returns its claims.
func asserted(t *testing.T, raw string, algorithm jose.SignatureAlgorithm, public crypto.PublicKey) (jwt.Claims, jose.Header) {
	t.Helper()
	parsed, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{algorithm})
	if err != nil {
		t.Fatal(err)
	}
	var claims jwt.Claims
	if err := parsed.Claims(public, &claims); err != nil {
		t.Fatal(err)
	}
	return claims, parsed.Headers[0]
}

func TestAssertionsAreForTheTokenEndpoint(t *testing.T) {
	t.Parallel()
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "")
	w.provider.serve("/token", says(200, granted))
	server, seen := w.server(), map[string]bool{}
	for algorithm, key := range map[jose.SignatureAlgorithm]crypto.Signer{jose.ES256: p256, jose.RS256: testKey()} {
		c := w.connection(func(c *document.Connection) {
			w.seals(pemOf(t, key))(c)
			c.Client.Authentication = "PrivateKeyJWT"
		})
		for range 2 {
			if _, err := server.Redeem(t.Context(), c, redemption); err != nil {
				t.Fatal(err)
			}
			form := w.provider.last("/token").PostForm
			claims, header := asserted(t, form.Get("client_assertion"), algorithm, key.Public())
			now := w.Clock.Now().Truncate(time.Second)
			if claims.Issuer != "client-1" || claims.Subject != "client-1" || len(claims.Audience) != 1 || claims.Audience[0] != w.provider.URL+"/token" ||
				!claims.IssuedAt.Time().Equal(now) || !claims.Expiry.Time().Equal(now.Add(5*time.Minute)) || claims.ID == "" || seen[claims.ID] || header.KeyID != "" {
				t.Errorf("%s: %+v, %+v", algorithm, claims, header)
			}
			seen[claims.ID] = true
			if form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" || form.Get("client_id") != "client-1" || form.Has("client_secret") {
				t.Errorf("%v", form)
			}
		}
		w.silent(c)
	}
}

// Apple's client secret is a token of 5 minutes, made for each request.
func TestSecretForAppleIsMintedForEachRequest(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "")
	w.provider.serve("/token", says(200, granted))
	c := w.connection(func(c *document.Connection) {
		w.seals(pemOf(t, key))(c)
		c.Type, c.Client.ID, c.Client.Authentication = "Apple", "com.acme.login", "ClientSecretPost"
		c.Provider.TeamID, c.Provider.KeyID = "TEAM123456", "KEY1234567"
	})
	server := w.server()
	for range 2 {
		if _, err := server.Redeem(t.Context(), c, redemption); err != nil {
			t.Fatal(err)
		}
		form := w.provider.last("/token").PostForm
		claims, header := asserted(t, form.Get("client_secret"), jose.ES256, key.Public())
		now := w.Clock.Now().Truncate(time.Second)
		if claims.Issuer != "TEAM123456" || claims.Subject != "com.acme.login" || len(claims.Audience) != 1 || claims.Audience[0] != c.Provider.Issuer ||
			!claims.IssuedAt.Time().Equal(now) || !claims.Expiry.Time().Equal(now.Add(5*time.Minute)) || header.KeyID != "KEY1234567" || form.Get("client_id") != "com.acme.login" {
			t.Errorf("%+v, %+v", claims, header)
		}
		w.Clock.Advance(time.Hour)
	}
}

// A refusal of a token endpoint is a fault with the endpoint's code. A temporary failure is not a fault.
func TestAnswersOfTokenEndpoints(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxAnswer)
	for name, tc := range map[string]struct {
		kind string
		page http.HandlerFunc
		got  string // of the fault; "" for ErrUnavailable
	}{
		"a spent code":             {"OIDC", says(400, `{"error":"invalid_grant","error_description":"`+testCode+`"}`), "invalid_grant"},
		"a wrong secret":           {"OIDC", says(401, `{"error":"invalid_client"}`), "invalid_client"},
		"a code that is no word":   {"OIDC", says(400, `{"error":"<script>"}`), "400 Bad Request"},
		"a code of capitals":       {"OIDC", says(400, `{"error":"Invalid_Grant"}`), "400 Bad Request"},
		"a code of 65 letters":     {"OIDC", says(400, `{"error":"`+strings.Repeat("a", 65)+`"}`), "400 Bad Request"},
		"a page":                   {"OIDC", says(400, `<html>`+testSecret), "400 Bad Request"},
		"403":                      {"OIDC", says(403, ``), "403 Forbidden"},
		"a redirect":               {"OIDC", http.RedirectHandler("/elsewhere", http.StatusTemporaryRedirect).ServeHTTP, "307 Temporary Redirect"},
		"500":                      {"OIDC", says(500, `{"error":"invalid_grant"}`), ""},
		"503":                      {"OIDC", says(503, ``), ""},
		"429":                      {"OIDC", says(429, ``), ""},
		"a closed connection":      {"OIDC", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, ""},
		"no ID token":              {"OIDC", says(200, `{"access_token":"`+testAccess+`"}`), "no id_token"},
		"no access token":          {"OIDC", says(200, `{"id_token":"`+testIDToken+`"}`), "no access_token"},
		"an access token of lines": {"OIDC", says(200, `{"access_token":"a\nb","id_token":"x"}`), "no access_token"},
		"a list":                   {"OIDC", says(200, `[`+granted+`]`), "no valid JSON object"},
		"doubled members":          {"OIDC", says(200, `{"id_token":"a","id_token":"b","access_token":"c"}`), "no valid JSON object"},
		"more than 64 KiB":         {"OIDC", says(200, `{"access_token":"a","id_token":"`+long+`"}`), "more than 65536 bytes"},
		"a form": {"OIDC", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-www-form-urlencoded")
			_, _ = w.Write([]byte("access_token=" + testAccess))
		}, "application/x-www-form-urlencoded"},
		"no media type": {"OIDC", func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{"\xff" + testSecret}
			_, _ = w.Write([]byte(granted))
		}, "no media type"},
		"an error of GitHub with 200": {"GitHub", says(200, `{"error":"bad_verification_code","error_description":"d","error_uri":"u"}`), "bad_verification_code"},
		"an error without a code":     {"GitHub", says(200, `{"error":"?"}`), "no access_token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "")
			w.provider.serve("/token", tc.page)
			c := w.connection(func(c *document.Connection) { w.direct(c); c.Type = tc.kind })
			tokens, err := w.server().Redeem(t.Context(), c, redemption)
			var fault *connection.Fault
			if errors.As(err, &fault); tokens != (Tokens{}) || (fault == nil) != (tc.got == "") || errors.Is(err, ErrUnavailable) != (tc.got == "") {
				t.Fatalf("%+v, %v", tokens, err)
			}
			if fault != nil && (fault.Got != tc.got || fault.Reason != connection.ReasonTokens) {
				t.Errorf("%+v", fault)
			}
			if w.provider.hit("/token") != 1 || w.provider.hit("/elsewhere") != 0 {
				t.Errorf("%v", w.provider.hits)
			}
			w.silent(c, err.Error())
		})
	}
}

// GitHub has no ID tokens. It answers in JSON only if that is asked for.
func TestCodesOfGitHubAreRedeemedWithoutAnIDToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.provider.serve("/token", func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") != "application/json" {
			rw.WriteHeader(http.StatusNotAcceptable)
			return
		}
		says(200, `{"access_token":"`+testAccess+`","scope":"read:user,user:email","token_type":"bearer"}`)(rw, r)
	})
	c := w.connection(func(c *document.Connection) {
		w.direct(c)
		c.Type = "GitHub"
		c.Client.Authentication = "ClientSecretPost"
	})
	got, err := w.server().Redeem(t.Context(), c, redemption)
	if err != nil || got != (Tokens{AccessToken: testAccess}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// A secret that was sealed for another connection, or by a root key that is gone, is not sent.
func TestSecretOfAnotherConnectionIsNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	c := w.connection(w.direct)
	c.ID++
	if _, err := w.server().Redeem(t.Context(), c, redemption); !errors.Is(err, ErrUnavailable) || w.provider.hit("/token") != 0 {
		t.Errorf("%v", err)
	}
}

// servesNoTokens lets requests at the token endpoint wait until the test ends.
func (w *world) servesNoTokens() {
	done := make(chan struct{})
	w.T.Cleanup(func() { close(done) })
	w.provider.serve("/token", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-done:
		case <-r.Context().Done():
		}
	})
}

// A provider that does not answer takes the slots of its own deployments alone.
func TestSlowProviderDelaysItsOwnDeployment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	server := w.server()
	slow, other := w.connection(w.direct), w.connection(w.direct)
	other.Deployment = "globex/home"
	w.servesNoTokens()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range signInRequests.DeploymentAtOnce {
		go func() { _, _ = server.Redeem(ctx, slow, redemption) }()
	}
	w.Eventually("all slots of the deployment are taken", func() bool { return w.provider.hit("/token") == signInRequests.DeploymentAtOnce })
	short, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	if _, err := server.Redeem(short, slow, redemption); !errors.Is(err, ErrUnavailable) || server.RequestsExhausted() != 1 {
		t.Errorf("%v, %d", err, server.RequestsExhausted())
	}
	w.provider.serve("/token", says(200, granted))
	if _, err := server.Redeem(t.Context(), other, redemption); err != nil {
		t.Error(err)
	}
}

// An organization may set its provider up itself: one that never responds delays the organization's own sign-ins.
func TestSlowProviderOfAnOrganizationDelaysThatOrganizationAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	server := w.server()
	slow, second, other, declared := w.connection(w.direct), w.connection(w.direct), w.connection(w.direct), w.connection(w.direct)
	slow.Organization, second.Organization, other.Organization = "globex", "globex", "initech"
	w.servesNoTokens()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range signInRequests.DeploymentAtOnce {
		go func() { _, _ = server.Redeem(ctx, slow, redemption) }()
	}
	w.Eventually("all slots of the organization are taken", func() bool { return w.provider.hit("/token") == signInRequests.SourceAtOnce })
	w.provider.serve("/token", says(200, granted))
	short, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	if _, err := server.Redeem(short, second, redemption); !errors.Is(err, ErrUnavailable) {
		t.Errorf("another connection of the organization: %v", err)
	}
	for name, c := range map[string]Connection{"another organization": other, "the deployment": declared} {
		if _, err := server.Redeem(t.Context(), c, redemption); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
