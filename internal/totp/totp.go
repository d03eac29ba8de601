// Package totp holds the rules of codes from authenticator apps (RFC 6238): how they are made and compared, how an app
// is set up, and how secrets are read. It keeps nothing.
package totp

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"hash"
	"time"
)

// Algorithm is the hash function of the codes' HMAC, as otpauth URIs spell it.
type Algorithm string

// The algorithms of RFC 6238 1.2. Every app reads SHA1; many apps ignore the others and make wrong codes.
const (
	SHA1   Algorithm = "SHA1"
	SHA256 Algorithm = "SHA256"
	SHA512 Algorithm = "SHA512"
)

const (
	// SecretBytes is the length of a new secret: 160 bits, as RFC 4226 4 recommends.
	SecretBytes = 20
	// MinSecretBytes is the length of the shortest imported secret.
	MinSecretBytes = 10
	// MaxSecretBytes is the length of the longest imported secret.
	MaxSecretBytes = 128
	// window is how many steps before and after the current one are accepted, for clocks that differ and for the time
	// that typing takes (RFC 6238 5.2).
	window = 1
	// ahead is how many steps after the current one are compared, so that a step that shares its code with a used one
	// is used with it.
	ahead = 3
)

// Parameters describe the codes of an authenticator.
type Parameters struct {
	Algorithm Algorithm
	// Digits is the length of a code: 6 or 8.
	Digits int
	// Period is the length of a step: 30 or 60 seconds.
	Period time.Duration
}

// Default returns the parameters that every authenticator app reads: SHA-1, 6 digits, 30 seconds.
func Default() Parameters { return Parameters{SHA1, 6, 30 * time.Second} }

// Validate returns an error that names the first wrong parameter. The other functions expect valid parameters.
func (p Parameters) Validate() error {
	switch {
	case p.Algorithm != SHA1 && p.Algorithm != SHA256 && p.Algorithm != SHA512:
		return fmt.Errorf("algorithm must be %s, %s or %s", SHA1, SHA256, SHA512)
	case p.Digits != 6 && p.Digits != 8:
		return fmt.Errorf("digits must be 6 or 8")
	case p.Period != 30*time.Second && p.Period != 60*time.Second:
		return fmt.Errorf("period must be 30 or 60 seconds")
	}
	return nil
}

// Step returns the number of the time step that contains t (RFC 6238 4.2). Steps are counted from 1970.
func (p Parameters) Step(t time.Time) int64 {
	seconds, period := t.Unix(), int64(p.Period/time.Second)
	step := seconds / period
	if seconds%period < 0 {
		step--
	}
	return step
}

// Code returns the code of a step.
func Code(p Parameters, secret []byte, step int64) string {
	code := make([]byte, p.Digits)
	newCoder(p, secret).code(code, step)
	return string(code)
}

// coder makes the codes of a secret. It prepares the key once.
type coder struct {
	mac hash.Hash
	// sum is the room for an HMAC.
	sum [sha512.Size]byte
}

func newCoder(p Parameters, secret []byte) *coder {
	var algorithm func() hash.Hash
	switch p.Algorithm {
	case SHA256:
		algorithm = sha256.New
	case SHA512:
		algorithm = sha512.New
	default:
		algorithm = sha1.New
	}
	return &coder{mac: hmac.New(algorithm, secret)}
}

// code writes the code of a step (RFC 4226 5.3).
func (c *coder) code(to []byte, step int64) {
	binary.BigEndian.PutUint64(c.sum[:8], uint64(step))
	c.mac.Reset()
	c.mac.Write(c.sum[:8])
	sum := c.mac.Sum(c.sum[:0])
	offset := sum[len(sum)-1] & 0xf
	rest := binary.BigEndian.Uint32(sum[offset:offset+4]) & 0x7fffffff
	for i := len(to) - 1; i >= 0; i-- {
		to[i] = '0' + byte(rest%10)
		rest /= 10
	}
}

// Result is what a typed code is.
type Result int

// The results of Match.
const (
	// Wrong is a code of no step of the window.
	Wrong Result = iota
	// Right is a code of a step of the window that is not used yet.
	Right
	// Used is a code whose steps in the window are all used. It does not count as a failed attempt.
	Used
)

// Match compares a code, as Normalize returns it, with an authenticator's codes around now. The argument last is the
// last used step, 0 for none.
//  1. Right: the code belongs to a step from one before the current one to one after it, and this step is above last.
//  2. Used: the code belongs only to such steps that are not above last. After a clock was set back, codes are not
//     accepted again before the clock reaches last.
//  3. Wrong: every other code.
//
// For a right code, step is the new last used step: the highest one, up to three after the current one, that makes the
// code. Neighboring steps can share a code, which must be accepted only once. Otherwise step is last. Every candidate
// is compared in constant time.
func Match(p Parameters, secret []byte, typed string, now time.Time, last int64) (step int64, result Result) {
	current := p.Step(now)
	code, entered := make([]byte, p.Digits), []byte(typed)
	codes := newCoder(p, secret)
	step = last
	for candidate := current - window; candidate <= current+ahead; candidate++ {
		codes.code(code, candidate)
		if subtle.ConstantTimeCompare(code, entered) == 0 {
			continue
		}
		switch {
		case candidate > current+window:
			if result == Right {
				step = candidate
			}
		case candidate > last:
			step, result = candidate, Right
		case result == Wrong:
			result = Used
		}
	}
	return step, result
}
