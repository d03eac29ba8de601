package oauth

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/internal/document"
)

// keySetAge is how long caches may keep the key set and the metadata: far shorter than a replaced key stays published.
const keySetAge = 5 * time.Minute

// signer returns the signer of tokens of a type, such as "at+jwt", by the app's current key for an algorithm. Each key
// is opened once.
func signer(c *call, algorithm jose.SignatureAlgorithm, typ string) (jose.Signer, error) {
	for _, key := range c.Content.SigningKeys {
		if signer, known := c.signers.Load(signerName(key, algorithm, typ)); known && key.ExpiresAt == nil {
			return signer.(jose.Signer), nil
		}
		var public jose.JSONWebKey
		if err := public.UnmarshalJSON(key.Public); err != nil {
			return nil, err
		}
		if public.Algorithm == string(algorithm) && key.ExpiresAt == nil {
			return open(c, key, algorithm, typ)
		}
	}
	return nil, fmt.Errorf("the app has no %s key", algorithm)
}

// signerName returns the cache key of a signer.
func signerName(key document.SigningKey, algorithm jose.SignatureAlgorithm, typ string) string {
	return key.ID + " " + string(algorithm) + " " + typ
}

func open(c *call, key document.SigningKey, algorithm jose.SignatureAlgorithm, typ string) (jose.Signer, error) {
	der, err := c.Keyring.Open(document.SealedOAuthKey, key.ID, key.Sealed)
	if err != nil {
		return nil, &Error{Status: http.StatusServiceUnavailable, Code: "temporarily_unavailable", Description: "the server cannot open the app's signing key", RetryAfter: time.Minute}
	}
	private, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("signing key %s: %w", key.ID, err)
	}
	options := (&jose.SignerOptions{}).WithType(jose.ContentType(typ))
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: private, KeyID: key.ID}}, options)
	if err == nil {
		c.signers.Store(signerName(key, algorithm, typ), signer)
	}
	return signer, err
}

// keySet publishes the keys that verify tokens: the current and the previous ones.
func keySet(c *call) error {
	set := struct {
		Keys []json.RawMessage `json:"keys"`
	}{[]json.RawMessage{}}
	for _, key := range c.Content.SigningKeys {
		if key.ExpiresAt == nil || c.now.Before(*key.ExpiresAt) {
			set.Keys = append(set.Keys, key.Public)
		}
	}
	return public(c, set)
}

// public writes a public response, readable from pages of any origin.
func public(c *call, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	header := c.w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(keySetAge.Seconds())))
	header.Set("Access-Control-Allow-Origin", "*")
	header.Set("X-Content-Type-Options", "nosniff")
	c.w.WriteHeader(http.StatusOK)
	if c.r.Method != http.MethodHead {
		_, _ = c.w.Write(raw) // an error means that the client is disconnected
	}
	return nil
}
