package saml

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/beevik/etree"
)

const (
	// maxCertificates bounds the certificates of an identity provider, and maxEndpoints the endpoints of one kind.
	maxCertificates, maxEndpoints = 16, 16
	// maxCertificate bounds a certificate, in bytes of its DER. All certificates and endpoints fit a deployment's share of
	// the cache.
	maxCertificate = 16 << 10
	// MinRefresh is the shortest time after which metadata is fetched again.
	MinRefresh = time.Hour
	// MaxRefresh is the longest time after which metadata is fetched again.
	MaxRefresh = 24 * time.Hour
)

// Metadata is what the metadata of an identity provider says.
type Metadata struct {
	EntityID string
	// SignOn and Logout are endpoints with a binding that is used here: BindingRedirect or BindingPost.
	SignOn, Logout []Endpoint
	// Certificates are those for signatures whose keys are strong enough. Each of them verifies, also after its expiry.
	Certificates []*x509.Certificate
	// ValidUntil is zero, and CacheDuration 0, if the document does not say it.
	ValidUntil    time.Time
	CacheDuration time.Duration
}

// Endpoint is where an identity provider takes requests.
type Endpoint struct {
	Binding, URL string
	// ResponseURL is where it takes responses.
	ResponseURL string
}

// MetadataWanted says which metadata is accepted.
type MetadataWanted struct {
	// EntityID is the entity that the connection names, "" for the only one of the document.
	EntityID string
	// Before is the entity ID of the last good document, "" if there is none.
	Before string
	Now    time.Time
}

// ParseMetadata reads the metadata of an identity provider: at most MaxMetadata bytes, with one entity or several. Its
// signature is not verified: the document is trusted because of where it comes from. The error is a *connection.Fault.
func ParseMetadata(raw []byte, want MetadataWanted) (*Metadata, error) {
	root, err := parse(raw, metadataBounds)
	if err != nil {
		return nil, err
	}
	entity, err := entityOf(root, want.EntityID)
	if err != nil {
		return nil, err
	}
	m := &Metadata{EntityID: attribute(entity, "entityID")}
	switch {
	case m.EntityID == "" || len(m.EntityID) > maxName:
		return nil, fault(ReasonEntityID, m.EntityID, fmt.Sprintf("an entity ID of 1 to %d bytes", maxName))
	case want.Before != "" && m.EntityID != want.Before:
		return nil, fault(ReasonEntityID, m.EntityID, want.Before)
	}
	role, err := roleOf(entity)
	if err != nil {
		return nil, err
	}
	if err = m.lifetime(role, want.Now); err != nil {
		return nil, err
	}
	if m.SignOn, err = endpoints(role, "SingleSignOnService"); err != nil {
		return nil, err
	}
	if len(m.SignOn) == 0 {
		return nil, fault(ReasonEndpoint, "no SingleSignOnService", "one with the binding HTTP-Redirect or HTTP-POST")
	}
	if m.Logout, err = endpoints(role, "SingleLogoutService"); err != nil {
		return nil, err
	}
	m.Certificates, err = certificates(role)
	return m, err
}

// entityOf returns the entity with an ID, or the only entity of a document.
func entityOf(root *etree.Element, id string) (*etree.Element, error) {
	var all []*etree.Element
	_ = walk(root, func(el *etree.Element) error {
		if el.Tag == "EntityDescriptor" && is(el, nsMetadata, "EntityDescriptor") && (id == "" || attribute(el, "entityID") == id) {
			all = append(all, el)
		}
		return nil
	})
	switch {
	case !is(root, nsMetadata, "EntityDescriptor") && !is(root, nsMetadata, "EntitiesDescriptor"):
		return nil, fault(ReasonStructure, root.Tag, "EntityDescriptor of SAML 2.0 metadata")
	case len(all) == 0:
		return nil, fault(ReasonEntityID, "metadata without it", id)
	case len(all) > 1 && id == "":
		return nil, fault(ReasonEntityID, fmt.Sprintf("one of %d entities", len(all)), "metadata of one entity, or name it in the connection")
	case len(all) > 1:
		return nil, fault(ReasonEntityID, fmt.Sprintf("there %d times", len(all)), id)
	}
	return all[0], nil
}

// roleOf returns the role of an entity as an identity provider of SAML 2.0.
func roleOf(entity *etree.Element) (*etree.Element, error) {
	roles := slices.DeleteFunc(children(entity, nsMetadata, "IDPSSODescriptor"), func(role *etree.Element) bool {
		return !slices.Contains(strings.Fields(attribute(role, "protocolSupportEnumeration")), nsProtocol)
	})
	if len(roles) != 1 {
		return nil, fault(ReasonStructure, fmt.Sprintf("%d elements IDPSSODescriptor", len(roles)), "one IDPSSODescriptor of SAML 2.0")
	}
	return roles[0], nil
}

// lifetime reads the earliest validUntil and the shortest cacheDuration of a role and of the elements around it.
func (m *Metadata) lifetime(role *etree.Element, now time.Time) error {
	for el := role; el != nil; el = el.Parent() {
		if text := attribute(el, "validUntil"); text != "" {
			at, err := readTime(text)
			if err != nil {
				return fault(ReasonValidUntil, text, "a time such as 2026-01-31T12:00:00Z")
			}
			if m.ValidUntil.IsZero() || at.Before(m.ValidUntil) {
				m.ValidUntil = at
			}
		}
		if text := attribute(el, "cacheDuration"); text != "" {
			if d := readDuration(text); d > 0 && (m.CacheDuration == 0 || d < m.CacheDuration) {
				m.CacheDuration = d
			}
		}
	}
	if !m.ValidUntil.IsZero() && !now.Before(m.ValidUntil) {
		return fault(ReasonValidUntil, m.ValidUntil.Format(time.RFC3339), "a time after now")
	}
	return nil
}

