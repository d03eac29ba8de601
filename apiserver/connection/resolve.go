package connection

import (
	"strings"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// MaxIdentities is how many identities an account may have.
const MaxIdentities = 10

// Outcome is what a verified response leads to.
type Outcome int

// The outcomes.
const (
	// SignsIn signs in to the account of the identity.
	SignsIn Outcome = iota + 1
	// Links adds the identity to the account of the session that began the attempt.
	Links
	// LinksByAddress adds the identity to the account that has the address verified, and signs in.
	LinksByAddress
	// Creates creates an account with the address verified, and signs in.
	Creates
	// ProvesAddress asks for a code that is mailed to the address.
	ProvesAddress
	// AsksForAddress asks for an address, and then for a code.
	AsksForAddress
	// RefusesTaken: the identity belongs to another account (IDENTITY_EXISTS).
	RefusesTaken
	// RefusesMore: the account has MaxIdentities (IDENTITY_LIMIT_REACHED).
	RefusesMore
	// RefusesUnknown: the connection creates no accounts (SSO_NOT_PROVISIONED).
	RefusesUnknown
)

// Situation is what decides about a verified response.
type Situation struct {
	Intent string
	// Owner is the account of the identity, 0 if the identity is unknown.
	Owner int64
	// Account is the account of the session that began the attempt; only with people.IntentLink and
	// people.IntentReauthenticate.
	Account int64
	// Identities is how many identities Account has.
	Identities int
	// Address is the address that the provider sent, "" for none.
	Address string
	// Authoritative reports whether the connection is authoritative for the address.
	Authoritative bool
	// Verified reports whether the provider says that the address is verified.
	Verified bool
	// Holder is the account that has the address verified, 0 for none.
	Holder int64
	// Provisioned reports that a directory of the connection provisioned the user, whose account is Holder.
	Provisioned bool
	// RefusesSignUp and TrustsEmail are settings of the connection.
	RefusesSignUp, TrustsEmail bool
}

// Resolve returns what a verified response leads to: by the first rule that fits. An unverified address, here or at the
// provider, never selects an account.
func Resolve(s Situation) Outcome {
	switch {
	case s.Intent != people.IntentSignIn:
		return resolveOwn(s)
	case s.Owner != 0:
		return SignsIn
	case s.Provisioned, s.Authoritative && s.Holder != 0:
		return LinksByAddress
	case s.Authoritative:
		return created(s)
	case s.Address == "":
		return AsksForAddress
	case s.TrustsEmail && s.Verified && s.Holder == 0:
		return created(s)
	}
	return ProvesAddress
}

// resolveOwn resolves for the account of a session.
func resolveOwn(s Situation) Outcome {
	switch {
	case s.Owner == s.Account:
		return SignsIn
	case s.Owner != 0 || s.Intent == people.IntentReauthenticate:
		return RefusesTaken
	case s.Identities >= MaxIdentities:
		return RefusesMore
	}
	return Links
}

func created(s Situation) Outcome {
	if s.RefusesSignUp {
		return RefusesUnknown
	}
	return Creates
}

// DomainOf returns the domain of an address in lower case, "" if there is none.
func DomainOf(address string) string {
	at := strings.LastIndexByte(address, '@')
	if at <= 0 {
		return ""
	}
	return strings.ToLower(address[at+1:])
}

// Authority is what decides whether a connection is authoritative for an address.
type Authority struct {
	Connection *document.Connection
	// Claims are those of the ID token.
	Claims map[string]any
}

// Of reports whether the provider controls the mailbox of an address: its domain belongs to the connection, or it is
// one of the provider's own. The domains of the connection's organization are rows, which it does not see.
func (a Authority) Of(address string) bool {
	domain := DomainOf(address)
	if domain == "" {
		return false
	}
	for _, own := range a.Connection.Domains {
		if own == domain {
			return true
		}
	}
	switch a.Connection.Type {
	case TypeGoogle:
		hosted, _ := a.Claims["hd"].(string)
		verified, _ := a.Claims["email_verified"].(bool)
		return domain == "gmail.com" || verified && strings.ToLower(hosted) == domain
	case TypeApple:
		return domain == "privaterelay.appleid.com"
	}
	return false
}

// SaysVerified reports whether the provider says that the address is verified. Apple writes it as a word. Microsoft's
// admins write any address, so xms_edov, which says that the domain's owner was verified, is what counts there.
func SaysVerified(kind string, claims map[string]any) bool {
	name := "email_verified"
	if kind == TypeMicrosoft {
		name = "xms_edov"
	}
	switch value := claims[name].(type) {
	case bool:
		return value
	case string:
		return value == "true" || kind == TypeMicrosoft && value == "1"
	case float64:
		return kind == TypeMicrosoft && value == 1
	}
	return false
}
