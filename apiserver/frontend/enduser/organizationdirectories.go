package enduser

import (
	"errors"
	"time"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/directory"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/connections"
	"github.com/cardea-iam/cardea/apiserver/users/directories"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/translation"
	"github.com/cardea-iam/cardea/store/people"
)

// The directories of an organization, which its admins set up: owners, and members with the permission
// connection:manage.

// listOrganizationDirectories lists the directories of an organization: the declared ones, then its own, the newest
// first.
func listOrganizationDirectories(c *call) (reply, error) {
	return inManaged(c, func(u *account.Unit, in connections.Scope) (any, error) {
		rows, err := directories.List(u, in)
		if err != nil {
			return nil, err
		}
		out := []enduserapi.OrganizationDirectory{}
		for _, declared := range account.DeclaredDirectoriesOf(u.Tenant, in.Organization) {
			view, err := viewDeclaredDirectory(c, u, in, declared)
			if err != nil {
				return nil, err
			}
			out = append(out, view)
		}
		for _, row := range rows {
			view, err := viewDirectory(c, u, row)
			if err != nil {
				return nil, err
			}
			out = append(out, view)
		}
		return out, nil
	})
}

// getOrganizationDirectory returns a directory of an organization, declared or not.
func getOrganizationDirectory(c *call) (reply, error) {
	id := directoryID(c)
	return inManaged(c, func(u *account.Unit, in connections.Scope) (any, error) {
		row, err := directories.Find(u, in, id)
		if errors.Is(err, directories.ErrDeclared) {
			declared, err := account.NamedDirectory(u, id)
			if err != nil {
				return nil, err
			}
			return viewDeclaredDirectory(c, u, in, declared)
		}
		if err != nil {
			return nil, err
		}
		return viewDirectory(c, u, row)
	})
}

// directoryID returns the id in the path, 0, which no directory has, if it is malformed. The membership in the
// organization is checked before the id.
func directoryID(c *call) int64 {
	id, err := ids.Parse(c.r.PathValue("directory_id"))
	if err != nil {
		return 0
	}
	return id
}

// addOrganizationDirectory sets up a directory of an organization.
func addOrganizationDirectory(c *call) (reply, error) {
	var wanted directories.Change
	if err := c.parse(func(o *body.Object) { wanted = input.Directory(o) }); err != nil {
		return reply{}, err
	}
	return changeDirectory(c, func(u *account.Unit, in connections.Scope) (people.RuntimeDirectory, error) {
		return directories.Create(u, in, wanted)
	})
}

// changeOrganizationDirectory changes what the request has of a directory of an organization.
func changeOrganizationDirectory(c *call) (reply, error) {
	var change directories.Change
	if err := c.parse(func(o *body.Object) { change = input.DirectoryUpdate(o) }); err != nil {
		return reply{}, err
	}
	return changeDirectory(c, func(u *account.Unit, in connections.Scope) (people.RuntimeDirectory, error) {
		return directories.Update(u, in, directoryID(c), change)
	})
}

// removeOrganizationDirectory deletes a directory of an organization.
func removeOrganizationDirectory(c *call) (reply, error) {
	return changeDirectory(c, func(u *account.Unit, in connections.Scope) (people.RuntimeDirectory, error) {
		return directories.Delete(u, in, directoryID(c))
	})
}

// removeDirectoryToken revokes a token of a directory.
func removeDirectoryToken(c *call) (reply, error) {
	return changeDirectory(c, func(u *account.Unit, in connections.Scope) (people.RuntimeDirectory, error) {
		token, err := ids.Parse(c.r.PathValue("token_id"))
		if err != nil {
			token = 0 // no token has it
		}
		if err := directories.DeleteToken(u, in, directoryID(c), token); err != nil {
			return people.RuntimeDirectory{}, err
		}
		return directories.Find(u, in, directoryID(c))
	})
}

