// Package foreign reads the password hashes of other systems and compares passwords with them. Each form has bounds: what somebody
// imported must not take a server's memory and time.
package foreign

import (
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
)

// The bounds of all forms, in bytes.
const (
	maxSalt          = 64
	minHash, maxHash = 16, 64
	// maxMemory is what one comparison may take, but for the little that Beside is.
	maxMemory = 128 << 20
	// maxEncoded is longer than any form within its bounds.
	maxEncoded = 1024
)

// ErrForm means that a text is no hash of a known form, or is beyond a bound. It never contains parts of the text.
var ErrForm = errors.New("is no password hash of a known form, or beyond its bounds")

// Hash is a password's hash.
type Hash struct {
	// Memory is what a comparison takes, in bytes, as far as it is much.
	Memory int64
	derive func(password []byte) []byte
	want   []byte
}

// Matches reports whether a password is the one that was hashed.
func (h *Hash) Matches(password string) bool {
	return subtle.ConstantTimeCompare(h.derive([]byte(password)), h.want) == 1
}

// Parse reads a hash. ErrForm.
func Parse(encoded string) (*Hash, error) {
	if len(encoded) > maxEncoded {
		return nil, ErrForm
	}
	parts := strings.Split(encoded, "$")
	if parts[0] == "pbkdf2_sha256" {
		return parseDjango(parts)
	}
	if parts[0] != "" || len(parts) < 4 {
		return nil, ErrForm
	}
	switch parts[1] {
	case "argon2id":
		return parseArgon2id(parts)
	case "2a", "2b", "2y":
		return parseBcrypt(encoded)
	case "scrypt":
		return parseScrypt(parts)
	case "firescrypt":
		return parseFirebase(parts)
	case "pbkdf2-sha1", "pbkdf2-sha256", "pbkdf2-sha512":
		return parsePBKDF2(parts)
	}
	return nil, ErrForm
}

// number reads a decimal number from 1 to a bound, without sign and leading zeros.
func number(text string, most int) (int, bool) {
	if text == "" || text[0] < '1' || text[0] > '9' {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n <= most
}

// setting is a number of a form, with its bound.
type setting struct {
	name string
	most int
}

// settings reads "name=number" pairs in their order, joined by commas.
func settings(text string, wanted ...setting) ([]int, bool) {
	sent := strings.Split(text, ",")
	if len(sent) != len(wanted) {
		return nil, false
	}
	values := make([]int, len(wanted))
	for i, w := range wanted {
		name, value, _ := strings.Cut(sent[i], "=")
		n, ok := number(value, w.most)
		if name != w.name || !ok {
			return nil, false
		}
		values[i] = n
	}
	return values, true
}

// bytesOf reads standard base64, with padding or without.
func bytesOf(text string, least, most int) ([]byte, bool) {
	if len(text) > base64.StdEncoding.EncodedLen(most) {
		return nil, false
	}
	raw, err := base64.RawStdEncoding.Strict().DecodeString(strings.TrimRight(text, "="))
	padded := strings.HasSuffix(text, "=")
	if err != nil || len(raw) < least || len(raw) > most || padded && len(text)%4 != 0 || strings.ContainsAny(text, "\r\n") {
		return nil, false
	}
	return raw, true
}
