package oauth

import (
	"net/http"
	"slices"

	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/redirecturi"
)

// serverMetadata is the metadata of an authorization server (RFC 8414 2, OpenID Connect Discovery 3), without disabled
// features.
type serverMetadata struct {
	Issuer                      string   `json:"issuer"`
	AuthorizationEndpoint       string   `json:"authorization_endpoint,omitempty"`
	TokenEndpoint               string   `json:"token_endpoint"`
	JWKSURI                     string   `json:"jwks_uri"`
	UserinfoEndpoint            string   `json:"userinfo_endpoint,omitempty"`
	IntrospectionEndpoint       string   `json:"introspection_endpoint"`
	RevocationEndpoint          string   `json:"revocation_endpoint"`
	RegistrationEndpoint        string   `json:"registration_endpoint,omitempty"`
	DeviceEndpoint              string   `json:"device_authorization_endpoint,omitempty"`
	EndSessionEndpoint          string   `json:"end_session_endpoint,omitempty"`
	PushedEndpoint              string   `json:"pushed_authorization_request_endpoint,omitempty"`
	ScopesSupported             []string `json:"scopes_supported,omitempty"`
	ResponseTypesSupported      []string `json:"response_types_supported"`
	ResponseModesSupported      []string `json:"response_modes_supported,omitempty"`
	GrantTypesSupported         []string `json:"grant_types_supported"`
	CodeChallengeMethods        []string `json:"code_challenge_methods_supported,omitempty"`
	PromptValuesSupported       []string `json:"prompt_values_supported,omitempty"`
	ACRValuesSupported          []string `json:"acr_values_supported,omitempty"`
	SubjectTypesSupported       []string `json:"subject_types_supported,omitempty"`
	IDTokenSigningAlgs          []string `json:"id_token_signing_alg_values_supported,omitempty"`
	UserinfoSigningAlgs         []string `json:"userinfo_signing_alg_values_supported,omitempty"`
	ClaimsSupported             []string `json:"claims_supported,omitempty"`
	TokenEndpointAuthMethods    []string `json:"token_endpoint_auth_methods_supported"`
	IntrospectionAuthMethods    []string `json:"introspection_endpoint_auth_methods_supported"`
	RevocationAuthMethods       []string `json:"revocation_endpoint_auth_methods_supported"`
	AssertionAlgs               []string `json:"token_endpoint_auth_signing_alg_values_supported"`
	IntrospectionAssertionAlgs  []string `json:"introspection_endpoint_auth_signing_alg_values_supported"`
	RevocationAssertionAlgs     []string `json:"revocation_endpoint_auth_signing_alg_values_supported"`
	BackchannelLogout           bool     `json:"backchannel_logout_supported,omitempty"`
	BackchannelLogoutSession    bool     `json:"backchannel_logout_session_supported,omitempty"`
	DocumentIDs                 bool     `json:"client_id_metadata_document_supported,omitempty"`
	ResponseIssuer              bool     `json:"authorization_response_iss_parameter_supported,omitempty"`
	RequestParameterSupported   bool     `json:"request_parameter_supported"`
	RequestURIParameterSupports bool     `json:"request_uri_parameter_supported"`
}

func metadata(c *call) error {
	base, secrets := c.Content.Issuer, []string{"client_secret_basic", "client_secret_post", "private_key_jwt"}
	own := serverMetadata{
		Issuer: base, TokenEndpoint: base + "/token", JWKSURI: base + "/jwks", IntrospectionEndpoint: base + "/introspect", RevocationEndpoint: base + "/revoke",
		ResponseTypesSupported:   []string{},
		TokenEndpointAuthMethods: secrets, IntrospectionAuthMethods: secrets, RevocationAuthMethods: secrets,
	}
	for _, algorithm := range assertionAlgorithms {
		own.AssertionAlgs = append(own.AssertionAlgs, string(algorithm))
	}
	own.IntrospectionAssertionAlgs, own.RevocationAssertionAlgs = own.AssertionAlgs, own.AssertionAlgs // required for private_key_jwt (RFC 8414 2)
	for name, scope := range c.Scopes {
		if !scope.Archived {
			own.ScopesSupported = append(own.ScopesSupported, name)
		}
	}
	asksUsers := c.Content.FrontendURL != ""
	for _, grant := range consent.GrantTypes {
		if asksUsers || !grant.ByUser {
			own.GrantTypesSupported = append(own.GrantTypesSupported, grant.Name)
		}
	}
	if asksUsers {
		own.askUsers(c)
	}
	slices.Sort(own.ScopesSupported)
	own.ScopesSupported = slices.Compact(own.ScopesSupported)
	return public(c, own)
}

