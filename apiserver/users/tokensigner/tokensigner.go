// Package tokensigner signs tokens with the key of a deployment that its operator sealed: tokens of sessions, and those
// that agents' tools get for users.
package tokensigner

import (
	"crypto/x509"
	"fmt"
	"sync"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/seal"
)

// Signer signs tokens of all deployments. It opens each key once. It is safe for concurrent use.
type Signer struct {
	keyring *seal.Keyring
	// signers are opened keys by name.
	signers sync.Map
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
