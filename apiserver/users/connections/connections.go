// Package connections has the rules of the connections that organizations and backends set up, which are rows:
// permissions, bounds, and what a change ends. It does not depend on HTTP.
package connections

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/connection/saml"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/translation"
	"github.com/cardea-iam/cardea/store/people"
)

// Errors of the rules.
var (
	// ErrClosed: the deployment does not declare spec.connections.
	ErrClosed = errors.New("the deployment has only declared connections")
	// ErrUnknown: there is no such connection here, active or not.
	ErrUnknown = errors.New("there is no such connection")
	// ErrDeclared: a resource declares the connection.
	ErrDeclared = errors.New("a resource declares the connection")
	// ErrChanged: the connection is not the one that the caller has read.
	ErrChanged = errors.New("the connection was changed meanwhile")
	// ErrTypeClosed: organizations of the deployment may not set up connections of the type.
	ErrTypeClosed = errors.New("organizations may not set up connections of this type")
	// ErrTooMany is returned in an account.LimitError.
	ErrTooMany = errors.New("the organization has too many connections")
	// ErrTooManyKeys is returned in an account.WaitError.
	ErrTooManyKeys = errors.New("the organization set up too many connections of type SAML")
	// ErrNotTested: the member has not signed in by the connection as it is now.
	ErrNotTested = errors.New("the connection was not tested")
	// ErrUnconfirmed: another provider ends all identities, which the change does not confirm.
	ErrUnconfirmed = errors.New("the change is not confirmed")
	// ErrIncomplete: a connection without an issuer or a client, or without what is needed of a provider of SAML, cannot
	// be active.
	ErrIncomplete = errors.New("the connection is not complete")
	// ErrOtherType: the change has settings of connections of another type.
	ErrOtherType = errors.New("the settings are of another type of connection")
	// ErrNoHost: the deployment has no frontend host, by which a connection of type SAML is named.
	ErrNoHost = errors.New("the deployment has no frontend host")
	// ErrOpenProvider: every user of a public provider would become a member.
	ErrOpenProvider = errors.New("everybody can get an account at this provider")
	// ErrOrganizationOnly: members, roles and enforcement are settings of an organization's connection.
	ErrOrganizationOnly = errors.New("the connection belongs to no organization")
	// ErrNotCleared: the connection has more sign-ins or identities than one transaction ends. The caller commits the
	// transaction, which ended some of them, and calls again.
	ErrNotCleared = errors.New("the connection has many identities")
)

const (
	// maxOfDeployment is how many connections of no organization a backend may set up.
	maxOfDeployment = 100
	// testedWithin is how long a sign-in shows that a connection works.
	testedWithin = 24 * time.Hour
	// endedAtOnce is how many sign-ins, and how many identities, one transaction ends.
	endedAtOnce = 500
)

// Scope is whose connections are managed, and what the caller may do with them.
type Scope struct {
	// Organization is the connections' organization; with the id 0, they are the deployment's.
	Organization people.Organization
	// Backend reports that a backend manages them: those of all organizations, and without a test.
	Backend bool
	// Admin is the member whose permissions bound what is granted: the caller, or the maker of the caller's setup link. It
	// is nil for a backend, and for a backend's link.
	Admin *people.Member
	// Link is the setup link of a caller without an account, nil for others, and SignIns those of its session.
	Link    *people.SetupLink
	SignIns []people.SignIn
}

// Require returns an error unless the connections and domains of a scope may be managed: ErrClosed,
// account.ErrSelfServiceDisabled, account.PermissionError.
func (s Scope) Require(u *account.Unit) error {
	switch {
	case !u.ManagesConnections():
		return ErrClosed
	case s.Admin != nil:
		return u.RequireConnectionAdmin(*s.Admin)
	}
	return nil
}

// holds reports whether a connection of an organization is in the scope.
func (s Scope) holds(organization int64) bool { return s.Backend || s.Organization.ID == organization }

// List returns the rows of a scope, the newest first.
func (s Scope) List(u *account.Unit) ([]people.Connection, error) {
	if err := s.Require(u); err != nil {
		return nil, err
	}
	return u.Connections().ListConnections(people.ConnectionFilter{Organization: s.Organization.ID, OfDeployment: s.Organization.ID == 0}, maxOfDeployment)
}

// Find returns a row of the scope, active or not. A backend finds those of all organizations. Errors: ErrUnknown,
// ErrDeclared.
func (s Scope) Find(u *account.Unit, id int64) (people.Connection, error) {
	return s.find(u, id, u.Connections().Connection)
}

func (s Scope) find(u *account.Unit, id int64, read func(int64) (people.Connection, bool, error)) (people.Connection, error) {
	if err := s.Require(u); err != nil {
		return people.Connection{}, err
	}
	if u.Snapshot().Declares(v1alpha1.KindConnection, u.Key(), id) {
		declared, _, err := account.NamedConnection(u, id)
		if err != nil || !s.Backend && (declared.Connection == nil || declared.Organization != s.Organization.Slug) {
			return people.Connection{}, account.FirstOf(err, ErrUnknown)
		}
		return people.Connection{}, ErrDeclared
	}
	row, found, err := read(id)
	if err != nil || !found || !s.holds(row.Organization) {
		return people.Connection{}, account.FirstOf(err, ErrUnknown)
	}
	return row, nil
}

