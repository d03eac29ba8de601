package saml

import (
	"github.com/beevik/etree"

	"github.com/cardea-iam/cardea/apiserver/connection"
)

// claimsPrefix begins the names of attributes of Entra and AD FS.
const claimsPrefix = "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/"

// The names of attributes that are read where a connection names none, the first that is there.
var (
	emailNames     = []string{"email", "mail", "emailAddress", "urn:oid:0.9.2342.19200300.100.1.3", claimsPrefix + "emailaddress"}
	firstNameNames = []string{"firstName", "givenName", "first_name", "given_name", "urn:oid:2.5.4.42", claimsPrefix + "givenname"}
	lastNameNames  = []string{"lastName", "surname", "sn", "last_name", "family_name", "urn:oid:2.5.4.4", claimsPrefix + "surname"}
)

// readAttributes reads all attributes. Values of an attribute that is there several times are joined.
func (a *Assertion) readAttributes(el *etree.Element) error {
	a.Attributes = map[string][]string{}
	for _, statement := range children(el, nsAssertion, "AttributeStatement") {
		for _, attr := range children(statement, nsAssertion, "Attribute") {
			name := attribute(attr, "Name")
			if name == "" || len(name) > maxName {
				return fault(ReasonAttribute, name, "a name of 1 to 1024 bytes")
			}
			values := a.Attributes[name]
			for _, value := range children(attr, nsAssertion, "AttributeValue") {
				if whole, isText := text(value); isText && !absent(value) {
					values = append(values, whole)
				}
			}
			a.Attributes[name] = values
		}
	}
	return nil
}

// absent reports whether a value has xsi:nil.
func absent(value *etree.Element) bool {
	for i := range value.Attr {
		if a := &value.Attr[i]; a.Space != "" && a.Key == "nil" && a.NamespaceURI() == nsInstance {
			return a.Value == "true" || a.Value == "1"
		}
	}
	return false
}

// Email returns the first value of an attribute; name "": of the first usual one that is there, or a NameID of the
// format emailAddress. It is "" if there is none. The address is neither checked nor verified.
func (a *Assertion) Email(name string) string {
	email := a.first(name, emailNames)
	if email == "" && name == "" && a.NameID.Format == FormatEmailAddress && len(a.NameID.Value) <= connection.MaxSubject {
		return a.NameID.Value
	}
	return email
}

// FirstName returns the first value of an attribute, as Email does.
func (a *Assertion) FirstName(name string) string { return a.first(name, firstNameNames) }

// LastName returns the first value of an attribute, as Email does.
func (a *Assertion) LastName(name string) string { return a.first(name, lastNameNames) }

func (a *Assertion) first(name string, usual []string) string {
	if name != "" {
		usual = []string{name}
	}
	for _, one := range usual {
		if values := a.Attributes[one]; len(values) > 0 && len(values[0]) <= connection.MaxSubject {
			return values[0]
		}
	}
	return ""
}

// Claims returns the claims that role expressions read: the list of texts of each attribute, and the texts issuer and
// subject, which no attribute replaces.
func (a *Assertion) Claims() map[string]any {
	claims := make(map[string]any, len(a.Attributes)+2)
	for name, values := range a.Attributes {
		list := make([]any, 0, len(values))
		for _, value := range values {
			list = append(list, value)
		}
		claims[name] = list
	}
	claims["issuer"], claims["subject"] = a.Issuer, a.Subject
	return claims
}
