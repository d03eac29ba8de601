package account

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/directory"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// Errors of directories.
var (
	// ErrDirectoryUnknown: there is no such directory.
	ErrDirectoryUnknown = errors.New("there is no such directory")
	// ErrDirectoryInactive: the directory is inactive.
	ErrDirectoryInactive = errors.New("the directory is inactive")
	// ErrNoOrganization: the directory's organization does not exist.
	ErrNoOrganization = errors.New("the organization of the directory does not exist")
	// ErrProvisionedElsewhere: another user of a directory of the organization has the account.
	ErrProvisionedElsewhere = errors.New("another user of a directory of the organization has the account")
	// ErrSuspended: a directory of the organization deactivated the user.
	ErrSuspended = errors.New("a directory of the organization deactivated the user")
	// ErrManagedAccount: a directory manages the account.
	ErrManagedAccount = errors.New("a directory manages the account")
)

// Directory is a directory: one that a resource declares, or a row of an organization or a backend.
type Directory struct {
	ID int64
	// Runtime reports that it is a row.
	Runtime bool
	*document.Directory
	// Roles are the group roles of a row, and ConnectionID is the connection by which its users sign in, 0: none.
	// RolesByGroup and DirectoryConnection return those of any directory.
	Roles        []directory.GroupRole
	ConnectionID int64
	// Of is its organization. NamedDirectory does not set it for a declared directory.
	Of people.Organization
}

func directoryOf(e *snapshot.Entry) Directory {
	return Directory{ID: e.ID, Directory: snapshot.ContentOf[document.Directory](e)}
}

// RuntimeDirectory returns the directory of a row.
func RuntimeDirectory(row people.RuntimeDirectory, o people.Organization) (Directory, error) {
	settings, err := directory.Read(row.Settings)
	return Directory{
		ID: row.ID, Runtime: true, Directory: settings.Content(row.Slug, o.Slug, row.Active), Roles: settings.GroupRoles, ConnectionID: row.Connection, Of: o,
	}, err
}

// DeclaredDirectory returns a declared directory, active or not, and reports whether there is one.
func (t *Tenant) DeclaredDirectory(id int64) (Directory, bool) {
	e, found := t.snapshot.ByID(v1alpha1.KindDirectory, t.Key(), id)
	if !found {
		return Directory{}, false
	}
	return directoryOf(e), true
}

// NamedDirectory returns a directory, active or not. ErrDirectoryUnknown: there is none, or it has no effect.
func NamedDirectory(u *Unit, id int64) (Directory, error) {
	if d, declared := u.DeclaredDirectory(id); declared {
		return d, nil
	}
	if !u.ManagesConnections() || u.snapshot.Declares(v1alpha1.KindDirectory, u.Key(), id) {
		return Directory{}, ErrDirectoryUnknown
	}
	row, found, err := u.Directories().RuntimeDirectory(id)
	if err != nil || !found {
		return Directory{}, FirstOf(err, ErrDirectoryUnknown)
	}
	o, found, err := u.Organizations().Organization(row.Organization)
	if err != nil || !found {
		return Directory{}, FirstOf(err, ErrDirectoryUnknown)
	}
	return RuntimeDirectory(row, o)
}

// FindDirectory returns an active directory with its organization. Errors: ErrDirectoryUnknown, ErrDirectoryInactive,
// ErrOrganizationsDisabled, ErrNoOrganization.
func FindDirectory(u *Unit, id int64) (Directory, error) {
	d, err := NamedDirectory(u, id)
	if err != nil {
		return d, err
	}
	if !d.Active {
		return d, ErrDirectoryInactive
	}
	if err := u.RequireB2B(); err != nil || d.Runtime {
		return d, err
	}
	o, found, err := u.Organizations().OrganizationBySlug(d.Organization)
	if err == nil && !found {
		err = ErrNoOrganization
	}
	d.Of = o
	return d, err
}

// hasDirectory reports whether a directory exists, also if it has no effect: it is declared, even if its document
// cannot be read, or a row.
func hasDirectory(u *Unit, id int64) (bool, error) {
	if u.snapshot.Declares(v1alpha1.KindDirectory, u.Key(), id) {
		return true, nil
	}
	_, found, err := u.Directories().RuntimeDirectory(id)
	return found, err
}

// maxDirectories bounds the rows of an organization that are read at once. More cannot be set up.
const maxDirectories = 100

