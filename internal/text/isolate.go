package text

import (
	"strings"

	"golang.org/x/text/unicode/bidi"
)

// firstStrongIsolate and popIsolate begin and end an isolate whose direction is that of its first strong character (UAX
// 9).
const (
	firstStrongIsolate = '\u2068'
	popIsolate         = '\u2069'
)

// Isolate returns a name as pages and mails show it among words: in a first strong isolate (UAX 9) if it has characters
// that are written from right to left, so that it cannot reorder the words around it. Any other name is returned as it
// is, and so is a name whose parts are isolated already. Names that users choose have no isolates, because Name refuses
// them.
func Isolate(name string) string {
	if !Reorders(name) {
		return name
	}
	return string(firstStrongIsolate) + name + string(popIsolate)
}

// Reorders reports whether s has characters written from right to left outside isolates, or isolates that are not
// closed.
func Reorders(s string) bool {
	depth := 0
	for _, r := range s {
		switch {
		case r == firstStrongIsolate:
			depth++
		case r == popIsolate:
			depth--
		case depth == 0 && rightToLeft(r):
			return true
		}
		if depth < 0 {
			return true
		}
	}
	return depth != 0
}

func rightToLeft(r rune) bool {
	properties, _ := bidi.LookupRune(r)
	class := properties.Class()
	return class == bidi.R || class == bidi.AL || class == bidi.AN
}

// Person returns the name of a person as pages show it: both names or the only one, isolated as one name; "" if both
// are empty.
func Person(first, last string) string { return Isolate(strings.TrimSpace(first + " " + last)) }