// endpoints returns the endpoints of a kind with a binding that is used here.
func endpoints(role *etree.Element, tag string) (found []Endpoint, err error) {
	for _, el := range children(role, nsMetadata, tag) {
		e := Endpoint{Binding: attribute(el, "Binding"), URL: attribute(el, "Location"), ResponseURL: attribute(el, "ResponseLocation")}
		if e.Binding != BindingRedirect && e.Binding != BindingPost {
			continue
		}
		if e.ResponseURL == "" {
			e.ResponseURL = e.URL
		}
		for _, location := range []string{e.URL, e.ResponseURL} {
			if !proper(location) {
				return nil, fault(ReasonEndpoint, location, "an https URL in "+tag)
			}
		}
		if found = append(found, e); len(found) > maxEndpoints {
			return nil, fault(ReasonEndpoint, "more elements "+tag, fmt.Sprintf("at most %d", maxEndpoints))
		}
	}
	return found, nil
}

// properHost matches a host with or without a port. Go decodes the zone of an IPv6 address, which can be any text.
var properHost = regexp.MustCompile(`^[A-Za-z0-9.:\[\]-]+$`)

// proper reports whether a URL is https, or http on a loopback address. The operator refuses http in production.
func proper(location string) bool {
	u, err := url.Parse(location)
	if err != nil || len(location) > maxURL || !properHost.MatchString(u.Host) || u.User != nil || strings.Contains(location, "#") {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

// certificates returns the certificates for signatures, without repetitions and without those with weak keys.
func certificates(role *etree.Element) (found []*x509.Certificate, err error) {
	weak := 0
	for _, el := range signing(role) {
		der, err := base64.StdEncoding.DecodeString(compact(el))
		if err != nil {
			return nil, fault(ReasonCertificates, "not base64", "certificates in base64")
		}
		if len(der) > maxCertificate {
			return nil, fault(ReasonCertificates, fmt.Sprintf("a certificate of %d bytes", len(der)), fmt.Sprintf("at most %d bytes", maxCertificate))
		}
		certificate, err := x509.ParseCertificate(der)
		switch {
		case err != nil:
			return nil, fault(ReasonCertificates, "not an X.509 certificate", "X.509 certificates")
		case !strong(certificate):
			weak++
		case !slices.ContainsFunc(found, certificate.Equal):
			found = append(found, certificate)
		}
		if len(found)+weak > maxCertificates {
			return nil, fault(ReasonCertificates, "more certificates", fmt.Sprintf("at most %d", maxCertificates))
		}
	}
	if len(found) == 0 {
		return nil, fault(ReasonCertificates, fmt.Sprintf("none, and %d with weak keys", weak), "a certificate for signatures, with RSA of 2048 bits or P-256, or stronger")
	}
	return found, nil
}

// signing returns the elements with the certificates of a role for signatures.
func signing(role *etree.Element) (found []*etree.Element) {
	for _, descriptor := range children(role, nsMetadata, "KeyDescriptor") {
		if use := attribute(descriptor, "use"); use != "" && use != "signing" {
			continue
		}
		for _, info := range children(descriptor, nsSignature, "KeyInfo") {
			for _, data := range children(info, nsSignature, "X509Data") {
				found = append(found, children(data, nsSignature, "X509Certificate")...)
			}
		}
	}
	return found
}

// SignOnEndpoint returns where requests go: by HTTP-Redirect if the identity provider has it, otherwise by HTTP-POST.
func (m *Metadata) SignOnEndpoint() Endpoint {
	if e := endpoint(m.SignOn, BindingRedirect); e.URL != "" {
		return e
	}
	return endpoint(m.SignOn, BindingPost)
}

// SignOutURL returns where logout requests go by HTTP-Redirect, "" if the identity provider takes none.
func (m *Metadata) SignOutURL() string { return endpoint(m.Logout, BindingRedirect).URL }

// LogoutResponseURL returns where logout responses go by HTTP-POST, "" if the identity provider takes none.
func (m *Metadata) LogoutResponseURL() string { return endpoint(m.Logout, BindingPost).ResponseURL }

func endpoint(all []Endpoint, binding string) Endpoint {
	for _, e := range all {
		if e.Binding == binding {
			return e
		}
	}
	return Endpoint{}
}

// RefreshIn returns when the metadata is to be fetched again: after its cacheDuration or half of the time until
// validUntil, within MinRefresh and MaxRefresh, and MinRefresh if it says neither.
func (m *Metadata) RefreshIn(now time.Time) time.Duration {
	in := m.CacheDuration
	if half := m.ValidUntil.Sub(now) / 2; !m.ValidUntil.IsZero() && (in == 0 || half < in) {
		in = half
	}
	return min(max(in, MinRefresh), MaxRefresh)
}

// CertificateExpiry returns the earliest expiry of the certificates.
func (m *Metadata) CertificateExpiry() (earliest time.Time) {
	for _, certificate := range m.Certificates {
		if earliest.IsZero() || certificate.NotAfter.Before(earliest) {
			earliest = certificate.NotAfter
		}
	}
	return earliest
}

// Fingerprints returns the SHA-256 of each certificate, sorted.
func (m *Metadata) Fingerprints() (all []string) {
	for _, certificate := range m.Certificates {
		all = append(all, Fingerprint(certificate))
	}
	slices.Sort(all)
	return all
}
