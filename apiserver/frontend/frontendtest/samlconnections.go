package frontendtest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"sync"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/testing/samlprovider"
)

// SAMLEntityID is the entity ID of the connections that DeclareSAML declares.
const SAMLEntityID = "https://acme.example/saml"

// SAMLKey is a key of a connection: the private key and the certificate in PEM.
type SAMLKey struct {
	Private, Certificate []byte
	Parsed               *x509.Certificate
}

// SAMLKeys are two keys of connections. Their making takes longer than most tests.
var SAMLKeys = sync.OnceValue(func() (keys [2]SAMLKey) {
	for i := range keys {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: "sp"}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			panic(err)
		}
		private, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			panic(err)
		}
		keys[i].Private = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
		keys[i].Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		if keys[i].Parsed, err = x509.ParseCertificate(der); err != nil {
			panic(err)
		}
	}
	return keys
})

// SAMLProvider starts an identity provider of SAML, which ends with the test.
func (w *World) SAMLProvider() *samlprovider.Provider {
	p := samlprovider.Start(w.Clock.Now)
	w.T.Cleanup(p.Close)
	return p
}

// DeclareSAML declares a connection of type SAML to a provider, which change may change, and returns its id.
func (w *World) DeclareSAML(slug string, p *samlprovider.Provider, change func(*document.Connection)) string {
	w.T.Helper()
	id := ids.Derive(v1alpha1.KindConnection, "acme", slug)
	c := document.Connection{
		Slug: slug, Type: "SAML", Name: slug, Active: true, Shown: true, Enforcement: string(v1alpha1.ConnectionEnforcementOptional), Membership: document.ConnectionMembership{JustInTime: true},
		SAML: &document.ConnectionSAML{MetadataURL: p.URL + "/metadata", ServiceEntityID: SAMLEntityID, SkewSeconds: document.DefaultSAMLSkewSeconds},
	}
	c.SAML.Keys = append(c.SAML.Keys, w.SealSAMLKey(id, SAMLKeys()[0]))
	if change != nil {
		change(&c)
	}
	w.Put(v1alpha1.KindConnection, slug, Deployment, slug, c)
	return ids.Format(id)
}

// SealSAMLKey returns a key as the document of a connection has it.
func (w *World) SealSAMLKey(id int64, key SAMLKey) document.SAMLKey {
	return document.SAMLKey{Certificate: string(key.Certificate), Sealed: w.Keyring.Seal(document.SealedConnectionSecret, ids.Format(id), key.Private)}
}
