package samlprovider

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

const instant = "2006-01-02T15:04:05Z"

// How says how a response is made. Its functions change XML, nil for no change.
type How struct {
	// Assertion changes the assertion before it is signed, and Signed after that. The signature is of canonical XML.
	Assertion, Signed func(assertion string) string
	// Sent changes the response as it is sent.
	Sent func(response string) string
	// SignsResponse adds a signature of the response.
	SignsResponse bool
}

func apply(change func(string) string, xml string) string {
	if change == nil {
		return xml
	}
	return change(xml)
}

// Respond returns the form that the browser of a user posts in response to a request. A request without an ID gets an
// unsolicited response.
func (p *Provider) Respond(r Request, user User) url.Values {
	p.mu.Lock()
	change := p.change
	p.mu.Unlock()
	return p.RespondAs(r, user, How{Assertion: change})
}

// RespondAs is Respond with a response that is made in another way. It ignores the function of Lie.
func (p *Provider) RespondAs(r Request, user User, how How) url.Values {
	now, answers := p.clock().UTC().Format(instant), ""
	if r.ID != "" {
		answers = ` InResponseTo="` + r.ID + `"`
	}
	assertion := apply(how.Signed, p.sign(apply(how.Assertion, p.assertion(r, user))))
	response := `<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" Destination="` + r.ACSURL + `" ID="_` + rand.Text() + `"` +
		answers + ` IssueInstant="` + now + `" Version="2.0"><saml:Issuer xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion">` + p.URL + `</saml:Issuer>` +
		`<samlp:Status><samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:Success"></samlp:StatusCode></samlp:Status>` + assertion + `</samlp:Response>`
	if how.SignsResponse {
		response = p.sign(response)
	}
	form := url.Values{"SAMLResponse": {base64.StdEncoding.EncodeToString([]byte(apply(how.Sent, response)))}}
	if r.RelayState != "" {
		form.Set("RelayState", r.RelayState)
	}
	return form
}

// Refuse returns the form that a browser posts if the provider refuses a request: a status of two codes and a text.
func (p *Provider) Refuse(r Request, code, text string) url.Values {
	const status = "urn:oasis:names:tc:SAML:2.0:status:"
	response := `<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" Destination="` + r.ACSURL + `" ID="_` + rand.Text() +
		`" InResponseTo="` + r.ID + `" IssueInstant="` + p.clock().UTC().Format(instant) + `" Version="2.0"><saml:Issuer>` + p.URL + `</saml:Issuer>` +
		`<samlp:Status><samlp:StatusCode Value="` + status + `Responder"><samlp:StatusCode Value="` + html.EscapeString(code) + `"/></samlp:StatusCode>` +
		`<samlp:StatusMessage>` + html.EscapeString(text) + `</samlp:StatusMessage></samlp:Status></samlp:Response>`
	return url.Values{"SAMLResponse": {base64.StdEncoding.EncodeToString([]byte(response))}, "RelayState": {r.RelayState}}
}

