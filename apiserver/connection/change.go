package connection

import (
	"crypto/x509"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Change is what an organization or a backend sets of a connection; nil: not sent.
type Change struct {
	Name, Issuer, ClientID, ClientSecret, Enforcement *string
	JustInTime, Active                                *bool
	Mappings                                          *[]RoleMapping
	// SAML replaces what is known of an identity provider of SAML.
	SAML *SAMLProvider
	// Confirmation repeats the name, and confirms that another provider ends all identities.
	Confirmation string
	// Read is the time of the last change of the connection that the caller changes, zero: whatever it is.
	Read time.Time
}

// Fits reports whether a change has no settings of another type than a connection's.
func (c Change) Fits(kind string) bool {
	if kind == TypeSAML {
		return c.Issuer == nil && c.ClientID == nil && c.ClientSecret == nil
	}
	return c.SAML == nil
}

// MovesProvider reports whether a change of a connection that has a provider may name another one: users of the former
// provider must not be those of the new one.
func (c Change) MovesProvider(now Settings) bool {
	if now.SAML != nil {
		return c.SAML != nil && now.SAML.Source() != "" && c.SAML.Source() != now.SAML.Source()
	}
	return c.Issuer != nil && now.Issuer != "" && *c.Issuer != now.Issuer
}

// AddsKeys reports whether a change trusts keys of a provider of SAML that the settings did not. The owner of such a
// key can sign in as every user of the connection.
func (c Change) AddsKeys(now Settings) bool {
	if c.SAML == nil || c.SAML.Given == nil || now.SAML == nil || now.SAML.Given == nil {
		return false
	}
	known := map[string]bool{}
	for _, der := range now.SAML.Given.Certificates {
		known[publicKey(der)] = true
	}
	return slices.ContainsFunc(c.SAML.Given.Certificates, func(der []byte) bool { return !known[publicKey(der)] })
}

// publicKey returns the public key of a certificate, or the certificate itself if it cannot be read.
func publicKey(der []byte) string {
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return string(der)
	}
	return string(certificate.RawSubjectPublicKeyInfo)
}

// ChangesProvider reports whether a change names another provider, another client there, or other keys of it.
func (c Change) ChangesProvider(now Settings) bool {
	if now.SAML != nil {
		return c.SAML != nil && !c.SAML.equal(now.SAML.SAMLProvider)
	}
	return c.ClientSecret != nil || c.Issuer != nil && *c.Issuer != now.Issuer || c.ClientID != nil && *c.ClientID != now.ClientID
}

// ChoosesProvider reports whether a change names another provider, another client there, or other keys of it. Another
// secret of the same client does not.
func (c Change) ChoosesProvider(now Settings) bool {
	c.ClientSecret = nil
	return c.ChangesProvider(now)
}

// Apply returns the settings with a change.
func (c Change) Apply(s Settings) Settings {
	for _, text := range []struct{ sent, to *string }{{c.Name, &s.Name}, {c.Issuer, &s.Issuer}, {c.ClientID, &s.ClientID}, {c.Enforcement, &s.Enforcement}} {
		if text.sent != nil {
			*text.to = *text.sent
		}
	}
	if c.SAML != nil && s.SAML != nil {
		changed := *s.SAML
		changed.SAMLProvider = *c.SAML
		s.SAML = &changed
	}
	if c.JustInTime != nil {
		s.JustInTime = *c.JustInTime
	}
	if c.Mappings != nil {
		s.Mappings = *c.Mappings
	}
	return s
}

// The bounds of texts of a connection, in bytes.
const (
	maxIssuer       = 2048
	maxClientID     = 255
	maxClientSecret = 2048
	maxEntityID     = 1024
)

// IssuerFault returns what is wrong with an issuer, "" if nothing is. http is only for loopback hosts, and only with
// staging.
func IssuerFault(issuer string, staging bool) string {
	u, err := url.Parse(issuer)
	switch {
	case err != nil || len(issuer) > maxIssuer || strings.ContainsFunc(issuer, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "must be a URL of at most 2048 printable ASCII characters, exactly as the provider's discovery document states it"
	case u.Scheme == "http" && !loopback(u.Hostname()), u.Scheme == "http" && !staging, u.Scheme != "https" && u.Scheme != "http":
		return "must be an https URL"
	case u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(issuer, "#"):
		return "must have a host, and no user, query or fragment"
	}
	return ""
}

// plainHost matches a host with or without a port.
var plainHost = regexp.MustCompile(`^[A-Za-z0-9.:\[\]-]+$`)

// EndpointFault returns what is wrong with the URL of metadata or of an endpoint of SAML, "" if nothing is. http is
// only for loopback hosts, and only with staging.
func EndpointFault(endpoint string, staging bool) string {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || len(endpoint) > maxIssuer || strings.ContainsFunc(endpoint, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "must be a URL of at most 2048 printable ASCII characters"
	case u.Scheme == "http" && !loopback(u.Hostname()), u.Scheme == "http" && !staging, u.Scheme != "https" && u.Scheme != "http":
		return "must be an https URL"
	case u.Host == "" || u.User != nil || strings.Contains(endpoint, "#"):
		return "must have a host, and no user or fragment"
	case !plainHost.MatchString(u.Host): // Go decodes the zone of an IPv6 address, which can be any text
		return "must have a host of letters, digits, dots and hyphens, or an IP address without a zone"
	}
	return ""
}

// EntityIDFault returns what is wrong with an entity ID, "" if nothing is.
func EntityIDFault(id string) string {
	return printable(id, maxEntityID, "must have 1 to 1024 printable ASCII characters, without a space at its ends, exactly as the identity provider states it")
}

func loopback(host string) bool { return host == "localhost" || host == "127.0.0.1" || host == "::1" }

// ClientIDFault returns what is wrong with a client id, "" if nothing is.
func ClientIDFault(id string) string {
	return printable(id, maxClientID, "must have 1 to 255 printable ASCII characters, without a space at its ends")
}

// ClientSecretFault returns what is wrong with a client secret, "" if nothing is.
func ClientSecretFault(secret string) string {
	return printable(secret, maxClientSecret, "must have 1 to 2048 printable ASCII characters, without a space at its ends")
}

func printable(s string, most int, rule string) string {
	if s == "" || len(s) > most || strings.TrimSpace(s) != s || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return rule
	}
	return ""
}
