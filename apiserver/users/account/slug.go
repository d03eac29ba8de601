package account

import (
	"cmp"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// maxSlug, in bytes, leaves room for a suffix within a DNS label.
const maxSlug = 48

// Slug writes a name as a slug: lower-case letters and digits of ASCII, in words joined by dashes; "" if nothing is left.
func Slug(name string) string {
	var b strings.Builder
	dash := false
	for _, r := range norm.NFKD.String(strings.ToLower(name)) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			if dash && b.Len() > 0 {
				b.WriteByte('-')
			}
			dash = false
			b.WriteRune(r)
		case !unicode.Is(unicode.Mn, r):
			dash = true
		}
		if b.Len() >= maxSlug {
			break
		}
	}
	// A dash and a letter are written at once: what is cut may end between them.
	return strings.TrimSuffix(b.String()[:min(b.Len(), maxSlug)], "-")
}

// Reserved reports whether a slug is never given out: pages have these names.
func Reserved(slug string) bool { return slug == "new" || slug == "invitations" }

// freeSlug returns a slug for a name that is neither taken nor reserved: the name's own, else a numbered one. A name without letters and digits of ASCII
// is written as otherwise.
func freeSlug(name, otherwise string, taken func(string) (bool, error), newID func() (int64, error)) (string, error) {
	slug := cmp.Or(Slug(name), otherwise)
	used, err := taken(slug)
	if err != nil || !used && !Reserved(slug) {
		return slug, err
	}
	return numberedSlug(name, otherwise, newID)
}

// numberedSlug returns a slug for a name with a new id, which is unique, in base 36.
func numberedSlug(name, otherwise string, newID func() (int64, error)) (string, error) {
	id, err := newID()
	return cmp.Or(Slug(name), otherwise) + "-" + strconv.FormatInt(id, 36), err
}