// assertion returns an assertion about a user in canonical form.
func (p *Provider) assertion(r Request, user User) string {
	now := p.clock().UTC()
	at := func(d time.Duration) string { return now.Add(d).Format(instant) }
	attribute := func(name, value string) string {
		if value == "" {
			return ""
		}
		return " " + name + `="` + html.EscapeString(value) + `"`
	}
	format, class, session := user.Format, user.ClassRef, ""
	if format == "" {
		format = PersistentFormat
	}
	if class == "" {
		class = "urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport"
	}
	if user.SessionFor > 0 {
		session = at(user.SessionFor)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<saml:Assertion xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="_%s" IssueInstant="%s" Version="2.0"><saml:Issuer>%s</saml:Issuer>`, rand.Text(), at(0), p.URL)
	fmt.Fprintf(&b, `<saml:Subject><saml:NameID Format="%s">%s</saml:NameID><saml:SubjectConfirmation Method="urn:oasis:names:tc:SAML:2.0:cm:bearer"><saml:SubjectConfirmationData%s NotOnOrAfter="%s" Recipient="%s"></saml:SubjectConfirmationData></saml:SubjectConfirmation></saml:Subject>`,
		format, html.EscapeString(user.NameID), attribute("InResponseTo", r.ID), at(5*time.Minute), r.ACSURL)
	fmt.Fprintf(&b, `<saml:Conditions NotBefore="%s" NotOnOrAfter="%s"><saml:AudienceRestriction><saml:Audience>%s</saml:Audience></saml:AudienceRestriction></saml:Conditions>`, at(-time.Minute), at(5*time.Minute), r.Issuer)
	fmt.Fprintf(&b, `<saml:AuthnStatement AuthnInstant="%s"%s%s><saml:AuthnContext><saml:AuthnContextClassRef>%s</saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement>`,
		at(-user.AuthenticatedAgo), attribute("SessionIndex", user.Session), attribute("SessionNotOnOrAfter", session), class)
	if len(user.Attributes) > 0 {
		b.WriteString(`<saml:AttributeStatement>`)
		for _, name := range slices.Sorted(maps.Keys(user.Attributes)) {
			fmt.Fprintf(&b, `<saml:Attribute Name="%s">`, html.EscapeString(name))
			for _, value := range user.Attributes[name] {
				fmt.Fprintf(&b, `<saml:AttributeValue>%s</saml:AttributeValue>`, html.EscapeString(value))
			}
			b.WriteString(`</saml:Attribute>`)
		}
		b.WriteString(`</saml:AttributeStatement>`)
	}
	b.WriteString(`</saml:Assertion>`)
	return b.String()
}

// sign adds a signature to an element in canonical form, after its Issuer.
func (p *Provider) sign(canonical string) string {
	_, rest, _ := strings.Cut(canonical, ` ID="`)
	id, _, _ := strings.Cut(rest, `"`)
	digest := sha256.Sum256([]byte(canonical))
	const ds = `http://www.w3.org/2000/09/xmldsig#`
	info := func(namespace string) string {
		return `<ds:SignedInfo` + namespace + `><ds:CanonicalizationMethod Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"></ds:CanonicalizationMethod>` +
			`<ds:SignatureMethod Algorithm="http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"></ds:SignatureMethod><ds:Reference URI="#` + id + `"><ds:Transforms>` +
			`<ds:Transform Algorithm="` + ds + `enveloped-signature"></ds:Transform><ds:Transform Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"></ds:Transform></ds:Transforms>` +
			`<ds:DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha256"></ds:DigestMethod><ds:DigestValue>` + base64.StdEncoding.EncodeToString(digest[:]) +
			`</ds:DigestValue></ds:Reference></ds:SignedInfo>`
	}
	sum := sha256.Sum256([]byte(info(` xmlns:ds="` + ds + `"`)))
	value, err := rsa.SignPKCS1v15(nil, p.signing().key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	signature := `<ds:Signature xmlns:ds="` + ds + `">` + info("") + `<ds:SignatureValue>` + base64.StdEncoding.EncodeToString(value) + `</ds:SignatureValue></ds:Signature>`
	before, after, found := strings.Cut(canonical, `</saml:Issuer>`)
	if !found { // an encrypted assertion has its signature inside
		return canonical
	}
	return before + `</saml:Issuer>` + signature + after
}

// Logout returns the form that the browser of a user posts to the single logout service at an address. sessions are the
// sessions that end, none for all of the user.
func (p *Provider) Logout(address string, user User, sessions ...string) url.Values {
	now := p.clock().UTC()
	format := user.Format
	if format == "" {
		format = PersistentFormat
	}
	request := `<samlp:LogoutRequest xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" Destination="` + address + `" ID="_` + rand.Text() + `" IssueInstant="` + now.Format(instant) +
		`" NotOnOrAfter="` + now.Add(5*time.Minute).Format(instant) + `" Version="2.0"><saml:Issuer xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion">` + p.URL + `</saml:Issuer>` +
		`<saml:NameID xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" Format="` + format + `">` + html.EscapeString(user.NameID) + `</saml:NameID>`
	for _, session := range sessions {
		request += `<samlp:SessionIndex>` + html.EscapeString(session) + `</samlp:SessionIndex>`
	}
	return url.Values{"SAMLRequest": {base64.StdEncoding.EncodeToString([]byte(p.sign(request + `</samlp:LogoutRequest>`)))}, "RelayState": {"state of the provider"}}
}

// Undecryptable is an encrypted assertion that no key decrypts, for Provider.Lie.
const Undecryptable = `<saml:EncryptedAssertion xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion"><xenc:EncryptedData xmlns:xenc="http://www.w3.org/2001/04/xmlenc#" Type="http://www.w3.org/2001/04/xmlenc#Element">` +
	`<xenc:EncryptionMethod Algorithm="http://www.w3.org/2009/xmlenc11#aes128-gcm"/><ds:KeyInfo xmlns:ds="http://www.w3.org/2000/09/xmldsig#"><xenc:EncryptedKey>` +
	`<xenc:EncryptionMethod Algorithm="http://www.w3.org/2001/04/xmlenc#rsa-oaep-mgf1p"/><xenc:CipherData><xenc:CipherValue>AAAA</xenc:CipherValue></xenc:CipherData></xenc:EncryptedKey></ds:KeyInfo>` +
	`<xenc:CipherData><xenc:CipherValue>AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=</xenc:CipherValue></xenc:CipherData></xenc:EncryptedData></saml:EncryptedAssertion>`
