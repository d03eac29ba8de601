package toolimport

import (
	"strings"
	"unicode/utf8"

	"github.com/cardea-iam/cardea/internal/text"
)

// Bounds of texts, in characters.
const (
	maxTitle            = 200
	maxFieldDescription = 2000
	maxFormat           = 100
	maxQuoted           = 100
)

const ellipsis = "..."

// visible returns a text of the document without characters that hide or change text: those that names and descriptions
// must not have, and tag characters.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\r':
			return -1
		case r == '\t', r == '\u2028', r == '\u2029':
			return ' '
		case text.Forbidden(r), r >= 0xE0000 && r <= 0xE007F, r == utf8.RuneError:
			return -1
		}
		return r
	}, s)
}

// cut returns a text with at most the given number of characters.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	runes := []rune(s)
	return strings.TrimSpace(string(runes[:most-len(ellipsis)])) + ellipsis
}

// oneLine returns a text of the document on one line, with at most the given number of characters.
func oneLine(s string, most int) string {
	return cut(text.Normal(strings.Join(strings.Fields(visible(s)), " ")), most)
}

// lines returns a text of the document with its line breaks, with at most the given number of characters.
func lines(s string, most int) string { return cut(text.Normal(visible(s)), most) }

// quoted returns a text of the document for a message.
func quoted(s string) string { return `"` + oneLine(s, maxQuoted) + `"` }
