package connection

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/internal/seal"
)

const (
	// AttemptLifetime is how long a provider's response is accepted.
	AttemptLifetime = 10 * time.Minute
	// MaxTries is how many responses of an attempt are evaluated.
	MaxTries = 3
	// stateBytes is the length of a state before its encoding: 256 random bits.
	stateBytes = 32
	// keyPurpose is the purpose of the subkey of the root key that derives the nonce and the verifier.
	keyPurpose = "cardea sso attempt v1"
)

// ErrNoKey means that the server was started without a root key.
var ErrNoKey = errors.New("sign-ins by connections need a root key: start the server with --root-key")

// Secrets derives the nonce and the code verifier of an attempt from its state, so that the store keeps no secret. A
// state has the id of the key, so that an attempt survives a rotation of the root key.
type Secrets struct{ keys []seal.Subkey }

// NewSecrets returns the Secrets of a root keyring, which may be empty.
func NewSecrets(keyring *seal.Keyring) *Secrets { return &Secrets{keyring.Subkeys(keyPurpose)} }

// NewState returns the parameter state of a new attempt. ErrNoKey: the keyring is empty.
func (s *Secrets) NewState(random io.Reader) (string, error) {
	if len(s.keys) == 0 {
		return "", ErrNoKey
	}
	var raw [stateBytes]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return "", fmt.Errorf("random state: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(raw[:]) + "." + s.keys[0].ID, nil
}

// HashState returns what the store keeps of a state.
func HashState(state string) []byte {
	sum := sha256.Sum256([]byte(state))
	return sum[:]
}

// Nonce returns the nonce of an attempt, which its ID token must have. It reports false if the key of the state is no
// longer in the keyring.
func (s *Secrets) Nonce(state string) (string, bool) { return s.derive("nonce", state) }

// Verifier returns the code verifier of an attempt (RFC 7636), as Nonce does.
func (s *Secrets) Verifier(state string) (string, bool) { return s.derive("verifier", state) }

func (s *Secrets) derive(what, state string) (string, bool) {
	_, id, _ := strings.Cut(state, ".")
	for _, key := range s.keys {
		if key.ID == id {
			mac := hmac.New(sha256.New, key.Key)
			mac.Write([]byte(what + "\x00" + state))
			return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), true
		}
	}
	return "", false
}

// challenge returns the code challenge of a verifier, by S256.
func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
