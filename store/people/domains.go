package people

import "time"

// Domains are the domains that organizations proved or want to prove.
type Domains interface {
	// InsertDomain fails with ErrDuplicate if the organization has a domain of the name, or if the domain has its effect
	// and another organization's domain of the name does too.
	InsertDomain(Domain) error
	// Domain returns a domain of an organization.
	Domain(organization, id int64) (Domain, bool, error)
	// LockDomain returns a domain by its id and locks it.
	LockDomain(id int64) (Domain, bool, error)
	// DomainsOf returns an organization's domains, the oldest first. The caller bounds their number.
	DomainsOf(organization int64) ([]Domain, error)
	// DomainsNamed returns the domains of a name in all organizations: first the one that EffectiveDomain returns, then
	// the others, the oldest first.
	DomainsNamed(name string) ([]Domain, error)
	// EffectiveDomain returns the domain of a name that is verified or failing. There is at most one.
	EffectiveDomain(name string) (Domain, bool, error)
	// AddressesIn returns the verified addresses of a user, and whether the domain of each has its effect for an
	// organization. They are in the order of their folded forms.
	AddressesIn(organization, user int64) ([]AddressIn, error)
	// UserIn is User with the result of AddressesIn. It is one statement.
	UserIn(organization, user int64) (User, []AddressIn, bool, error)
	// UpdateDomain writes what a lookup or a backend changes: everything but the organization, the name, the value and
	// CreatedAt. ErrDuplicate: another organization's domain of the name has its effect.
	UpdateDomain(Domain) error
	// MoveDomain deletes the domain from and then updates the domain to: the name leaves one organization for another that
	// proved it. Callers lock both domains in the order of their ids.
	MoveDomain(from int64, to Domain) error
	// ClaimLookup claims the lookup that was due at a time for the caller, by postponing it. It reports false if another
	// caller did so first.
	ClaimLookup(id int64, due, until time.Time) (bool, error)
	// DeleteDomain reports whether the organization had the domain.
	DeleteDomain(organization, id int64) (bool, error)
}

// The states of domains. A domain has its effect while it is verified or failing.
const (
	// DomainPending waits for its record.
	DomainPending  = "pending"
	DomainVerified = "verified"
	// DomainFailing is verified, but lookups do not find its record anymore.
	DomainFailing = "failing"
	// DomainLapsed failed for too long.
	DomainLapsed = "lapsed"
	// DomainExpired was pending for too long; it is not looked up anymore.
	DomainExpired = "expired"
)

// What verified a domain.
const (
	VerifiedByDNS     = "dns"
	VerifiedByBackend = "backend"
)

// Domain is a domain of an organization.
type Domain struct {
	ID, Organization int64
	// Name is in lower case, with A-labels.
	Name string
	// Value is what the TXT record must contain.
	Value string
	State string
	// VerifiedBy is what verified it, "" if nothing has yet.
	VerifiedBy string
	CreatedAt  time.Time
	// VerifiedAt and LookedUpAt are zero before the first time.
	VerifiedAt, LookedUpAt time.Time
	// NextLookupAt is when the record must be looked up next, zero: never.
	NextLookupAt time.Time
	// Seen is what the last lookup returned, in the form of the package apiserver/domain.
	Seen string
	// FailingSince is when lookups began to find no such value, and Failures how many did not since then. Zero: the last
	// one found it. Of a domain that is pending, it is when its lookups began.
	FailingSince time.Time
	Failures     int
}

// Effective reports whether a domain has its effect for its organization.
func (d Domain) Effective() bool { return d.State == DomainVerified || d.State == DomainFailing }

// AddressIn is a verified address of a user, as seen by an organization.
type AddressIn struct {
	// Folded is the address as FoldEmail returns it.
	Folded string
	// Effective reports whether the domain of the address has its effect for the organization.
	Effective bool
}

// DueDomain is a domain whose record must be looked up.
type DueDomain struct {
	Deployment string
	ID         int64
	Due        time.Time
}