// DeclaredDirectoriesOf returns the declared directories of an organization, active or not.
func DeclaredDirectoriesOf(t *Tenant, o people.Organization) (all []Directory) {
	for _, e := range t.snapshot.DirectoriesOf(t.Key(), o.Slug) {
		all = append(all, directoryOf(e))
	}
	return all
}

// directoriesOf returns the directories of an organization, active or not.
func directoriesOf(u *Unit, o people.Organization) ([]Directory, error) {
	all := DeclaredDirectoriesOf(u.Tenant, o)
	if !u.ManagesConnections() {
		return all, nil
	}
	rows, err := u.Directories().ListRuntimeDirectories(people.RuntimeDirectoryFilter{Organization: o.ID}, maxDirectories)
	for _, row := range rows {
		d, err := RuntimeDirectory(row, o)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, err
}

// HasDirectories reports whether the deployment can have directories: declared ones, or others.
func (t *Tenant) HasDirectories() bool {
	return t.ManagesConnections() || t.snapshot.Count(v1alpha1.KindDirectory, t.Key()) > 0
}

// usersAmong returns the users of some directories that have an account.
func usersAmong(u *Unit, directories []Directory, user int64) ([]people.SCIMUser, error) {
	if len(directories) == 0 {
		return nil, nil
	}
	rows, err := u.SCIM().SCIMUsersOf(user)
	return slices.DeleteFunc(rows, func(row people.SCIMUser) bool {
		return !slices.ContainsFunc(directories, func(d Directory) bool { return d.ID == row.Directory })
	}), err
}

// HoldsDomain reports whether the domain of an address is one of an organization. A declared domain displaces a proven
// one.
func HoldsDomain(u *Unit, o people.Organization, address string) (bool, error) {
	domain := connection.DomainOf(address)
	if domain == "" {
		return false, nil
	}
	if declared, own := declaredFor(u.Tenant, o, domain); declared {
		return own, nil
	}
	row, found, err := u.Domains().EffectiveDomain(domain)
	return found && row.Organization == o.ID, err
}

// DomainsKey returns what identifies the domains of an organization: it differs after one was declared, proven or lost.
func DomainsKey(u *Unit, o people.Organization) (string, error) {
	names, err := domainsOf(u, o)
	return keyOf(strings.Join(names, " ")), err
}

// HasDomains reports whether an organization has domains, declared or proven.
func HasDomains(u *Unit, o people.Organization) (bool, error) {
	names, err := domainsOf(u, o)
	return len(names) > 0, err
}

func domainsOf(u *Unit, o people.Organization) (names []string, err error) {
	for _, c := range DeclaredConnectionsOf(u, o) {
		names = append(names, c.Domains...)
	}
	proven, err := u.Domains().DomainsOf(o.ID)
	for _, d := range proven {
		if d.State == people.DomainVerified || d.State == people.DomainFailing {
			names = append(names, d.Name)
		}
	}
	slices.Sort(names)
	return names, err
}

// requireNotSuspended returns ErrSuspended if a directory of an organization deactivated a user. A membership that was
// suspended by a directory that no longer exists is deleted: it no longer keeps the user out.
func requireNotSuspended(u *Unit, o people.Organization, user int64) error {
	suspended, found, err := u.Directories().SuspendedMember(o.ID, user)
	if err != nil {
		return err
	}
	if found {
		exists, err := hasDirectory(u, suspended.Directory)
		if err != nil || exists {
			return FirstOf(err, ErrSuspended)
		}
		if _, err := u.Directories().DropSuspended(o.ID, user); err != nil {
			return err
		}
	}
	all, err := directoriesOf(u, o)
	if err != nil {
		return err
	}
	rows, err := usersAmong(u, all, user)
	if slices.ContainsFunc(rows, func(row people.SCIMUser) bool { return !row.Active }) {
		return FirstOf(err, ErrSuspended)
	}
	return err
}

// rolesByDirectory reports whether groups of a directory decide the role of a member.
func rolesByDirectory(u *Unit, o people.Organization, user int64) (bool, error) {
	all, err := directoriesOf(u, o)
	if err != nil {
		return false, err
	}
	rows, err := usersAmong(u, slices.DeleteFunc(all, func(d Directory) bool { return !d.Active || len(u.RolesByGroup(d)) == 0 }), user)
	return len(rows) > 0, err
}

// requireUnmanaged returns ErrManagedAccount if a directory manages an account: the account belongs to one of its
// users, and its primary address is in a domain of the directory's organization.
func requireUnmanaged(u *Unit, user int64) error {
	if !u.HasDirectories() {
		return nil
	}
	rows, err := u.SCIM().SCIMUsersOf(user)
	if err != nil || len(rows) == 0 {
		return err
	}
	account, _, err := u.Users().User(user)
	for _, row := range rows {
		if err != nil {
			return err
		}
		d, unusable := FindDirectory(u, row.Directory)
		if unusable != nil {
			continue
		}
		var managed bool
		if managed, err = HoldsDomain(u, d.Of, account.Email); managed {
			return ErrManagedAccount
		}
	}
	return err
}

// ProvisionedUser is the user of a directory that a subject of a provider is.
type ProvisionedUser struct {
	// Inactive reports that a directory deactivated the user.
	Inactive bool
	// Address is the primary address of the user's account, which the connection is authoritative for, and User is the
	// account; "" and 0: none.
	Address string
	User    int64
}

// ProvisionedBy returns the user that directories of a connection provisioned for a subject: the one whose externalId
// is the subject, else the one whose userName is the address that the provider stated.
func ProvisionedBy(u *Unit, c Connection, subject, address string) (p ProvisionedUser, err error) {
	all, err := directoriesBy(u, c)
	if err != nil {
		return p, err
	}
	for _, d := range all {
		rows, err := u.SCIM().FindSCIMUsers(d.ID, people.SCIMFilter{ExternalID: subject}, 0, 2)
		if err == nil && len(rows) != 1 && address != "" {
			rows, err = u.SCIM().FindSCIMUsers(d.ID, people.SCIMFilter{Name: people.FoldEmail(address)}, 0, 1)
		}
		if err != nil {
			return p, err
		}
		if len(rows) != 1 {
			continue
		}
		if !rows[0].Active {
			return ProvisionedUser{Inactive: true}, nil
		}
		account, found, err := u.Users().User(rows[0].User)
		if err != nil || !found {
			return p, err
		}
		own, err := Authoritative(u, c, account.Email)
		if err != nil || !own {
			return p, err
		}
		return ProvisionedUser{User: account.ID, Address: account.Email}, nil
	}
	return p, nil
}

// directoriesBy returns the active directories whose users sign in by a connection.
func directoriesBy(u *Unit, c Connection) ([]Directory, error) {
	if c.Organization == "" || !u.HasDirectories() {
		return nil, nil
	}
	o, found, err := u.Organizations().OrganizationBySlug(c.Organization)
	if err != nil || !found {
		return nil, err
	}
	all, err := directoriesOf(u, o)
	return slices.DeleteFunc(all, func(d Directory) bool { return !d.Active || DirectoryConnection(u.Tenant, d) != c.ID }), err
}

// DirectoryConnection returns the id of the connection by which the users of a directory sign in, 0 for none. The
// Connection may have been declared again, for another organization.
func DirectoryConnection(t *Tenant, d Directory) int64 {
	if d.Runtime {
		if e, found := t.snapshot.ByID(v1alpha1.KindConnection, t.Key(), d.ConnectionID); found && declaredConnection(e).Organization != d.Organization {
			return 0
		}
		return d.ConnectionID
	}
	if d.Connection == "" {
		return 0
	}
	e, found := t.snapshot.Get(store.Identity{Kind: v1alpha1.KindConnection, Namespace: t.Entry.Namespace, Name: d.Connection})
	if !found || e.Deployment != t.Key() || declaredConnection(e).Organization != d.Organization {
		return 0
	}
	return e.ID
}

// RolesByGroup returns the roles that groups of a directory give, in order. The role is 0 if it does not exist.
func (t *Tenant) RolesByGroup(d Directory) []directory.GroupRole {
	all := slices.Clone(d.Roles)
	for i := range all {
		if t.RoleOf(v1alpha1.RoleLevelOrganization, false, all[i].Role) == nil {
			all[i].Role = 0
		}
	}
	for _, declared := range d.GroupRoles {
		all = append(all, directory.GroupRole{Group: declared.Group, Role: t.RoleNamed(v1alpha1.RoleLevelOrganization, declared.Role)})
	}
	return all
}

// RolesKey returns what identifies the roles that groups of a directory give.
func RolesKey(t *Tenant, d Directory) string {
	text := ids.Format(t.assigned(t.B2B.OrgRole))
	for _, mapped := range t.RolesByGroup(d) {
		text += fmt.Sprintf(" %q %d", mapped.Group, mapped.Role)
	}
	return keyOf(text)
}

func keyOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}
