package connection

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/text"
)

// Evidence is what a verified response says about a user. It has no token, and of the claims only what was read from
// them.
type Evidence struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
	// Source is the URL of the metadata by which a response of SAML was verified, "" if the connection itself has them.
	Source string `json:"source,omitempty"`
	// Email is a valid address, "" if the provider sent none.
	Email string `json:"email,omitempty"`
	// Verified reports that the provider says that the address is verified, and Authoritative that the provider controls
	// its mailbox. The domains of an organization are not considered.
	Verified      bool   `json:"verified,omitempty"`
	Authoritative bool   `json:"authoritative,omitempty"`
	FirstName     string `json:"first_name,omitempty"`
	LastName      string `json:"last_name,omitempty"`
	// Roles are the names of roles that the role expression yields.
	Roles []string `json:"roles,omitempty"`
	// RoleIDs are the ids of roles that the mappings of a row yield.
	RoleIDs []int64 `json:"role_ids,omitempty"`
	// SessionID is the provider's id of its session, "" if unknown.
	SessionID string `json:"session_id,omitempty"`
	// MultiFactor reports that a value of amr or acr means more than one factor.
	MultiFactor bool `json:"multi_factor,omitempty"`
	// AuthenticatedAt is when the provider authenticated the user, zero if it does not say.
	AuthenticatedAt time.Time `json:"authenticated_at,omitzero"`
	// VerifiedAt is when the response was verified.
	VerifiedAt time.Time `json:"verified_at"`
	// EndsAt is when the provider ends the sign-in, zero if it does not say so.
	EndsAt time.Time `json:"ends_at,omitzero"`
	// IDToken is the ID token, or of SAML the name of the subject as JSON; only for a connection whose sign-outs continue
	// at the provider.
	IDToken string `json:"id_token,omitempty"`
}

// NewEvidence returns what claims say about a person. userName is the JSON that Apple sends beside the response. roles
// evaluates the connection's role expression, nil for none.
func NewEvidence(c *document.Connection, person Person, userName string, roles func(map[string]any) []string, now time.Time) Evidence {
	e := Evidence{Issuer: person.Issuer, Subject: person.Subject, VerifiedAt: now, SessionID: bounded(person.Claims, "sid")}
	if address, err := text.Email(bounded(person.Claims, c.Attributes.Email)); err == nil {
		e.Email = address
		e.Verified = c.Attributes.Email == "email" && SaysVerified(c.Type, person.Claims) // the claim is about email
		e.Authoritative = Authority{Connection: c, Claims: person.Claims}.Of(address)
	}
	e.FirstName, e.LastName = Name(bounded(person.Claims, c.Attributes.FirstName)), Name(bounded(person.Claims, c.Attributes.LastName))
	if e.FirstName == "" && e.LastName == "" {
		e.FirstName, e.LastName = appleName(userName)
	}
	if at, found := seconds(person.Claims, "auth_time"); found {
		e.AuthenticatedAt = at
	}
	e.MultiFactor = contains(c.ACR, person.Claims["acr"]) || contains(c.AMR, person.Claims["amr"])
	if roles != nil {
		e.Roles = roles(person.Claims)
	}
	return e
}

// AddClaims adds to the claims of an ID token those of the userinfo endpoint that it lacks. email is the name of the
// claim with the address: an address of the ID token is not verified by what the endpoint says about its own.
func AddClaims(own, more map[string]any, email string) {
	_, has := own[email]
	for name, value := range more {
		if _, known := own[name]; !known && (!has || name != "email_verified" && name != "xms_edov") {
			own[name] = value
		}
	}
}

// ProvenAt returns when the user proved something to the provider: when the provider says, and otherwise when the
// response was verified. It is never in the future.
func (e Evidence) ProvenAt() time.Time {
	if e.AuthenticatedAt.IsZero() || e.AuthenticatedAt.After(e.VerifiedAt) {
		return e.VerifiedAt
	}
	return e.AuthenticatedAt
}

// Fits reports whether a connection still has the provider that the evidence is of.
func (e Evidence) Fits(c *document.Connection) bool {
	if c.SAML != nil {
		entity := c.SAML.EntityID
		if c.SAML.Given != nil {
			entity = c.SAML.Given.EntityID
		}
		return e.Source == c.SAML.MetadataURL && (entity == "" || entity == e.Issuer)
	}
	issuer, err := IdentityIssuer(c, e.Subject)
	return err == nil && issuer == e.Issuer
}

// Anew returns a *Fault unless the provider says that it authenticated the user after a time.
func (e Evidence) Anew(since time.Time) error {
	if e.AuthenticatedAt.IsZero() {
		return &Fault{Reason: ReasonAuthTime, Expected: "the time of a new authentication"}
	}
	if e.AuthenticatedAt.Before(since.Add(-skew)) {
		return &Fault{Reason: ReasonAuthTime, Got: e.AuthenticatedAt.UTC().Format(time.RFC3339), Expected: "a time after " + since.UTC().Format(time.RFC3339)}
	}
	return nil
}

// bounded returns a claim if it is a text of at most MaxSubject bytes.
func bounded(claims map[string]any, name string) string {
	value, _ := claims[name].(string)
	if len(value) > MaxSubject {
		return ""
	}
	return value
}

// Name returns a name as the store keeps it, "" if it is not a valid one.
func Name(sent string) string {
	valid, err := text.Name(sent)
	if err != nil {
		return ""
	}
	return valid
}

// appleName returns the names in the JSON that Apple sends beside its first response. The browser delivers it, so it
// proves nothing.
func appleName(sent string) (first, last string) {
	var user struct {
		Name struct {
			First string `json:"firstName"`
			Last  string `json:"lastName"`
		} `json:"name"`
	}
	if sent == "" || json.Unmarshal([]byte(sent), &user) != nil {
		return "", ""
	}
	return Name(user.Name.First), Name(user.Name.Last)
}

// seconds returns a claim that is a time in seconds since 1970.
func seconds(claims map[string]any, name string) (time.Time, bool) {
	switch value := claims[name].(type) {
	case float64:
		if value > 0 && value < 1<<40 {
			return time.Unix(int64(value), 0).UTC(), true
		}
	case json.Number:
		if n, err := value.Int64(); err == nil && n > 0 && n < 1<<40 {
			return time.Unix(n, 0).UTC(), true
		}
	}
	return time.Time{}, false
}

// contains reports whether a claim, which is a text or a list of texts, has one of some values.
func contains(wanted []string, claim any) bool {
	switch value := claim.(type) {
	case string:
		return slices.Contains(wanted, value) || slices.ContainsFunc(strings.Fields(value), func(word string) bool { return slices.Contains(wanted, word) })
	case []any:
		return slices.ContainsFunc(value, func(one any) bool {
			text, ok := one.(string)
			return ok && slices.Contains(wanted, text)
		})
	}
	return false
}
