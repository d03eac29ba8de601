package account

import (
	"errors"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// Errors of sign-ins by connections.
var (
	// ErrConfined: the sign-in came from the identity provider of an organization, which does not prove the account
	// outside of that organization. A password, a passkey or an emailed code lifts it.
	ErrConfined = errors.New("the sign-in counts in the organization of its connection alone")
	// ErrConnectionRequired is the reason of a ConnectionRequiredError.
	ErrConnectionRequired = errors.New("a sign-in by a connection is required")
	// ErrSelfServiceDisabled: organizations of the deployment do not manage their own connections and domains.
	ErrSelfServiceDisabled = errors.New("organizations do not manage connections")
)

// ConnectionRequiredError refuses a sign-in or an organization until the user signs in by one of some connections.
type ConnectionRequiredError struct {
	// Connections are active, in the order of their slugs.
	Connections []*snapshot.Entry
}

func (e *ConnectionRequiredError) Error() string { return ErrConnectionRequired.Error() }

// Unwrap returns ErrConnectionRequired.
func (e *ConnectionRequiredError) Unwrap() error { return ErrConnectionRequired }

// Connection returns an active connection of the deployment.
func (t *Tenant) Connection(id int64) (*snapshot.Connection, bool) {
	entry, found := t.snapshot.ByID(v1alpha1.KindConnection, t.Key(), id)
	if !found {
		return nil, false
	}
	c := snapshot.ContentOf[snapshot.Connection](entry)
	return c, t.usable(c)
}

// RequireConnectionAdmin returns an error unless a member may manage the connections and domains of the organization:
// ErrSelfServiceDisabled, or a PermissionError.
func (t *Tenant) RequireConnectionAdmin(m people.Member) error {
	if !t.Settings.EffectiveConnections().SelfService {
		return ErrSelfServiceDisabled
	}
	return t.RequirePermission(m, PermissionConnections)
}

// HasConnection reports whether a connection exists, active or not: it is declared, or a row.
func HasConnection(u *Unit, id int64) (bool, error) {
	if u.snapshot.Declares(v1alpha1.KindConnection, u.Key(), id) {
		return true, nil
	}
	_, found, err := u.Connections().Connection(id)
	return found, err
}

// usable reports whether users can sign in by a connection: it is active, and if it is an organization's, the
// deployment has organizations.
func (t *Tenant) usable(c *snapshot.Connection) bool {
	return c.Active && (c.Organization == "" || t.B2B.Enabled)
}

// LacksOrganizations reports whether users cannot sign in by an active connection because it is an organization's and
// the deployment has no organizations.
func (t *Tenant) LacksOrganizations(id int64) bool {
	c, usable := t.Connection(id)
	return c != nil && !usable && c.Active
}

// HasConnections reports whether the deployment has connections.
func (t *Tenant) HasConnections() bool {
	return t.snapshot.Count(v1alpha1.KindConnection, t.Key()) > 0
}

// ConnectionsOf returns the active connections of an organization by its slug, "" for those of the whole deployment.
func (t *Tenant) ConnectionsOf(organization string) []*snapshot.Entry {
	return t.active(t.snapshot.ConnectionsOf(t.Key(), organization))
}

func (t *Tenant) active(all []*snapshot.Entry) []*snapshot.Entry {
	return slices.DeleteFunc(all, func(e *snapshot.Entry) bool { return !t.usable(snapshot.ContentOf[snapshot.Connection](e)) })
}

// DomainOf returns the domain of an address in lower case, "" if there is none.
func DomainOf(address string) string {
	at := strings.LastIndexByte(address, '@')
	if at < 0 {
		return ""
	}
	return strings.ToLower(address[at+1:])
}

// ConnectionsFor returns the active connections that hold a domain: those that declare it, and all connections of the
// organization that has it.
func ConnectionsFor(u *Unit, domain string) ([]*snapshot.Entry, error) {
	if domain == "" || u.snapshot.Count(v1alpha1.KindConnection, u.Key()) == 0 {
		return nil, nil
	}
	all := u.snapshot.ConnectionsNaming(u.Key(), domain)
	organizations := map[string]bool{}
	for _, e := range all {
		if organization := snapshot.ContentOf[snapshot.Connection](e).Organization; organization != "" {
			organizations[organization] = true
		}
	}
	if len(all) == 0 { // a declared domain displaces a proven one
		proven, err := organizationOf(u, domain)
		if err != nil {
			return nil, err
		}
		if proven != "" {
			organizations[proven] = true
		}
	}
	for organization := range organizations {
		for _, e := range u.snapshot.ConnectionsOf(u.Key(), organization) {
			if !slices.Contains(all, e) {
				all = append(all, e)
			}
		}
	}
	slices.SortFunc(all, func(a, b *snapshot.Entry) int { return strings.Compare(a.Key, b.Key) })
	return u.active(all), nil
}

// DeclaredElsewhere reports whether a Connection resource declares a domain that is not of an organization, named by
// its slug. Such a domain displaces the one that the organization proved.
func (t *Tenant) DeclaredElsewhere(domain, organization string) bool {
	return slices.ContainsFunc(t.snapshot.ConnectionsNaming(t.Key(), domain), func(e *snapshot.Entry) bool {
		return snapshot.ContentOf[snapshot.Connection](e).Organization != organization
	})
}

// organizationOf returns the slug of the organization that proved a domain, "" for none.
func organizationOf(u *Unit, domain string) (string, error) {
	row, found, err := u.Domains().EffectiveDomain(domain)
	if err != nil || !found {
		return "", err
	}
	o, found, err := u.Organizations().Organization(row.Organization)
	if err != nil || !found {
		return "", err
	}
	return o.Slug, nil
}

// Authoritative reports whether a connection is authoritative for the domain of an address because the domain is the
// connection's own, or its organization's.
func Authoritative(u *Unit, c *snapshot.Connection, address string) (bool, error) {
	domain := DomainOf(address)
	if slices.Contains(c.Domains, domain) {
		return true, nil
	}
	if c.Organization == "" {
		return false, nil
	}
	holders, err := ConnectionsFor(u, domain)
	return slices.ContainsFunc(holders, func(e *snapshot.Entry) bool { return e.Content == any(c) }), err
}

// RequireNoConnection returns a ConnectionRequiredError if users with an address must sign in by the connections that
// hold its domain. used is the connection that was used, 0 for none. It looks at no account.
func RequireNoConnection(u *Unit, address string, used int64) error {
	holders, err := ConnectionsFor(u, DomainOf(address))
	if err != nil || !slices.ContainsFunc(holders, func(e *snapshot.Entry) bool { return enforces(e, v1alpha1.ConnectionEnforcementDomains) }) {
		return err
	}
	if slices.ContainsFunc(holders, func(e *snapshot.Entry) bool { return e.ID == used }) {
		return nil
	}
	return &ConnectionRequiredError{Connections: holders}
}

func enforces(e *snapshot.Entry, what v1alpha1.ConnectionEnforcement) bool {
	return snapshot.ContentOf[snapshot.Connection](e).Enforcement == string(what)
}

// CheckConnection returns an error if a sign-in does not count in an organization: an AssuranceError with ErrConfined
// if it is confined to another one, a ConnectionRequiredError if the organization's connections require a sign-in by
// them of all members (Members), or of members with an address in their domains (Domains).
func CheckConnection(u *Unit, g *people.SignIn, m people.Member) error {
	if confined := g.Upstream.ConfinedTo; confined != 0 && confined != m.Organization.ID {
		return CheckConfined(u, g)
	}
	return requireConnection(u, g.Upstream.Connection, m)
}

// requireConnection is CheckConnection for a member whose sign-in was by a connection, 0 for none.
func requireConnection(u *Unit, used int64, m people.Member) error {
	own := u.ConnectionsOf(m.Organization.Slug)
	if slices.ContainsFunc(own, func(e *snapshot.Entry) bool { return e.ID == used }) {
		return nil
	}
	if slices.ContainsFunc(own, func(e *snapshot.Entry) bool { return enforces(e, v1alpha1.ConnectionEnforcementMembers) }) {
		return &ConnectionRequiredError{Connections: own}
	}
	if !slices.ContainsFunc(own, func(e *snapshot.Entry) bool { return enforces(e, v1alpha1.ConnectionEnforcementDomains) }) {
		return nil
	}
	addresses, err := ProvenAddresses(u, m.User)
	if err != nil {
		return err
	}
	for _, address := range addresses {
		err := RequireNoConnection(u, address, used)
		if required := new(ConnectionRequiredError); errors.As(err, &required) && !slices.ContainsFunc(required.Connections, func(e *snapshot.Entry) bool { return slices.Contains(own, e) }) {
			continue // the domain belongs to another organization
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CheckFamilyConnection is CheckConnection for the tokens of an authorization, whose sign-in may have ended.
func CheckFamilyConnection(u *Unit, family people.TokenFamily, m people.Member) error {
	return requireConnection(u, family.Connection, m)
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
