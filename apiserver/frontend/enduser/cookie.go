package enduser

import (
	"net/http"

	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/users/session"
)

// setCookie sets the session cookie to the browser's new token, or deletes the cookie if c.clear is set.
func (c *call) setCookie(header http.Header) {
	cookie := http.Cookie{Name: site.SessionCookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: !c.plainLocalhost()}
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

// plainLocalhost reports whether a Staging deployment is served on localhost without TLS, where browsers drop Secure
// cookies.
func (c *call) plainLocalhost() bool {
	return c.request != nil && site.PlainLocalhost(c.request.Settings, c.r)
}
