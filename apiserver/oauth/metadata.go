package oauth

import (
	"net/http"
	"slices"

	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/store/document"
)

// serverMetadata is what an authorization server says of itself (RFC 8414 2). What is off is not in it.
type serverMetadata struct {
	Issuer                      string   `json:"issuer"`
	TokenEndpoint               string   `json:"token_endpoint"`
	JWKSURI                     string   `json:"jwks_uri"`
	IntrospectionEndpoint       string   `json:"introspection_endpoint"`
	ScopesSupported             []string `json:"scopes_supported,omitempty"`
	GrantTypesSupported         []string `json:"grant_types_supported"`
	TokenEndpointAuthMethods    []string `json:"token_endpoint_auth_methods_supported"`
	IntrospectionAuthMethods    []string `json:"introspection_endpoint_auth_methods_supported"`
	RequestParameterSupported   bool     `json:"request_parameter_supported"`
	RequestURIParameterSupports bool     `json:"request_uri_parameter_supported"`
}

func metadata(c *call) error {
	base := c.Content.Issuer
	own := serverMetadata{
		Issuer: base, TokenEndpoint: base + "/token", JWKSURI: base + "/jwks", IntrospectionEndpoint: base + "/introspect",
		GrantTypesSupported:      []string{"client_credentials"},
		TokenEndpointAuthMethods: []string{"client_secret_basic", "client_secret_post"},
		IntrospectionAuthMethods: []string{"client_secret_basic", "client_secret_post"},
	}
	for _, entry := range c.Snapshot.Scopes(c.Entry) {
		if scope := snapshot.ContentOf[document.OAuthScope](entry); !scope.Archived {
			own.ScopesSupported = append(own.ScopesSupported, scope.Scope)
		}
	}
	return c.public(own)
}

// allowOrigin lets pages of declared origins read the answer of the token endpoint. Which client asks is in the body, which a preflight has not:
// an origin of any client of the app may ask, and a client's credentials do not depend on it.
func (c *call) allowOrigin() {
	origin := c.r.Header.Get("Origin")
	if origin == "" {
		return
	}
	c.w.Header().Add("Vary", "Origin")
	if slices.Contains(c.origins(), origin) {
		c.w.Header().Set("Access-Control-Allow-Origin", origin)
	}
}

// origins are those of the app's clients.
func (c *call) origins() (all []string) {
	for _, entry := range c.Snapshot.Referrers(c.Entry.Identity) {
		if content, is := entry.Content.(*snapshot.Client); is && content.Active {
			all = append(all, content.AllowedOrigins...)
		}
	}
	return all
}

// preflight answers what browsers ask before a request of another origin.
func preflight(c *call) error {
	header := c.w.Header()
	if c.path == "/token" {
		c.allowOrigin()
	} else {
		header.Set("Access-Control-Allow-Origin", "*")
	}
	if header.Get("Access-Control-Allow-Origin") != "" {
		header.Set("Access-Control-Allow-Methods", "GET, POST")
		header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, MCP-Protocol-Version")
		header.Set("Access-Control-Max-Age", "600")
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
