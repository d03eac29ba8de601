package enduser

import (
	"net/http"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/session"
)

// cookieName is fixed by the contract; the __Host- prefix that would fend off cookies of sibling hosts is not possible, so two
// cookies of this name are refused instead.
const cookieName = "__session"

// setCookie gives the browser its new token, or takes a dead one away.
func (c *call) setCookie(header http.Header) {
	cookie := http.Cookie{Name: cookieName, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: !c.plainLocalhost()}
	switch {
	case c.cookie != "" && c.session != nil:
		cookie.Value = c.cookie
		cookie.MaxAge = max(int(session.CookieAge(*c.session, c.now).Seconds()), 1)
	case c.clear:
		cookie.MaxAge = -1
	default:
		return
	}
	header.Add("Set-Cookie", cookie.String())
}

// plainLocalhost tells that a Staging deployment is served on localhost without TLS, where browsers drop Secure cookies.
func (c *call) plainLocalhost() bool {
	return c.request != nil && c.request.Settings.Mode == string(v1alpha1.DeploymentModeStaging) && localhost(c.host) && c.r.TLS == nil
}

func localhost(host string) bool { return host == "localhost" || strings.HasSuffix(host, ".localhost") }

// maxPlantedPath is the longest path, in bytes, for which planted cookies are taken away.
const maxPlantedPath = 128

// clearPlanted takes away the cookies of our name that the browser may have sent: our own, and those that a page of a sibling host
// planted for a parent domain or a path above this one. The browser keeps cookies by domain and path, and tells neither.
func (c *call) clearPlanted() {
	domains := []string{""}
	for parent := c.host; ; {
		_, rest, found := strings.Cut(parent, ".")
		if !found || !strings.Contains(rest, ".") {
			break
		}
		domains = append(domains, rest)
		parent = rest
	}
	if strings.Contains(c.host, ".") {
		domains = append(domains, c.host)
	}
	paths, asked := []string{"/"}, c.r.URL.Path
	if len(asked) > maxPlantedPath {
		asked = "/" // nobody plants a cookie for a path that names no operation; the answer stays short
	}
	for at, r := range asked {
		if r == '/' && at > 0 {
			paths = append(paths, asked[:at], asked[:at+1])
		}
	}
	paths = append(paths, asked)
	for _, domain := range domains[:min(len(domains), 4)] {
		for _, path := range paths[:min(len(paths), 8)] {
			cookie := http.Cookie{Name: cookieName, Path: path, Domain: domain, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: !c.plainLocalhost(), MaxAge: -1}
			c.Header().Add("Set-Cookie", cookie.String())
		}
	}
}
