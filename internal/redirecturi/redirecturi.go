// Package redirecturi classifies the URIs to which browsers are redirected after an authorization (RFC 6749 3.1.2, RFC
// 8252, RFC 9700 2.1).
package redirecturi

import (
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// Form is the form of a redirect URI.
type Form int

const (
	// HTTPS is a page of the web.
	HTTPS Form = iota
	// Loopback is a port of the machine that the browser runs on.
	Loopback
	// PrivateUse is a scheme that an app owns on the machine.
	PrivateUse
)

// MaxLength is the longest redirect URI, in bytes.
const MaxLength = 2048

// loopbackHosts are the names of the machine that the browser runs on.
var loopbackHosts = []string{"127.0.0.1", "::1", "localhost"}

// foreignSchemes have a meaning of their own in browsers and systems, so no app owns them.
var foreignSchemes = []string{
	"about", "blob", "chrome", "content", "data", "file", "filesystem", "ftp", "ftps", "http", "https", "intent", "jar", "javascript", "ldap", "ldaps", "mailto",
	"ms-appx", "ms-appx-web", "resource", "sftp", "sms", "smb", "ssh", "tel", "urn", "vbscript", "view-source", "ws", "wss",
}

// Classify returns the form of a redirect URI. The error says why it is not a redirect URI.
func Classify(raw string) (Form, error) {
	if raw == "" || len(raw) > MaxLength {
		return 0, errors.New("must have 1 to 2048 characters")
	}
	for i := range len(raw) {
		if raw[i] <= ' ' || raw[i] > '~' || strings.IndexByte("\"<>\\^`{|}", raw[i]) >= 0 {
			return 0, errors.New("has a character that is not allowed in a URI")
		}
	}
	if strings.ContainsAny(raw, "#*") {
		return 0, errors.New("has a fragment or a wildcard: write each URI out")
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" || !strings.HasPrefix(raw, u.Scheme+":") {
		return 0, errors.New("is no absolute URI with its scheme in lower case")
	}
	switch {
	case u.Scheme == "https" && proper(u):
		return HTTPS, nil
	case u.Scheme == "http" && proper(u) && slices.Contains(loopbackHosts, u.Hostname()):
		return Loopback, nil
	case u.Scheme == "https":
		return 0, errors.New("has no valid host: write it as in https://app.example/callback, in lower case and Punycode, without a user name")
	case u.Scheme == "http":
		return 0, errors.New("uses http, which is allowed only for 127.0.0.1, [::1] and localhost: use https")
	case slices.Contains(foreignSchemes, u.Scheme) || len(u.Scheme) < 2:
		return 0, errors.New("has a scheme that an app cannot own: use https, or one of your own such as com.example.app")
	}
	return PrivateUse, nil
}

// Owned reports whether the scheme of a URI is a domain name in reverse, such as com.example.app (RFC 8252 7.1).
func Owned(uri string) bool {
	scheme, _, _ := strings.Cut(uri, ":")
	return strings.Contains(scheme, ".")
}

// proper reports whether a web URL names a host, in lower case and in Punycode, because users see the host and letters
// of several scripts look alike, and whether it has no user name and password.
func proper(u *url.URL) bool {
	return u.Opaque == "" && u.Hostname() != "" && u.User == nil && u.Host == strings.ToLower(u.Host) && isASCII(u.Host) && !strings.HasSuffix(u.Host, ":")
}

// isASCII reports whether a text is ASCII. The host can contain other letters, because url.Parse decodes
// percent-encoded ones.
func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}

// Fits reports whether a client that registered one redirect URI may ask for another. Both must be the same, character
// by character, except for the port of a loopback URI (RFC 8252 7.3).
func Fits(registered, asked string) bool {
	if registered == asked {
		return true
	}
	if form, err := Classify(registered); err != nil || form != Loopback {
		return false
	}
	if form, err := Classify(asked); err != nil || form != Loopback {
		return false
	}
	return withoutPort(registered) == withoutPort(asked)
}

func withoutPort(raw string) string {
	authority, rest := strings.TrimPrefix(raw, "http://"), ""
	if at := strings.IndexAny(authority, "/?"); at >= 0 {
		authority, rest = authority[:at], authority[at:]
	}
	if host, _, err := net.SplitHostPort(authority); err == nil {
		authority = host
	}
	return strings.Trim(authority, "[]") + rest
}

// Origins returns the origins of the https URIs among uris, each once. Programs run there that browsers may let read
// responses.
func Origins(uris []string) (origins []string) {
	for _, raw := range uris {
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "https" {
			continue
		}
		if origin := "https://" + u.Host; !slices.Contains(origins, origin) {
			origins = append(origins, origin)
		}
	}
	return origins
}

// Host returns the part of a redirect URI by which users know its target: the host, or the scheme if an app owns it,
// whatever follows the scheme. It returns "" if uri is not a redirect URI.
func Host(uri string) string {
	form, err := Classify(uri)
	if err != nil {
		return ""
	}
	u, err := url.Parse(uri)
	switch {
	case err != nil: // it was classified before
		return ""
	case form == PrivateUse:
		return u.Scheme
	}
	return u.Host
}
