// Package verification holds the rules of one-time codes: how they are made and compared, and how often they are sent
// and tried. The store keeps the counters; all limits are here.
package verification

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/totp"
)

const (
	digits = 6
	codes  = 1_000_000
	// saltBytes is the length of a salt: 128 bits.
	saltBytes = 16
	// MaxTries is how many codes are compared with one challenge.
	MaxTries = 5
	// PhoneLifetime is how long a code in a text is valid, by the server's clock.
	PhoneLifetime = 5 * time.Minute
	// MailLifetime is how long a code in a mail is valid, by the server's clock.
	MailLifetime = 10 * time.Minute
	// keyPurpose is the purpose of the subkey of the root key that binds codes.
	keyPurpose = "cardea verification code v1"
)

// New returns a code of six digits. All codes have the same probability.
func New(random io.Reader) (string, error) {
	// bound is the largest multiple of a million below 2^32. Values that are not below it would make some codes more
	// likely.
	const bound = (1 << 32) / codes * codes
	for {
		var raw [4]byte
		if _, err := io.ReadFull(random, raw[:]); err != nil {
			return "", fmt.Errorf("random code: %w", err)
		}
		if n := binary.BigEndian.Uint32(raw[:]); uint64(n) < bound {
			return fmt.Sprintf("%0*d", digits, n%codes), nil
		}
	}
}

// Normalize returns the six ASCII digits of an entered code. It removes outer blanks and one inner blank or dash, and
// reports whether six digits remain.
func Normalize(typed string) (string, bool) { return totp.Normalize(typed, digits) }

// Binder binds codes to challenges with HMAC-SHA-256 under a key of the server, which a copy of the store does not
// contain.
type Binder struct{ keys []seal.Subkey }

// ErrNoKey means that the server was started without a root key.
var ErrNoKey = errors.New("codes need a root key: start the server with --root-key")

// NewBinder returns a Binder of a root keyring, which may be empty.
func NewBinder(keyring *seal.Keyring) *Binder { return &Binder{keyring.Subkeys(keyPurpose)} }

// Bind returns the stored form of a code: the salt, the MAC and the id of the key.
func (b *Binder) Bind(challenge int64, code string, random io.Reader) (salt, mac []byte, keyID string, err error) {
	if len(b.keys) == 0 {
		return nil, nil, "", ErrNoKey
	}
	salt = make([]byte, saltBytes)
	if _, err := io.ReadFull(random, salt); err != nil {
		return nil, nil, "", fmt.Errorf("random salt: %w", err)
	}
	return salt, sum(b.keys[0].Key, challenge, salt, code), b.keys[0].ID, nil
}

// Matches compares a code in constant time. It returns false if the challenge's key is no longer in the keyring.
func (b *Binder) Matches(challenge int64, salt, mac []byte, keyID, code string) bool {
	for _, key := range b.keys {
		if key.ID == keyID {
			return hmac.Equal(mac, sum(key.Key, challenge, salt, code))
		}
	}
	return false
}

func sum(key []byte, challenge int64, salt []byte, code string) []byte {
	h := hmac.New(sha256.New, key)
	_ = binary.Write(h, binary.BigEndian, challenge)
	h.Write(salt)
	h.Write([]byte(code))
	return h.Sum(nil)
}
