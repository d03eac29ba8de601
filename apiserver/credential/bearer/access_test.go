package bearer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
)

// The cache holds only signatures; app, key and expiry are checked on each read.
func TestAccessTokensRead(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	public, err := json.Marshal(jose.JSONWebKey{Key: private.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"})
	must(err)
	options := (&jose.SignerOptions{}).WithType(TypeAccessToken)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: private, KeyID: "k"}}, options)
	must(err)
	now := time.Unix(1_800_000_000, 0)
	claims := jwt.Claims{Issuer: "https://a.example", IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(time.Minute))}
	raw, err := jwt.Signed(signer).Claims(AccessClaims{Claims: claims}).Serialize()
	must(err)
	app := func(issuer string, keys ...document.SigningKey) *snapshot.Entry {
		return &snapshot.Entry{Content: &document.OAuthApp{Issuer: issuer, SigningKeys: keys}}
	}
	ends := now.Add(10 * time.Second)
	own, other := app("https://a.example", document.SigningKey{ID: "k", Public: public}), app("https://b.example", document.SigningKey{ID: "k", Public: public})
	rotated, gone := app("https://a.example", document.SigningKey{ID: "k", Public: public, ExpiresAt: &ends}), app("https://a.example")
	head, _, _ := strings.Cut(raw, ".")
	for what, tt := range map[string]struct {
		app  *snapshot.Entry
		raw  string
		at   time.Time
		good bool
	}{
		"in time":                     {own, raw, now, true},
		"after its time":              {own, raw, now.Add(time.Minute), false},
		"of another app":              {other, raw, now, false},
		"of a key that is replaced":   {rotated, raw, now, true},
		"of a key that is over":       {rotated, raw, ends, false},
		"of a key that is gone":       {gone, raw, now, false},
		"with another payload":        {own, head + ".e30." + raw[strings.LastIndex(raw, ".")+1:], now, false},
		"without a signature":         {own, raw[:strings.LastIndex(raw, ".")+1], now, false},
		"with a shortened signature":  {own, raw[:len(raw)-2], now, false},
		"with a lengthened signature": {own, raw + "AA", now, false},
	} {
		for _, remembered := range []bool{false, true} {
			tokens := NewAccessTokens(nil)
			if _, ok := tokens.Read(own, raw, now); remembered && !ok {
				t.Fatal("the token is not good")
			}
			if !remembered {
				tokens = NewAccessTokens(nil)
			}
			if _, ok := tokens.Read(tt.app, tt.raw, tt.at); ok != tt.good {
				t.Errorf("%s, remembered %t: %t", what, remembered, ok)
			}
			if _, ok := tokens.Issued(tt.app, tt.raw, tt.at); ok != (tt.good || what == "after its time") {
				t.Errorf("%s, remembered %t: issued %t", what, remembered, ok)
			}
		}
	}
}