// New is a connection to set up.
type New struct {
	// Type is connection.TypeOIDC or connection.TypeSAML.
	Type   string
	Change connection.Change
	// Key is the own key of a connection of type SAML. Generating it takes about a second of processor time: the caller
	// does it before the transaction, and after one in which CountKey succeeds.
	Key saml.Key
	// Origin is the origin of the deployment's first frontend host, "" if there is none. A connection of type SAML has its
	// entity ID there.
	Origin string
}

// requireNew returns an error if the scope may not create a connection of a type: those of Create that do not depend on
// its settings.
func (s Scope) requireNew(u *account.Unit, kind string) error {
	if err := s.Require(u); err != nil {
		return err
	}
	limits := u.Settings.EffectiveConnections()
	if !s.Backend && !slices.Contains(limits.Types, kind) {
		return ErrTypeClosed
	}
	most := maxOfDeployment
	if s.Organization.ID != 0 {
		most = limits.MaxPerOrganization
	}
	n, err := u.Connections().CountConnections(s.Organization.ID)
	if err != nil {
		return err
	}
	if n >= most {
		return &account.LimitError{Reason: ErrTooMany, Have: int64(n), Most: int64(most)}
	}
	return nil
}

// Create inserts a connection. Errors: ErrTypeClosed, ErrOtherType, ErrNoHost, ErrOpenProvider, ErrNotTested (an admin
// sets an enforcement), account.ErrRoleUnknown, account.PermissionError, account.LimitError with ErrTooMany.
func (s Scope) Create(u *account.Unit, wanted New) (people.Connection, error) {
	if err := u.Limits().Lock("connections:" + strconv.FormatInt(s.Organization.ID, 10)); err != nil {
		return people.Connection{}, err
	}
	if err := s.requireNew(u, wanted.Type); err != nil {
		return people.Connection{}, err
	}
	settings := connection.Settings{
		Type: wanted.Type, Enforcement: string(v1alpha1.ConnectionEnforcementOptional), JustInTime: s.Organization.ID != 0, ProviderAt: u.Now,
	}
	row := people.Connection{Organization: s.Organization.ID, Active: true, CreatedAt: u.Now, UpdatedAt: u.Now}
	var err error
	if row.ID, err = u.NewID(); err != nil {
		return row, err
	}
	row.Slug = "c-" + strconv.FormatInt(row.ID, 10)
	if wanted.Type == connection.TypeSAML {
		if err := addKey(u, &row, &settings, wanted); err != nil {
			return row, err
		}
	}
	if err := s.apply(u, &row, settings, wanted.Change); err != nil {
		return row, err
	}
	if err := u.Connections().InsertConnection(row); err != nil {
		return row, err
	}
	return row, u.Audit("connection.created", object(row.ID))
}

// replacesKeys reports whether the caller may give the same provider of SAML other keys and keep its identities. With
// such a key, a party can sign in as any of their users, an owner among them.
func (s Scope) replacesKeys() bool {
	return s.Link == nil && (s.Backend || s.Admin != nil && s.Admin.Owner)
}

// Update changes a connection. Another provider ends its sign-ins and identities: it must not inherit users. So does
// another key of a provider of SAML, unless an owner or a backend sets it.
// Errors: those of Create and Find, ErrChanged, ErrUnconfirmed, ErrNotCleared.
func (s Scope) Update(u *account.Unit, id int64, change connection.Change) (people.Connection, error) {
	row, err := s.find(u, id, u.Connections().LockConnection)
	if err != nil {
		return row, err
	}
	if !account.IsRead(change.Read, row.UpdatedAt) {
		return row, ErrChanged
	}
	now, err := connection.ReadSettings(row.Settings)
	if err != nil {
		return row, err
	}
	moves := change.MovesProvider(now) || change.AddsKeys(now) && !s.replacesKeys()
	if moves && change.Confirmation != now.Name {
		return row, ErrUnconfirmed
	}
	if s.Backend {
		s.Organization.ID = row.Organization
	}
	before := row
	if err := s.apply(u, &row, now, change); err != nil {
		return row, err
	}
	if moves {
		if more, err := endSome(u, id); err != nil || more {
			return row, account.FirstOf(err, ErrNotCleared)
		}
	}
	if row == before {
		return row, nil
	}
	row.UpdatedAt = account.NextUpdate(before.UpdatedAt, u.Now)
	if err := u.Connections().UpdateConnection(row); err != nil {
		return row, err
	}
	return row, u.Audit("connection.changed", object(id))
}

