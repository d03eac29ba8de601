// Package apikey mints and reads API keys:
//
//	<prefix>_<12-char public id><32-char secret><6-char CRC32 of all before it>
//
// Everything after the last underscore is base62, so that a double-click selects the whole key and a typo is refused
// before any look-up. For secret scanners: `[a-z0-9]+(_[a-z0-9]+)*_[0-9A-Za-z]{50}`.
package apikey

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"regexp"
	"strings"
	"sync"
)

// DefaultPrefix is the prefix of an app that declares none.
const DefaultPrefix = "ck"

const (
	alphabet     = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	idLength     = 12
	secretLength = 32
	crcLength    = 6
	bodyLength   = idLength + secretLength + crcLength
	maxPrefix    = 20
)

var prefixForm = regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`)

// ErrForm is returned for a string that is not an API key of Cardea's form, or whose checksum is wrong. It never
// contains the string.
var ErrForm = errors.New("not an API key of the form <prefix>_<50 letters and digits> with a matching checksum")

// Key is an API key in plain text. Its String and Format never reveal it.
type Key struct {
	plain string
	// foreign reports that the key has another form than Cardea's.
	foreign bool
}

// Mint makes a key with about 190 bits from random. The prefix is 1 to 20 lower-case letters and digits in words joined
// by `_`.
func Mint(random io.Reader, prefix string) (Key, error) {
	if len(prefix) > maxPrefix || !prefixForm.MatchString(prefix) {
		return Key{}, fmt.Errorf("prefix %q is not 1 to %d lower-case letters and digits in words joined by _", prefix, maxPrefix)
	}
	body, err := base62(random, idLength+secretLength)
	if err != nil {
		return Key{}, fmt.Errorf("read random bytes: %w", err)
	}
	head := prefix + "_" + body
	return Key{plain: head + checksum(head)}, nil
}

// Parse reads a key and checks its form and checksum; it looks nothing up.
func Parse(s string) (Key, error) {
	cut := strings.LastIndexByte(s, '_')
	if cut < 1 || cut > maxPrefix || len(s)-cut-1 != bodyLength || !validPrefix(s[:cut]) {
		return Key{}, ErrForm
	}
	for i := cut + 1; i < len(s); i++ {
		if !isBase62(s[i]) {
			return Key{}, ErrForm
		}
	}
	head, sum := s[:len(s)-crcLength], s[len(s)-crcLength:]
	var want [crcLength]byte
	writeChecksum(&want, head)
	if string(want[:]) != sum {
		return Key{}, ErrForm
	}
	return Key{plain: s}, nil
}

// maxForeign is the longest key of another form, in bytes: room for a prefix of 255 characters and a secret of the same
// length.
const maxForeign = 512

// Foreign returns a key of another form than Cardea's, which may have been imported by its hash: 1 to 512 visible ASCII
// characters. It has neither prefix nor public id, and a typo is not detected before the lookup.
func Foreign(s string) (Key, error) {
	if s == "" || len(s) > maxForeign {
		return Key{}, ErrForm
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return Key{}, ErrForm
		}
	}
	return Key{plain: s, foreign: true}, nil
}

// Read parses a key as Parse does. If Parse refuses the key, Read returns it as Foreign does.
func Read(s string) (Key, error) {
	if key, err := Parse(s); err == nil {
		return key, nil
	}
	return Foreign(s)
}

// IsForeign reports whether the key is of another form than Cardea's.
func (k Key) IsForeign() bool { return k.foreign }

// Plain returns the key itself. It belongs in the target Secret and in the Authorization header, nowhere else.
func (k Key) Plain() string { return k.plain }

// Prefix returns the part before the last underscore, "" of a foreign key.
func (k Key) Prefix() string {
	if k.foreign {
		return ""
	}
	return k.plain[:len(k.plain)-bodyLength-1]
}

// ID returns the 12-character public id, "" of a foreign key.
func (k Key) ID() string {
	if k.foreign {
		return ""
	}
	start := len(k.plain) - bodyLength
	return k.plain[start : start+idLength]
}

// Last4 returns the last four characters.
func (k Key) Last4() string { return k.plain[max(len(k.plain)-4, 0):] }

// Digest returns the SHA-256 of the whole key.
func (k Key) Digest() Digest {
	digest, _ := DigestOf(k.plain) // a key is not too long
	return digest
}

// DigestOf returns the digest that a text has as a key, and reports whether it is short enough to be one. It checks no
// form: a key that is found by its digest had one.
func DigestOf(text string) (Digest, bool) {
	var buffer [maxForeign]byte // on the stack: every request computes one
	n := copy(buffer[:], text)
	return sha256.Sum256(buffer[:n]), n == len(text)
}

// String returns the prefix and the public id only.
func (k Key) String() string {
	if k.plain == "" {
		return "(no key)"
	}
	if k.foreign {
		return "(a foreign key)"
	}
	return k.Prefix() + "_" + k.ID() + "…"
}

// GoString keeps %#v from revealing the key.
func (k Key) GoString() string { return k.String() }

// Digest is the SHA-256 of a key: all that is stored of its secret.
type Digest [sha256.Size]byte

// Equal compares in constant time.
func (d Digest) Equal(other Digest) bool { return subtle.ConstantTimeCompare(d[:], other[:]) == 1 }

// MarshalText writes the digest in hexadecimal.
func (d Digest) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(d[:])), nil }

// UnmarshalText reads 64 hexadecimal digits.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(d)) {
		return fmt.Errorf("a digest has %d hexadecimal digits, not %d", hex.EncodedLen(len(d)), len(text))
	}
	_, err := hex.Decode(d[:], text)
	return err
}

// base62 draws n characters without bias: of 256 byte values the 8 that would favour some characters are drawn again.
func base62(random io.Reader, n int) (string, error) {
	const unbiased = 256 - 256%len(alphabet)
	out := make([]byte, 0, n)
	var buf [64]byte
	for len(out) < n {
		if _, err := io.ReadFull(random, buf[:]); err != nil {
			return "", err
		}
		for _, b := range buf {
			if int(b) < unbiased && len(out) < n {
				out = append(out, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(out), nil
}

func checksum(head string) string {
	var sum [crcLength]byte
	writeChecksum(&sum, head)
	return string(sum[:])
}

// checked holds buffers for the text that is checksummed. A buffer on the stack would escape to the heap in
// crc32.ChecksumIEEE, on every request.
var checked = sync.Pool{New: func() any { return &[maxPrefix + 1 + bodyLength]byte{} }}

func writeChecksum(sum *[crcLength]byte, head string) {
	buffer := checked.Get().(*[maxPrefix + 1 + bodyLength]byte)
	crc := crc32.ChecksumIEEE(buffer[:copy(buffer[:], head)])
	clear(buffer[:])
	checked.Put(buffer)
	for i := crcLength - 1; i >= 0; i-- {
		sum[i] = alphabet[crc%uint32(len(alphabet))]
		crc /= uint32(len(alphabet))
	}
}

// validPrefix is prefixForm without the cost of a regular expression: it runs on every request.
func validPrefix(s string) bool {
	word := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			word = true
		case c == '_' && word:
			word = false
		default:
			return false
		}
	}
	return word
}

// IsID reports whether a text has the form of a public id.
func IsID(s string) bool {
	for i := range len(s) {
		if !isBase62(s[i]) {
			return false
		}
	}
	return len(s) == idLength
}

func isBase62(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}
