package saml

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// keyDescriptor returns a KeyDescriptor with certificates; use "" for both uses.
func keyDescriptor(use string, signers ...signer) string {
	all := ""
	for _, s := range signers {
		all += "<ds:X509Certificate>\n  " + base64.StdEncoding.EncodeToString(s.cert.Raw) + "\n</ds:X509Certificate>"
	}
	attribute := ""
	if use != "" {
		attribute = fmt.Sprintf(" use=%q", use)
	}
	return fmt.Sprintf(`<md:KeyDescriptor%s><ds:KeyInfo><ds:X509Data>%s</ds:X509Data></ds:KeyInfo></md:KeyDescriptor>`, attribute, all)
}

// entity returns an EntityDescriptor of an identity provider.
func entity(id, attributes, keys string) string {
	return fmt.Sprintf(`<md:EntityDescriptor xmlns:md=%q xmlns:ds=%q entityID=%q %s>
  <md:IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:1.1:protocol urn:oasis:names:tc:SAML:2.0:protocol">
    %s
    <md:SingleLogoutService Binding="urn:oasis:names:tc:SAML:2.0:bindings:SOAP" Location="https://idp.globex.example/soap"/>
    <md:SingleLogoutService Binding=%q Location="https://idp.globex.example/slo" ResponseLocation="https://idp.globex.example/slo-response"/>
    <md:SingleLogoutService Binding=%q Location="https://idp.globex.example/slo-redirect"/>
    <md:SingleSignOnService Binding=%q Location="https://idp.globex.example/sso-post"/>
    <md:SingleSignOnService Binding=%q Location="https://idp.globex.example/sso?idpid=1"/>
  </md:IDPSSODescriptor>
</md:EntityDescriptor>`, nsMetadata, nsSignature, id, attributes, keys, BindingPost, BindingRedirect, BindingPost, BindingRedirect)
}

func entities(attributes string, all ...string) string {
	return fmt.Sprintf(`<md:EntitiesDescriptor xmlns:md=%q %s>%s</md:EntitiesDescriptor>`, nsMetadata, attributes, strings.Join(all, ""))
}

