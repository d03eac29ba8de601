package saml

import (
	"encoding/base64"
	"strconv"

	"github.com/beevik/etree"
)

// ServiceProvider is what identity providers are configured with.
type ServiceProvider struct {
	EntityID string
	// ACSURLs and LogoutURLs are those of each host, the first host first. LogoutURLs may be empty.
	ACSURLs, LogoutURLs []string
	// Keys are the key that signs now, and during a rotation the next one.
	Keys []Key
	// NameIDFormat is the format that requests ask for, "" for none.
	NameIDFormat string
}

// Metadata returns the metadata document of the service provider. Equal values give equal bytes.
func (sp ServiceProvider) Metadata() ([]byte, error) {
	doc := etree.NewDocument()
	doc.CreateProcInst("xml", `version="1.0" encoding="UTF-8"`)
	entity := doc.CreateElement("md:EntityDescriptor")
	entity.CreateAttr("xmlns:md", nsMetadata)
	entity.CreateAttr("xmlns:ds", nsSignature)
	entity.CreateAttr("entityID", sp.EntityID)
	role := entity.CreateElement("md:SPSSODescriptor")
	role.CreateAttr("AuthnRequestsSigned", "true")
	role.CreateAttr("WantAssertionsSigned", "true")
	role.CreateAttr("protocolSupportEnumeration", nsProtocol)
	for _, use := range []string{"signing", "encryption"} {
		for _, key := range sp.Keys {
			describe(role, use, key)
		}
	}
	for _, location := range sp.LogoutURLs {
		logout := role.CreateElement("md:SingleLogoutService")
		logout.CreateAttr("Binding", BindingPost)
		logout.CreateAttr("Location", location)
	}
	if sp.NameIDFormat != "" {
		role.CreateElement("md:NameIDFormat").SetText(sp.NameIDFormat)
	}
	for i, location := range sp.ACSURLs {
		acs := role.CreateElement("md:AssertionConsumerService")
		acs.CreateAttr("Binding", BindingPost)
		acs.CreateAttr("Location", location)
		acs.CreateAttr("index", strconv.Itoa(i))
		if i == 0 {
			acs.CreateAttr("isDefault", "true")
		}
	}
	doc.Indent(2)
	return doc.WriteToBytes()
}

// describe adds a KeyDescriptor. Of the encryption methods, the preferred ones are first.
func describe(role *etree.Element, use string, key Key) {
	descriptor := role.CreateElement("md:KeyDescriptor")
	descriptor.CreateAttr("use", use)
	descriptor.CreateElement("ds:KeyInfo").CreateElement("ds:X509Data").CreateElement("ds:X509Certificate").
		SetText(base64.StdEncoding.EncodeToString(key.Certificate.Raw))
	if use != "encryption" {
		return
	}
	for _, name := range []string{ns11 + "aes256-gcm", ns11 + "aes128-gcm", nsEncryption + "aes256-cbc", nsEncryption + "aes128-cbc", rsaOAEPMGF1, rsaOAEP} {
		descriptor.CreateElement("md:EncryptionMethod").CreateAttr("Algorithm", name)
	}
}
