package backend

import (
	"slices"

	"github.com/cardea-iam/cardea/apiserver/directory"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/scim"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/directories"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/translation"
	"github.com/cardea-iam/cardea/store/people"
)

// viewDirectory returns a declared directory. The configuration has no uses of its tokens.
func viewDirectory(c *call, u *account.Unit, e *snapshot.Entry) (backendapi.Directory, error) {
	d, err := account.NamedDirectory(u, e.ID)
	if err != nil {
		return backendapi.Directory{}, err
	}
	o, _, err := u.Organizations().OrganizationBySlug(d.Organization)
	if err != nil {
		return backendapi.Directory{}, err
	}
	state, _, err := u.Directories().Directory(e.ID)
	roles := slices.DeleteFunc(u.RolesByGroup(d), func(given directory.GroupRole) bool { return given.Role == 0 })
	return backendapi.Directory{
		Id: ids.Format(e.ID), Slug: d.Slug, Source: backendapi.DirectorySourceDeclared, OrganizationId: optionalID(o.ID), OrganizationSlug: d.Organization,
		ConnectionId: optionalID(account.DirectoryConnection(u.Tenant, d)), Url: directoryURL(c, e.ID), GroupRoles: viewGroupRoles(roles),
		OnDelete: backendapi.DirectoryOnDelete(input.OnDelete(d.Erases)), IsActive: d.Active, Tokens: []backendapi.DirectoryToken{},
		Users: state.Users, Groups: state.Groups, CreatedAt: e.Meta.CreatedAt, UpdatedAt: e.Meta.UpdatedAt,
	}, err
}

// viewDirectoryRow returns a directory of an organization or a backend, without its tokens themselves.
func viewDirectoryRow(c *call, u *account.Unit, row people.RuntimeDirectory) (backendapi.Directory, error) {
	o, _, err := u.Organizations().Organization(row.Organization)
	if err != nil {
		return backendapi.Directory{}, err
	}
	return viewDirectoryOf(c, u, row, o.Slug)
}

// viewDirectoryOf is viewDirectoryRow for a directory whose organization has a slug.
func viewDirectoryOf(c *call, u *account.Unit, row people.RuntimeDirectory, organization string) (backendapi.Directory, error) {
	seen, err := directories.Describe(u, row)
	view := backendapi.Directory{
		Id: ids.Format(row.ID), Slug: row.Slug, Source: backendapi.DirectorySourceRuntime, OrganizationId: optionalID(row.Organization), OrganizationSlug: organization,
		ConnectionId: optionalID(row.Connection), Url: directoryURL(c, row.ID), GroupRoles: viewGroupRoles(seen.Settings.GroupRoles),
		OnDelete: backendapi.DirectoryOnDelete(input.OnDelete(seen.Settings.Erases)), IsActive: row.Active, Tokens: make([]backendapi.DirectoryToken, len(seen.Tokens)),
		Users: seen.Users, Groups: seen.Groups, LastRequestAt: unlessZero(seen.RequestedAt), CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}
	for i, t := range seen.Tokens {
		view.Tokens[i] = backendapi.DirectoryToken{
			Id: ids.Format(t.ID), Last4: t.Last4, CreatedAt: t.CreatedAt, ExpiresAt: unlessZero(t.ExpiresAt), LastUsedAt: unlessZero(t.UsedAt),
		}
	}
	return view, err
}

func viewGroupRoles(roles []directory.GroupRole) []backendapi.DirectoryGroupRole {
	views := make([]backendapi.DirectoryGroupRole, len(roles))
	for i, given := range roles {
		views[i] = backendapi.DirectoryGroupRole{Group: given.Group, RoleId: ids.Format(given.Role)}
	}
	return views
}

// directoryURL returns the base URL of a directory on the first frontend host, "" if there is none.
func directoryURL(c *call, id int64) string {
	origins := frontendOrigins(c)
	if len(origins) == 0 {
		return ""
	}
	return origins[0] + translation.DirectoryPath(id)
}

// viewDirectoryUser returns a user of a directory. Its document has the userName as it was sent.
func viewDirectoryUser(row people.SCIMUser) (backendapi.DirectoryUser, error) {
	sent, err := scim.DecodeUser([]byte(row.Document))
	if err != nil {
		return backendapi.DirectoryUser{}, err
	}
	return backendapi.DirectoryUser{
		Id: ids.Format(row.ID), UserId: optionalID(row.User), UserName: sent.UserName(), ExternalId: row.ExternalID, Email: row.Email, Active: row.Active,
		CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}, nil
}
