// Package text holds the rules for displayed text, the same over HTTP and in YAML: names and descriptions.
package text

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	// MaxName is the maximum length of a name, in characters.
	MaxName = 80
	// MaxDescription is the maximum length of a description, in characters.
	MaxDescription = 500
)

// Normal returns s as it is stored and compared: trimmed, and in Unicode's normalization form C, so that texts that
// look the same are equal, whatever keyboard they were typed on.
func Normal(s string) string { return norm.NFC.String(strings.TrimSpace(s)) }

// Name returns s in its normal form, or an error that says how to fix it: a name has 1 to MaxName characters on one
// line, without control, bidirectional control and invisible characters.
func Name(s string) (string, error) {
	s = Normal(s)
	if s == "" {
		return "", errors.New("must not be blank: send a name of 1 to 80 characters")
	}
	return s, check(s, MaxName, false)
}

// Description returns s in its normal form, or an error that says how to fix it: at most MaxDescription characters;
// line breaks are allowed.
func Description(s string) (string, error) {
	s = Normal(s)
	return s, check(s, MaxDescription, true)
}

func check(s string, limit int, lineBreaks bool) error {
	if !utf8.ValidString(s) {
		return errors.New("is not valid UTF-8: send UTF-8 text")
	}
	if n := utf8.RuneCountInString(s); n > limit {
		return fmt.Errorf("has %d characters: at most %d are allowed", n, limit)
	}
	for _, r := range s {
		if Forbidden(r) && !(lineBreaks && (r == '\n' || r == '\r')) || !lineBreaks && (r == '\u2028' || r == '\u2029') {
			return fmt.Errorf("contains the character U+%04X, which is not allowed: remove it", r)
		}
	}
	return nil
}

// Forbidden reports whether a character is refused everywhere: control characters, bidirectional controls, and the
// invisible U+200B, U+2060 and U+FEFF. Joiners (U+200C, U+200D) are fine: scripts and emoji need them.
func Forbidden(r rune) bool {
	switch {
	case unicode.Is(unicode.Cc, r):
		return true
	case r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069:
		return true
	case r == 0x200B, r == 0x2060, r == 0xFEFF:
		return true
	}
	return false
}

// Printable replaces characters that are refused everywhere by U+FFFD, so that untrusted text cannot control a
// terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if Forbidden(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}