func TestMetadataIsRead(t *testing.T) {
	t.Parallel()
	k := keys()
	m, err := ParseMetadata([]byte("\ufeff<?xml version=\"1.0\" encoding=\"utf-8\"?>\n"+entity(testIDP, `validUntil="2026-11-28T12:00:00Z" cacheDuration="PT6H"`,
		keyDescriptor("signing", k.idp)+keyDescriptor("", k.next, k.idp)+keyDescriptor("encryption", k.attacker)+keyDescriptor("signing", k.weak))), MetadataWanted{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	want := &Metadata{
		EntityID: testIDP,
		SignOn: []Endpoint{
			{BindingPost, "https://idp.globex.example/sso-post", "https://idp.globex.example/sso-post"},
			{BindingRedirect, "https://idp.globex.example/sso?idpid=1", "https://idp.globex.example/sso?idpid=1"},
		},
		Logout: []Endpoint{
			{BindingPost, "https://idp.globex.example/slo", "https://idp.globex.example/slo-response"},
			{BindingRedirect, "https://idp.globex.example/slo-redirect", "https://idp.globex.example/slo-redirect"},
		},
		Certificates: provider(k.idp, k.next).Certificates, ValidUntil: now.Add(48 * time.Hour), CacheDuration: 6 * time.Hour,
	}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got %+v\nwant %+v", m, want)
	}
	if m.SignOnEndpoint() != want.SignOn[1] || m.SignOutURL() != want.Logout[1].URL || m.LogoutResponseURL() != "https://idp.globex.example/slo-response" {
		t.Error("other endpoints are preferred")
	}
	sums := []string{Fingerprint(k.idp.cert), Fingerprint(k.next.cert)}
	slices.Sort(sums)
	if !m.CertificateExpiry().Equal(k.idp.cert.NotAfter) || !slices.Equal(m.Fingerprints(), sums) || len(sums[0]) != 64 {
		t.Errorf("the certificates expire at %v: %v", m.CertificateExpiry(), m.Fingerprints())
	}
	post := &Metadata{SignOn: want.SignOn[:1]}
	if post.SignOnEndpoint() != want.SignOn[0] || post.SignOutURL() != "" || post.LogoutResponseURL() != "" {
		t.Error("an identity provider with HTTP-POST alone")
	}
}

func TestEntityOfSeveral(t *testing.T) {
	t.Parallel()
	k := keyDescriptor("signing", keys().idp)
	one, other := entity(testIDP, "", k), entity("https://other.example", "", k)
	for name, tc := range map[string]struct {
		xml      string
		id, last string
		reason   string // "" for accepted
	}{
		"the only one":                 {one, "", "", ""},
		"the only one, named":          {one, testIDP, "", ""},
		"the same as before":           {one, "", testIDP, ""},
		"the only one in a list":       {entities("", one), "", "", ""},
		"one of two":                   {entities("", other, one), testIDP, "", ""},
		"one of two, in another list":  {entities("", other, entities("", one)), testIDP, testIDP, ""},
		"two without a name":           {entities("", one, other), "", "", ReasonEntityID},
		"two, and the one before":      {entities("", one, other), "", testIDP, ReasonEntityID},
		"a name that is absent":        {entities("", one, other), "https://third.example", "", ReasonEntityID},
		"a name that is there twice":   {entities("", one, one), testIDP, "", ReasonEntityID},
		"another than before":          {other, "", testIDP, ReasonEntityID},
		"another than before, named":   {other, "https://other.example", testIDP, ReasonEntityID},
		"an empty list":                {entities(""), "", "", ReasonEntityID},
		"no entity ID":                 {entity("", "", k), "", "", ReasonEntityID},
		"an entity ID of 1025 bytes":   {entity(strings.Repeat("x", 1025), "", k), "", "", ReasonEntityID},
		"another document":             {"<html/>", "", "", ReasonStructure},
		"a service provider":           {strings.ReplaceAll(one, "IDPSSODescriptor", "SPSSODescriptor"), "", "", ReasonStructure},
		"an identity provider, SAML 1": {strings.ReplaceAll(one, " urn:oasis:names:tc:SAML:2.0:protocol", ""), "", "", ReasonStructure},
		"two roles":                    {strings.Replace(one, "</md:IDPSSODescriptor>", `</md:IDPSSODescriptor><md:IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol"/>`, 1), "", "", ReasonStructure},
	} {
		m, err := ParseMetadata([]byte(tc.xml), MetadataWanted{EntityID: tc.id, Before: tc.last, Now: now})
		if tc.reason != "" {
			expectFault(t, name, m, err, tc.reason)
		} else if err != nil || m.EntityID != testIDP {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

func TestMetadataThatIsRefused(t *testing.T) {
	t.Parallel()
	k := keys()
	right := entity(testIDP, "", keyDescriptor("signing", k.idp))
	location := func(url string) string {
		return strings.ReplaceAll(right, "https://idp.globex.example/sso-post", url)
	}
	many := make([]signer, 0, maxCertificates+1)
	for range maxCertificates + 1 {
		many = append(many, newSigner(k.p256.key))
	}
	for name, tc := range map[string]struct{ xml, reason string }{
		"over":                    {entity(testIDP, `validUntil="2026-11-26T12:00:00Z"`, keyDescriptor("", k.idp)), ReasonValidUntil},
		"over, of the list":       {entities(`validUntil="2026-11-26T11:00:00Z"`, right), ReasonValidUntil},
		"over, of the role":       {strings.Replace(right, "<md:IDPSSODescriptor", `<md:IDPSSODescriptor validUntil="2020-01-01T00:00:00Z"`, 1), ReasonValidUntil},
		"no time":                 {entity(testIDP, `validUntil="soon"`, keyDescriptor("", k.idp)), ReasonValidUntil},
		"no certificate":          {entity(testIDP, "", ""), ReasonCertificates},
		"for encryption alone":    {entity(testIDP, "", keyDescriptor("encryption", k.idp)), ReasonCertificates},
		"weak ones alone":         {entity(testIDP, "", keyDescriptor("", k.weak, k.p224)), ReasonCertificates},
		"17 certificates":         {entity(testIDP, "", keyDescriptor("", many...)), ReasonCertificates},
		"17 weak certificates":    {entity(testIDP, "", keyDescriptor("", k.idp)+strings.Repeat(keyDescriptor("", k.weak), 17)), ReasonCertificates},
		"a certificate of 17 KiB": {entity(testIDP, "", keyDescriptor("", k.idp, signer{cert: certificateOf(t, 17<<10)})), ReasonCertificates},
		"an IPv6 zone":            {location("https://[fe80::1%25a%20;x]/"), ReasonEndpoint},
		"an IPv6 zone of letters": {location("https://[fe80::1%25eth0]/"), ReasonEndpoint},
		"a host with a semicolon": {location("https://idp.example;x/"), ReasonEndpoint},
		"a host with a quote":     {location("https://idp.example'/"), ReasonEndpoint},
		"an encoded host":         {location("https://idp%E2%80%8B.example/"), ReasonEndpoint},
		"not base64":              {strings.Replace(right, "<ds:X509Certificate>", "<ds:X509Certificate>%", 1), ReasonCertificates},
		"no X.509":                {strings.Replace(right, "<ds:X509Certificate>", "<ds:X509Certificate>AAAA", 1), ReasonCertificates},
		"no sign-on":              {strings.ReplaceAll(right, "SingleSignOnService", "ArtifactResolutionService"), ReasonEndpoint},
		"other bindings":          {strings.ReplaceAll(strings.ReplaceAll(right, "HTTP-POST", "SOAP"), "HTTP-Redirect", "PAOS"), ReasonEndpoint},
		"http":                    {location("http://idp.globex.example/sso"), ReasonEndpoint},
		"javascript":              {location("javascript:alert(1)"), ReasonEndpoint},
		"a path":                  {location("/sso"), ReasonEndpoint},
		"a fragment":              {location("https://idp.globex.example/#x"), ReasonEndpoint},
		"a password":              {location("https://user:pass@idp.globex.example/"), ReasonEndpoint},
		"no location":             {location(""), ReasonEndpoint},
		"a location of 2 KiB":     {location("https://idp.globex.example/" + strings.Repeat("x", 2048)), ReasonEndpoint},
		"a response by http":      {strings.Replace(right, "https://idp.globex.example/slo-response", "http://idp.globex.example", 1), ReasonEndpoint},
		"17 endpoints":            {strings.Replace(right, "<md:SingleSignOnService", strings.Repeat(`<md:SingleSignOnService Binding="`+BindingPost+`" Location="https://idp.globex.example/"/>`, 17)+"<md:SingleSignOnService", 1), ReasonEndpoint},
		"more than 1 MiB":         {right + strings.Repeat(" ", 1<<20), ReasonXML},
		"20,001 elements":         {strings.Replace(right, "</md:IDPSSODescriptor>", strings.Repeat("<x/>", 20_000)+"</md:IDPSSODescriptor>", 1), ReasonXML},
		"a DOCTYPE":               {"<!DOCTYPE x>" + right, ReasonXML},
		"a stylesheet":            {`<?xml-stylesheet href="x"?>` + right, ReasonXML},
		"elements of 33 levels":   {strings.Replace(right, "</md:IDPSSODescriptor>", strings.Repeat("<x>", 31)+strings.Repeat("</x>", 31)+"</md:IDPSSODescriptor>", 1), ReasonXML},
		"a namespace like ours":   {strings.Replace(right, nsMetadata, nsMetadata+"x", 1), ReasonStructure},
		"certificates elsewhere":  {strings.ReplaceAll(right, nsSignature, "urn:other"), ReasonCertificates},
	} {
		m, err := ParseMetadata([]byte(tc.xml), MetadataWanted{Now: now})
		expectFault(t, name, m, err, tc.reason)
	}
	for name, url := range map[string]string{"localhost": "http://localhost:1/sso", "loopback": "http://127.0.0.1/sso", "IPv6 loopback": "http://[::1]:8080/sso", "a port": "https://idp-1.Globex.example:8443/sso?a=;%25"} {
		if _, err := ParseMetadata([]byte(location(url)), MetadataWanted{Now: now}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// certificateOf returns a certificate of about a number of bytes.
func certificateOf(t *testing.T, size int) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3, 4}, Value: make([]byte, size)}}}
	key := keys().p256.key
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func TestCertificateOf15KiBIsRead(t *testing.T) {
	t.Parallel()
	large := certificateOf(t, 15<<10)
	m, err := ParseMetadata([]byte(entity(testIDP, "", keyDescriptor("", signer{cert: large}))), MetadataWanted{Now: now})
	if err != nil || len(m.Certificates) != 1 || !m.Certificates[0].Equal(large) {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestWhenMetadataIsFetchedAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		attributes string
		want       time.Duration
	}{
		"it does not say":       {"", time.Hour},
		"a short cache":         {`cacheDuration="PT1M"`, time.Hour},
		"a cache":               {`cacheDuration="PT3H30M"`, 3*time.Hour + 30*time.Minute},
		"a cache in seconds":    {`cacheDuration="PT43200S"`, 12 * time.Hour},
		"a cache with a part":   {`cacheDuration="PT7200.5S"`, 2 * time.Hour},
		"a long cache":          {`cacheDuration="P1Y2M3D"`, 24 * time.Hour},
		"a cache of days":       {`cacheDuration="P1D"`, 24 * time.Hour},
		"a large number":        {`cacheDuration="P99999Y99999M99999DT99999H99999M99999999S"`, 24 * time.Hour},
		"a negative cache":      {`cacheDuration="-PT6H"`, time.Hour},
		"no duration":           {`cacheDuration="6 hours"`, time.Hour},
		"an empty duration":     {`cacheDuration="PT"`, time.Hour},
		"an end":                {`validUntil="2026-11-26T22:00:00Z"`, 5 * time.Hour},
		"an end before a cache": {`validUntil="2026-11-26T22:00:00Z" cacheDuration="PT8H"`, 5 * time.Hour},
		"an end in a minute":    {`validUntil="2026-11-26T12:01:00Z"`, time.Hour},
		"an end in a year":      {`validUntil="2027-11-26T12:01:00Z"`, 24 * time.Hour},
	} {
		m, err := ParseMetadata([]byte(entity(testIDP, tc.attributes, keyDescriptor("", keys().idp))), MetadataWanted{Now: now})
		if err != nil || m.RefreshIn(now) != tc.want {
			t.Errorf("%s: %v, %v, want %v", name, m.RefreshIn(now), err, tc.want)
		}
	}
}
