package connection

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/internal/document"
)

const (
	testIssuer = "https://idp.globex.example"
	testClient = "client-1"
	testNonce  = "the-nonce-of-the-attempt"
	testAccess = "the-access-token"
)

// now is the time of the tests.
var now = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// signer signs ID tokens as a provider.
type signer struct {
	t   testing.TB
	key *rsa.PrivateKey
}

func newSigner(t testing.TB) *signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{t, key}
}

// keys returns the provider's key under the id "k1".
func (s *signer) keys(_ context.Context, _, id string) (*jose.JSONWebKey, error) {
	if id != "k1" {
		return nil, nil
	}
	return &jose.JSONWebKey{Key: s.key.Public(), KeyID: "k1", Algorithm: "RS256", Use: "sig"}, nil
}

// claims returns the claims of a right token with changes; nil removes a claim.
func claims(changes map[string]any) map[string]any {
	sum := sha256.Sum256([]byte(testAccess))
	all := map[string]any{
		"iss": testIssuer, "aud": testClient, "sub": "person-1", "nonce": testNonce, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
		"at_hash": base64.RawURLEncoding.EncodeToString(sum[:16]), "email": "ann@globex.example",
	}
	for name, value := range changes {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	return all
}

// sign signs a payload with further members of the header.
func (s *signer) sign(payload []byte, key any, alg jose.SignatureAlgorithm, header map[jose.HeaderKey]any) string {
	s.t.Helper()
	signing, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, &jose.SignerOptions{ExtraHeaders: header})
	if err != nil {
		s.t.Fatal(err)
	}
	signed, err := signing.Sign(payload)
	if err != nil {
		s.t.Fatal(err)
	}
	raw, err := signed.CompactSerialize()
	if err != nil {
		s.t.Fatal(err)
	}
	return raw
}

// token returns a right token with changed claims.
func (s *signer) token(changes map[string]any) string {
	payload, err := json.Marshal(claims(changes))
	if err != nil {
		s.t.Fatal(err)
	}
	return s.sign(payload, s.key, jose.RS256, map[jose.HeaderKey]any{"kid": "k1"})
}

func oidcConnection() *document.Connection {
	return &document.Connection{Type: "OIDC", Provider: document.UpstreamProvider{Issuer: testIssuer, Algs: []string{"RS256", "ES256"}}}
}

func verify(c *document.Connection, s *signer, raw string) (Person, error) {
	return VerifyIDToken(context.Background(), c, raw, s.keys, Expected{ClientID: testClient, Nonce: testNonce, AccessToken: testAccess, Now: now})
}

func TestRightIDTokensAreAccepted(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	for name, changes := range map[string]map[string]any{
		"plain":                               nil,
		"without at_hash":                     {"at_hash": nil},
		"of a list with the client alone":     {"aud": []string{testClient}},
		"of several audiences for the client": {"aud": []string{testClient, "other"}, "azp": testClient},
		"a minute after its expiry":           {"exp": now.Add(-59 * time.Second).Unix()},
		"of a clock that is fast":             {"iat": now.Add(59 * time.Second).Unix()},
		"ten minutes old":                     {"iat": now.Add(-10 * time.Minute).Unix()},
		"with a long subject":                 {"sub": strings.Repeat("s", MaxSubject)},
	} {
		person, err := verify(oidcConnection(), s, s.token(changes))
		if err != nil || person.Issuer != testIssuer || person.Subject == "" || person.Claims["email"] != "ann@globex.example" {
			t.Errorf("%s: %+v, %v", name, person, err)
		}
	}
}

func TestWrongClaimsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	for name, tc := range map[string]struct {
		changes map[string]any
		want    string
	}{
		"no issuer":                     {map[string]any{"iss": nil}, ReasonForm},
		"another issuer":                {map[string]any{"iss": testIssuer + "/"}, ReasonIssuer},
		"no audience":                   {map[string]any{"aud": nil}, ReasonForm},
		"another audience":              {map[string]any{"aud": "other"}, ReasonAudience},
		"several audiences without azp": {map[string]any{"aud": []string{testClient, "other"}}, ReasonParty},
		"another party":                 {map[string]any{"azp": "other"}, ReasonParty},
		"a party that is no text":       {map[string]any{"azp": 7}, ReasonParty},
		"no expiry":                     {map[string]any{"exp": nil}, ReasonExpired},
		"expired":                       {map[string]any{"exp": now.Add(-time.Minute).Unix()}, ReasonExpired},
		"no time of issue":              {map[string]any{"iat": nil}, ReasonIssuedAt},
		"issued in the future":          {map[string]any{"iat": now.Add(61 * time.Second).Unix()}, ReasonIssuedAt},
		"issued long ago":               {map[string]any{"iat": now.Add(-12 * time.Minute).Unix()}, ReasonIssuedAt},
		"not valid yet":                 {map[string]any{"nbf": now.Add(2 * time.Minute).Unix()}, ReasonIssuedAt},
		"no nonce":                      {map[string]any{"nonce": nil}, ReasonNonce},
		"another nonce":                 {map[string]any{"nonce": testNonce + "x"}, ReasonNonce},
		"no subject":                    {map[string]any{"sub": nil}, ReasonSubject},
		"an empty subject":              {map[string]any{"sub": ""}, ReasonSubject},
		"a subject that is a number":    {map[string]any{"sub": 7}, ReasonForm},
		"a subject of 256 bytes":        {map[string]any{"sub": strings.Repeat("s", MaxSubject+1)}, ReasonSubject},
		"another access token":          {map[string]any{"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}, ReasonHash},
		"an at_hash that is no text":    {map[string]any{"at_hash": 7}, ReasonHash},
	} {
		expectFault(t, name, tc.want, func() error { _, err := verify(oidcConnection(), s, s.token(tc.changes)); return err })
	}
}

func expectFault(t *testing.T, name, want string, do func() error) {
	t.Helper()
	var fault *Fault
	if err := do(); !errors.As(err, &fault) || fault.Reason != want {
		t.Errorf("%s: %v, want %s", name, err, want)
	}
}

func TestForgedIDTokensAreRefused(t *testing.T) {
	t.Parallel()
	s, other := newSigner(t), newSigner(t)
	payload, _ := json.Marshal(claims(nil))
	encoded := base64.RawURLEncoding.EncodeToString
	unsigned := encoded([]byte(`{"alg":"none","kid":"k1"}`)) + "." + encoded(payload) + "."
	good := s.token(nil)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	kid := map[jose.HeaderKey]any{"kid": "k1"}
	with := func(name jose.HeaderKey, value any) map[jose.HeaderKey]any {
		return map[jose.HeaderKey]any{"kid": "k1", name: value}
	}
	doubled := []byte(strings.Replace(string(payload), `{`, `{"sub":"person-2",`, 1))
	for name, tc := range map[string]struct{ raw, want string }{
		"without a signature":                {unsigned, ReasonForm},
		"signed with the client's secret":    {s.sign(payload, []byte("a-client-secret-of-thirty-two-ch"), jose.HS256, kid), ReasonForm},
		"an algorithm that is not accepted":  {s.sign(payload, s.key, jose.PS256, kid), ReasonAlgorithm},
		"a key of another provider":          {s.sign(payload, other.key, jose.RS256, kid), ReasonSignature},
		"a key that the provider lacks":      {s.sign(payload, s.key, jose.RS256, map[jose.HeaderKey]any{"kid": "k2"}), ReasonKey},
		"an algorithm that fits no such key": {s.sign(payload, curve, jose.ES256, kid), ReasonKey},
		"a key in the header":                {s.sign(payload, other.key, jose.RS256, with("jwk", jose.JSONWebKey{Key: other.key.Public()})), ReasonForm},
		"the address of a key in the header": {s.sign(payload, other.key, jose.RS256, with("jku", "https://attacker.example/keys")), ReasonForm},
		"an access token":                    {s.sign(payload, s.key, jose.RS256, with("typ", "at+jwt")), ReasonForm},
		"a logout token":                     {s.sign(payload, s.key, jose.RS256, with("typ", "logout+jwt")), ReasonForm},
		"doubled members":                    {s.sign(doubled, s.key, jose.RS256, kid), ReasonForm},
		"a changed payload":                  {strings.Replace(good, encoded(payload)[:20], encoded([]byte(`{"iss":"https://x"}`))[:20], 1), ReasonForm},
		"longer than 16 KiB":                 {s.token(map[string]any{"filler": strings.Repeat("x", 17<<10)}), ReasonForm},
		"no token":                           {"no token", ReasonForm},
		"nothing":                            {"", ReasonForm},
	} {
		expectFault(t, name, tc.want, func() error { _, err := verify(oidcConnection(), s, tc.raw); return err })
	}
}

// Package upstream leaves such keys out; this check does not rely on it.
func TestKeysThatSignNoTokensAreRefused(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	for name, key := range map[string]jose.JSONWebKey{
		"a key for encryption": {Key: s.key.Public(), KeyID: "k1", Use: "enc"},
		"a private key":        {Key: s.key, KeyID: "k1", Use: "sig"},
	} {
		keys := func(context.Context, string, string) (*jose.JSONWebKey, error) { return &key, nil }
		expectFault(t, name, ReasonKey, func() error {
			_, err := VerifyIDToken(t.Context(), oidcConnection(), s.token(nil), keys, Expected{ClientID: testClient, Nonce: testNonce, Now: now})
			return err
		})
	}
}

func TestMicrosoftIssuerIsThatOfTheTokensTenant(t *testing.T) {
	t.Parallel()
	const own, foreign, person = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222", "33333333-3333-3333-3333-333333333333"
	s := newSigner(t)
	issuer := func(tenant string) string { return microsoftOrigin + tenant + "/v2.0" }
	for name, tc := range map[string]struct {
		tenant  string
		allowed []string
		changes map[string]any
		want    string
	}{
		"its own tenant":                   {own, nil, map[string]any{"iss": issuer(own), "tid": own}, ""},
		"another tenant":                   {own, nil, map[string]any{"iss": issuer(foreign), "tid": foreign}, ReasonTenant},
		"all tenants":                      {"common", nil, map[string]any{"iss": issuer(foreign), "tid": foreign}, ""},
		"a tenant that is not listed":      {"common", []string{own}, map[string]any{"iss": issuer(foreign), "tid": foreign}, ReasonTenant},
		"personal accounts":                {"organizations", nil, map[string]any{"iss": issuer(microsoftConsumers), "tid": microsoftConsumers}, ReasonTenant},
		"organizations of consumers":       {"consumers", nil, map[string]any{"iss": issuer(own), "tid": own}, ReasonTenant},
		"an issuer of another tenant":      {"common", nil, map[string]any{"iss": issuer(own), "tid": foreign}, ReasonIssuer},
		"a tenant that is no GUID":         {"common", nil, map[string]any{"iss": issuer("common"), "tid": "common"}, ReasonTenant},
		"no tenant":                        {"common", nil, map[string]any{"iss": issuer(own)}, ReasonTenant},
		"a person without an object id":    {own, nil, map[string]any{"iss": issuer(own), "tid": own, "oid": nil}, ReasonSubject},
		"an object id with a further part": {own, nil, map[string]any{"iss": issuer(own), "tid": own, "oid": foreign + "/" + person}, ReasonSubject},
	} {
		c := oidcConnection()
		c.Type, c.Provider.Tenant, c.Provider.AllowedTenants = "Microsoft", tc.tenant, tc.allowed
		if _, stated := tc.changes["oid"]; !stated {
			tc.changes["oid"] = person
		}
		got, err := verify(c, s, s.token(tc.changes))
		if tc.want == "" {
			if want := fmt.Sprint(tc.changes["tid"], "/", person); err != nil || got.Subject != want || got.Issuer != tc.changes["iss"] {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			continue
		}
		expectFault(t, name, tc.want, func() error { return err })
	}
}

func TestGoogleDomainIsDemanded(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	c := oidcConnection()
	c.Type, c.Provider.HostedDomains = "Google", []string{"globex.example"}
	if _, err := verify(c, s, s.token(map[string]any{"hd": "globex.example"})); err != nil {
		t.Error(err)
	}
	for name, changes := range map[string]map[string]any{"no domain": nil, "another domain": {"hd": "other.example"}, "an address alone": {"email": "x@globex.example"}} {
		expectFault(t, name, ReasonDomain, func() error { _, err := verify(c, s, s.token(changes)); return err })
	}
}

func TestFaultOfKeysIsReturned(t *testing.T) {
	t.Parallel()
	s, unreachable := newSigner(t), errors.New("the provider does not answer")
	_, err := VerifyIDToken(t.Context(), oidcConnection(), s.token(nil), func(context.Context, string, string) (*jose.JSONWebKey, error) { return nil, unreachable },
		Expected{ClientID: testClient, Nonce: testNonce, Now: now})
	if !errors.Is(err, unreachable) {
		t.Errorf("%v", err)
	}
}
