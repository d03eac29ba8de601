package connection

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
)

func pointer[T any](v T) *T { return &v }

func of(url, entity, certificate string) SAMLProvider {
	p := SAMLProvider{MetadataURL: url}
	if entity != "" {
		p.Given = &document.SAMLMetadata{EntityID: entity, Certificates: [][]byte{[]byte(certificate)}}
	}
	return p
}

func TestContentOfASAMLConnection(t *testing.T) {
	t.Parallel()
	given := of("", "https://idp.example", "a")
	for name, tc := range map[string]struct {
		provider SAMLProvider
		issuer   string
	}{
		"metadata URL":   {of("https://idp.example/metadata", "", ""), ""},
		"given metadata": {given, "https://idp.example"},
		"nothing yet":    {SAMLProvider{}, ""},
	} {
		s := Settings{
			Type: TypeSAML, Name: "Globex", Enforcement: "Optional", JustInTime: true,
			SAML: &SAMLSettings{SAMLProvider: tc.provider, ServiceEntityID: "https://acme.example/sso/7/metadata", Certificate: "the certificate"},
		}
		read, err := ReadSettings(s.String())
		if err != nil || !reflect.DeepEqual(read, s) {
			t.Errorf("%s: the row has %+v, %v", name, read, err)
		}
		want := &document.Connection{
			Slug: "c-7", Type: "SAML", Name: "Globex", Active: true, Shown: true, Organization: "globex", Enforcement: "Optional",
			Membership: document.ConnectionMembership{JustInTime: true}, Provider: document.UpstreamProvider{Issuer: tc.issuer},
			SAML: &document.ConnectionSAML{
				MetadataURL: tc.provider.MetadataURL, Given: tc.provider.Given, ServiceEntityID: "https://acme.example/sso/7/metadata", SkewSeconds: 60,
				Keys: []document.SAMLKey{{Certificate: "the certificate", Sealed: "the sealed key"}},
			},
		}
		if got := read.Content("c-7", true, "globex", "the sealed key"); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestSettingsOfOIDCHaveNoMembersOfSAML(t *testing.T) {
	t.Parallel()
	s := Settings{Type: TypeOIDC, Name: "Globex", Issuer: "https://idp.example", ClientID: "a"}
	var members map[string]any
	if err := json.Unmarshal([]byte(s.String()), &members); err != nil {
		t.Fatal(err)
	}
	if _, has := members["saml"]; has {
		t.Error("the row has saml")
	}
	if c := s.Content("c-7", true, "", "s"); c.SAML != nil || c.Client.Sealed != "s" || len(c.Scopes) == 0 {
		t.Errorf("%+v", c)
	}
}

func TestSettingsAreComplete(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		settings Settings
		secrets  string
		want     bool
	}{
		"OIDC":                  {Settings{Issuer: "i", ClientID: "c"}, "s", true},
		"OIDC without secret":   {Settings{Issuer: "i", ClientID: "c"}, "", false},
		"OIDC without issuer":   {Settings{ClientID: "c"}, "s", false},
		"OIDC without client":   {Settings{Issuer: "i"}, "s", false},
		"SAML by URL":           {Settings{SAML: &SAMLSettings{SAMLProvider: of("u", "", "")}}, "s", true},
		"SAML by metadata":      {Settings{SAML: &SAMLSettings{SAMLProvider: of("", "e", "")}}, "s", true},
		"SAML without provider": {Settings{SAML: &SAMLSettings{}}, "s", false},
		"SAML without key":      {Settings{SAML: &SAMLSettings{SAMLProvider: of("u", "", "")}}, "", false},
	} {
		if got := tc.settings.IsComplete(tc.secrets); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A change moves a connection to another provider if the key of its identities may change. It changes the provider, so
// that a test is needed again, if anything that is known of it changes.
func TestChangesOfTheProvider(t *testing.T) {
	t.Parallel()
	oidc := Settings{Type: TypeOIDC, Issuer: "https://a.example", ClientID: "c"}
	saml := func(p SAMLProvider) Settings {
		return Settings{Type: TypeSAML, SAML: &SAMLSettings{SAMLProvider: p, ServiceEntityID: "sp", Certificate: "own"}}
	}
	for name, tc := range map[string]struct {
		now            Settings
		change         Change
		moves, changes bool
	}{
		"name alone":              {oidc, Change{Name: pointer("n")}, false, false},
		"same issuer":             {oidc, Change{Issuer: pointer("https://a.example")}, false, false},
		"another issuer":          {oidc, Change{Issuer: pointer("https://b.example")}, true, true},
		"first issuer":            {Settings{Type: TypeOIDC}, Change{Issuer: pointer("https://a.example")}, false, true},
		"another secret":          {oidc, Change{ClientSecret: pointer("s")}, false, true},
		"SAML, name alone":        {saml(of("u", "", "")), Change{Name: pointer("n")}, false, false},
		"SAML, first URL":         {saml(SAMLProvider{}), Change{SAML: pointer(of("u", "", ""))}, false, true},
		"SAML, same URL":          {saml(of("u", "", "")), Change{SAML: pointer(of("u", "", ""))}, false, false},
		"SAML, another URL":       {saml(of("u", "", "")), Change{SAML: pointer(of("v", "", ""))}, true, true},
		"SAML, URL to metadata":   {saml(of("u", "", "")), Change{SAML: pointer(of("", "e", "a"))}, true, true},
		"SAML, metadata to URL":   {saml(of("", "e", "a")), Change{SAML: pointer(of("u", "", ""))}, true, true},
		"SAML, same metadata":     {saml(of("", "e", "a")), Change{SAML: pointer(of("", "e", "a"))}, false, false},
		"SAML, rolled over":       {saml(of("", "e", "a")), Change{SAML: pointer(of("", "e", "b"))}, false, true},
		"SAML, another entity":    {saml(of("", "e", "a")), Change{SAML: pointer(of("", "f", "a"))}, true, true},
		"SAML, entity like a URL": {saml(of("u", "", "")), Change{SAML: pointer(of("", "u", "a"))}, true, true},
	} {
		if got := tc.change.MovesProvider(tc.now); got != tc.moves {
			t.Errorf("%s: moves %t", name, got)
		}
		if got := tc.change.ChangesProvider(tc.now); got != tc.changes {
			t.Errorf("%s: changes %t", name, got)
		}
		next := tc.change.Apply(tc.now)
		if next.SAML != nil && (next.SAML.ServiceEntityID != "sp" || next.SAML.Certificate != "own") {
			t.Errorf("%s: the own settings became %+v", name, next.SAML)
		}
		if tc.change.SAML != nil && !reflect.DeepEqual(next.SAML.SAMLProvider, *tc.change.SAML) {
			t.Errorf("%s: %+v", name, next.SAML)
		}
	}
}

func TestChangeFitsTheType(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change     Change
		oidc, saml bool
	}{
		"name":          {Change{Name: pointer("n")}, true, true},
		"issuer":        {Change{Issuer: pointer("i")}, true, false},
		"client id":     {Change{ClientID: pointer("i")}, true, false},
		"client secret": {Change{ClientSecret: pointer("i")}, true, false},
		"metadata":      {Change{SAML: &SAMLProvider{}}, false, true},
	} {
		if tc.change.Fits(TypeOIDC) != tc.oidc || tc.change.Fits(TypeSAML) != tc.saml {
			t.Errorf("%s: OIDC %t, SAML %t", name, tc.change.Fits(TypeOIDC), tc.change.Fits(TypeSAML))
		}
	}
}

func TestFaultsOfEndpointsAndEntityIDs(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]bool{
		"https://idp.example/metadata?appid=1": true, "http://127.0.0.1:8080/m": true, "http://localhost/m": true, "http://idp.example/m": false,
		"https://u@idp.example/": false, "https://idp.example/#a": false, "ftp://idp.example": false, "https://": false, "": false, "https://idp.example/ m": false,
		"https://idp.example/" + strings.Repeat("a", 2048): false, "https://[fe80::1%25a%20;x]/": false, "https://[fe80::1%25eth0]/": false, "https://idp.example;x/": false,
		"https://idp%E2%80%8B.example/": false, "https://[2001:db8::1]:8443/m": true, "https://Idp-1.example:8443/m;a": true,
	} {
		if got := EndpointFault(endpoint, true) == ""; got != want {
			t.Errorf("%.40s: %t", endpoint, got)
		}
	}
	if EndpointFault("http://127.0.0.1/m", false) == "" {
		t.Error("http is accepted in production")
	}
	for id, want := range map[string]bool{"https://idp.example": true, "urn:a": true, "": false, " a": false, "a\nb": false, strings.Repeat("a", 1025): false} {
		if got := EntityIDFault(id) == ""; got != want {
			t.Errorf("%.40q: %t", id, got)
		}
	}
}
