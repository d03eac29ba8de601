package saml

import (
	"errors"
	"fmt"
	"time"

	"github.com/beevik/etree"

	"github.com/cardea-iam/cardea/apiserver/connection"
)

const (
	// logoutAge is how old a logout request may be, and how long a request of ours is valid.
	logoutAge = 10 * time.Minute
	// maxSessions bounds the sessions that a logout request names.
	maxSessions = 64
)

// LogoutExpected is what a logout request must fit.
type LogoutExpected struct {
	// URL is where the request was posted.
	URL string
	// Provider is the metadata of the identity provider.
	Provider *Metadata
	Skew     time.Duration
	Now      time.Time
}

// LogoutRequest ends sign-ins of a subject.
type LogoutRequest struct {
	ID string
	// ExpiresAt is until when the caller detects a repetition of ID.
	ExpiresAt time.Time
	NameID    NameID
	// Sessions are the sessions that end, all of the subject if it is empty.
	Sessions []string
}

// ReadLogoutRequest reads and verifies the field SAMLRequest of the binding HTTP-POST. The request is signed as
// responses are. The error is a *connection.Fault.
func ReadLogoutRequest(field string, want LogoutExpected) (*LogoutRequest, error) {
	root, err := readMessage(field, "LogoutRequest")
	if err != nil {
		return nil, err
	}
	if root, _, err = verify(root, want.Provider.Certificates); err != nil {
		return nil, err
	}
	if !is(root, nsProtocol, "LogoutRequest") {
		return nil, fault(ReasonStructure, root.Tag, "LogoutRequest")
	}
	if err = structure(root); err != nil {
		return nil, err
	}
	if got := attribute(root, "Version"); got != version {
		return nil, fault(ReasonVersion, got, version)
	}
	if got := attribute(root, "Destination"); got != want.URL || got == "" {
		return nil, fault(ReasonDestination, got, want.URL)
	}
	if err = checkIssuer(root, want.Provider.EntityID); err != nil {
		return nil, err
	}
	r := &LogoutRequest{ID: attribute(root, "ID")}
	if r.ExpiresAt, err = checkLogoutTimes(root, want); err != nil {
		return nil, err
	}
	return r, r.read(root)
}

// checkLogoutTimes checks when a request was issued, because NotOnOrAfter may be absent. It returns when the request
// is no longer accepted.
func checkLogoutTimes(root *etree.Element, want LogoutExpected) (time.Time, error) {
	issued, err := readTime(attribute(root, "IssueInstant"))
	if err != nil {
		return time.Time{}, err
	}
	end := issued.Add(logoutAge)
	if issued.After(want.Now.Add(want.Skew)) || !want.Now.Before(end.Add(want.Skew)) {
		return time.Time{}, fault(ReasonIssueInstant, issued.Format(time.RFC3339), "a time of the last 10 minutes")
	}
	if text, found := lookup(root, "NotOnOrAfter"); found {
		stated, err := before(text, ReasonNotOnOrAfter, Expected{Now: want.Now, Skew: want.Skew})
		if err != nil {
			return time.Time{}, err
		}
		if stated.Before(end) {
			end = stated
		}
	}
	return end.Add(want.Skew), nil
}

func (r *LogoutRequest) read(root *etree.Element) error {
	el, err := only(root, nsAssertion, "NameID")
	if err != nil {
		return err
	}
	if el == nil {
		return fault(ReasonSubject, "a request without NameID", "a NameID that is not encrypted")
	}
	value, whole := text(el)
	r.NameID = nameOf(el, value)
	if !whole || value == "" || !r.NameID.bounded() {
		return fault(ReasonSubject, value, "1 to 255 bytes, with attributes of at most 1024 bytes each")
	}
	for _, index := range children(root, nsProtocol, "SessionIndex") {
		session, whole := text(index)
		if !whole || session == "" || len(session) > connection.MaxSubject || len(r.Sessions) == maxSessions {
			return fault(ReasonSession, session, fmt.Sprintf("1 to 255 bytes, at most %d times", maxSessions))
		}
		r.Sessions = append(r.Sessions, session)
	}
	return nil
}

// LogoutResponse says that the sign-ins ended.
type LogoutResponse struct {
	// ID is from NewID, and InResponseTo that of the request.
	ID, InResponseTo string
	IssuedAt         time.Time
	// Issuer is the entity ID of the service provider, and Destination that of Metadata.LogoutResponseURL.
	Issuer, Destination string
	RelayState          string
}

// PostForm returns the form of the response by the binding HTTP-POST, signed.
func (r LogoutResponse) PostForm(key Key) (Form, error) {
	if r.ID == "" || r.InResponseTo == "" || r.Issuer == "" || r.Destination == "" || r.IssuedAt.IsZero() {
		return Form{}, errors.New("a LogoutResponse needs ID, InResponseTo, IssuedAt, Issuer and Destination")
	}
	root := message("LogoutResponse", r.ID, r.Issuer, r.Destination, r.IssuedAt)
	root.CreateAttr("InResponseTo", r.InResponseTo)
	root.CreateElement("samlp:Status").CreateElement("samlp:StatusCode").CreateAttr("Value", statusSuccess)
	signed, err := post(root, key)
	return Form{URL: r.Destination, Name: "SAMLResponse", Message: signed, RelayState: r.RelayState}, err
}

// SignOut asks an identity provider to end its session.
type SignOut struct {
	// ID is from NewID.
	ID       string
	IssuedAt time.Time
	// Issuer is the entity ID of the service provider, and Destination that of Metadata.SignOutURL.
	Issuer, Destination string
	NameID              NameID
	// SessionIndex is that of the sign-in, "" if it has none.
	SessionIndex string
	RelayState   string
}

// RedirectURL returns the address of the request by the binding HTTP-Redirect, signed.
func (r SignOut) RedirectURL(key Key) (string, error) {
	if r.ID == "" || r.Issuer == "" || r.Destination == "" || r.NameID.Value == "" || r.IssuedAt.IsZero() {
		return "", errors.New("a LogoutRequest needs ID, IssuedAt, Issuer, Destination and NameID")
	}
	root := message("LogoutRequest", r.ID, r.Issuer, r.Destination, r.IssuedAt)
	root.CreateAttr("NotOnOrAfter", r.IssuedAt.Add(logoutAge).UTC().Format(instant))
	name := root.CreateElement("saml:NameID")
	for _, a := range [][2]string{{"Format", r.NameID.Format}, {"NameQualifier", r.NameID.NameQualifier}, {"SPNameQualifier", r.NameID.SPNameQualifier}} {
		if a[1] != "" {
			name.CreateAttr(a[0], a[1])
		}
	}
	name.SetText(r.NameID.Value)
	if r.SessionIndex != "" {
		root.CreateElement("samlp:SessionIndex").SetText(r.SessionIndex)
	}
	return redirect(root, r.Destination, r.RelayState, key)
}
