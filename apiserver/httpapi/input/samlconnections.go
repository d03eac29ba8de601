package input

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/connection/saml"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
)

// Members of bodies that describe an identity provider of SAML: by the URL of its metadata, by the metadata, or by
// three values of it.
const (
	memberMetadataURL = "metadata_url"
	memberMetadataXML = "metadata_xml"
	memberEntityID    = "entity_id"
	memberSSOURL      = "sso_url"
	memberCertificate = "certificate"
)

// samlMembers are all of them, and statedMembers the three values.
var (
	statedMembers = []string{memberEntityID, memberSSOURL, memberCertificate}
	samlMembers   = append([]string{memberMetadataURL, memberMetadataXML}, statedMembers...)
)

// samlProvider reads what a body says about an identity provider of SAML, nil if it says nothing. The error is a 400
// INVALID_METADATA.
func samlProvider(o *body.Object, staging bool, now time.Time) (*connection.SAMLProvider, error) {
	from := read(o, memberMetadataURL, func(sent string) (string, error) { return faulty(sent, connection.EndpointFault(sent, staging)) })
	raw, described := o.String(memberMetadataXML)
	stated := statedMetadata(o, staging)
	ways := 0
	for _, way := range []bool{o.Has(memberMetadataURL), o.Has(memberMetadataXML), stated != nil} {
		if way {
			ways++
		}
	}
	switch {
	case ways > 1:
		for _, member := range samlMembers {
			if o.Has(member) {
				o.Fault(member, "is not the only description of the identity provider: send exactly one of metadata_url, metadata_xml, and entity_id with sso_url and certificate")
				break
			}
		}
	case from != nil:
		return &connection.SAMLProvider{MetadataURL: *from}, nil
	case described:
		metadata, err := readMetadata(raw, staging, now)
		return given(metadata), err
	case stated != nil:
		return given(stated), nil
	}
	return nil, nil
}

func given(m *saml.Metadata) *connection.SAMLProvider {
	if m == nil {
		return nil
	}
	d := m.Document()
	return &connection.SAMLProvider{Given: &d}
}

// statedMetadata reads the three values, nil if none of them was sent. With a fault, the result is incomplete.
func statedMetadata(o *body.Object, staging bool) *saml.Metadata {
	entity := read(o, memberEntityID, func(sent string) (string, error) { return faulty(sent, connection.EntityIDFault(sent)) })
	signOn := read(o, memberSSOURL, func(sent string) (string, error) { return faulty(sent, connection.EndpointFault(sent, staging)) })
	text, certified := o.String(memberCertificate)
	var certificate *x509.Certificate
	if certified {
		var err error
		if certificate, err = saml.ReadCertificate(text); err != nil {
			o.Fault(memberCertificate, "%v", err)
		}
	}
	sent := 0
	for _, member := range statedMembers {
		if o.Has(member) {
			sent++
		}
	}
	if sent == 0 {
		return nil
	}
	for _, member := range statedMembers {
		if sent < len(statedMembers) && !o.Has(member) {
			o.Fault(member, "is required with the other two of entity_id, sso_url and certificate: send it")
		}
	}
	if entity == nil || signOn == nil || certificate == nil {
		return &saml.Metadata{}
	}
	return saml.Stated(*entity, *signOn, certificate)
}

// readMetadata parses metadata, and checks that its endpoints may be used.
func readMetadata(raw string, staging bool, now time.Time) (*saml.Metadata, error) {
	metadata, err := saml.ParseMetadata([]byte(raw), saml.MetadataWanted{Now: now})
	var fault *connection.Fault
	switch {
	case errors.As(err, &fault):
		return nil, invalidMetadata(fault)
	case err != nil:
		return nil, err
	}
	for _, e := range append(metadata.SignOn, metadata.Logout...) {
		for _, location := range []string{e.URL, e.ResponseURL} {
			if !staging && strings.HasPrefix(strings.ToLower(location), "http:") {
				return nil, invalidMetadata(&connection.Fault{Reason: saml.ReasonEndpoint, Got: location, Expected: "an https URL"})
			}
		}
	}
	return metadata, nil
}

// invalidMetadata returns the response to metadata that cannot be used.
func invalidMetadata(fault *connection.Fault) error {
	message := fmt.Sprintf("cannot be used as metadata of an identity provider (%s)", fault.Reason)
	if fault.Got != "" {
		message += fmt.Sprintf(": it has %q", fault.Got)
	}
	if fault.Expected != "" {
		message += fmt.Sprintf("; send %s", fault.Expected)
	}
	refused := apierror.Bad("INVALID_METADATA", "/%s %s", memberMetadataXML, message)
	refused.Reason, refused.Faults = fault.Reason, []apierror.Fault{{Pointer: "/" + memberMetadataXML, Message: message}}
	return refused
}
