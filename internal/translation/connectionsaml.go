package translation

import (
	"cmp"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

// subjectNameID is the value of spec.saml.subject that stands for the NameID, as an absent subject does.
const subjectNameID = "NameID"

// nameIDFormats are the URNs of the formats (SAML 2.0 Core 8.3).
var nameIDFormats = map[v1alpha1.NameIDFormat]string{
	v1alpha1.NameIDFormatPersistent:   "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent",
	v1alpha1.NameIDFormatEmailAddress: "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress",
}

// SAMLParts are what a connection of type SAML has from outside its resource.
type SAMLParts struct {
	// Service are its URLs.
	Service SAMLService
	// Metadata is the text of the ConfigMap that it names, "" if it names none.
	Metadata string
	// Keys are its sealed keys, none for an inactive connection.
	Keys []document.SAMLKey
}

// SAMLConnection translates a Connection of type SAML.
func SAMLConnection(c *v1alpha1.Connection, parts SAMLParts) document.Connection {
	content, s := Connection(c, ""), c.Spec.SAML
	content.SAML = &document.ConnectionSAML{
		MetadataURL: string(ptr.Deref(s.MetadataURL, "")), Metadata: parts.Metadata, EntityID: string(ptr.Deref(s.EntityID, "")),
		ServiceEntityID: parts.Service.EntityID, NameIDFormat: nameIDFormats[ptr.Deref(s.NameIDFormat, "")],
		Encrypted:  ptr.Deref(s.Encryption, v1alpha1.AssertionEncryptionOptional) == v1alpha1.AssertionEncryptionRequired,
		ForceAuthn: ptr.Deref(s.ForceAuthn, false), Restarts: ptr.Deref(s.IdPInitiated, v1alpha1.IdPInitiatedRefuse) == v1alpha1.IdPInitiatedRestart,
		SkewSeconds: int64(ptr.Deref(s.ClockSkewSeconds, document.DefaultSAMLSkewSeconds)), Keys: parts.Keys,
	}
	if subject := word(s.Subject); subject != subjectNameID {
		content.SAML.Subject = subject
	}
	return content
}

// SAMLService is a connection of type SAML as a service provider.
type SAMLService struct {
	// EntityID is never "". MetadataURL and ACSURLs are empty if the deployment has no frontend host.
	EntityID, MetadataURL string
	ACSURLs               []string
}

// SAMLServiceOf returns the entity ID and the URLs of a connection of type SAML on the origins of its deployment's
// frontend hosts.
func SAMLServiceOf(c *v1alpha1.Connection, id int64, origins []string) (s SAMLService) {
	path := ConnectionPath(id)
	for _, origin := range origins {
		s.ACSURLs = append(s.ACSURLs, origin+path+"/acs")
	}
	if len(origins) > 0 {
		s.MetadataURL = origins[0] + path + "/metadata"
	}
	// Without a frontend host, no user signs in, and the path stands for the entity ID.
	s.EntityID = cmp.Or(string(ptr.Deref(c.Spec.SAML.SPEntityID, "")), s.MetadataURL, path+"/metadata")
	return s
}
