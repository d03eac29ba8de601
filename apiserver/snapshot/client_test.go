package snapshot

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/internal/document"
)

func signingClient(t *testing.T, name string) string {
	t.Helper()
	var set jose.JSONWebKeySet
	for n := range 32 {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: ed25519.NewKeyFromSeed(make([]byte, 32)).Public(), KeyID: fmt.Sprint(n)})
	}
	keys, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(document.OAuthClient{Name: name, JWKS: keys})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestRegisteredClientsArePreparedOnceWithinBounds(t *testing.T) {
	t.Parallel()
	s := empty()
	first, err := s.RegisteredClient("ns/quiet", signingClient(t, "first"))
	if err != nil || len(first.Keys.Keys) != 32 {
		t.Fatalf("%v, %v", first, err)
	}
	for n := range 200 {
		if _, err := s.RegisteredClient("ns/noisy", signingClient(t, fmt.Sprint(n))); err != nil {
			t.Fatal(err)
		}
	}
	if held, _ := s.PreparedClientBytes(); held > preparedShare+preparedShare/16 || held < preparedShare/2 {
		t.Errorf("%d bytes are held", held)
	}
	later, err := s.apply(nil, s.position)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := later.RegisteredClient("ns/quiet", signingClient(t, "first")); err != nil || again != first {
		t.Errorf("the client was parsed again: %v", err)
	}
	if changed, err := later.RegisteredClient("ns/quiet", signingClient(t, "changed")); err != nil || changed.Name != "changed" {
		t.Errorf("%v, %v", changed, err)
	}
}

// A stored key set from an older version does not prevent its client or its deployment from being served.
func TestStoredKeySetsOutOfBoundsVerifyNothing(t *testing.T) {
	t.Parallel()
	c, err := empty().RegisteredClient("ns/a", `{"jwks":{"keys":[{"kty":"RSA","n":"AQ","e":"Aw"}]}}`)
	if err != nil || c.Keys == nil || len(c.Keys.Keys) != 0 {
		t.Errorf("%v, %v", c, err)
	}
	issuer, err := newIssuer(&Entry{}, nil, &document.JWTIssuer{JWKS: []byte(`{"keys":[{"kty":"RSA","n":"AQ","e":"Aw"}]}`)})
	if err != nil || len(issuer.Keys.Keys) != 0 {
		t.Errorf("%v, %v", issuer, err)
	}
}
