package pages

import (
	"net/url"
	"slices"
	"strings"
)

// maxTarget is the maximum length of an address to continue at, in bytes.
const maxTarget = 2048

// target returns the requested address to continue at, and reports whether the browser may be redirected there: it must
// be a path of this host or a page of a declared origin.
func target(v *visit, asked string) (string, bool) {
	if asked == "" || len(asked) > maxTarget || strings.ContainsFunc(asked, func(r rune) bool { return r <= ' ' || r == '\\' || r == 0x7f || r > '~' }) {
		return "", false
	}
	u, err := url.Parse(asked)
	if err != nil || u.Opaque != "" || u.User != nil {
		return "", false
	}
	if u.Scheme == "" && u.Host == "" {
		return asked, strings.HasPrefix(asked, "/") && !strings.HasPrefix(asked, "//")
	}
	origin := u.Scheme + "://" + u.Host
	return asked, strings.HasPrefix(asked, origin) && v.tenant != nil && slices.Contains(v.tenant.Settings.AllowedOrigins, origin)
}
