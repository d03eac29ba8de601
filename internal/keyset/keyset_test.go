package keyset

import (
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// sized returns an RSA public key of a number of bits. Its modulus is no product of two primes, so nothing can be
// verified with it.
func sized(bits int) jose.JSONWebKey {
	n := new(big.Int).Lsh(big.NewInt(1), uint(bits-1))
	return jose.JSONWebKey{Key: &rsa.PublicKey{N: n.Add(n, big.NewInt(1)), E: 65537}, KeyID: fmt.Sprint(bits)}
}

func encode(t *testing.T, keys ...jose.JSONWebKey) []byte {
	t.Helper()
	raw, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func many(n int) (keys []jose.JSONWebKey) {
	public := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public()
	for i := range n {
		keys = append(keys, jose.JSONWebKey{Key: public, KeyID: fmt.Sprint(i)})
	}
	return keys
}

func TestKeySetBounds(t *testing.T) {
	t.Parallel()
	small := `{"kty":"RSA","n":"AQ","e":"Aw"}`
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"32 keys":                            {encode(t, many(MaxKeys)...), ""},
		"33 keys":                            {encode(t, many(MaxKeys+1)...), "33 keys"},
		"1,901 tiny RSA keys":                {[]byte(`{"keys":[` + strings.Repeat(small+",", 1900) + small + `]}`), "1901 keys"},
		"one tiny RSA key":                   {[]byte(`{"keys":[` + small + `]}`), "RSA key of 1 bits"},
		"RSA 2047":                           {encode(t, sized(2047)), "2047 bits"},
		"RSA 2048":                           {encode(t, sized(2048)), ""},
		"RSA 4096":                           {encode(t, sized(4096)), ""},
		"RSA 4097":                           {encode(t, sized(4097)), "too large"},
		"a weak RSA key beside a strong one": {encode(t, sized(2048), sized(1024)), "1024 bits"},
		"longer than the bound":              {append(encode(t, many(1)...), strings.Repeat(" ", MaxBytes)...), "longer than 65536 bytes"},
		"no keys":                            {[]byte(`{"keys":[]}`), "no public signature key"},
		"no JSON":                            {[]byte(`<html>`), "no JSON Web Key Set"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, err := Parse(c.raw, MaxBytes)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err == nil && Bytes(set) > 128<<10 {
				t.Errorf("%d bytes are held", Bytes(set))
			}
		})
	}
	if _, err := Parse(encode(t, many(1)...), 10); err == nil {
		t.Error("a caller's own bound does not hold")
	}
}
