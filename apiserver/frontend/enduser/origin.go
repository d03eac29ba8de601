package enduser

import (
	"net/http"
	"slices"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
)

// checkOrigin refuses requests from pages of other sites, except of origins that the deployment declares. The browser
// sends the cookie with such requests without the user's intent.
func (c *call) checkOrigin() error {
	refused := apierror.Coded(http.StatusForbidden, "ORIGIN_NOT_ALLOWED", "this origin may not call the deployment: declare it in allowedOrigins")
	origins := c.r.Header.Values("Origin")
	if len(origins) > 1 {
		return refused
	}
	if len(origins) == 1 {
		if !site.OwnOrigin(c.request.Settings, c.r, origins[0]) && !c.allowedOrigin(origins[0]) {
			return refused
		}
		return nil
	}
	if c.r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		return refused
	}
	return nil
}

// allowedOrigin reports whether the deployment declares an origin.
func (c *call) allowedOrigin(origin string) bool {
	return c.request != nil && slices.Contains(c.request.Settings.AllowedOrigins, origin)
}

// allowOrigin lets pages of declared origins read responses to requests with the cookie. It names the exact origin,
// never a wildcard.
func (c *call) allowOrigin(header http.Header) {
	header.Add("Vary", "Origin")
	if origin := c.r.Header.Get("Origin"); origin != "" && c.allowedOrigin(origin) {
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Allow-Credentials", "true")
		header.Set("Access-Control-Expose-Headers", "Retry-After, X-Request-Id")
	}
}

// preflight responds to a CORS preflight request.
func (c *call) preflight(allow string) {
	header := c.Header()
	c.allowOrigin(header)
	if header.Get("Access-Control-Allow-Origin") == "" {
		c.Refuse(apierror.Coded(http.StatusForbidden, "ORIGIN_NOT_ALLOWED", "this origin may not call the deployment: declare it in allowedOrigins"))
		return
	}
	header.Set("Access-Control-Allow-Methods", allow)
	header.Set("Access-Control-Allow-Headers", "Content-Type, X-Request-Id, "+activeOrganizationHeader+", "+site.ActiveUserHeader)
	header.Set("Access-Control-Max-Age", "600")
	c.WriteHeader(http.StatusNoContent)
}
