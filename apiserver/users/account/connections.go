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
	"github.com/cardea-iam/cardea/internal/claimpermission"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// Errors of sign-ins by connections.
var (
	// ErrConnectionUnknown: there is no such connection, or it is inactive.
	ErrConnectionUnknown = errors.New("there is no such connection")
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
	return findConnection(u, id, u.Connections().Connection)
}

// LockConnection is FindConnection for a sign-in: a row cannot change or end until the transaction does.
func LockConnection(u *Unit, id int64) (Connection, error) {
	return findConnection(u, id, u.Connections().LockConnectionShared)
}

func findConnection(u *Unit, id int64, read func(int64) (people.Connection, bool, error)) (Connection, error) {
	c, err := u.DeclaredConnection(id)
	if !errors.Is(err, ErrConnectionUnknown) || u.snapshot.Declares(v1alpha1.KindConnection, u.Key(), id) {
		return c, err
	}
	if !u.ManagesConnections() {
		return Connection{}, ErrConnectionUnknown
	}
	row, found, err := read(id)
	if err != nil || !found {
		return Connection{}, FirstOf(err, ErrConnectionUnknown)
	}
	return connectionOfRow(u, row)
}

func connectionOfRow(u *Unit, row people.Connection) (Connection, error) {
	c, err := namedRow(u, row)
	if err != nil {
		return c, err
	}
	return c, u.requireUsable(c)
}

// namedRow returns the connection of a row with the slug of its organization, by which its requests have their share.
func namedRow(u *Unit, row people.Connection) (Connection, error) {
	organization := ""
	if row.Organization != 0 {
		o, found, err := u.Organizations().Organization(row.Organization)
		if err != nil || !found {
			return Connection{}, FirstOf(err, ErrConnectionUnknown)
		}
		organization = o.Slug
	}
	return runtimeConnection(row, organization)
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
	c, err := namedRow(u, row)
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

// IsUnusable reports whether an error says that users cannot sign in by a connection.
func IsUnusable(err error) bool {
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

// DeploymentConnections returns the active connections of the whole deployment, in the order of their slugs. It reads
// the store only if the deployment can have others than declared ones.
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

// DeclaredConnectionsOf returns the declared connections of an organization, active or not, in the order of their
// slugs.
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
