package account

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/claimpermission"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// Errors of sign-ins by connections.
var (
	// ErrConfined: the sign-in came from the identity provider of an organization, which does not prove the account
	// outside of that organization. A password, a passkey or an emailed code lifts it.
	ErrConfined = errors.New("the sign-in counts in the organization of its connection alone")
	// ErrConnectionUnknown: there is no such connection, or it is inactive.
	ErrConnectionUnknown = errors.New("there is no such connection")
	// ErrConnectionRequired is the reason of a ConnectionRequiredError.
	ErrConnectionRequired = errors.New("a sign-in by a connection is required")
	// ErrSelfServiceDisabled: organizations of the deployment do not manage their own connections and domains.
	ErrSelfServiceDisabled = errors.New("organizations do not manage connections")
)

// RequireConnectionAdmin returns an error unless a member may manage the connections and domains of the organization:
// ErrSelfServiceDisabled, or a PermissionError.
func (t *Tenant) RequireConnectionAdmin(m people.Member) error {
	if !t.Settings.EffectiveConnections().SelfService {
		return ErrSelfServiceDisabled
	}
	return t.RequirePermission(m, PermissionConnections)
}

// Connection is a connection by which users sign in: one that a resource declares, or a row of an organization or a
// backend.
type Connection struct {
	ID int64
	// Runtime reports that it is a row.
	Runtime bool
	*document.Connection
	// Role is the compiled role expression of a declared connection, nil for none.
	Role *claimpermission.Expression
	// Mappings are the role mappings of a row.
	Mappings []connection.RoleMapping
}

// maxConnections bounds the rows that are read at once. More cannot be set up, for one organization or the deployment.
const maxConnections = 100

func declaredConnection(e *snapshot.Entry) Connection {
	c := snapshot.ContentOf[snapshot.Connection](e)
	return Connection{ID: e.ID, Connection: &c.Connection, Role: c.Role}
}

// runtimeConnection returns the connection of a row. organization is the slug of its organization, "" for none.
func runtimeConnection(row people.Connection, organization string) (Connection, error) {
	settings, err := connection.ReadSettings(row.Settings)
	if err != nil {
		return Connection{}, err
	}
	return Connection{
		ID: row.ID, Runtime: true, Connection: settings.Content(row.Slug, row.Active, organization, row.Secrets), Mappings: settings.Mappings,
	}, nil
}

// Event returns the method that analytics counts for sign-ins by the connection. Rows share one, because organizations
// must not add to the methods of a deployment.
func (c Connection) Event() string {
	if c.Runtime {
		return people.MethodSSO + ":" + strings.ToLower(c.Type)
	}
	return people.MethodSSO + ":" + c.Slug
}

// ConnectionRequiredError refuses a sign-in or an organization until the user signs in by one of some connections.
type ConnectionRequiredError struct {
	// Connections are active, in the order of their slugs.
	Connections []Connection
}

func (e *ConnectionRequiredError) Error() string { return ErrConnectionRequired.Error() }

// Unwrap returns ErrConnectionRequired.
func (e *ConnectionRequiredError) Unwrap() error { return ErrConnectionRequired }

// DeclaredConnection returns an active declared connection. Errors: ErrConnectionUnknown, ErrOrganizationsDisabled.
func (t *Tenant) DeclaredConnection(id int64) (Connection, error) {
	entry, found := t.snapshot.ByID(v1alpha1.KindConnection, t.Key(), id)
	if !found {
		return Connection{}, ErrConnectionUnknown
	}
	c := declaredConnection(entry)
	return c, t.requireUsable(c)
}

// FindConnection returns an active connection. Errors: ErrConnectionUnknown, ErrOrganizationsDisabled.
func FindConnection(u *Unit, id int64) (Connection, error) {
	c, err := u.DeclaredConnection(id)
	if !errors.Is(err, ErrConnectionUnknown) || u.snapshot.Declares(v1alpha1.KindConnection, u.Key(), id) {
		return c, err
	}
	if !u.ManagesConnections() {
		return Connection{}, ErrConnectionUnknown
	}
	row, found, err := u.Connections().Connection(id)
	if err != nil || !found {
		return Connection{}, FirstOf(err, ErrConnectionUnknown)
	}
	return connectionOfRow(u, row)
}

// LockConnectionFor is FindConnection for a sign-in by a connection as it was read before. A row cannot change or end
// until the transaction does. ErrConnectionUnknown: it has another provider now, or is not usable.
func LockConnectionFor(u *Unit, c Connection) error {
	if !c.Runtime {
		_, err := u.DeclaredConnection(c.ID)
		return err
	}
	row, found, err := u.Connections().LockConnectionShared(c.ID)
	if err != nil || !found {
		return FirstOf(err, ErrConnectionUnknown)
	}
	now, err := connectionOfRow(u, row)
	if err == nil && (now.Provider.Issuer != c.Provider.Issuer || now.Client.ID != c.Client.ID) {
		err = ErrConnectionUnknown
	}
	return err
}

func connectionOfRow(u *Unit, row people.Connection) (Connection, error) {
	organization := ""
	if row.Organization != 0 {
		o, found, err := u.Organizations().Organization(row.Organization)
		if err != nil || !found {
			return Connection{}, FirstOf(err, ErrConnectionUnknown)
		}
		organization = o.Slug
	}
	c, err := runtimeConnection(row, organization)
	if err != nil {
		return c, err
	}
	return c, u.requireUsable(c)
}

