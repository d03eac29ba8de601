package connection

import (
	"net/url"
	"strings"

	"github.com/cardea-iam/cardea/internal/document"
)

// Request is an authorization request to a provider.
type Request struct {
	// URL is the provider's authorization endpoint.
	URL         string
	RedirectURI string
	// State, Nonce and Verifier are those of the attempt.
	State, Nonce, Verifier string
	// LoginHint is the address that the user typed, "" for none.
	LoginHint string
	// Reauthenticate asks the provider to authenticate the user anew.
	Reauthenticate bool
	// StepUp asks for the values of acr that the connection declares.
	StepUp bool
}

// AuthorizationURL returns the address to which the browser goes. The parameters that the connection declares never
// replace those of the protocol.
func AuthorizationURL(c *document.Connection, r Request) (string, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return "", err
	}
	query := u.Query()
	for _, p := range c.Parameters {
		query.Set(p.Name, p.Value)
	}
	if len(c.Provider.HostedDomains) == 1 {
		query.Set("hd", c.Provider.HostedDomains[0])
	} else if len(c.Provider.HostedDomains) > 1 {
		query.Set("hd", "*")
	}
	if r.LoginHint != "" {
		query.Set("login_hint", r.LoginHint)
	}
	if r.StepUp && len(c.ACR) > 0 {
		query.Set("acr_values", strings.Join(c.ACR, " "))
	}
	if r.Reauthenticate {
		query.Set("prompt", "login")
		query.Set("max_age", "0")
	}
	if c.Provider.FormPost {
		query.Set("response_mode", "form_post")
	}
	if c.Type != TypeGitHub {
		query.Set("nonce", r.Nonce)
	}
	for name, value := range map[string]string{
		"response_type": "code", "client_id": c.Client.ID, "redirect_uri": r.RedirectURI, "scope": strings.Join(c.Scopes, " "), "state": r.State,
		"code_challenge": challenge(r.Verifier), "code_challenge_method": "S256",
	} {
		query.Set(name, value)
	}
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// Types of connections that rows have, or that have rules of their own.
const (
	TypeOIDC      = "OIDC"
	TypeSAML      = "SAML"
	TypeGoogle    = "Google"
	TypeMicrosoft = "Microsoft"
	TypeGitHub    = "GitHub"
	TypeApple     = "Apple"
)

// maxParameter bounds a parameter of an authorization response, in bytes.
const maxParameter = 8 << 10

// Response is an authorization response of a provider.
type Response struct {
	State, Code string
	// Issuer is the parameter iss, "" if it is absent.
	Issuer string
	// Error is the provider's error code, "" for a success. Description is its text, for the connection's admins.
	Error, Description string
	// User is the JSON that Apple sends with the first response for a user.
	User string
}

// ReadResponse reads an authorization response, without parameters that are doubled or too long. It reports false if
// there are such parameters, or not exactly one of a code and an error.
func ReadResponse(values url.Values) (Response, bool) {
	var r Response
	whole := true
	for name, to := range map[string]*string{
		"state": &r.State, "code": &r.Code, "iss": &r.Issuer, "error": &r.Error, "error_description": &r.Description, "user": &r.User,
	} {
		sent := values[name]
		switch {
		case len(sent) > 1 || len(sent) == 1 && len(sent[0]) > maxParameter:
			whole = false
		case len(sent) == 1:
			*to = sent[0]
		}
	}
	return r, whole && r.State != "" && (r.Code == "") != (r.Error == "")
}

// CheckIssuer returns a *Fault if the parameter iss of a response is not the provider's issuer, or if it is absent
// although the provider promises it (RFC 9207). Microsoft's issuer is another for each tenant, and may be absent;
// VerifyIDToken compares it with that of the token.
func CheckIssuer(c *document.Connection, r Response, issuer string, promised bool) error {
	switch {
	case r.Issuer == "" && !promised, r.Issuer != "" && r.Issuer == issuer:
		return nil
	case c.Type == TypeMicrosoft && strings.HasPrefix(r.Issuer, microsoftOrigin) && strings.Contains(issuer, "{tenantid}"):
		return nil
	}
	return &Fault{Reason: ReasonResponseIssuer, Got: r.Issuer, Expected: issuer}
}
