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

var directorySources = sources[backendapi.Directory, people.RuntimeDirectory]{
	kind:        v1alpha1.KindDirectory,
	declaredFor: func(e *snapshot.Entry) string { return snapshot.ContentOf[document.Directory](e).Organization },
	declared:    viewDirectory,
	rows: func(u *account.Unit, organization, before int64, limit int) ([]people.RuntimeDirectory, error) {
		return u.Directories().ListRuntimeDirectories(people.RuntimeDirectoryFilter{Organization: organization, Before: before}, limit)
	},
	key: func(row people.RuntimeDirectory) (id, organization int64) { return row.ID, row.Organization },
	row: viewDirectoryOf,
}

// listDirectories serves a page of the deployment's directories.
func listDirectories(c *call) (reply, error) {
	p, err := directorySources.list(c)
	return object(backendapi.DirectoryList{Data: p.Data, HasMore: p.More, NextCursor: p.Next}), err
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
	if err := p.parse(func(o *body.Object) { change = input.DirectoryUpdate(o) }); err != nil {
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
