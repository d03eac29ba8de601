package saml

import (
	"encoding/base64"
	"fmt"

	"github.com/beevik/etree"
)

// Response is a response that was read within its bounds. Nothing of it is verified.
type Response struct {
	// Issuer and InResponseTo are what the response states about itself.
	Issuer, InResponseTo string

	root *etree.Element
}

// Unsolicited reports whether the response answers no request. Such a response is never evaluated.
func (r *Response) Unsolicited() bool { return r.InResponseTo == "" }

// Encrypted reports whether the response has an encrypted assertion.
func (r *Response) Encrypted() bool {
	return len(children(r.root, nsAssertion, "EncryptedAssertion")) > 0
}

// ReadResponse reads the field SAMLResponse of the binding HTTP-POST: base64 without compression, at most MaxMessage
// bytes. The error is a *connection.Fault.
func ReadResponse(field string) (*Response, error) {
	root, err := readMessage(field, "Response")
	if err != nil {
		return nil, err
	}
	r := &Response{InResponseTo: attribute(root, "InResponseTo"), root: root}
	if r.Issuer, err = child(root, nsAssertion, "Issuer"); err != nil {
		return nil, err
	}
	return r, nil
}

// readMessage reads a message of the binding HTTP-POST, and checks its structure.
func readMessage(field, tag string) (*etree.Element, error) {
	if len(field) > MaxForm {
		return nil, fault(ReasonForm, fmt.Sprintf("%d bytes", len(field)), fmt.Sprintf("at most %d bytes", MaxForm))
	}
	raw, err := base64.StdEncoding.DecodeString(field)
	if err != nil {
		return nil, fault(ReasonForm, "not base64", "base64")
	}
	if len(raw) > MaxMessage {
		return nil, fault(ReasonForm, fmt.Sprintf("%d bytes", len(raw)), fmt.Sprintf("at most %d bytes", MaxMessage))
	}
	root, err := parse(raw, messageBounds)
	if err != nil {
		return nil, err
	}
	if !is(root, nsProtocol, tag) {
		return nil, fault(ReasonStructure, root.Tag, tag+" of SAML 2.0")
	}
	return root, structure(root)
}

// assertionIn returns the Assertion or EncryptedAssertion of a response, of which there is exactly one.
func assertionIn(root *etree.Element) (*etree.Element, error) {
	all := append(children(root, nsAssertion, "Assertion"), children(root, nsAssertion, "EncryptedAssertion")...)
	if len(all) != 1 {
		return nil, fault(ReasonStructure, fmt.Sprintf("%d assertions", len(all)), "one assertion, in Response")
	}
	return all[0], nil
}
