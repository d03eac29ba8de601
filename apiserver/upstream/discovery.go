package upstream

import (
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/cardea-iam/cardea/internal/document"
)

const (
	// discoveryPath follows the issuer (OpenID Connect Discovery 4).
	discoveryPath = "/.well-known/openid-configuration"
	// maxURL bounds the URLs of a discovery document, in bytes.
	maxURL = 2048
	// tenantPlaceholder stands for the tenant in the issuers of Microsoft's documents for several tenants.
	tenantPlaceholder = "{tenantid}"
	// gitHubIssuerPath follows GitHub's base URL in the parameter iss of its authorization responses.
	gitHubIssuerPath = "/login/oauth"
)

// The types of connections with rules of their own.
const (
	typeGitHub    = "GitHub"
	typeMicrosoft = "Microsoft"
	typeApple     = "Apple"
)

// declared returns the metadata of a connection whose endpoints are declared, or follow from its type.
func declared(c *document.Connection) (Metadata, bool) {
	p := &c.Provider
	if p.AuthorizationURL == "" || p.TokenURL == "" {
		return Metadata{}, false
	}
	issuer := p.Issuer
	if c.Type == typeGitHub {
		issuer = p.BaseURL + gitHubIssuerPath
	}
	return Metadata{Issuer: issuer, AuthorizationURL: p.AuthorizationURL, TokenURL: p.TokenURL, UserinfoURL: p.UserinfoURL, JWKSURL: p.JWKSURL}, true
}

// discoveryURL returns the URL of a provider's discovery document.
func discoveryURL(p *document.UpstreamProvider) string {
	return strings.TrimSuffix(p.Issuer, "/") + discoveryPath
}

// parseDiscovery reads a discovery document of a connection's provider. The error is a *failure.
func parseDiscovery(c *document.Connection, text string) (Metadata, error) {
	var stated struct {
		Issuer        string `json:"issuer"`
		Authorization string `json:"authorization_endpoint"`
		Token         string `json:"token_endpoint"`
		Userinfo      string `json:"userinfo_endpoint"`
		JWKS          string `json:"jwks_uri"`
		EndSession    string `json:"end_session_endpoint"`
		Iss           bool   `json:"authorization_response_iss_parameter_supported"`
	}
	if err := json.Unmarshal([]byte(text), &stated); err != nil {
		return Metadata{}, fail(invalidMetadata, "%s serves no valid discovery document: it must be a JSON object without repeated members", discoveryURL(&c.Provider))
	}
	if !issuerFits(&c.Provider, c.Type, stated.Issuer) {
		return Metadata{}, fail(issuerMismatch, "the discovery document is of the issuer %q, and the connection of %q; write the same text at both", clip(stated.Issuer, 200), c.Provider.Issuer)
	}
	plain := strings.HasPrefix(c.Provider.Issuer, "http:")
	for _, at := range []struct {
		name, url string
		required  bool
	}{
		{"authorization_endpoint", stated.Authorization, true}, {"token_endpoint", stated.Token, true}, {"jwks_uri", stated.JWKS, true},
		{"userinfo_endpoint", stated.Userinfo, false}, {"end_session_endpoint", stated.EndSession, false},
	} {
		switch {
		case at.url == "" && at.required:
			return Metadata{}, fail(invalidMetadata, "the discovery document has no %s", at.name)
		case at.url != "" && !isEndpoint(at.url, plain):
			return Metadata{}, fail(invalidMetadata, "%s of the discovery document is %q; it must be an https URL", at.name, clip(at.url, 200))
		}
	}
	return Metadata{
		Issuer: stated.Issuer, AuthorizationURL: stated.Authorization, TokenURL: stated.Token, UserinfoURL: stated.Userinfo, JWKSURL: stated.JWKS,
		EndSessionURL: stated.EndSession, IssInResponse: stated.Iss,
	}, nil
}

// isEndpoint reports whether a text is an https URL without user and fragment. plain also permits http on this machine.
func isEndpoint(text string, plain bool) bool {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxURL || u.Host == "" || u.User != nil || strings.Contains(text, "#") {
		return false
	}
	return u.Scheme == "https" || plain && u.Scheme == "http" && isLoopback(u)
}

// consumersIssuer is the issuer in Microsoft's document for the tenant "consumers".
const consumersIssuer = "https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0"

// issuerFits reports whether a discovery document of an issuer is the one of a connection. Issuers are compared
// character by character. Microsoft's documents for several tenants state the issuer with a placeholder.
func issuerFits(p *document.UpstreamProvider, kind, stated string) bool {
	if stated == p.Issuer {
		return stated != ""
	}
	if kind != typeMicrosoft {
		return false
	}
	switch p.Tenant {
	case "common", "organizations":
		return stated == strings.Replace(p.Issuer, "/"+p.Tenant+"/", "/"+tenantPlaceholder+"/", 1)
	case "consumers":
		return stated == consumersIssuer || stated == strings.Replace(p.Issuer, "/"+p.Tenant+"/", "/"+tenantPlaceholder+"/", 1)
	}
	return false
}
