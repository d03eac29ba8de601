package saml

import (
	"errors"
	"time"

	"github.com/beevik/etree"
)

// AuthnRequest asks an identity provider to authenticate a user.
type AuthnRequest struct {
	// ID is from NewID. The response names it.
	ID       string
	IssuedAt time.Time
	// Issuer is the entity ID of the service provider.
	Issuer string
	// Destination is the identity provider's endpoint, of Metadata.SignOnEndpoint.
	Destination string
	// ACSURL is where the response goes: that of the host where the browser is.
	ACSURL     string
	ForceAuthn bool
	// NameIDFormat is the format that is asked for, "" for none.
	NameIDFormat string
	// ClassRefs are the authentication contexts of which one is required, empty for no such requirement.
	ClassRefs []string
	// RelayState is the state of the attempt, which the identity provider returns.
	RelayState string
}

// Form is a form that the browser posts to an identity provider.
type Form struct {
	// URL is the form's action.
	URL string
	// Name is the field of the message, SAMLRequest or SAMLResponse, and Message its value.
	Name, Message string
	// RelayState is the field RelayState, which is left out if it is "".
	RelayState string
}

// RedirectURL returns the address of the request by the binding HTTP-Redirect, signed.
func (r AuthnRequest) RedirectURL(key Key) (string, error) {
	root, err := r.element()
	if err != nil {
		return "", err
	}
	return redirect(root, r.Destination, r.RelayState, key)
}

// PostForm returns the form of the request by the binding HTTP-POST, signed.
func (r AuthnRequest) PostForm(key Key) (Form, error) {
	root, err := r.element()
	if err != nil {
		return Form{}, err
	}
	message, err := post(root, key)
	return Form{URL: r.Destination, Name: "SAMLRequest", Message: message, RelayState: r.RelayState}, err
}

func (r AuthnRequest) element() (*etree.Element, error) {
	if r.ID == "" || r.Issuer == "" || r.Destination == "" || r.ACSURL == "" || r.IssuedAt.IsZero() {
		return nil, errors.New("an AuthnRequest needs ID, IssuedAt, Issuer, Destination and ACSURL")
	}
	root := message("AuthnRequest", r.ID, r.Issuer, r.Destination, r.IssuedAt)
	root.CreateAttr("AssertionConsumerServiceURL", r.ACSURL)
	root.CreateAttr("ProtocolBinding", BindingPost)
	if r.ForceAuthn {
		root.CreateAttr("ForceAuthn", "true")
	}
	if r.NameIDFormat != "" {
		policy := root.CreateElement("samlp:NameIDPolicy")
		policy.CreateAttr("Format", r.NameIDFormat)
		policy.CreateAttr("AllowCreate", "true")
	}
	if len(r.ClassRefs) > 0 {
		context := root.CreateElement("samlp:RequestedAuthnContext")
		context.CreateAttr("Comparison", "exact")
		for _, ref := range r.ClassRefs {
			context.CreateElement("saml:AuthnContextClassRef").SetText(ref)
		}
	}
	return root, nil
}

// message returns the root element of a message with what all messages have.
func message(tag, id, issuer, destination string, at time.Time) *etree.Element {
	root := etree.NewElement("samlp:" + tag)
	root.CreateAttr("xmlns:samlp", nsProtocol)
	root.CreateAttr("xmlns:saml", nsAssertion)
	root.CreateAttr("ID", id)
	root.CreateAttr("Version", version)
	root.CreateAttr("IssueInstant", at.UTC().Format(instant))
	root.CreateAttr("Destination", destination)
	root.CreateElement("saml:Issuer").SetText(issuer)
	return root
}