// changeDirectory runs change for a caller that manages the organization in the path, and returns the directory.
func changeDirectory(c *call, change func(*account.Unit, connections.Scope) (people.RuntimeDirectory, error)) (reply, error) {
	return changeManaged(c, func(u *unit, in connections.Scope) (any, error) {
		row, err := change(u.Unit, in)
		if err != nil {
			return nil, err
		}
		return viewDirectory(c, u.Unit, row)
	})
}

// makeDirectoryToken gives a directory a token.
func makeDirectoryToken(c *call) (reply, error) {
	var lifetime time.Duration
	if err := c.parse(func(o *body.Object) { lifetime = input.DirectoryToken(o) }); err != nil {
		return reply{}, err
	}
	return changeManaged(c, func(u *unit, in connections.Scope) (any, error) {
		t, key, err := directories.NewToken(u.Unit, in, directoryID(c), lifetime)
		if err != nil {
			return nil, err
		}
		return enduserapi.IssuedDirectoryToken{Id: format(t.ID), Token: key.Plain(), ExpiresAt: timeOrNil(t.ExpiresAt)}, nil
	})
}

// viewDirectory returns a directory of an organization without its tokens.
func viewDirectory(c *call, u *account.Unit, row people.RuntimeDirectory) (enduserapi.OrganizationDirectory, error) {
	seen, err := directories.Describe(u, row)
	view := enduserapi.OrganizationDirectory{
		Id: format(row.ID), Slug: row.Slug, Source: enduserapi.OrganizationDirectorySourceRuntime, OrganizationId: format(row.Organization),
		ConnectionId: idOrNil(row.Connection), Url: directoryURL(c, row.ID), GroupRoles: viewGroupRoles(seen.Settings.GroupRoles),
		OnDelete: input.OnDelete(seen.Settings.Erases), IsActive: row.Active, Tokens: make([]enduserapi.DirectoryToken, len(seen.Tokens)),
		Users: int(seen.Users), Groups: int(seen.Groups), LastRequestAt: timeOrNil(seen.RequestedAt), CreatedAt: ptr.To(row.CreatedAt), UpdatedAt: ptr.To(row.UpdatedAt),
	}
	for i, t := range seen.Tokens {
		view.Tokens[i] = enduserapi.DirectoryToken{
			Id: format(t.ID), Last4: t.Last4, CreatedAt: t.CreatedAt, ExpiresAt: timeOrNil(t.ExpiresAt), LastUsedAt: timeOrNil(t.UsedAt),
		}
	}
	return view, err
}

// viewDeclaredDirectory returns a declared directory of an organization.
func viewDeclaredDirectory(c *call, u *account.Unit, in connections.Scope, d account.Directory) (enduserapi.OrganizationDirectory, error) {
	state, _, err := u.Directories().Directory(d.ID)
	return enduserapi.OrganizationDirectory{
		Id: format(d.ID), Slug: d.Slug, Source: enduserapi.OrganizationDirectorySourceDeclared, OrganizationId: format(in.Organization.ID),
		ConnectionId: idOrNil(account.DirectoryConnection(u.Tenant, d)), Url: directoryURL(c, d.ID), GroupRoles: viewGroupRoles(u.RolesByGroup(d)),
		OnDelete: input.OnDelete(d.Erases), IsActive: d.Active, Tokens: []enduserapi.DirectoryToken{}, Users: int(state.Users), Groups: int(state.Groups),
	}, err
}

// viewGroupRoles returns the group roles whose role has an id.
func viewGroupRoles(all []directory.GroupRole) []enduserapi.GroupRole {
	out := []enduserapi.GroupRole{}
	for _, g := range all {
		if g.Role != 0 {
			out = append(out, enduserapi.GroupRole{Group: g.Group, RoleId: format(g.Role)})
		}
	}
	return out
}

// directoryURL returns the URL of a directory on the first frontend host, "" if there is none.
func directoryURL(c *call, id int64) string {
	origins := site.Origins(c.request.Settings, c.r)
	if len(origins) == 0 {
		return ""
	}
	return origins[0] + translation.DirectoryPath(id)
}

// idOrNil returns nil for 0.
func idOrNil(id int64) *string {
	if id == 0 {
		return nil
	}
	return ptr.To(format(id))
}
