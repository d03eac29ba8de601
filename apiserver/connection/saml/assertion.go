package saml

import (
	"crypto/x509"
	"strings"
	"time"
	"unicode"

	"github.com/beevik/etree"

	"github.com/cardea-iam/cardea/apiserver/connection"
)

// Assertion is what a verified response says about a user.
type Assertion struct {
	// ID identifies the assertion. The caller accepts it once, until ExpiresAt.
	ID        string
	ExpiresAt time.Time
	// Issuer and Subject identify the user at the connection.
	Issuer, Subject string
	// NameID is empty if the subject is an attribute, and there is no NameID or it is out of bounds.
	NameID NameID
	// SessionIndex identifies the session at the identity provider, "" if it sent none.
	SessionIndex string
	// SessionEndsAt is when the sign-in ends, zero if the identity provider does not say it.
	SessionEndsAt time.Time
	// AuthenticatedAt is when the identity provider authenticated the user, and ClassRef how.
	AuthenticatedAt time.Time
	ClassRef        string
	// Attributes are the texts of each attribute. Values that are not texts are left out.
	Attributes map[string][]string
	// Signer is the certificate that verified the assertion or the response. It may have expired.
	Signer *x509.Certificate
}

// NameID is the name of a subject, which logout requests repeat.
type NameID struct{ Value, Format, NameQualifier, SPNameQualifier string }

// nameOf returns the NameID of an element with a value.
func nameOf(el *etree.Element, value string) NameID {
	return NameID{Value: value, Format: attribute(el, "Format"), NameQualifier: attribute(el, "NameQualifier"), SPNameQualifier: attribute(el, "SPNameQualifier")}
}

// bounded reports whether a NameID can be kept: a value of at most 255 bytes, and its other parts of at most 1024.
func (n NameID) bounded() bool {
	return len(n.Value) <= connection.MaxSubject && max(len(n.Format), len(n.NameQualifier), len(n.SPNameQualifier)) <= maxName
}

// readAssertion checks the conditions of an assertion that is verified, and reads it.
func readAssertion(el *etree.Element, signer *x509.Certificate, want Expected) (*Assertion, error) {
	a := &Assertion{ID: attribute(el, "ID"), Issuer: want.Provider.EntityID, Signer: signer}
	if got := attribute(el, "Version"); got != version {
		return nil, fault(ReasonVersion, got, version)
	}
	if !identifier.MatchString(a.ID) {
		return nil, fault(ReasonStructure, "an assertion without a valid ID", "an ID of 1 to 256 characters")
	}
	if _, err := readTime(attribute(el, "IssueInstant")); err != nil {
		return nil, err
	}
	subject, err := required(el, nsAssertion, "Subject")
	if err != nil {
		return nil, err
	}
	if a.ExpiresAt, err = checkConfirmation(subject, want); err != nil {
		return nil, err
	}
	if err = checkConditions(el, want); err != nil {
		return nil, err
	}
	if err = checkIssuer(el, want.Provider.EntityID); err != nil {
		return nil, err
	}
	if err = a.readStatement(el, want); err != nil {
		return nil, err
	}
	if err = a.readAttributes(el); err != nil {
		return nil, err
	}
	return a, a.readSubject(subject, want.SubjectAttribute)
}

// readStatement reads the statement about the authentication (SAML profiles 4.1.4.2).
func (a *Assertion) readStatement(el *etree.Element, want Expected) error {
	statement, err := required(el, nsAssertion, "AuthnStatement")
	if err != nil {
		return err
	}
	if a.AuthenticatedAt, err = readTime(attribute(statement, "AuthnInstant")); err != nil {
		return err
	}
	if a.SessionIndex = attribute(statement, "SessionIndex"); len(a.SessionIndex) > connection.MaxSubject {
		return fault(ReasonSession, a.SessionIndex, "at most 255 bytes")
	}
	if end, found := lookup(statement, "SessionNotOnOrAfter"); found {
		if a.SessionEndsAt, err = before(end, ReasonSessionEnd, want); err != nil {
			return err
		}
	}
	context, err := required(statement, nsAssertion, "AuthnContext")
	if err != nil {
		return err
	}
	a.ClassRef, err = child(context, nsAssertion, "AuthnContextClassRef")
	return err
}

// readSubject reads the NameID, and decides which subject the assertion is about. A subject is accepted as it is or
// refused, because a text that is shortened could be another user's.
func (a *Assertion) readSubject(subject *etree.Element, named string) error {
	el, err := only(subject, nsAssertion, "NameID")
	if err != nil {
		return err
	}
	if el != nil {
		value, whole := text(el)
		if !whole {
			return fault(ReasonSubject, "a NameID with elements", "a text")
		}
		a.NameID = nameOf(el, value)
	}
	if !a.NameID.bounded() {
		if named == "" {
			return fault(ReasonSubject, a.NameID.Value, "a NameID of at most 255 bytes, with attributes of at most 1024 bytes each")
		}
		a.NameID = NameID{}
	}
	switch values := a.Attributes[named]; {
	case named != "" && len(values) != 1:
		return fault(ReasonSubject, "absent, or several values", "one value of the attribute "+named)
	case named != "":
		a.Subject = values[0]
	case el == nil:
		return fault(ReasonSubject, "a subject without NameID", "a NameID that is not encrypted by itself")
	case a.NameID.Format == FormatTransient:
		return fault(ReasonSubject, "a transient NameID", "a NameID that stays the same, such as persistent")
	default:
		a.Subject = a.NameID.Value
	}
	if a.Subject == "" || len(a.Subject) > connection.MaxSubject || strings.TrimSpace(a.Subject) != a.Subject || strings.ContainsFunc(a.Subject, unicode.IsControl) {
		return fault(ReasonSubject, a.Subject, "1 to 255 bytes without spaces around them")
	}
	return nil
}