// askUsers adds the metadata of an app that can ask users: its deployment has a frontend host.
func (m *serverMetadata) askUsers(c *call) {
	public := append(slices.Clone(m.TokenEndpointAuthMethods), "none")
	algorithms := []string{"ES256", "RS256"}
	m.AuthorizationEndpoint, m.UserinfoEndpoint = c.Content.FrontendURL+"/oauth/"+c.Content.Slug+authorizePath, m.Issuer+"/userinfo"
	m.BackchannelLogout, m.BackchannelLogoutSession = true, true
	if c.Content.AllowDynamicClientRegistration {
		m.RegistrationEndpoint, m.DocumentIDs = m.Issuer+"/register", true
	}
	m.DeviceEndpoint = m.Issuer + "/device_authorization"
	m.PushedEndpoint, m.EndSessionEndpoint = m.Issuer+"/par", c.Content.FrontendURL+"/oauth/"+c.Content.Slug+logoutPath
	m.ResponseTypesSupported, m.ResponseModesSupported, m.ResponseIssuer = []string{"code"}, []string{"query"}, true
	m.TokenEndpointAuthMethods, m.RevocationAuthMethods = public, public
	m.CodeChallengeMethods, m.PromptValuesSupported, m.SubjectTypesSupported = []string{"S256"}, prompts, []string{"public"}
	m.ACRValuesSupported = assurance.ACRs()
	m.IDTokenSigningAlgs, m.UserinfoSigningAlgs = algorithms, algorithms
	m.ClaimsSupported = []string{
		"sub", "name", "given_name", "family_name", "updated_at", "email", "email_verified", "phone_number", "phone_number_verified", "groups", "org_id", "org_slug",
		"workspace_id", "auth_time", "acr", "amr", "sid",
	}
	m.ScopesSupported = append(m.ScopesSupported, consent.BuiltIn...)
}

// allowOrigin lets pages of the app's declared origins read the response, before the client is known.
func (c *call) allowOrigin() {
	if origin := c.origin(); origin != "" && c.Origins[origin] {
		c.w.Header().Set("Access-Control-Allow-Origin", origin)
	}
}

// allowOriginOf lets pages at the client's registered redirect origins read the response, if it is a public runtime
// client.
func (c *call) allowOriginOf(client *consent.Client) {
	if origin := c.origin(); origin != "" && client.Registered != nil && client.Public() && slices.Contains(redirecturi.Origins(client.RedirectURIs), origin) {
		c.w.Header().Set("Access-Control-Allow-Origin", origin)
	}
}

// origin returns the Origin of a request, and makes the response depend on it. Authorization never depends on Origin.
func (c *call) origin() string {
	origin := c.r.Header.Get("Origin")
	if header := c.w.Header(); origin != "" && header.Get("Vary") == "" {
		header.Set("Vary", "Origin")
	}
	return origin
}

// preflight answers CORS preflight requests.
func preflight(c *call) error {
	header := c.w.Header()
	switch c.path {
	case "/token", "/revoke", "/userinfo":
		// A preflight request does not name the client: if the app allows registration, any origin may belong to a client.
		if c.allowOrigin(); c.Content.AllowDynamicClientRegistration && c.origin() != "" {
			header.Set("Access-Control-Allow-Origin", c.origin())
		}
	default:
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
