package saml

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/beevik/etree"
)

func TestMetadataOfTheServiceProvider(t *testing.T) {
	t.Parallel()
	k := keys()
	sp := ServiceProvider{
		EntityID: testSP, ACSURLs: []string{testACS, "https://b.example/sso/conn_1/acs?a=1&b=2"}, LogoutURLs: []string{testSLO}, Keys: []Key{k.sp, k.spNext},
		NameIDFormat: FormatPersistent,
	}
	raw, err := sp.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := sp.Metadata(); err != nil || !bytes.Equal(raw, again) {
		t.Error("equal values give other bytes")
	}
	root, err := parse(raw, metadataBounds)
	if err != nil {
		t.Fatal(err)
	}
	role, err := required(root, nsMetadata, "SPSSODescriptor")
	if err != nil || attribute(root, "entityID") != testSP || attribute(role, "AuthnRequestsSigned") != "true" || attribute(role, "WantAssertionsSigned") != "true" ||
		attribute(role, "protocolSupportEnumeration") != nsProtocol {
		t.Fatalf("%s, %v", raw, err)
	}
	var uses []string
	for i, descriptor := range children(role, nsMetadata, "KeyDescriptor") {
		uses = append(uses, attribute(descriptor, "use"))
		der, err := base64.StdEncoding.DecodeString(compact(at(descriptor, "X509Certificate")))
		if err != nil || !bytes.Equal(der, sp.Keys[i%2].Certificate.Raw) {
			t.Errorf("KeyDescriptor %d has another certificate", i)
		}
		if first := at(descriptor, "EncryptionMethod"); (uses[i] == "encryption") != (first != nil) || first != nil && attribute(first, "Algorithm") != ns11+"aes256-gcm" {
			t.Errorf("KeyDescriptor %d has other methods", i)
		}
	}
	if strings.Join(uses, " ") != "signing signing encryption encryption" {
		t.Errorf("the uses are %v", uses)
	}
	for i, acs := range children(role, nsMetadata, "AssertionConsumerService") {
		if attribute(acs, "Binding") != BindingPost || attribute(acs, "Location") != sp.ACSURLs[i] || attribute(acs, "index") != []string{"0", "1"}[i] || (attribute(acs, "isDefault") == "true") != (i == 0) {
			t.Errorf("%s", render(acs))
		}
	}
	if slo := at(role, "SingleLogoutService"); attribute(slo, "Binding") != BindingPost || attribute(slo, "Location") != testSLO || word(at(role, "NameIDFormat")) != FormatPersistent {
		t.Error("another logout endpoint or format")
	}
	order := ""
	for _, el := range role.ChildElements() {
		if !strings.HasSuffix(order, el.Tag+" ") {
			order += el.Tag + " "
		}
	}
	if order != "KeyDescriptor SingleLogoutService NameIDFormat AssertionConsumerService " { // the order of the schema
		t.Errorf("the order is %s", order)
	}
}

// The metadata has no private key, and escapes what it is given.
func TestMetadataOfTheServiceProviderEscapes(t *testing.T) {
	t.Parallel()
	raw, err := ServiceProvider{EntityID: `"><x a="&`, ACSURLs: []string{`"'<>&`}, Keys: []Key{keys().sp}}.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	root, err := parse(raw, metadataBounds)
	if err != nil || attribute(root, "entityID") != `"><x a="&` || attribute(at(root, "AssertionConsumerService"), "Location") != `"'<>&` {
		t.Errorf("%s, %v", raw, err)
	}
	_ = walk(root, func(el *etree.Element) error {
		if der, err := base64.StdEncoding.DecodeString(compact(el)); el.Tag == "X509Certificate" && err == nil {
			if _, err := x509.ParseCertificate(der); err != nil {
				t.Error("it has something other than a certificate")
			}
		}
		return nil
	})
}
