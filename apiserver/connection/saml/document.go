package saml

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
)

// Document returns what the store keeps of metadata. Equal metadata has equal documents, whatever their XML was.
func (m *Metadata) Document() document.SAMLMetadata {
	d := document.SAMLMetadata{EntityID: m.EntityID, SignOn: stored(m.SignOn), Logout: stored(m.Logout), ValidUntil: m.ValidUntil}
	for _, certificate := range m.Certificates {
		d.Certificates = append(d.Certificates, certificate.Raw)
	}
	return d
}

func stored(endpoints []Endpoint) (all []document.SAMLEndpoint) {
	for _, e := range endpoints {
		all = append(all, document.SAMLEndpoint{Binding: e.Binding, URL: e.URL, ResponseURL: e.ResponseURL})
	}
	return all
}

// OfDocument returns the metadata of a document. The error says what is missing: another version wrote the document.
func OfDocument(d document.SAMLMetadata) (*Metadata, error) {
	m := &Metadata{EntityID: d.EntityID, ValidUntil: d.ValidUntil}
	for _, e := range d.SignOn {
		m.SignOn = append(m.SignOn, Endpoint{Binding: e.Binding, URL: e.URL, ResponseURL: e.ResponseURL})
	}
	for _, e := range d.Logout {
		m.Logout = append(m.Logout, Endpoint{Binding: e.Binding, URL: e.URL, ResponseURL: e.ResponseURL})
	}
	for _, der := range d.Certificates {
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("a stored certificate: %w", err)
		}
		m.Certificates = append(m.Certificates, certificate)
	}
	if m.EntityID == "" || m.SignOnEndpoint().URL == "" || len(m.Certificates) == 0 {
		return nil, fmt.Errorf("stored metadata of %q has no entity ID, endpoint or certificate", clip(d.EntityID))
	}
	return m, nil
}

// Digest returns the SHA-256 of a document, in hexadecimal digits. It does not cover ValidUntil, which providers move
// forward with each answer.
func Digest(d document.SAMLMetadata) string {
	d.ValidUntil = time.Time{}
	raw, _ := json.Marshal(d) // texts and bytes: it does not fail
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
