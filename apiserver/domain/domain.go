// Package domain proves that organizations have their domains, by a TXT record. Its decisions are pure (state.go); the
// rules over rows run in a caller's transaction (rules.go), and lookups run outside of transactions (resolver.go,
// worker.go).
package domain

import (
	"encoding/base32"
	"errors"
	"io"
	"time"

	"github.com/cardea-iam/cardea/internal/domainname"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// MaxDomains bounds the domains of an organization.
	MaxDomains = 50
	// lookupsAnHour bounds the lookups of a domain that members request.
	lookupsAnHour = 10

	valuePrefix = "cardea-domain-verification="
	// valueLength is the length of a value after its prefix, in base32 characters of 5 bits.
	valueLength = 26
)

// Errors of the rules.
var (
	ErrUnknown        = errors.New("the organization has no such domain")
	ErrExists         = errors.New("the organization has this domain already")
	ErrTooMany        = errors.New("the organization has too many domains")
	ErrTaken          = errors.New("another organization has the domain")
	ErrTooManyLookups = errors.New("the domain was looked up too often")
)

// RecordError means that a lookup did not find the record of a domain.
type RecordError struct {
	Seen Seen
	At   time.Time
}

func (e *RecordError) Error() string { return "the record was not found: " + string(e.Seen.Outcome) }

// RecordName returns the name of the TXT record that proves a domain.
func RecordName(name string) string { return domainname.Challenge + name }

// newValue returns the value of a new domain's record. It is random, and belongs to one row: to a deployment, an
// organization and a name. A domain that is removed and added again has another one, so that a forgotten record proves
// nothing.
func newValue(random io.Reader) (string, error) {
	raw := make([]byte, valueLength*5/8+1)
	if _, err := io.ReadFull(random, raw); err != nil {
		return "", err
	}
	return valuePrefix + base32.StdEncoding.EncodeToString(raw)[:valueLength], nil
}

// Effect is what a domain does for its organization.
type Effect string

// The effects.
const (
	// EffectNone: the domain is not proven.
	EffectNone Effect = "none"
	// EffectActive: users with an address in the domain are the organization's.
	EffectActive Effect = "active"
	// EffectDisplaced: the domain is proven, but a Connection resource declares it for another organization or for the
	// deployment.
	EffectDisplaced Effect = "displaced"
)

// declarer is a deployment's configuration, as account.Tenant has it.
type declarer interface {
	// DeclaredElsewhere reports whether a connection that is not of an organization, named by its slug, declares a domain.
	DeclaredElsewhere(domain, organization string) bool
}

// EffectOf returns the effect of a domain of an organization.
func EffectOf(of declarer, d people.Domain, organization string) Effect {
	switch {
	case !d.Effective():
		return EffectNone
	case of.DeclaredElsewhere(d.Name, organization):
		return EffectDisplaced
	}
	return EffectActive
}
