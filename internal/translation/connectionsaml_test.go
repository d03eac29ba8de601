package translation

import (
	"reflect"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

func samlConnection(saml v1alpha1.SAMLProvider, change func(*v1alpha1.ConnectionSpec)) *v1alpha1.Connection {
	c := &v1alpha1.Connection{Spec: v1alpha1.ConnectionSpec{Slug: "globex", Type: v1alpha1.ConnectionTypeSAML, SAML: &saml}}
	if change != nil {
		change(&c.Spec)
	}
	return c
}

func TestConnectionsOfTypeSAML(t *testing.T) {
	const metadata = v1alpha1.UpstreamURL("https://globex.example/saml/metadata")
	service := SAMLService{EntityID: "https://id.acme.example/sso/7/metadata"}
	for name, tc := range map[string]struct {
		c     *v1alpha1.Connection
		parts SAMLParts
		want  document.Connection
	}{
		"nothing optional": {
			samlConnection(v1alpha1.SAMLProvider{MetadataURL: ptr.To(metadata)}, nil), SAMLParts{Service: service},
			document.Connection{Name: "globex", SAML: &document.ConnectionSAML{MetadataURL: string(metadata), ServiceEntityID: service.EntityID, SkewSeconds: 60}},
		},
		"everything": {
			samlConnection(v1alpha1.SAMLProvider{
				MetadataConfigMapRef: &v1alpha1.ConfigMapKeyReference{Name: "globex", Key: "metadata.xml"}, EntityID: ptr.To[v1alpha1.SAMLEntityID]("https://globex.example/saml"),
				Subject: ptr.To[v1alpha1.ClaimName]("uid"), NameIDFormat: ptr.To(v1alpha1.NameIDFormatPersistent), Encryption: ptr.To(v1alpha1.AssertionEncryptionRequired),
				ForceAuthn: ptr.To(true), IdPInitiated: ptr.To(v1alpha1.IdPInitiatedRestart), ClockSkewSeconds: ptr.To[int32](0),
			}, func(s *v1alpha1.ConnectionSpec) {
				s.DisplayName = ptr.To[v1alpha1.DisplayName]("Globex")
				s.Attributes = &v1alpha1.ConnectionAttributes{Email: ptr.To[v1alpha1.ClaimName]("mail")}
				s.EmailProof = ptr.To(v1alpha1.EmailProofUpstream) // which an assertion cannot give
				s.Assurance = &v1alpha1.ConnectionAssurance{ACR: []string{"urn:gold"}}
				s.AuthorizationParameters = []v1alpha1.AuthorizationParameter{{Name: "acr_values", Value: "urn:gold"}}
			}),
			SAMLParts{Service: service, Metadata: "<xml>", Keys: []document.SAMLKey{{Certificate: "c", Sealed: "s"}}},
			document.Connection{
				Name: "Globex", Attributes: document.ConnectionAttributes{Email: "mail"}, ACR: []string{"urn:gold"},
				Parameters: []document.Parameter{{Name: "acr_values", Value: "urn:gold"}}, Provider: document.UpstreamProvider{Issuer: "https://globex.example/saml"},
				SAML: &document.ConnectionSAML{
					Metadata: "<xml>", EntityID: "https://globex.example/saml", ServiceEntityID: service.EntityID, Subject: "uid",
					NameIDFormat: "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent", Encrypted: true, ForceAuthn: true, Restarts: true,
					Keys: []document.SAMLKey{{Certificate: "c", Sealed: "s"}},
				},
			},
		},
		"what absent fields stand for": {
			samlConnection(v1alpha1.SAMLProvider{
				MetadataURL: ptr.To(metadata), Subject: ptr.To[v1alpha1.ClaimName]("NameID"), NameIDFormat: ptr.To(v1alpha1.NameIDFormatEmailAddress),
				Encryption: ptr.To(v1alpha1.AssertionEncryptionOptional), ForceAuthn: ptr.To(false), IdPInitiated: ptr.To(v1alpha1.IdPInitiatedRefuse), ClockSkewSeconds: ptr.To[int32](300),
			}, nil), SAMLParts{Service: service},
			document.Connection{Name: "globex", SAML: &document.ConnectionSAML{
				MetadataURL: string(metadata), ServiceEntityID: service.EntityID, SkewSeconds: 300,
				NameIDFormat: "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress",
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.want.Slug, tc.want.Type, tc.want.Active, tc.want.Shown, tc.want.Enforcement = "globex", "SAML", true, true, "Optional"
			if got := SAMLConnection(tc.c, tc.parts); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got  %+v %+v\nwant %+v %+v", got, got.SAML, tc.want, tc.want.SAML)
			}
		})
	}
}

func TestServiceOfAConnectionOfTypeSAML(t *testing.T) {
	const first, second = "https://id.acme.example", "https://login.acme.example"
	path := ConnectionPath(7)
	moved := samlConnection(v1alpha1.SAMLProvider{SPEntityID: ptr.To[v1alpha1.SAMLEntityID]("https://old.example/sp")}, nil)
	plain := samlConnection(v1alpha1.SAMLProvider{}, nil)
	acs := []string{first + path + "/acs", second + path + "/acs"}
	for name, tc := range map[string]struct {
		c       *v1alpha1.Connection
		origins []string
		want    SAMLService
	}{
		"two hosts":                         {plain, []string{first, second}, SAMLService{EntityID: first + path + "/metadata", MetadataURL: first + path + "/metadata", ACSURLs: acs}},
		"an entity that is known elsewhere": {moved, []string{first, second}, SAMLService{EntityID: "https://old.example/sp", MetadataURL: first + path + "/metadata", ACSURLs: acs}},
		"no host":                           {plain, nil, SAMLService{EntityID: path + "/metadata"}},
	} {
		if got := SAMLServiceOf(tc.c, 7, tc.origins); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, tc.want)
		}
	}
}
