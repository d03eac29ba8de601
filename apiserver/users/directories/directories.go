// Package directories has the rules of the directories that organizations and backends set up, which are rows:
// permissions, bounds, and tokens. Whose directories are managed is a connections.Scope. It does not depend on HTTP.
package directories

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/directory"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/connections"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// Errors of the rules. Those of connections.Scope.Require, and account.ErrDirectoryUnknown, come in addition.
var (
	// ErrDeclared: a resource declares the directory.
	ErrDeclared = errors.New("a resource declares the directory")
	// ErrDisabled: organizations of the deployment may not set up directories.
	ErrDisabled = errors.New("organizations may not set up directories")
	// ErrTooMany is returned in an account.LimitError.
	ErrTooMany = errors.New("the organization has too many directories")
	// ErrTooManyToday is returned in an account.WaitError.
	ErrTooManyToday = errors.New("the organization set up too many directories today")
	// ErrTooManyTokens is returned in an account.LimitError.
	ErrTooManyTokens = errors.New("the directory has too many tokens")
	// ErrChanged: the directory is not the one that the caller has read.
	ErrChanged = errors.New("the directory was changed meanwhile")
	// ErrTokenUnknown: the directory has no such token.
	ErrTokenUnknown = errors.New("there is no such token")
)

const (
	// MaxOfOrganization is how many directories an organization may have that it or a backend set up.
	MaxOfOrganization = 2
	// MaxTokens is how many tokens of a directory are live at once.
	MaxTokens = 2
	// perDay is how many directories the admins of an organization may set up in a day.
	perDay = 20
)

// Change is a change of a directory. nil: it stays as it is.
type Change struct {
	// Connection is the connection by which the directory's users sign in, 0: none.
	Connection *int64
	GroupRoles *[]directory.GroupRole
	Erases     *bool
	Active     *bool
	// Read is the UpdatedAt of the directory that the caller changes, zero: whatever it is. Update compares it.
	Read time.Time
}

// List returns the directories of the scope's organization that it or a backend set up, the newest first.
func List(u *account.Unit, in connections.Scope) ([]people.RuntimeDirectory, error) {
	if err := in.Require(u); err != nil {
		return nil, err
	}
	return u.Directories().ListRuntimeDirectories(people.RuntimeDirectoryFilter{Organization: in.Organization.ID}, MaxOfOrganization)
}

// Find returns a directory of the scope, active or not. A backend finds those of all organizations. Errors:
// account.ErrDirectoryUnknown, ErrDeclared.
func Find(u *account.Unit, in connections.Scope, id int64) (people.RuntimeDirectory, error) {
	return find(u, in, id, u.Directories().RuntimeDirectory)
}

func find(u *account.Unit, in connections.Scope, id int64, read func(int64) (people.RuntimeDirectory, bool, error)) (people.RuntimeDirectory, error) {
	if err := in.Require(u); err != nil {
		return people.RuntimeDirectory{}, err
	}
	if u.Snapshot().Declares(v1alpha1.KindDirectory, u.Key(), id) {
		d, err := account.NamedDirectory(u, id)
		if err == nil && (in.Backend || d.Organization == in.Organization.Slug) {
			err = ErrDeclared
		}
		return people.RuntimeDirectory{}, account.FirstOf(err, account.ErrDirectoryUnknown)
	}
	row, found, err := read(id)
	if err != nil || !found || !in.Backend && row.Organization != in.Organization.ID {
		return people.RuntimeDirectory{}, account.FirstOf(err, account.ErrDirectoryUnknown)
	}
	return row, nil
}

// Create inserts a directory of the scope's organization, without a token. Errors: ErrDisabled, an account.LimitError
// with ErrTooMany, an account.WaitError with ErrTooManyToday, account.ErrNotMember if the organization was deleted
// meanwhile, those of Update.
func Create(u *account.Unit, in connections.Scope, wanted Change) (people.RuntimeDirectory, error) {
	if err := requireNew(u, in); err != nil {
		return people.RuntimeDirectory{}, err
	}
	row := people.RuntimeDirectory{Organization: in.Organization.ID, Active: true, CreatedAt: u.Now, UpdatedAt: u.Now}
	var err error
	if row.ID, err = u.NewID(); err != nil {
		return row, err
	}
	row.Slug = "d-" + strconv.FormatInt(row.ID, 10)
	if err := apply(u, in, &row, directory.Settings{}, wanted); err != nil {
		return row, err
	}
	// The organization cannot be deleted meanwhile: that deletes the directories that it has.
	if _, found, err := u.Organizations().LockOrganization(row.Organization); err != nil || !found {
		return row, account.FirstOf(err, account.ErrNotMember)
	}
	if err := u.Directories().InsertRuntimeDirectory(row); err != nil {
		return row, err
	}
	return row, u.Audit("directory.created", object(row.ID))
}

