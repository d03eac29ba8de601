// Package foreign reads the password hashes of other systems and compares passwords with them. Each form has bounds, so
// that imported hashes cannot exhaust a server's memory or time.
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
	// maxMemory bounds the memory of one comparison, except for ScryptOverhead.
	maxMemory = 128 << 20
	// maxEncoded is longer than any form within its bounds.
	maxEncoded = 1024
)

// ErrForm means that a text is not a hash of a supported form, or exceeds a bound. It never contains parts of the text.
var ErrForm = errors.New("is not a supported password hash, or exceeds its bounds")

// Hash is a parsed password hash.
type Hash struct {
	// Memory is the memory that a comparison takes, in bytes, for forms that take much.
	Memory int64
	derive func(password []byte) []byte
	want   []byte
}

// Matches reports whether a password is the hashed one.
func (h *Hash) Matches(password string) bool {
	return subtle.ConstantTimeCompare(h.derive([]byte(password)), h.want) == 1
}

// Parse parses a hash. It returns ErrForm for any fault.
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

// number parses a decimal number from 1 to a bound, without sign and leading zeros.
func number(text string, most int) (int, bool) {
	if text == "" || text[0] < '1' || text[0] > '9' {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n <= most
}

// setting is a parameter of a form, with its bound.
type setting struct {
	name string
	most int
}

// settings parses "name=number" pairs in the wanted order, joined by commas.
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

// bytesOf decodes standard base64, with or without padding.
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
