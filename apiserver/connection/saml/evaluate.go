package saml

import (
	"crypto/x509"
	"time"

	"github.com/beevik/etree"
)

// Expected is what a response must fit.
type Expected struct {
	// RequestID is the ID of the attempt's request, and ACSURL where it asked for the response.
	RequestID, ACSURL string
	// EntityID is that of the service provider.
	EntityID string
	// Provider is the metadata of the identity provider.
	Provider *Metadata
	// Keys decrypt assertions: the current one, and during a rotation the others; at most three are tried.
	Keys []Key
	// RequireEncryption refuses an assertion that is not encrypted.
	RequireEncryption bool
	// SubjectAttribute is the attribute that identifies the user, "" for the NameID.
	SubjectAttribute string
	// Skew is how far the identity provider's clock may differ.
	Skew time.Duration
	Now  time.Time
}

// Evaluate verifies the response and returns its assertion. The error is a *connection.Fault. The caller detects a
// repetition of the assertion's ID, and throttles faults with ReasonDecryption.
//
// The checks of the response come before its assertion is decrypted, so that decryption needs an attempt that waits
// for a response.
func (r *Response) Evaluate(want Expected) (*Assertion, error) {
	root, signer, err := r.verified(want)
	if err != nil {
		return nil, err
	}
	if err = checkResponse(root, signer != nil, want); err != nil {
		return nil, err
	}
	assertion, err := assertionIn(root)
	if err != nil {
		return nil, err
	}
	if assertion.Tag == "EncryptedAssertion" {
		assertion, signer, err = decrypted(assertion, attribute(root, "ID"), signer, want)
	} else {
		assertion, signer, err = signedAssertion(assertion, signer, want.Provider.Certificates)
	}
	if err != nil {
		return nil, err
	}
	return readAssertion(assertion, signer, want)
}

// verified returns the response whose bytes are signed, with its signer, or the response as it is if it has no
// signature.
func (r *Response) verified(want Expected) (*etree.Element, *x509.Certificate, error) {
	assertion, err := assertionIn(r.root)
	if err != nil {
		if status := checkStatus(r.root); status != nil { // a failure of the provider has no assertion
			return nil, nil, status
		}
		return nil, nil, err
	}
	signed := len(children(r.root, nsSignature, "Signature")) > 0
	switch {
	case assertion.Tag == "Assertion" && want.RequireEncryption:
		return nil, nil, fault(ReasonEncryption, "an assertion without encryption", "an assertion that is encrypted to the certificate of this connection")
	case !signed:
		return r.root, nil, nil
	}
	root, signer, err := verify(r.root, want.Provider.Certificates)
	if err != nil {
		return nil, nil, err
	}
	if !is(root, nsProtocol, "Response") {
		return nil, nil, fault(ReasonStructure, root.Tag, "Response")
	}
	return root, signer, structure(root)
}

// signedAssertion returns an assertion whose bytes are signed, by a signature of its own or by that of its response,
// whose signer is nil if the response has none. If both are signed, both signatures are verified.
func signedAssertion(assertion *etree.Element, response *x509.Certificate, trusted []*x509.Certificate) (*etree.Element, *x509.Certificate, error) {
	if response != nil && len(children(assertion, nsSignature, "Signature")) == 0 {
		return assertion, response, nil
	}
	signed, signer, err := verify(assertion, trusted)
	if err != nil {
		return nil, nil, err
	}
	if !is(signed, nsAssertion, "Assertion") {
		return nil, nil, fault(ReasonStructure, signed.Tag, "Assertion")
	}
	return signed, signer, structure(signed)
}

// decrypted returns the assertion in an EncryptedAssertion, whose bytes are signed as those of signedAssertion are.
// All of its faults are one.
func decrypted(encrypted *etree.Element, responseID string, response *x509.Certificate, want Expected) (*etree.Element, *x509.Certificate, error) {
	var keys []privateKey
	for _, key := range want.Keys[:min(len(want.Keys), maxKeys)] {
		keys = append(keys, key.Private)
	}
	content, ok := decrypt(encrypted, keys)
	if !ok {
		return nil, nil, undecryptable()
	}
	assertion, err := parse(content, messageBounds)
	if err != nil || !is(assertion, nsAssertion, "Assertion") || structure(assertion) != nil || attribute(assertion, "ID") == responseID {
		return nil, nil, undecryptable()
	}
	assertion, signer, err := signedAssertion(assertion, response, want.Provider.Certificates)
	if err != nil {
		return nil, nil, undecryptable()
	}
	return assertion, signer, nil
}

// checkResponse checks what the response itself states. signed reports whether it has a signature.
func checkResponse(root *etree.Element, signed bool, want Expected) error {
	if got := attribute(root, "Version"); got != version {
		return fault(ReasonVersion, got, version)
	}
	// A message that is signed has a Destination (SAML bindings 3.5.5.2).
	if got, found := lookup(root, "Destination"); (found || signed) && got != want.ACSURL {
		return fault(ReasonDestination, got, want.ACSURL)
	}
	if got := attribute(root, "InResponseTo"); want.RequestID == "" || got != want.RequestID {
		return fault(ReasonInResponseTo, got, want.RequestID)
	}
	if err := checkIssuer(root, want.Provider.EntityID); err != nil {
		return err
	}
	if _, err := readTime(attribute(root, "IssueInstant")); err != nil {
		return err
	}
	return checkStatus(root)
}

func checkIssuer(el *etree.Element, entityID string) error {
	got, err := child(el, nsAssertion, "Issuer")
	if err != nil {
		return err
	}
	if got != entityID || entityID == "" {
		return fault(ReasonIssuer, got, entityID)
	}
	return nil
}

// checkStatus checks the status of a response. The second status code says why the provider refuses.
func checkStatus(root *etree.Element) error {
	status, err := required(root, nsProtocol, "Status")
	if err != nil {
		return err
	}
	code, err := required(status, nsProtocol, "StatusCode")
	if err != nil {
		return err
	}
	got := attribute(code, "Value")
	if got == statusSuccess {
		return nil
	}
	if why, err := only(code, nsProtocol, "StatusCode"); err == nil && why != nil {
		got += ", " + attribute(why, "Value")
	}
	if words, err := child(status, nsProtocol, "StatusMessage"); err == nil && words != "" {
		got += ": " + words
	}
	return fault(ReasonStatus, got, statusSuccess)
}
