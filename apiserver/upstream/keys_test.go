package upstream

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// jwk returns a key as JSON, with changed members; nil removes one.
func jwk(t *testing.T, key any, kid string, changes map[string]any) string {
	t.Helper()
	raw, err := json.Marshal(jose.JSONWebKey{Key: key, KeyID: kid})
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(raw, &members); err != nil {
		t.Fatal(err)
	}
	for name, value := range changes {
		if members[name] = value; value == nil {
			delete(members, name)
		}
	}
	return encoded(members)
}

func set(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }

func TestKeySetsOfProviders(t *testing.T) {
	t.Parallel()
	curve := func(c elliptic.Curve) *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(c, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	p256, edwards := curve(elliptic.P256()), ed25519.NewKeyFromSeed(make([]byte, 32))
	public := jwk(t, testKey().Public(), "a", nil)
	var many []string
	for n := range maxKeys + 1 {
		many = append(many, jwk(t, edwards.Public(), fmt.Sprint(n), nil))
	}
	for name, tc := range map[string]struct {
		text string
		keys int
		want string
	}{
		"one key":                    {set(public), 1, ""},
		"the types":                  {set(public, jwk(t, p256.Public(), "b", nil), jwk(t, edwards.Public(), "c", nil)), 3, ""},
		"a broken certificate":       {set(jwk(t, testKey().Public(), "a", map[string]any{"x5c": []string{"?"}, "x5t": "?"})), 1, ""},
		"a key for encryption":       {set(public, jwk(t, testKey().Public(), "b", map[string]any{"use": "enc"})), 1, ""},
		"... of the same id":         {set(public, jwk(t, testKey().Public(), "a", map[string]any{"use": "enc"})), 1, ""},
		"a future type":              {set(public, `{"kty":"AKP","alg":"ML-DSA-65","kid":"b","pub":"x"}`), 1, ""},
		"another curve":              {set(public, jwk(t, curve(elliptic.P384()).Public(), "b", nil)), 1, ""},
		"the most keys":              {set(many[1:]...), maxKeys, ""},
		"more keys":                  {set(many...), 0, "at most 128"},
		"no keys":                    {set(), 0, "no public signature key"},
		"keys for encryption alone":  {set(jwk(t, testKey().Public(), "b", map[string]any{"use": "enc"})), 0, "no public signature key"},
		"two keys of an id":          {set(public, jwk(t, p256.Public(), "a", nil)), 0, `two keys of the kid "a"`},
		"two keys without an id":     {set(jwk(t, p256.Public(), "", nil), jwk(t, edwards.Public(), "", nil)), 2, ""},
		"a private RSA key":          {set(public, jwk(t, testKey(), "b", nil)), 0, "keys[1] of the key set is secret"},
		"a private key of P-256":     {set(jwk(t, p256, "b", nil)), 0, "is secret"},
		"a private key of Ed25519":   {set(jwk(t, edwards, "b", nil)), 0, "is secret"},
		"a private encryption key":   {set(public, jwk(t, testKey(), "b", map[string]any{"use": "enc"})), 0, "is secret"},
		"a symmetric key":            {set(public, jwk(t, []byte("0123456789abcdef"), "b", nil)), 0, "is secret"},
		"a weak key beside another":  {set(public, jwk(t, testKey().Public(), "b", map[string]any{"n": "AQAB"})), 0, "bits"},
		"a point that is not on it":  {set(jwk(t, p256.Public(), "b", map[string]any{"x": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"})), 0, "keys[0]"},
		"doubled members":            {`{"keys":[],"keys":[` + public + `]}`, 0, "no valid JSON Web Key Set"},
		"an array":                   {"[" + public + "]", 0, "no valid JSON Web Key Set"},
		"a page":                     {"<html>", 0, "no valid JSON Web Key Set"},
		"an id of 1 KiB":             {set(jwk(t, testKey().Public(), strings.Repeat("a", 1024), nil)), 0, "too long"},
		"more after the set":         {set(public) + "{}", 0, "no valid JSON Web Key Set"},
		"an id that is not a text":   {set(jwk(t, testKey().Public(), "a", map[string]any{"kid": 7})), 0, "no valid JSON Web Key Set"},
		"members in capital letters": {`{"KEYS":[` + public + `]}`, 0, "no public signature key"},
	} {
		got, err := parseKeys(tc.text)
		var f *failure
		switch {
		case tc.want == "" && (err != nil || len(got.set.Keys) != tc.keys):
			t.Errorf("%s: %v, %v", name, got, err)
		case tc.want != "" && (!errors.As(err, &f) || f.reason != invalidMetadata || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		case tc.want == "" && got.bytes() > documentShares.DeploymentBytes/2:
			t.Errorf("%s: %d bytes", name, got.bytes())
		}
	}
}

// A key for which the set states an issuer serves that issuer alone, so that one tenant of Microsoft cannot sign for
// another.
func TestKeyServesTheIssuerThatItsSetStates(t *testing.T) {
	t.Parallel()
	const acme, consumers = "11111111-2222-3333-4444-555555555555", "9188040d-6c67-4c5b-b112-36a304b66dad"
	of := func(tenant string) string { return "https://login.microsoftonline.com/" + tenant + "/v2.0" }
	parsed, err := parseKeys(set(
		jwk(t, testKey().Public(), "any", nil),
		jwk(t, testKey().Public(), "tenants", map[string]any{"issuer": of(tenantPlaceholder)}),
		jwk(t, testKey().Public(), "consumers", map[string]any{"issuer": of(consumers)}),
		jwk(t, testKey().Public(), "both", map[string]any{"issuer": of(tenantPlaceholder), "alg": "RS256"}),
		jwk(t, testKey().Public(), "both", map[string]any{"issuer": of(consumers), "alg": "PS256"}),
	))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		kid, issuer string
		want        bool
	}{
		{"any", of(acme), true}, {"any", "https://idp.example", true}, {"nobody", of(acme), false},
		{"tenants", of(acme), true}, {"tenants", of(consumers), true}, {"tenants", "https://idp.example", false},
		{"tenants", of("evil/" + acme), false}, {"tenants", of(""), false}, {"tenants", of("common"), false}, {"tenants", of(acme) + "/", false},
		{"consumers", of(consumers), true}, {"consumers", of(acme), false}, {"", of(acme), false},
	} {
		if got := parsed.find(tc.issuer, tc.kid); (got != nil) != tc.want || got != nil && got.KeyID != tc.kid {
			t.Errorf("%s for %s: %v", tc.kid, tc.issuer, got)
		}
	}
	for issuer, want := range map[string]string{of(acme): "RS256", of(consumers): "PS256"} {
		if got := parsed.find(issuer, "both"); got == nil || got.Algorithm != want {
			t.Errorf("both for %s: %v", issuer, got)
		}
	}
}

func TestTokenWithoutKeyIDNeedsTheOnlyKey(t *testing.T) {
	t.Parallel()
	one, err := parseKeys(set(jwk(t, testKey().Public(), "", nil)))
	if err != nil || one.find("https://idp.example", "") == nil {
		t.Errorf("%v, %v", one, err)
	}
	two, err := parseKeys(set(jwk(t, testKey().Public(), "", nil), jwk(t, testKey().Public(), "a", nil)))
	if err != nil || two.find("https://idp.example", "") != nil {
		t.Errorf("%v, %v", two, err)
	}
}
