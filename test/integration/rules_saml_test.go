package integration

import (
	. "github.com/onsi/ginkgo/v2"
)

const samlURL = `metadataURL: "https://globex.example/saml/metadata"`

// ofSAML returns an overlay of a connection of type SAML with members of saml.
func ofSAML(members string) string {
	return "type: SAML\noidc: null\nclient: null\nsaml: {" + members + "}\n"
}

func samlEntries() []TableEntry {
	const (
		configMap = "metadataConfigMapRef: {name: globex, key: metadata.xml}"
		oneOf     = "the metadata comes from metadataURL or from metadataConfigMapRef: write exactly one of them"
	)
	with := func(more string) string { return ofSAML(samlURL + ", " + more) }
	return []TableEntry{
		Entry("SAML by URL", ofSAML(samlURL)), Entry("SAML by ConfigMap", ofSAML(configMap)),
		Entry("SAML without metadata", ofSAML(""), "spec.saml", oneOf), Entry("SAML with two metadata", with(configMap), "spec.saml", oneOf),
		Entry("a ConfigMap without key", ofSAML("metadataConfigMapRef: {name: globex}"), "spec.saml.metadataConfigMapRef.key: Required value"),
		Entry("metadata over http", ofSAML(`metadataURL: "http://globex.example"`), "spec.saml.metadataURL", "http is only for 127.0.0.1"),
		Entry("metadata of the machine", ofSAML(`metadataURL: "http://127.0.0.1:8080/metadata"`)),
		Entry("every member of saml", with(`entityID: "urn:globex:idp", spEntityID: "https://old.example/sp", subject: "urn:oid:0.9.2342.19200300.100.1.1", `+
			"nameIDFormat: EmailAddress, encryption: Required, forceAuthn: true, idpInitiated: Restart, clockSkewSeconds: 0")),
		Entry("an entity ID of 1024", with("entityID: "+letters(1024))), Entry("an entity ID of 1025", with("entityID: "+letters(1025)), "spec.saml.entityID", "may not be more than 1024"),
		Entry("an empty entity ID", with(`entityID: ""`), "spec.saml.entityID"), Entry("an entity ID with a blank", with(`entityID: "a b"`), "spec.saml.entityID", "should match"),
		Entry("an own entity ID with a blank", with(`spEntityID: "a b"`), "spec.saml.spEntityID", "should match"),
		Entry("a NameID", with("subject: NameID")), Entry("an empty subject", with(`subject: ""`), "spec.saml.subject"),
		Entry("another format", with("nameIDFormat: Transient"), "spec.saml.nameIDFormat", `supported values: "Persistent", "EmailAddress"`),
		Entry("a persistent NameID, encrypted or not", with("nameIDFormat: Persistent, encryption: Optional, idpInitiated: Refuse")),
		Entry("another encryption", with("encryption: None"), "spec.saml.encryption", `supported values: "Optional", "Required"`),
		Entry("unsolicited responses", with("idpInitiated: Accept"), "spec.saml.idpInitiated", `supported values: "Refuse", "Restart"`),
		Entry("300 seconds", with("clockSkewSeconds: 300")), Entry("301 seconds", with("clockSkewSeconds: 301"), "spec.saml.clockSkewSeconds", "less than or equal to 300"),
		Entry("a negative time", with("clockSkewSeconds: -1"), "spec.saml.clockSkewSeconds", "greater than or equal to 0"),
	}
}

func samlConnectionEntries() []TableEntry {
	const (
		needSAML   = "saml is required with type SAML, and not allowed with another: write metadataURL or metadataConfigMapRef there, or remove it"
		needClient = "client is required with all types but SAML, and not allowed with SAML"
		parameters = "type SAML has no parameter but acr_values, the requested AuthnContextClassRefs: remove the others"
	)
	with := func(more string) string { return ofSAML(samlURL) + more }
	return []TableEntry{
		Entry("type SAML without saml", "type: SAML\noidc: null\nclient: null", "spec.saml", needSAML), Entry("saml with another type", "saml: {"+samlURL+"}", "spec.saml", needSAML),
		Entry("SAML with a client", "type: SAML\noidc: null\nsaml: {"+samlURL+"}", "spec.client", needClient), Entry("Google without a client", asType("Google", "client: null"), "spec.client", needClient),
		Entry("SAML with oidc", "type: SAML\nclient: null\nsaml: {"+samlURL+"}", "spec.oidc", "oidc is required with type OIDC"),
		Entry("SAML with scopes", with("scopes: [openid]"), "spec.scopes", "type SAML has no scopes, because the identity provider chooses the attributes: remove scopes"),
		Entry("SAML with acr_values", with(`authorizationParameters: [{name: acr_values, value: "urn:gold"}]`)),
		Entry("SAML with another parameter", with("authorizationParameters: [{name: domain_hint, value: x}]"), "spec.authorizationParameters", parameters),
		Entry("SAML with a parameter more", with("authorizationParameters: [{name: acr_values, value: a}, {name: prompt, value: login}]"), "spec.authorizationParameters", parameters),
		Entry("SAML with classes of contexts", with(`assurance: {acr: ["urn:oasis:names:tc:SAML:2.0:ac:classes:X509"], requestedContext: true}`)),
		Entry("SAML with amr", with("assurance: {amr: [mfa]}"), "spec.assurance", "assertions of SAML have no amr: write AuthnContextClassRefs into assurance.acr, and remove assurance.amr"),
		Entry("SAML with all else", with("organization: {slug: globex}\ndomains: [globex.example]\nenforcement: Members\nmembership: {roleExpression: \"['developer']\"}\nemailProof: Upstream\n"+
			"attributes: {email: mail}\nsession: {signOut: Upstream}\nsignUp: Refused\nbutton: Hidden")),
	}
}
