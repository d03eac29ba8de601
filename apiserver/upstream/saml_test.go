package upstream

import (
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/connection/saml"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/samlprovider"
	"github.com/cardea-iam/cardea/store/people"
)

// samlConnection returns a connection to the metadata of a provider.
func samlConnection(p *samlprovider.Provider, change func(*document.ConnectionSAML)) Connection {
	c := &document.ConnectionSAML{MetadataURL: p.URL + "/metadata", ServiceEntityID: "https://acme.example/saml"}
	if change != nil {
		change(c)
	}
	return Connection{Deployment: testDeployment, ID: 17, Connection: &document.Connection{Type: "SAML", Active: true, SAML: c}}
}

func TestSAMLMetadataAreAcceptedOrLeaveTheLastGoodOnes(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p, other := samlprovider.Start(time.Now), samlprovider.Start(time.Now)
	defer p.Close()
	defer other.Close()
	known, err := saml.ParseMetadata([]byte(p.Metadata()), saml.MetadataWanted{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	expiring := strings.Replace(p.Metadata(), "<md:IDPSSODescriptor", `<md:IDPSSODescriptor validUntil="`+now.Add(time.Hour).UTC().Format(time.RFC3339)+`"`, 1)
	for name, tc := range map[string]struct {
		entity, text string
		before       content
		want         string
		freshFor     time.Duration
	}{
		"the first":                        {text: p.Metadata(), freshFor: time.Hour},
		"the same entity":                  {text: p.Metadata(), before: content{saml: known}, freshFor: time.Hour},
		"with an end":                      {text: expiring, freshFor: time.Hour},
		"another entity":                   {text: other.Metadata(), before: content{saml: known}, want: "InvalidMetadata: entity_id"},
		"another entity, which is named":   {entity: other.URL, text: other.Metadata(), before: content{saml: known}, freshFor: time.Hour},
		"not the named entity":             {entity: "https://idp.example", text: p.Metadata(), want: "InvalidMetadata: entity_id"},
		"a document type":                  {text: "<!DOCTYPE x><x/>", want: "InvalidMetadata: xml"},
		"a text":                           {text: "none", want: "InvalidMetadata: xml"},
		"another document":                 {text: "<x/>", want: "InvalidMetadata: structure"},
		"metadata that are no longer used": {text: strings.Replace(p.Metadata(), "<md:IDPSSODescriptor", `<md:IDPSSODescriptor validUntil="2020-01-01T00:00:00Z"`, 1), want: "InvalidMetadata: valid_until"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := samlConnection(p, func(s *document.ConnectionSAML) { s.EntityID = tc.entity })
			src := samlSource(c.Connection)
			got, err := src.take(tc.text, tc.before, now)
			if tc.want != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
					t.Errorf("got %v, want %s", err, tc.want)
				}
				return
			}
			if err != nil || got.freshFor != tc.freshFor || !src.fits(got.content) {
				t.Fatalf("%+v, %v", got, err)
			}
			stored, err := src.parse(got.text)
			if err != nil || strings.Contains(got.text, "<") || !src.fits(stored) {
				t.Errorf("the stored text %s is read as %v, %v", got.text, stored, err)
			}
		})
	}
}

func TestSAMLMetadataAreNotUsedAfterTheirEnd(t *testing.T) {
	t.Parallel()
	now := time.Now()
	src := source{kind: people.UpstreamSAML, url: "https://idp.example", fits: func(content) bool { return true }}
	v := version{content: content{saml: &saml.Metadata{ValidUntil: now.Add(time.Minute)}}, url: src.url, fetchedAt: now}
	if !v.usable(src, now.Add(59*time.Second)) || v.usable(src, now.Add(time.Minute)) {
		t.Error("the end of the metadata is not observed")
	}
}

func TestDigestOfSAMLMetadataIgnoresTheirEnd(t *testing.T) {
	t.Parallel()
	one := document.SAMLMetadata{EntityID: "https://idp.example", Certificates: [][]byte{{1}}}
	later, rolled := one, one
	later.ValidUntil = time.Now()
	rolled.Certificates = [][]byte{{1}, {2}}
	if saml.Digest(one) != saml.Digest(later) || saml.Digest(one) == saml.Digest(rolled) {
		t.Error("the digest does not follow the certificates alone")
	}
}

func TestOriginOfSAMLMetadataChangesWithTheConnection(t *testing.T) {
	t.Parallel()
	p := samlprovider.Start(time.Now)
	defer p.Close()
	seen := map[string]string{}
	for name, change := range map[string]func(*document.ConnectionSAML){
		"a URL": nil, "an entity": func(s *document.ConnectionSAML) { s.EntityID = "https://idp.example" },
		"a ConfigMap": func(s *document.ConnectionSAML) { s.MetadataURL, s.Metadata = "", "<a/>" },
	} {
		of := origin(samlConnection(p, change))
		if before, found := seen[of]; found || of == "" {
			t.Errorf("%s has the origin of %s: %q", name, before, of)
		}
		seen[of] = name
	}
	if of := origin(samlConnection(p, func(s *document.ConnectionSAML) { s.MetadataURL, s.Given = "", &document.SAMLMetadata{} })); of != "" {
		t.Errorf("given metadata have the origin %q", of)
	}
}
