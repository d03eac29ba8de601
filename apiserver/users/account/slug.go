package account

import (
	"cmp"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// maxSlug, in bytes, leaves space for a suffix within a DNS label.
const maxSlug = 48

// Slug returns a name as a slug: lower-case ASCII letters and digits, in words joined by dashes; "" if none remain.
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
	// A dash and a letter are written together, so the cut may end after a dash.
	return strings.TrimSuffix(b.String()[:min(b.Len(), maxSlug)], "-")
}

// Reserved reports whether a slug is never assigned because pages have these names.
func Reserved(slug string) bool { return slug == "new" || slug == "invitations" }

// freeSlug returns a slug for a name that is neither taken nor reserved: the plain slug, or else a numbered one.
// fallback replaces a name without ASCII letters and digits.
func freeSlug(name, fallback string, taken func(string) (bool, error), newID func() (int64, error)) (string, error) {
	slug := cmp.Or(Slug(name), fallback)
	used, err := taken(slug)
	if err != nil || !used && !Reserved(slug) {
		return slug, err
	}
	return numberedSlug(name, fallback, newID)
}

// numberedSlug returns a slug for a name with a new unique id in base 36.
func numberedSlug(name, fallback string, newID func() (int64, error)) (string, error) {
	id, err := newID()
	return cmp.Or(Slug(name), fallback) + "-" + strconv.FormatInt(id, 36), err
}
