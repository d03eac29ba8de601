package backend

import (
	"errors"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/connections"
	"github.com/cardea-iam/cardea/apiserver/users/directories"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// The operations on directories, the SCIM endpoints of organizations.

// listDirectories serves a page of the deployment's directories: the declared ones, then those that organizations and
// backends set up, each the newest first.
func listDirectories(c *call) (reply, error) {
	q := c.query()
	limit, before, organization := q.Limit(defaultLimit, maxLimit), q.ID("cursor"), q.ID("organization_id")
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	var list backendapi.DirectoryList
	err := c.people().view(func(u *account.Unit) error {
		list = backendapi.DirectoryList{Data: []backendapi.Directory{}}
		slug := ""
		if organization != 0 {
			o, found, err := u.Organizations().Organization(organization)
			if err != nil || !found {
				return account.FirstOf(err, errNoOrganization)
			}
			slug = o.Slug
		}
		before := before // of this attempt
		if before == 0 || u.Snapshot().Declares(v1alpha1.KindDirectory, u.Key(), before) {
			if err := listDeclaredDirectories(c, u, &list, limit, before, slug); err != nil || list.HasMore {
				return err
			}
			before = 0
		}
		return listDirectoryRows(c, u, &list, limit-len(list.Data), people.RuntimeDirectoryFilter{Organization: organization, Before: before})
	})
	return object(list), err
}

// listDeclaredDirectories adds the declared directories after one, up to limit, to a page. 0: from the first; a slug
// selects those of an organization.
func listDeclaredDirectories(c *call, u *account.Unit, list *backendapi.DirectoryList, limit int, after int64, slug string) (err error) {
	passed := after == 0
	var last int64
	u.Snapshot().List(v1alpha1.KindDirectory, u.Key(), func(e *snapshot.Entry) bool {
		switch {
		case !passed:
			passed = e.ID == after
		case slug != "" && snapshot.ContentOf[document.Directory](e).Organization != slug:
		case len(list.Data) == limit:
			list.HasMore, list.NextCursor = true, optionalID(last)
			return false
		default:
			var view backendapi.Directory
			view, err = viewDirectory(c, u, e)
			list.Data, last = append(list.Data, view), e.ID
		}
		return err == nil
	})
	return err
}

// listDirectoryRows adds the directories that organizations and backends set up, up to limit, to a page.
func listDirectoryRows(c *call, u *account.Unit, list *backendapi.DirectoryList, limit int, filter people.RuntimeDirectoryFilter) error {
	if !u.ManagesConnections() {
		return nil
	}
	rows, err := u.Directories().ListRuntimeDirectories(filter, limit+1)
	if err != nil {
		return err
	}
	page := rows[:min(len(rows), limit)]
	of := make([]int64, len(page))
	for i, row := range page {
		of[i] = row.Organization
	}
	organizations, err := u.Bulk().OrganizationsAmong(of)
	if err != nil {
		return err
	}
	for _, row := range page {
		view, err := viewDirectoryOf(c, u, row, organizations[row.Organization].Slug)
		if err != nil {
			return err
		}
		list.Data = append(list.Data, view)
	}
	if len(rows) > limit {
		list.HasMore, list.NextCursor = true, optional(list.Data[len(list.Data)-1].Id)
	}
	return nil
}

// directoryID returns the id in the path.
func directoryID(c *call) (int64, error) {
	id, err := ids.Parse(c.r.PathValue("directory_id"))
	if err != nil {
		return 0, peopleError(account.ErrDirectoryUnknown)
	}
	return id, nil
}

// readDirectory calls declared or runtime with the directory of the path.
func readDirectory(c *call, declared func(*account.Unit, *snapshot.Entry) error, runtime func(*account.Unit, people.RuntimeDirectory) error) error {
	id, err := directoryID(c)
	if err != nil {
		return err
	}
	return c.people().view(func(u *account.Unit) error {
		if e, found := u.Snapshot().ByID(v1alpha1.KindDirectory, u.Key(), id); found {
			return declared(u, e)
		}
		if !u.ManagesConnections() {
			return account.ErrDirectoryUnknown
		}
		row, err := directories.Find(u, connections.Scope{Backend: true}, id)
		if err != nil {
			return err
		}
		return runtime(u, row)
	})
}

// getDirectory serves one directory.
func getDirectory(c *call) (reply, error) {
	var view backendapi.Directory
	err := readDirectory(c, func(u *account.Unit, e *snapshot.Entry) (err error) {
		view, err = viewDirectory(c, u, e)
		return err
	}, func(u *account.Unit, row people.RuntimeDirectory) (err error) {
		view, err = viewDirectoryRow(c, u, row)
		return err
	})
	return object(view), err
}

// createDirectory sets up a directory of an organization, without a token.
func createDirectory(c *call) (reply, error) {
	p := c.support()
	if err := p.RequireB2B(); err != nil {
		return reply{}, peopleError(err)
	}
	var organization int64
	var wanted directories.Change
	err := p.parse(func(o *body.Object) {
		if o.Require("organization_id") {
			organization = input.ID(o, "organization_id")
		}
		wanted = input.Directory(o)
	})
	if err != nil {
		return reply{}, err
	}
	var view backendapi.Directory
	err = p.change(func(u *account.Unit) error {
		in, err := newConnectionScope(u, organization)
		if err != nil {
			return err
		}
		row, err := directories.Create(u, in, wanted)
		if err == nil {
			view, err = viewDirectoryRow(c, u, row)
		}
		return invalidDirectory(err)
	})
	return object(view), err
}

// updateDirectory changes the sent members of a directory.
func updateDirectory(c *call) (reply, error) {
	p := c.support()
	var change directories.Change
	if err := p.parse(func(o *body.Object) { change = input.Directory(o) }); err != nil {
		return reply{}, err
	}
	var view backendapi.Directory
	err := changeDirectory(c, p, func(u *account.Unit, in connections.Scope, id int64) error {
		row, err := directories.Update(u, in, id, change)
		if err == nil {
			view, err = viewDirectoryRow(c, u, row)
		}
		return invalidDirectory(err)
	})
	return object(view), err
}

// deleteDirectory deletes a directory with its tokens.
func deleteDirectory(c *call) (reply, error) {
	return reply{}, changeDirectory(c, c.support(), func(u *account.Unit, in connections.Scope, id int64) error {
		_, err := directories.Delete(u, in, id)
		return err
	})
}

// createDirectoryToken gives a directory a token, and serves it once.
func createDirectoryToken(c *call) (reply, error) {
	p := c.support()
	var lifetime time.Duration
	if err := p.parse(func(o *body.Object) { lifetime = input.DirectoryToken(o) }); err != nil {
		return reply{}, err
	}
	var view backendapi.CreatedDirectoryToken
	err := changeDirectory(c, p, func(u *account.Unit, in connections.Scope, id int64) error {
		t, key, err := directories.NewToken(u, in, id, lifetime)
		if err == nil {
			view = backendapi.CreatedDirectoryToken{Id: ids.Format(t.ID), Token: key.Plain(), ExpiresAt: unlessZero(t.ExpiresAt)}
		}
		return err
	})
	return object(view), err
}

// deleteDirectoryToken revokes a token of a directory.
func deleteDirectoryToken(c *call) (reply, error) {
	return reply{}, changeDirectory(c, c.support(), func(u *account.Unit, in connections.Scope, id int64) error {
		token, err := ids.Parse(c.r.PathValue("token_id"))
		if err != nil {
			return directories.ErrTokenUnknown
		}
		return directories.DeleteToken(u, in, id, token)
	})
}

// changeDirectory runs do on the directory of the path, unless a resource declares it.
func changeDirectory(c *call, p *peopleRequest, do func(u *account.Unit, in connections.Scope, id int64) error) error {
	id, err := directoryID(c)
	if err != nil {
		return err
	}
	if e, found := c.snapshot.ByID(v1alpha1.KindDirectory, c.tenant(), id); found {
		return conflict("the Directory resource " + e.Namespace + "/" + e.Name + " declares it: change the resource")
	}
	return p.change(func(u *account.Unit) error { return do(u, connections.Scope{Backend: true}, id) })
}

// invalidDirectory names the member of the body that a refusal is about. Other operations return the same refusals for
// other members, or for the path.
func invalidDirectory(err error) error {
	switch {
	case errors.Is(err, connections.ErrUnknown):
		return apierror.Invalid(apierror.Fault{Pointer: "/connection_id", Message: "is the id of no connection of the organization: list the connections of the organization to see which there are"})
	case errors.Is(err, account.ErrRoleUnknown):
		return apierror.Invalid(apierror.Fault{Pointer: "/group_roles", Message: "has the id of no role of organizations in the deployment"})
	}
	return err
}

// listDirectoryUsers serves a page of the users of a directory, in the order of their ids.
func listDirectoryUsers(c *call) (reply, error) {
	q := c.query()
	limit, after := q.Limit(defaultLimit, maxLimit), q.ID("cursor")
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	var list backendapi.DirectoryUserList
	read := func(u *account.Unit, id int64) error {
		list = backendapi.DirectoryUserList{Data: []backendapi.DirectoryUser{}}
		rows, err := u.SCIM().FindSCIMUsers(id, people.SCIMFilter{After: after}, 0, limit+1)
		if err != nil {
			return err
		}
		for _, row := range rows[:min(len(rows), limit)] {
			view, err := viewDirectoryUser(row)
			if err != nil {
				return err
			}
			list.Data = append(list.Data, view)
		}
		if len(rows) > limit {
			list.HasMore, list.NextCursor = true, optional(list.Data[limit-1].Id)
		}
		return nil
	}
	err := readDirectory(c, func(u *account.Unit, e *snapshot.Entry) error { return read(u, e.ID) }, func(u *account.Unit, row people.RuntimeDirectory) error { return read(u, row.ID) })
	return object(list), err
}