// Delete deletes a connection with its sign-ins and identities, and returns it. Errors: those of Find, ErrNotCleared.
func (s Scope) Delete(u *account.Unit, id int64) (people.Connection, error) {
	row, err := s.find(u, id, u.Connections().LockConnection)
	if err != nil {
		return row, err
	}
	if more, err := endSome(u, id); err != nil || more {
		return row, account.FirstOf(err, ErrNotCleared)
	}
	if _, err := u.Connections().DeleteConnection(id); err != nil {
		return row, err
	}
	return row, u.Audit("connection.deleted", object(id))
}

// endSome ends up to endedAtOnce sign-ins and identities of a connection, and reports whether there may be more.
func endSome(u *account.Unit, id int64) (more bool, err error) {
	ended, err := u.Sessions().EndSignInsBy(people.UpstreamFilter{Connection: id}, endedAtOnce)
	if err != nil {
		return false, err
	}
	account.LogEnds(u, ended, u.Actor, events.ByConnection)
	for _, g := range ended {
		if err := u.AuditAs(u.Actor, "session.signed_out", "signin:"+strconv.FormatInt(g.ID, 10), g.Session); err != nil {
			return false, err
		}
	}
	deleted, err := u.Identities().DeleteIdentitiesOf(id, endedAtOnce)
	return len(ended) == endedAtOnce || deleted == endedAtOnce, err
}

// apply checks a change, and writes it into a row.
func (s Scope) apply(u *account.Unit, row *people.Connection, now connection.Settings, change connection.Change) error {
	if !change.Fits(now.Type) {
		return ErrOtherType
	}
	next := change.Apply(now)
	if change.ChangesProvider(now) {
		next.ProviderAt = u.Now
	}
	if s.Organization.ID == 0 && (next.JustInTime || len(next.Mappings) > 0 || next.Enforcement != string(v1alpha1.ConnectionEnforcementOptional)) {
		return ErrOrganizationOnly
	}
	if next.JustInTime && translation.PublicIssuer(next.Issuer) {
		return ErrOpenProvider
	}
	if err := s.requireTested(u, row.ID, now, next); err != nil {
		return err
	}
	if err := s.requireMappable(u, now, next, change.ChoosesProvider(now)); err != nil {
		return err
	}
	before := row.Secrets
	if change.ClientSecret != nil {
		if u.Keyring.Empty() {
			return account.ErrCannotSeal
		}
		row.Secrets = u.Keyring.Seal(people.SealedConnection, people.SealedFor(u.Key(), row.ID), []byte(*change.ClientSecret))
	}
	active, err := activation(now.IsComplete(before), next.IsComplete(row.Secrets), row.Active, change.Active)
	if err != nil {
		return err
	}
	row.Active = active
	row.Settings, row.Enforces = next.String(), next.Enforcement != string(v1alpha1.ConnectionEnforcementOptional)
	return nil
}

// requireMappable returns an error if a change gives a role that does not exist, or, by other mappings or another
// provider, one with permissions that the admin lacks. The provider states which users get a role, so its choice gives
// the roles of all mappings, as does a change of their order.
func (s Scope) requireMappable(u *account.Unit, now, next connection.Settings, chooses bool) error {
	changed := !slices.Equal(now.Mappings, next.Mappings)
	for _, m := range next.Mappings {
		kept := slices.Contains(now.Mappings, m)
		if kept && !changed && !chooses {
			continue
		}
		if err := account.RequireMappable(u, s.Admin, m.Role); err != nil && !(kept && errors.Is(err, account.ErrRoleUnknown)) {
			return err
		}
	}
	return nil
}

// activation returns whether a connection is active after a change. A connection that is not complete is inactive; the
// change that completes it activates it, unless it says otherwise.
func activation(wasComplete, complete, active bool, wanted *bool) (bool, error) {
	switch {
	case !complete && wanted != nil && *wanted:
		return false, ErrIncomplete
	case !complete:
		return false, nil
	case wanted != nil:
		return *wanted, nil
	}
	return active || !wasComplete, nil
}

// requireTested returns ErrNotTested if an admin makes an enforcement stricter without having signed in by the
// connection as it is now. Otherwise a typing error would lock the organization out.
func (s Scope) requireTested(u *account.Unit, id int64, now, next connection.Settings) error {
	if s.Backend || next.Enforcement == now.Enforcement || next.Enforcement == string(v1alpha1.ConnectionEnforcementOptional) {
		return nil
	}
	if s.Link != nil {
		if !slices.ContainsFunc(s.SignIns, func(g people.SignIn) bool { return g.Upstream.Connection == id && tests(u, g.CreatedAt, next) }) {
			return ErrNotTested
		}
		return nil
	}
	own, err := u.Identities().IdentitiesOf(s.Admin.User)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(own, func(i people.Identity) bool { return i.Connection == id && tests(u, i.UsedAt, next) }) {
		return ErrNotTested
	}
	return nil
}

// tests reports whether a sign-in at a time shows that a connection with some settings works.
func tests(u *account.Unit, at time.Time, s connection.Settings) bool {
	return at.After(u.Now.Add(-testedWithin)) && !at.Before(s.ProviderAt)
}

func object(id int64) string { return "connection:" + strconv.FormatInt(id, 10) }
