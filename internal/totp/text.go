package totp

import (
	"encoding/base32"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Errors of ParseSecret. They do not contain the secret.
var (
	ErrSecretForm = errors.New("a secret must be base32: letters A to Z and digits 2 to 7")
	ErrSecretSize = fmt.Errorf("a secret must have %d to %d bytes", MinSecretBytes, MaxSecretBytes)
)

var secretEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// Normalize returns the ASCII digits of an entered code. It removes outer blanks and one inner blank or dash, and
// reports whether the given number of digits remains.
func Normalize(typed string, digits int) (string, bool) {
	code := strings.Trim(typed, " \t\r\n")
	if at := strings.IndexAny(code, " -"); at > 0 && at < len(code)-1 {
		code = code[:at] + code[at+1:]
	}
	if len(code) != digits {
		return "", false
	}
	for _, c := range []byte(code) {
		if c < '0' || c > '9' {
			return "", false
		}
	}
	return code, true
}

// FormatSecret returns a secret in base32 without padding, the form that apps ask for.
func FormatSecret(secret []byte) string { return secretEncoding.EncodeToString(secret) }

// ParseSecret returns the bytes of a secret in base32 (RFC 4648 6). It ignores case, blanks, dashes and padding. The
// error is ErrSecretForm, or ErrSecretSize below MinSecretBytes or above MaxSecretBytes.
func ParseSecret(text string) ([]byte, error) {
	// The longest secret has 205 letters; the rest is for what is ignored.
	if len(text) > 4*MaxSecretBytes {
		return nil, ErrSecretSize
	}
	letters := strings.Map(func(c rune) rune {
		switch {
		case c == ' ', c == '\t', c == '\r', c == '\n', c == '-':
			return -1
		case c >= 'a' && c <= 'z':
			return c - 'a' + 'A'
		}
		return c
	}, text)
	letters = strings.TrimRight(letters, "=")
	switch len(letters) % 8 {
	case 1, 3, 6: // the length of no text of whole bytes
		return nil, ErrSecretForm
	}
	secret, err := secretEncoding.DecodeString(letters)
	if err != nil {
		return nil, ErrSecretForm
	}
	if len(secret) < MinSecretBytes || len(secret) > MaxSecretBytes {
		return nil, ErrSecretSize
	}
	return secret, nil
}

// URI returns the otpauth URI that sets up an authenticator app. The issuer must not contain a colon. The account is
// what the user signs in with, such as an email.
func URI(issuer, account string, secret []byte, p Parameters) string {
	return "otpauth://totp/" + escape(issuer) + ":" + escape(account) +
		"?secret=" + FormatSecret(secret) +
		"&issuer=" + escape(issuer) +
		"&algorithm=" + string(p.Algorithm) +
		"&digits=" + strconv.Itoa(p.Digits) +
		"&period=" + strconv.Itoa(int(p.Period/time.Second))
}

// escape percent-encodes everything but RFC 3986's unreserved characters. A blank is %20, because apps show a plus sign
// as it is.
func escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
