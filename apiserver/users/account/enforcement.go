package account

import (
	"errors"
	"slices"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// Errors of what sign-ins by connections count for.
var (
	// ErrConfined: the sign-in came from the identity provider of an organization, which does not prove the account
	// outside of that organization. A password, a passkey or an emailed code lifts it.
	ErrConfined = errors.New("the sign-in counts in the organization of its connection alone")
	// ErrConnectionRequired is the reason of a ConnectionRequiredError.
	ErrConnectionRequired = errors.New("a sign-in by a connection is required")
)

// ConnectionRequiredError refuses a sign-in or an organization until the user signs in by one of some connections.
type ConnectionRequiredError struct {
	// Connections are active, in the order of their slugs.
	Connections []Connection
}

func (e *ConnectionRequiredError) Error() string { return ErrConnectionRequired.Error() }

// Unwrap returns ErrConnectionRequired.
func (e *ConnectionRequiredError) Unwrap() error { return ErrConnectionRequired }

// has reports whether a connection is among some.
func has(all []Connection, id int64) bool {
	return slices.ContainsFunc(all, func(c Connection) bool { return c.ID == id })
}

func enforce(all []Connection, what v1alpha1.ConnectionEnforcement) bool {
	return slices.ContainsFunc(all, func(c Connection) bool { return c.Enforcement == string(what) })
}

// ConnectionsFor returns the active connections that hold a domain, in the order of their slugs: those that declare it,
// and all connections of the organization that has it.
func ConnectionsFor(u *Unit, domain string) ([]Connection, error) {
	if domain == "" || !u.HasConnections() {
		return nil, nil
	}
	named := u.snapshot.ConnectionsNaming(u.Key(), domain)
	if len(named) == 0 { // a declared domain displaces a proven one
		o, found, err := organizationOf(u, domain)
		if err != nil || !found {
			return nil, err
		}
		return connectionsOf(u, o)
	}
	var all []Connection
	organizations := map[string]bool{}
	for _, e := range named {
		c := declaredConnection(e)
		switch {
		case c.Organization == "" && u.requireUsable(c) == nil:
			all = append(all, c)
		case c.Organization != "":
			organizations[c.Organization] = true
		}
	}
	for slug := range organizations {
		o, found, err := u.Organizations().OrganizationBySlug(slug)
		if err != nil {
			return nil, err
		}
		if !found { // declared before the organization exists
			all = append(all, u.usable(u.snapshot.ConnectionsOf(u.Key(), slug))...)
			continue
		}
		own, err := connectionsOf(u, o)
		if err != nil {
			return nil, err
		}
		all = append(all, own...)
	}
	return sorted(all), nil
}

// DeclaredElsewhere reports whether a Connection resource declares a domain that is not of an organization, named by
// its slug. Such a domain displaces the one that the organization proved.
func (t *Tenant) DeclaredElsewhere(domain, organization string) bool {
	return slices.ContainsFunc(t.snapshot.ConnectionsNaming(t.Key(), domain), func(e *snapshot.Entry) bool {
		return snapshot.ContentOf[snapshot.Connection](e).Organization != organization
	})
}

// organizationOf returns the organization that proved a domain.
func organizationOf(u *Unit, domain string) (people.Organization, bool, error) {
	row, found, err := u.Domains().EffectiveDomain(domain)
	if err != nil || !found {
		return people.Organization{}, false, err
	}
	return u.Organizations().Organization(row.Organization)
}

// Authoritative reports whether a connection is authoritative for the domain of an address because the domain is the
// connection's own, or its organization's.
func Authoritative(u *Unit, c Connection, address string) (bool, error) {
	domain := connection.DomainOf(address)
	if slices.Contains(c.Domains, domain) {
		return true, nil
	}
	if c.Organization == "" {
		return false, nil
	}
	holders, err := ConnectionsFor(u, domain)
	return has(holders, c.ID), err
}

// RequireNoConnection returns a ConnectionRequiredError if users with an address must sign in by the connections that
// hold its domain. used is the connection that was used, 0 for none. It looks at no account.
func RequireNoConnection(u *Unit, address string, used int64) error {
	holders, err := ConnectionsFor(u, connection.DomainOf(address))
	if err != nil || !enforce(holders, v1alpha1.ConnectionEnforcementDomains) || has(holders, used) {
		return err
	}
	return &ConnectionRequiredError{Connections: holders}
}

// RequireNoConnectionOf is RequireNoConnection for a sign-in without an address and without a connection: it compares
// the primary address of the account and all its verified ones.
func RequireNoConnectionOf(u *Unit, user int64) error {
	if !u.HasConnections() {
		return nil
	}
	emails, err := u.Users().EmailsOf(user)
	if err != nil {
		return err
	}
	for _, e := range emails {
		if !e.Primary && !e.Verified() {
			continue
		}
		if err := RequireNoConnection(u, e.Address, 0); err != nil {
			return err
		}
	}
	return nil
}

// CheckConnection returns an error if a sign-in does not count in an organization: an AssuranceError with ErrConfined
// if it is confined to another one, a ConnectionRequiredError if the organization's connections require a sign-in by
// them of all members (Members), or of members with an address in their domains (Domains).
func CheckConnection(u *Unit, g *people.SignIn, m people.Member) error {
	return CheckConnectionWith(u, g, m, u.Domains().AddressesIn)
}

// ReadAddresses is Domains.AddressesIn, or reads the same with something else that a request needs.
type ReadAddresses func(organization, user int64) ([]people.AddressIn, error)

// CheckConnectionWith is CheckConnection for a caller that reads the addresses of the account. It calls read at most
// once, and only if the decision depends on the addresses.
func CheckConnectionWith(u *Unit, g *people.SignIn, m people.Member, read ReadAddresses) error {
	if confined := g.Upstream.ConfinedTo; confined != 0 && confined != m.Organization.ID {
		return CheckConfined(u, g)
	}
	return requireConnection(u, g.Upstream.Connection, m, read)
}

// requireConnection is CheckConnectionWith for a member whose sign-in was by a connection, 0 for none. It reads
// nothing of the store if no connection of the organization enforces.
func requireConnection(u *Unit, used int64, m people.Member, read ReadAddresses) error {
	declared := u.usable(u.snapshot.ConnectionsOf(u.Key(), m.Organization.Slug))
	enforced := enforce(declared, v1alpha1.ConnectionEnforcementMembers) || enforce(declared, v1alpha1.ConnectionEnforcementDomains)
	if has(declared, used) || !enforced && m.Organization.OwnConnections != people.EnforcesConnections {
		return nil
	}
	own := declared // the organization's other connections are read only if it has some
	if m.Organization.OwnConnections != people.NoConnections {
		var err error
		if own, err = connectionsOf(u, m.Organization); err != nil {
			return err
		}
	}
	switch {
	case has(own, used):
		return nil
	case enforce(own, v1alpha1.ConnectionEnforcementMembers):
		return &ConnectionRequiredError{Connections: own}
	case !enforce(own, v1alpha1.ConnectionEnforcementDomains):
		return nil
	}
	addresses, err := read(m.Organization.ID, m.User)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(addresses, func(a people.AddressIn) bool { return holds(u, m.Organization, a) }) {
		return &ConnectionRequiredError{Connections: own}
	}
	return nil
}

// holds reports whether the domain of an address is one of an organization. A declared domain displaces a proven one.
func holds(u *Unit, o people.Organization, a people.AddressIn) bool {
	declared, own := declaredFor(u.Tenant, o, connection.DomainOf(a.Folded))
	return own || !declared && a.Effective
}

// declaredFor reports whether Connection resources declare a domain, and whether one of them is an organization's.
func declaredFor(t *Tenant, o people.Organization, domain string) (declared, own bool) {
	named := t.snapshot.ConnectionsNaming(t.Key(), domain)
	return len(named) > 0, slices.ContainsFunc(named, func(e *snapshot.Entry) bool { return declaredConnection(e).Organization == o.Slug })
}

// CheckFamilyConnection is CheckConnection for the tokens of an authorization, whose sign-in may have ended.
func CheckFamilyConnection(u *Unit, family people.TokenFamily, m people.Member) error {
	return requireConnection(u, family.Connection, m, u.Domains().AddressesIn)
}

// CheckConfined returns an AssuranceError with ErrConfined if a sign-in is confined to an organization, with the
// strategies that lift it.
func CheckConfined(u *Unit, g *people.SignIn) error {
	if g.Upstream.ConfinedTo == 0 {
		return nil
	}
	f, err := u.FactorsOf(g.User)
	if err != nil {
		return err
	}
	strategies, err := u.StrategiesOf(g.User, f)
	if err != nil {
		return err
	}
	strategies = slices.DeleteFunc(strategies, func(name string) bool { return !LiftsConfinement(assurance.Method(name)) })
	return &AssuranceError{Reason: ErrConfined, Strategies: strategies}
}

// LiftsConfinement reports whether a proof shows that the user owns the account, and not only that the provider of an
// organization says so.
func LiftsConfinement(method assurance.Method) bool {
	switch method {
	case assurance.Password, assurance.EmailOTP, assurance.Passkey, assurance.PasskeyUV:
		return true
	}
	return false
}
