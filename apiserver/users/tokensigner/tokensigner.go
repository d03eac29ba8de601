// Package tokensigner signs with the keys of a deployment that its operator sealed: tokens of sessions, tokens that
// agents' tools get for users, and the calls of these tools.
package tokensigner

import (
	"crypto/ed25519"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/webhook"
)

// Signer signs tokens of all deployments. It opens each key once. It is safe for concurrent use.
type Signer struct {
	keyring *seal.Keyring
	// signers are opened keys by name, and webhooks those of calls by their ids.
	signers, webhooks sync.Map
}

// name identifies an opened key and the type of the tokens that it signs.
type name struct{ key, tokenType string }

// New returns a Signer with the keyring that opens signing keys.
func New(keyring *seal.Keyring) *Signer { return &Signer{keyring: keyring} }

// Sign returns a token of a type with claims, signed with the deployment's current key (ES256). The error is a 503 if
// there is no key or it cannot be opened.
func (s *Signer) Sign(settings *document.Deployment, tokenType string, claims any) (string, error) {
	signer, err := s.of(settings, tokenType)
	if err != nil {
		return "", err
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return token, nil
}

func (s *Signer) of(settings *document.Deployment, tokenType string) (jose.Signer, error) {
	if len(settings.SigningKeys) == 0 {
		return nil, apierror.Unavailable(nil, "this deployment has no signing key yet: try again")
	}
	current := settings.SigningKeys[0]
	if signer, known := s.signers.Load(name{current.ID, tokenType}); known {
		return signer.(jose.Signer), nil
	}
	der, err := s.keyring.Open(document.SealedSigningKey, current.ID, current.Sealed)
	if err != nil {
		return nil, apierror.Unavailable(err, "the server cannot open the deployment's signing key")
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("signing key %s: %w", current.ID, err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: current.ID}},
		(&jose.SignerOptions{}).WithType(jose.ContentType(tokenType)))
	if err != nil {
		return nil, err
	}
	s.signers.Store(name{current.ID, tokenType}, signer)
	return signer, nil
}

// Webhooks returns the deployment's keys for calls of tools, the current one first. The error is a 503 if there is none
// or one cannot be opened.
func (s *Signer) Webhooks(settings *document.Deployment, now time.Time) ([]webhook.Key, error) {
	var keys []webhook.Key
	for _, key := range settings.WebhookKeys {
		if key.ExpiresAt != nil && !now.Before(*key.ExpiresAt) {
			continue
		}
		opened, known := s.webhooks.Load(key.ID)
		if !known {
			der, err := s.keyring.Open(document.SealedWebhookKey, key.ID, key.Sealed)
			if err != nil {
				return nil, apierror.Unavailable(err, "the server cannot open the deployment's key for signatures")
			}
			parsed, err := x509.ParsePKCS8PrivateKey(der)
			if err != nil {
				return nil, fmt.Errorf("signing key %s: %w", key.ID, err)
			}
			private, is := parsed.(ed25519.PrivateKey)
			if !is {
				return nil, fmt.Errorf("signing key %s is no Ed25519 key", key.ID)
			}
			opened = webhook.Private(private)
			s.webhooks.Store(key.ID, opened)
		}
		keys = append(keys, opened.(webhook.Key))
	}
	if len(keys) == 0 {
		return nil, apierror.Unavailable(nil, "this deployment has no key for signatures yet: try again")
	}
	return keys, nil
}