// NamedConnection returns a connection, active or not, for what is shown of it.
func NamedConnection(u *Unit, id int64) (Connection, bool, error) {
	if e, found := u.snapshot.ByID(v1alpha1.KindConnection, u.Key(), id); found {
		return declaredConnection(e), true, nil
	}
	row, found, err := u.Connections().Connection(id)
	if err != nil || !found {
		return Connection{}, false, err
	}
	c, err := runtimeConnection(row, "")
	return c, err == nil, err
}

// HasConnection reports whether a connection exists, active or not: it is declared, or a row.
func HasConnection(u *Unit, id int64) (bool, error) {
	if u.snapshot.Declares(v1alpha1.KindConnection, u.Key(), id) {
		return true, nil
	}
	_, found, err := u.Connections().Connection(id)
	return found, err
}

// ManagesConnections reports whether organizations or backends can have set up connections. The deployment declares it.
func (t *Tenant) ManagesConnections() bool { return t.Settings.Connections != nil }

// HasConnections reports whether the deployment can have connections: declared ones, or others.
func (t *Tenant) HasConnections() bool {
	return t.ManagesConnections() || t.snapshot.Count(v1alpha1.KindConnection, t.Key()) > 0
}

// requireUsable returns an error unless users can sign in by a connection: it is active, a row is permitted, and if it
// is an organization's, the deployment has organizations.
func (t *Tenant) requireUsable(c Connection) error {
	switch {
	case !c.Active, c.Runtime && !t.ManagesConnections():
		return ErrConnectionUnknown
	case c.Organization != "" && !t.B2B.Enabled:
		return ErrOrganizationsDisabled
	}
	return nil
}

// isUnusable reports whether an error says that users cannot sign in by a connection.
func isUnusable(err error) bool {
	return errors.Is(err, ErrConnectionUnknown) || errors.Is(err, ErrOrganizationsDisabled)
}

// usable returns the declared connections among entries by which users can sign in.
func (t *Tenant) usable(entries []*snapshot.Entry) (all []Connection) {
	for _, e := range entries {
		if c := declaredConnection(e); t.requireUsable(c) == nil {
			all = append(all, c)
		}
	}
	return all
}

// DeploymentConnections returns the active connections of the whole deployment, in the order of their slugs. It reads the
// store only if the deployment can have others than declared ones.
func DeploymentConnections(ctx context.Context, r *Request) ([]Connection, error) {
	all := r.usable(r.snapshot.ConnectionsOf(r.Key(), ""))
	if !r.ManagesConnections() {
		return all, nil
	}
	err := r.View(ctx, func(u *Unit) error {
		rows, err := usableRows(u, people.ConnectionFilter{OfDeployment: true}, "")
		all = sorted(append(all, rows...))
		return err
	})
	return all, err
}

// connectionsOf returns the active connections of an organization, in the order of their slugs.
func connectionsOf(u *Unit, o people.Organization) ([]Connection, error) {
	rows, err := usableRows(u, people.ConnectionFilter{Organization: o.ID}, o.Slug)
	return sorted(append(u.usable(u.snapshot.ConnectionsOf(u.Key(), o.Slug)), rows...)), err
}

// DeclaredConnectionsOf returns the declared connections of an organization, active or not, in the order of their slugs.
func DeclaredConnectionsOf(u *Unit, o people.Organization) (all []Connection) {
	for _, e := range u.snapshot.ConnectionsOf(u.Key(), o.Slug) {
		all = append(all, declaredConnection(e))
	}
	return all
}

// usableRows returns the active connections that organizations and backends set up.
func usableRows(u *Unit, filter people.ConnectionFilter, organization string) (all []Connection, err error) {
	if !u.ManagesConnections() {
		return nil, nil
	}
	rows, err := u.Connections().ListConnections(filter, maxConnections)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		c, err := runtimeConnection(row, organization)
		if err != nil {
			return nil, err
		}
		if u.requireUsable(c) == nil {
			all = append(all, c)
		}
	}
	return all, nil
}

func sorted(all []Connection) []Connection {
	slices.SortFunc(all, func(a, b Connection) int { return cmp.Or(strings.Compare(a.Slug, b.Slug), cmp.Compare(a.ID, b.ID)) })
	return all
}

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

// CheckConnection returns an error if a sign-in does not count in an organization: an AssuranceError with ErrConfined
// if it is confined to another one, a ConnectionRequiredError if the organization's connections require a sign-in by
// them of all members (Members), or of members with an address in their domains (Domains).
func CheckConnection(u *Unit, g *people.SignIn, m people.Member) error {
	if confined := g.Upstream.ConfinedTo; confined != 0 && confined != m.Organization.ID {
		return CheckConfined(u, g)
	}
	return requireConnection(u, g.Upstream.Connection, m)
}

// requireConnection is CheckConnection for a member whose sign-in was by a connection, 0 for none. It reads nothing of
// the store if no connection of the organization enforces.
func requireConnection(u *Unit, used int64, m people.Member) error {
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
	addresses, err := ProvenAddresses(u, m.User)
	if err != nil {
		return err
	}
	for _, address := range addresses {
		held, err := holdsDomain(u, m.Organization, connection.DomainOf(address))
		if err != nil {
			return err
		}
		if held {
			return &ConnectionRequiredError{Connections: own}
		}
	}
	return nil
}

// holdsDomain reports whether a domain is one of an organization.
func holdsDomain(u *Unit, o people.Organization, domain string) (bool, error) {
	if named := u.snapshot.ConnectionsNaming(u.Key(), domain); len(named) > 0 {
		return slices.ContainsFunc(named, func(e *snapshot.Entry) bool { return declaredConnection(e).Organization == o.Slug }), nil
	}
	row, found, err := u.Domains().EffectiveDomain(domain)
	return found && row.Organization == o.ID, err
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
