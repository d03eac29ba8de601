package passkey

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/cardea-iam/cardea/internal/seal"
)

const (
	// SignInLifetime is how long a challenge of SignIn is valid: a sign-in page waits for its user.
	SignInLifetime = 15 * time.Minute
	// Lifetime is how long a challenge of the other ceremonies is valid.
	Lifetime = 5 * time.Minute
	// keyPurpose is the purpose of the subkey of the root key that authenticates challenges.
	keyPurpose = "cardea webauthn challenge v1"
	// randomBytes and expiryBytes are the lengths of a challenge's parts before the MAC.
	randomBytes, expiryBytes = 16, 8
	headBytes                = randomBytes + expiryBytes
	challengeBytes           = headBytes + sha256.Size
)

// Challenges makes and verifies challenges. A challenge carries its expiry and a MAC over what it is valid for, so the
// server stores nothing when a client asks for one.
type Challenges struct{ keys []seal.Subkey }

// NewChallenges returns the Challenges of a root keyring, which may be empty.
func NewChallenges(keyring *seal.Keyring) *Challenges {
	return &Challenges{keyring.Subkeys(keyPurpose)}
}

// New returns a challenge: 16 random bytes, the expiry in seconds since 1970 (8 bytes, big endian), and the
// HMAC-SHA-256 of both and of what the challenge is valid for. The error is ErrNoKey, or that of random.
func (c *Challenges) New(random io.Reader, rp RelyingParty, scope Scope, now time.Time) ([]byte, error) {
	if len(c.keys) == 0 {
		return nil, ErrNoKey
	}
	lifetime := Lifetime
	if scope.Ceremony == SignIn {
		lifetime = SignInLifetime
	}
	head := make([]byte, headBytes, challengeBytes)
	if _, err := io.ReadFull(random, head[:randomBytes]); err != nil {
		return nil, fmt.Errorf("random challenge: %w", err)
	}
	binary.BigEndian.PutUint64(head[randomBytes:], uint64(now.Add(lifetime).Unix()))
	return append(head, macOf(c.keys[0].Key, rp, scope, head)...), nil
}

// verify returns what identifies a challenge of any of the root keys. The error is ErrNoKey or a Refused, for an
// expired challenge with ErrExpiredChallenge.
func (c *Challenges) verify(challenge []byte, rp RelyingParty, scope Scope, now time.Time) (Spent, error) {
	if len(c.keys) == 0 {
		return Spent{}, ErrNoKey
	}
	if len(challenge) != challengeBytes || !c.authentic(challenge, rp, scope) {
		return Spent{}, refuse(CheckChallenge, "the challenge was not made by this server for this ceremony")
	}
	expires := time.Unix(int64(binary.BigEndian.Uint64(challenge[randomBytes:headBytes])), 0)
	if !now.Before(expires) {
		return Spent{}, &Refused{CheckChallenge, ErrExpiredChallenge}
	}
	return Spent{sha256.Sum256(challenge), expires}, nil
}

// authentic reports whether a key of the server made a challenge for a scope.
func (c *Challenges) authentic(challenge []byte, rp RelyingParty, scope Scope) bool {
	found := false
	for _, key := range c.keys {
		found = hmac.Equal(macOf(key.Key, rp, scope, challenge[:headBytes]), challenge[headBytes:]) || found
	}
	return found
}

// macOf returns the MAC of a challenge's head. Texts are preceded by their lengths, numbers have 8 bytes.
func macOf(key []byte, rp RelyingParty, scope Scope, head []byte) []byte {
	message := make([]byte, 0, 256)
	for _, part := range []string{rp.Deployment, rp.ID, string(scope.Ceremony)} {
		message = append(binary.BigEndian.AppendUint32(message, uint32(len(part))), part...)
	}
	message = binary.BigEndian.AppendUint64(message, uint64(scope.Session))
	message = binary.BigEndian.AppendUint64(message, uint64(scope.User))
	mac := hmac.New(sha256.New, key)
	mac.Write(append(message, head...))
	return mac.Sum(nil)
}
