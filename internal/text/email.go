package text

import (
	"fmt"
	"net/mail"
	"strings"
)

// MaxEmail is the maximum length of an address, in bytes (RFC 5321 4.5.3.1.3).
const MaxEmail = 254

// Email returns an address trimmed, or an error that says how to fix it. The address must be one bare ASCII address,
// without a display name, quotes, blanks and domain literals. Look-alikes of other scripts could otherwise fold into
// another user's address.
func Email(s string) (string, error) {
	s = strings.TrimSpace(s)
	parsed, err := mail.ParseAddress(s)
	if err != nil || parsed.Address != s || len(s) > MaxEmail || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) || strings.ContainsAny(s, "\"[]") {
		return "", fmt.Errorf("must be an email address such as ada@example.com, of at most %d bytes", MaxEmail)
	}
	return s, nil
}
