package credential

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// issuerKeys are the private keys of the issuer in these tests, by their id.
type issuerKeys struct {
	rsa     *rsa.PrivateKey
	ec      *ecdsa.PrivateKey
	ed      ed25519.PrivateKey
	foreign *rsa.PrivateKey
}

func newKeys(t testing.TB) issuerKeys {
	t.Helper()
	first, err1 := rsa.GenerateKey(rand.Reader, 2048)
	second, err2 := rsa.GenerateKey(rand.Reader, 2048)
	ec, err3 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, ed, err4 := ed25519.GenerateKey(rand.Reader)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	return issuerKeys{rsa: first, ec: ec, ed: ed, foreign: second}
}

func (k issuerKeys) set(t testing.TB) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: k.rsa.Public(), KeyID: "rsa"}, {Key: k.ec.Public(), KeyID: "ec"}, {Key: k.ed.Public(), KeyID: "ed"},
		{Key: k.rsa.Public(), KeyID: "rs256-only", Algorithm: "RS256"}, {Key: k.rsa.Public(), KeyID: "enc", Use: "enc"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// testSnapshot returns a snapshot of two deployments: acme, with four issuers and the Kubernetes API, and other, with
// one issuer.
func testSnapshot(t testing.TB, keys issuerKeys, more ...store.Document) *snapshot.Snapshot {
	t.Helper()
	deployment := func(name string, id int64, issuers ...document.JWTIssuer) store.Document {
		payload, err := document.Encode(document.Meta{}, document.Deployment{ManagementWrites: "Enabled", JWTIssuers: issuers})
		if err != nil {
			t.Fatal(err)
		}
		return store.Document{
			Owner:      store.Owner{Identity: store.Identity{Kind: "IdentityDeployment", Namespace: "ns", Name: name}, UID: name},
			Deployment: "ns/" + name, ID: id, Key: name, Payload: payload,
		}
	}
	all := []string{"RS256", "PS256", "ES256", "EdDSA"}
	documents := feed{
		deployment("acme", 1,
			document.JWTIssuer{Name: "idp", Issuer: "https://idp.example", Audiences: []string{"cardea:ns:acme", "second"}, Algorithms: all, JWKS: keys.set(t), PermissionsClaim: "scope"},
			document.JWTIssuer{Name: "narrow", Issuer: "https://narrow.example", Audiences: []string{"cardea:ns:acme"}, Algorithms: []string{"ES256"}, JWKS: keys.set(t), PermissionsExpression: "claims.groups"},
			document.JWTIssuer{Name: "own", Issuer: "https://own.example", Audiences: []string{"cardea:ns:acme"}, Algorithms: []string{"ES256"}, JWKS: keys.set(t), PermissionsClaim: "scope", OwnSessions: true},
			document.JWTIssuer{Name: "long", Issuer: "https://long.example", Audiences: []string{"cardea:ns:acme"}, Algorithms: all, JWKS: keys.set(t), PermissionsClaim: "scope", MaxLifetimeSeconds: 3 * 24 * 3600},
			document.JWTIssuer{Name: "cluster", Audiences: []string{"cardea:ns:acme"}, Algorithms: all, Kubernetes: true,
				PermissionsExpression: "claims.sub == 'system:serviceaccount:elsewhere:named' || claims.sub.startsWith('system:serviceaccount:ns:') ? ['ai_agents:read'] : ['*']"},
		),
		deployment("other", 2, document.JWTIssuer{Name: "idp", Issuer: "https://idp.example", Audiences: []string{"cardea:ns:other"}, Algorithms: all, JWKS: keys.set(t), PermissionsClaim: "scope"}),
	}
	f := snapshot.NewFollower(append(documents, more...), time.Hour, func() time.Time { return now }, logr.Discard())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	<-f.Loaded()
	cancel()
	<-done
	return f.Current()
}

type feed []store.Document

func (f feed) Load(context.Context) ([]store.Document, store.Position, error) {
	return f, store.Position{Revision: 1}, nil
}
func (f feed) Changes(context.Context, store.Position) ([]store.Change, store.Position, error) {
	return nil, store.Position{Revision: 1}, nil
}
func (f feed) Signals(context.Context) <-chan struct{} { return nil }

// part encodes a part of a token.
func part(v any) string {
	raw, ok := v.([]byte)
	if !ok {
		raw, _ = json.Marshal(v)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// sign makes a token of any header and payload.
func (k issuerKeys) sign(header map[string]any, payload any) string {
	input := part(header) + "." + part(payload)
	digest := sha256.Sum256([]byte(input))
	var signature []byte
	switch header["alg"] {
	case "RS256":
		signature, _ = rsa.SignPKCS1v15(rand.Reader, k.rsa, crypto.SHA256, digest[:])
	case "PS256":
		signature, _ = rsa.SignPSS(rand.Reader, k.rsa, crypto.SHA256, digest[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
	case "ES256":
		r, s, _ := ecdsa.Sign(rand.Reader, k.ec, digest[:])
		signature = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	case "EdDSA":
		signature = ed25519.Sign(k.ed, []byte(input))
	case "HS256":
		public, _ := json.Marshal(jose.JSONWebKey{Key: k.rsa.Public()})
		mac := hmac.New(sha256.New, public)
		mac.Write([]byte(input))
		signature = mac.Sum(nil)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(signature)
}

type change func(header, payload map[string]any)

func header(name string, value any) change {
	return func(h, _ map[string]any) {
		if value == nil {
			delete(h, name)
		} else {
			h[name] = value
		}
	}
}

func claim(name string, value any) change {
	return func(_, p map[string]any) {
		if value == nil {
			delete(p, name)
		} else {
			p[name] = value
		}
	}
}

func (k issuerKeys) token(changes ...change) string {
	h := map[string]any{"alg": "RS256", "kid": "rsa", "typ": "JWT"}
	p := map[string]any{"iss": "https://idp.example", "aud": "cardea:ns:acme", "sub": "u1", "exp": now.Add(time.Hour).Unix(), "scope": "ai_agents:read"}
	for _, c := range changes {
		c(h, p)
	}
	return k.sign(h, p)
}

func seconds(d time.Duration) int64 { return now.Add(d).Unix() }

func TestTokens(t *testing.T) {
	keys := newKeys(t)
	s := testSnapshot(t, keys)
	tokens := NewTokens(nil, NewReviews(&reviewer{}, nil, func() time.Time { return now }), func() time.Time { return now })
	valid := keys.token()
	dots := strings.Split(valid, ".")
	foreign := issuerKeys{rsa: keys.foreign, ec: keys.ec, ed: keys.ed}

	for name, token := range map[string]string{
		"RS256":                    valid,
		"PS256":                    keys.token(header("alg", "PS256")),
		"ES256":                    keys.token(header("alg", "ES256"), header("kid", "ec")),
		"EdDSA":                    keys.token(header("alg", "EdDSA"), header("kid", "ed")),
		"no typ":                   keys.token(header("typ", nil)),
		"a list of audiences":      keys.token(claim("aud", []string{"elsewhere", "cardea:ns:acme"})),
		"two audiences of one":     keys.token(claim("aud", []string{"second", "cardea:ns:acme"})),
		"expired within the skew":  keys.token(claim("exp", seconds(-59*time.Second))),
		"not before, within skew":  keys.token(claim("nbf", seconds(59*time.Second))),
		"a fraction of a second":   keys.token(claim("exp", float64(seconds(time.Hour))+0.5)),
		"a key's own algorithm":    keys.token(header("kid", "rs256-only")),
		"permissions as a list":    keys.token(claim("scope", []string{"ai_agents:read"})),
		"all permissions":          keys.token(claim("scope", "*")),
		"an issuer of ES256 alone": keys.token(header("alg", "ES256"), header("kid", "ec"), claim("iss", "https://narrow.example"), claim("groups", []string{"ai_agents:read"})),
	} {
		t.Run("accepts "+name, func(t *testing.T) {
			p, err := tokens.Authenticate(context.Background(), s, token)
			if err != nil {
				t.Fatal(err)
			}
			if p.Deployment.Name != "acme" || !p.Allows("ai_agents:read") {
				t.Errorf("deployment %s, allowed %v", p.Deployment.Name, p.Allows("ai_agents:read"))
			}
		})
	}

	refused := map[string]string{
		"empty": "", "one dot": "a.b", "three dots": valid + ".x", "no header": "." + dots[1] + "." + dots[2], "no payload": dots[0] + ".." + dots[2],
		"no signature": dots[0] + "." + dots[1] + ".", "a blank": valid + " ", "padding": dots[0] + "=." + dots[1] + "." + dots[2],
		"standard base64": strings.ReplaceAll(valid, "-", "+") + "+", "too long": keys.token(claim("x", strings.Repeat("y", 17<<10))),
		"an API key":                           "ck_0123456789abcdef.x.y",
		"a signature cut":                      valid[:len(valid)-2],
		"a signature changed":                  valid[:len(valid)-9] + flip(valid[len(valid)-9:]),
		"a payload changed":                    dots[0] + "." + part(map[string]any{"iss": "https://idp.example", "aud": "cardea:ns:acme", "exp": seconds(time.Hour), "scope": "*"}) + "." + dots[2],
		"a header changed":                     part(map[string]any{"alg": "RS256", "kid": "rsa"}) + "." + dots[1] + "." + dots[2],
		"alg none":                             keys.token(header("alg", "none")),
		"alg None":                             keys.token(header("alg", "None")),
		"alg missing":                          keys.token(header("alg", nil)),
		"alg a number":                         keys.token(header("alg", 5)),
		"HS256 with the public key":            keys.token(header("alg", "HS256")),
		"RS512":                                keys.token(header("alg", "RS512")),
		"RS1":                                  keys.token(header("alg", "RS1")),
		"ES256 with an RSA key":                keys.token(header("alg", "ES256")),
		"RS256 with an EC key":                 keys.token(header("kid", "ec")),
		"EdDSA with an RSA key":                keys.token(header("alg", "EdDSA")),
		"PS256 with a key of RS256":            keys.token(header("alg", "PS256"), header("kid", "rs256-only")),
		"an encryption key":                    keys.token(header("kid", "enc")),
		"an unknown key":                       keys.token(header("kid", "nobody")),
		"no key id of several":                 keys.token(header("kid", nil)),
		"an empty key id":                      keys.token(header("kid", "")),
		"a key id that is a number":            keys.token(header("kid", 1)),
		"a foreign key":                        foreign.token(),
		"jwk in the header":                    keys.token(header("jwk", json.RawMessage(`{"kty":"oct","k":"AA"}`))),
		"jku in the header":                    keys.token(header("jku", "https://idp.example/keys")),
		"x5u in the header":                    keys.token(header("x5u", "https://idp.example/cert")),
		"x5c in the header":                    keys.token(header("x5c", []string{"MIIB"})),
		"crit in the header":                   keys.token(header("crit", []string{"exp"})),
		"unknown crit":                         keys.token(header("crit", []string{"x"}), header("x", 1)),
		"b64 false":                            keys.token(header("b64", false)),
		"a header member twice":                part([]byte(`{"alg":"RS256","alg":"none","kid":"rsa"}`)) + "." + dots[1] + "." + dots[2],
		"a claim twice":                        keys.sign(map[string]any{"alg": "RS256", "kid": "rsa"}, []byte(`{"iss":"https://idp.example","aud":"cardea:ns:acme","exp":4102444800,"scope":"*","scope":"x"}`)),
		"a header that is a list":              part([]byte(`[]`)) + "." + dots[1] + "." + dots[2],
		"a payload that is a list":             keys.sign(map[string]any{"alg": "RS256", "kid": "rsa"}, []byte(`[]`)),
		"a payload that is null":               keys.sign(map[string]any{"alg": "RS256", "kid": "rsa"}, []byte(`null`)),
		"a payload that is no JSON":            keys.sign(map[string]any{"alg": "RS256", "kid": "rsa"}, []byte(`{"iss"`)),
		"more after the payload":               keys.sign(map[string]any{"alg": "RS256", "kid": "rsa"}, []byte(`{"iss":"https://idp.example","aud":"cardea:ns:acme","exp":4102444800}{}`)),
		"no issuer":                            keys.token(claim("iss", nil)),
		"an empty issuer":                      keys.token(claim("iss", "")),
		"an issuer that is a list":             keys.token(claim("iss", []string{"https://idp.example"})),
		"an unknown issuer":                    keys.token(claim("iss", "https://evil.example"), claim("aud", "second")),
		"an issuer with a slash":               keys.token(claim("iss", "https://idp.example/"), claim("aud", "second")),
		"an issuer in upper case":              keys.token(claim("iss", "HTTPS://IDP.EXAMPLE"), claim("aud", "second")),
		"no audience":                          keys.token(claim("aud", nil)),
		"an empty list of audiences":           keys.token(claim("aud", []string{})),
		"an unknown audience":                  keys.token(claim("aud", "cardea:ns:nobody")),
		"an audience's prefix":                 keys.token(claim("aud", "cardea:ns:acm")),
		"an audience that is a number":         keys.token(claim("aud", 5)),
		"a number among audiences":             keys.token(claim("aud", []any{"cardea:ns:acme", 5})),
		"audiences of two deployments":         keys.token(claim("aud", []string{"cardea:ns:acme", "cardea:ns:other"})),
		"40 audiences":                         keys.token(claim("aud", append(make([]string, 40), "cardea:ns:acme"))),
		"no expiry":                            keys.token(claim("exp", nil)),
		"expired":                              keys.token(claim("exp", seconds(-time.Minute))),
		"expired long ago":                     keys.token(claim("exp", 0)),
		"a negative expiry":                    keys.token(claim("exp", -1)),
		"an expiry as text":                    keys.token(claim("exp", "4102444800")),
		"an expiry out of time":                keys.token(claim("exp", 1e300)),
		"not valid yet":                        keys.token(claim("nbf", seconds(61*time.Second))),
		"not before as text":                   keys.token(claim("nbf", "0")),
		"issued in the future":                 keys.token(claim("iat", seconds(5*time.Minute))),
		"an algorithm the issuer does not use": keys.token(claim("iss", "https://narrow.example")),
	}
	if len(refused) < 60 {
		t.Fatalf("only %d vectors", len(refused))
	}
	for name, token := range refused {
		t.Run("refuses "+name, func(t *testing.T) {
			p, err := tokens.Authenticate(context.Background(), s, token)
			var problem *apierror.Error
			if p != nil || !errors.As(err, &problem) || problem.Status != http.StatusUnauthorized {
				t.Errorf("got %v, %v", p, err)
			}
		})
	}

	t.Run("grants nothing without the claim", func(t *testing.T) {
		for _, token := range []string{
			keys.token(claim("scope", nil)), keys.token(claim("scope", 5)), keys.token(claim("scope", "")),
			keys.token(header("alg", "ES256"), header("kid", "ec"), claim("iss", "https://narrow.example")), // the expression fails
		} {
			if p, err := tokens.Authenticate(context.Background(), s, token); err != nil || p.Allows("ai_agents:read") {
				t.Errorf("got %v, %v", p, err)
			}
		}
	})
}

func flip(s string) string {
	if s[0] == 'A' {
		return "B" + s[1:]
	}
	return "A" + s[1:]
}

// reviewer accepts tokens whose claim "known" is true, and returns their subject as the user. If away is set, every
// review fails.
type reviewer struct{ away bool }

func (r *reviewer) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	if r.away {
		return errors.New("connection refused")
	}
	review := obj.(*authenticationv1.TokenReview)
	payload, _ := base64.RawURLEncoding.DecodeString(strings.Split(review.Spec.Token, ".")[1])
	var claims map[string]any
	if json.Unmarshal(payload, &claims) == nil && claims["known"] == true {
		review.Status.Authenticated, review.Status.Audiences = true, review.Spec.Audiences
		review.Status.User.Username, _ = claims["sub"].(string)
	}
	return nil
}

func TestServiceAccountTokens(t *testing.T) {
	keys := newKeys(t)
	s := testSnapshot(t, keys)
	time0 := now
	clock := func() time.Time { return time0 }
	inCluster := func(changes ...change) string {
		return keys.token(append([]change{claim("iss", "https://kubernetes.default.svc"), claim("known", true), claim("sub", "system:serviceaccount:ns:reader")}, changes...)...)
	}
	tokens := NewTokens(nil, NewReviews(&reviewer{}, nil, clock), clock)
	for name, tc := range map[string]struct {
		token      string
		wantStatus int
		want       map[string]bool
	}{
		"of the deployment's namespace":         {inCluster(), 200, map[string]bool{"ai_agents:read": true, "ai_tools:read": false}},
		"of another namespace":                  {inCluster(claim("sub", "system:serviceaccount:elsewhere:reader")), 200, map[string]bool{"ai_agents:read": false}},
		"of another namespace that is named":    {inCluster(claim("sub", "system:serviceaccount:elsewhere:named")), 200, map[string]bool{"ai_agents:read": true}},
		"a part of a name that is named":        {inCluster(claim("sub", "system:serviceaccount:elsewhere:name")), 200, map[string]bool{"ai_agents:read": false}},
		"that the Kubernetes API does not know": {inCluster(claim("known", false)), 401, nil},
		"of a user, not a ServiceAccount":       {inCluster(claim("sub", "kubernetes-admin")), 401, nil},
		"for another audience":                  {inCluster(claim("aud", "https://kubernetes.default.svc")), 401, nil},
		"expired":                               {inCluster(claim("exp", seconds(-time.Hour))), 401, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := tokens.Authenticate(context.Background(), s, tc.token)
			status := 200
			var refused *apierror.Error
			if errors.As(err, &refused) {
				status = refused.Status
			}
			if status != tc.wantStatus {
				t.Fatalf("status %d (%v), want %d", status, err, tc.wantStatus)
			}
			for permission, want := range maps.All(tc.want) {
				if p.Allows(permission) != want {
					t.Errorf("%s: %v", permission, !want)
				}
			}
		})
	}
	t.Run("while the Kubernetes API is away", func(t *testing.T) {
		known, fresh := inCluster(), inCluster(claim("jti", "2"))
		down := &reviewer{}
		tokens := NewTokens(nil, NewReviews(down, nil, clock), clock)
		if _, err := tokens.Authenticate(context.Background(), s, known); err != nil {
			t.Fatal(err)
		}
		down.away = true
		if _, err := tokens.Authenticate(context.Background(), s, known); err != nil {
			t.Errorf("one reviewed just now: %v", err)
		}
		var p *apierror.Error
		if _, err := tokens.Authenticate(context.Background(), s, fresh); !errors.As(err, &p) || p.Status != 503 || p.RetryAfter == 0 {
			t.Errorf("a new one: %v, want a 503", err)
		}
		time0 = time0.Add(reviewAge)
		if _, err := tokens.Authenticate(context.Background(), s, known); !errors.As(err, &p) || p.Status != 503 {
			t.Errorf("one reviewed 10 s ago: %v, want a 503", err)
		}
	})
}
