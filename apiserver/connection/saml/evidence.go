package saml

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/internal/document"
	words "github.com/cardea-iam/cardea/internal/text"
)

// Evidence returns what an assertion says about a user of a connection. No address is verified by it: only a domain of
// the connection or its organization, or a code, proves one. roles evaluates the role expression, nil for none.
func (a *Assertion) Evidence(c *document.Connection, roles func(map[string]any) []string, now time.Time) connection.Evidence {
	e := connection.Evidence{
		Issuer: a.Issuer, Subject: a.Subject, Source: c.SAML.MetadataURL, VerifiedAt: now, SessionID: a.SessionIndex, AuthenticatedAt: a.AuthenticatedAt, EndsAt: a.SessionEndsAt,
		FirstName: connection.Name(a.FirstName(c.Attributes.FirstName)), LastName: connection.Name(a.LastName(c.Attributes.LastName)),
		MultiFactor: slices.Contains(c.ACR, a.ClassRef),
	}
	if address, err := words.Email(a.Email(c.Attributes.Email)); err == nil {
		e.Email, e.Authoritative = address, connection.Authority{Connection: c}.Of(address)
	}
	if roles != nil {
		e.Roles = roles(a.Claims())
	}
	if c.SignOutUpstream && a.NameID.Value != "" {
		raw, _ := json.Marshal(a.NameID) // texts: it does not fail
		e.IDToken = string(raw)
	}
	return e
}

// ReadNameID reads the name of a subject that Evidence keeps for sign-outs. It reports false if there is none.
func ReadNameID(kept []byte) (n NameID, found bool) {
	return n, json.Unmarshal(kept, &n) == nil && n.Value != ""
}