// requireNew returns an error if the scope may not create a directory.
func requireNew(u *account.Unit, in connections.Scope) error {
	organization := strconv.FormatInt(in.Organization.ID, 10)
	if err := u.Limits().Lock("directories:" + organization); err != nil {
		return err
	}
	have, err := List(u, in)
	switch {
	case err != nil:
		return err
	case !in.Backend && u.Settings.EffectiveConnections().NoDirectories:
		return ErrDisabled
	case len(have) >= MaxOfOrganization:
		return &account.LimitError{Reason: ErrTooMany, Have: int64(len(have)), Most: MaxOfOrganization}
	case in.Backend:
		return nil
	}
	n, err := u.Limits().Count("directories", organization, u.Now, u.Now.Add(24*time.Hour))
	if err == nil && n.Count > perDay {
		err = &account.WaitError{Reason: ErrTooManyToday, Wait: n.Ends.Sub(u.Now)}
	}
	return err
}

// Update changes a directory. Servers give members the roles by changed group roles soon after. Errors: those of Find,
// ErrChanged, connections.ErrUnknown, account.ErrRoleUnknown, an account.PermissionError for a role with permissions
// that an admin lacks.
func Update(u *account.Unit, in connections.Scope, id int64, change Change) (people.RuntimeDirectory, error) {
	row, err := Find(u, in, id)
	if err != nil {
		return row, err
	}
	state, err := u.Directories().LockDirectory(id) // as in Delete, before the directory
	if err != nil {
		return row, err
	}
	if row, err = find(u, in, id, u.Directories().LockRuntimeDirectory); err != nil {
		return row, err
	}
	if !account.IsRead(change.Read, row.UpdatedAt) {
		return row, ErrChanged
	}
	now, err := directory.Read(row.Settings)
	if err != nil {
		return row, err
	}
	before := row
	if err := apply(u, in, &row, now, change); err != nil || row == before {
		return row, err
	}
	row.UpdatedAt = account.NextUpdate(before.UpdatedAt, u.Now)
	if err := u.Directories().UpdateRuntimeDirectory(row); err != nil {
		return row, err
	}
	if change.GroupRoles != nil && !slices.Equal(*change.GroupRoles, now.GroupRoles) {
		state.Roles = people.StaleRoles
		if err := u.Directories().UpdateDirectory(state); err != nil {
			return row, err
		}
	}
	return row, u.Audit("directory.changed", object(id))
}

// Delete deletes a directory with its tokens, and returns it. Servers delete its users, groups and suspended
// memberships afterward. No member changes. Errors: those of Find.
func Delete(u *account.Unit, in connections.Scope, id int64) (people.RuntimeDirectory, error) {
	row, err := Find(u, in, id)
	if err != nil {
		return row, err
	}
	if _, err := u.Directories().LockDirectory(id); err != nil { // a change that the identity provider makes ends before
		return row, err
	}
	deleted, err := u.Directories().DeleteRuntimeDirectory(id)
	if err != nil || !deleted {
		return row, account.FirstOf(err, account.ErrDirectoryUnknown)
	}
	return row, u.Audit("directory.deleted", object(id))
}

// apply checks a change, and writes it into a row.
func apply(u *account.Unit, in connections.Scope, row *people.RuntimeDirectory, s directory.Settings, change Change) error {
	if change.Connection != nil && *change.Connection != row.Connection {
		if err := requireConnection(u, row.Organization, *change.Connection); err != nil {
			return err
		}
		row.Connection = *change.Connection
	}
	changed := change.GroupRoles != nil && !slices.Equal(*change.GroupRoles, s.GroupRoles)
	if changed {
		for _, given := range *change.GroupRoles {
			if !slices.Contains(s.GroupRoles, given) && u.RoleOf(v1alpha1.RoleLevelOrganization, false, given.Role) == nil {
				return account.ErrRoleUnknown
			}
		}
		s.GroupRoles = *change.GroupRoles
	}
	if changed || change.Active != nil && *change.Active && !row.Active {
		if err := requireGrantable(u, in, s); err != nil {
			return err
		}
	}
	if change.Erases != nil {
		s.Erases = *change.Erases
	}
	if change.Active != nil {
		row.Active = *change.Active
	}
	row.Settings = s.String()
	return nil
}

// requireGrantable returns an account.PermissionError if a group of a directory gives a role with permissions that an
// admin lacks. With a token, or by another order of the roles, the admin could get such a role.
func requireGrantable(u *account.Unit, in connections.Scope, s directory.Settings) error {
	for _, given := range s.GroupRoles {
		if err := account.RequireMappable(u, in.Admin, given.Role); err != nil && !errors.Is(err, account.ErrRoleUnknown) {
			return err
		}
	}
	return nil
}

// requireConnection returns connections.ErrUnknown unless an organization has a connection, active or not. 0 is
// none.
func requireConnection(u *account.Unit, organization, id int64) error {
	if id == 0 {
		return nil
	}
	o, _, err := u.Organizations().Organization(organization)
	if err != nil {
		return err
	}
	if u.Snapshot().Declares(v1alpha1.KindConnection, u.Key(), id) {
		declared, found, err := account.NamedConnection(u, id)
		if err != nil || !found || declared.Organization != o.Slug {
			return account.FirstOf(err, connections.ErrUnknown)
		}
		return nil
	}
	row, found, err := u.Connections().Connection(id)
	if err != nil || !found || row.Organization != organization {
		return account.FirstOf(err, connections.ErrUnknown)
	}
	return nil
}

// NewToken gives a directory a token that lives for a time, 0: without an end. It returns the token itself, which is
// not stored. Expired tokens of the directory are deleted. Errors: those of Find, an account.PermissionError if a group
// gives a role with permissions that an admin lacks, an account.LimitError with ErrTooManyTokens.
func NewToken(u *account.Unit, in connections.Scope, id int64, lifetime time.Duration) (people.DirectoryToken, apikey.Key, error) {
	row, err := find(u, in, id, u.Directories().LockRuntimeDirectory)
	if err != nil {
		return people.DirectoryToken{}, apikey.Key{}, err
	}
	settings, err := directory.Read(row.Settings)
	if err != nil {
		return people.DirectoryToken{}, apikey.Key{}, err
	}
	if err := requireGrantable(u, in, settings); err != nil {
		return people.DirectoryToken{}, apikey.Key{}, err
	}
	have, err := u.Directories().DirectoryTokens([]int64{id})
	if err != nil {
		return people.DirectoryToken{}, apikey.Key{}, err
	}
	live := 0
	for _, t := range have {
		if t.Live(u.Now) {
			live++
		} else if _, err := u.Directories().DeleteDirectoryToken(id, t.ID); err != nil {
			return t, apikey.Key{}, err
		}
	}
	if live >= MaxTokens {
		return people.DirectoryToken{}, apikey.Key{}, &account.LimitError{Reason: ErrTooManyTokens, Have: int64(live), Most: MaxTokens}
	}
	key, err := apikey.Mint(u.Random, document.DirectoryTokenPrefix)
	if err != nil {
		return people.DirectoryToken{}, key, err
	}
	t := people.DirectoryToken{Directory: row.ID, Public: key.ID(), Last4: key.Last4(), Digest: key.Digest(), CreatedAt: u.Now}
	if lifetime > 0 {
		t.ExpiresAt = u.Now.Add(lifetime)
	}
	if t.ID, err = u.NewID(); err != nil {
		return t, key, err
	}
	if err := u.Directories().InsertDirectoryToken(t); err != nil {
		return t, key, err
	}
	return t, key, u.Audit("directory.token_created", tokenObject(t.ID))
}

// DeleteToken revokes a token of a directory. Errors: those of Find, ErrTokenUnknown.
func DeleteToken(u *account.Unit, in connections.Scope, id, token int64) error {
	if _, err := Find(u, in, id); err != nil {
		return err
	}
	deleted, err := u.Directories().DeleteDirectoryToken(id, token)
	if err != nil || !deleted {
		return account.FirstOf(err, ErrTokenUnknown)
	}
	return u.Audit("directory.token_deleted", tokenObject(token))
}

// Details are what is shown of a directory besides its row.
type Details struct {
	Settings directory.Settings
	// Tokens are the live tokens, the oldest first.
	Tokens        []people.DirectoryToken
	Users, Groups int64
	// RequestedAt is when a request had one of Tokens, to the minute; zero: never.
	RequestedAt time.Time
}

// Describe returns what is shown of a directory.
func Describe(u *account.Unit, row people.RuntimeDirectory) (s Details, err error) {
	if s.Settings, err = directory.Read(row.Settings); err != nil {
		return s, err
	}
	state, _, err := u.Directories().Directory(row.ID)
	if err != nil {
		return s, err
	}
	s.Users, s.Groups = state.Users, state.Groups
	if s.Tokens, err = u.Directories().DirectoryTokens([]int64{row.ID}); err != nil {
		return s, err
	}
	slices.SortStableFunc(s.Tokens, func(a, b people.DirectoryToken) int { return a.CreatedAt.Compare(b.CreatedAt) })
	s.Tokens = slices.DeleteFunc(s.Tokens, func(t people.DirectoryToken) bool { return !t.Live(u.Now) })
	for _, t := range s.Tokens {
		if t.UsedAt.After(s.RequestedAt) {
			s.RequestedAt = t.UsedAt
		}
	}
	return s, nil
}

func object(id int64) string { return "directory:" + strconv.FormatInt(id, 10) }

func tokenObject(id int64) string { return "directory_token:" + strconv.FormatInt(id, 10) }
