package backend

import (
	"errors"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/connections"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// The operations on connections to identity providers, and on the identities of users.

var connectionSources = sources[backendapi.Connection, people.Connection]{
	kind:        v1alpha1.KindConnection,
	declaredFor: func(e *snapshot.Entry) string { return snapshot.ContentOf[snapshot.Connection](e).Organization },
	declared:    viewConnection,
	rows: func(u *account.Unit, organization, before int64, limit int) ([]people.Connection, error) {
		return u.Connections().ListConnections(people.ConnectionFilter{Organization: organization, Before: before}, limit)
	},
	key: func(row people.Connection) (id, organization int64) { return row.ID, row.Organization },
	row: viewOf,
}

// listConnections serves a page of the deployment's connections.
func listConnections(c *call) (reply, error) {
	p, err := connectionSources.list(c)
	return object(backendapi.ConnectionList{Data: p.Data, HasMore: p.More, NextCursor: p.Next}), err
}

// connectionID returns the id in the path.
func connectionID(c *call) (int64, error) {
	id, err := ids.Parse(c.r.PathValue("connection_id"))
	if err != nil {
		return 0, peopleError(connections.ErrUnknown)
	}
	return id, nil
}

// readConnection calls declared or runtime with the connection of the path.
func readConnection(c *call, declared func(*account.Unit, *snapshot.Entry) error, runtime func(*account.Unit, people.Connection) error) error {
	id, err := connectionID(c)
	if err != nil {
		return err
	}
	return c.people().view(func(u *account.Unit) error {
		if e, found := u.Snapshot().ByID(v1alpha1.KindConnection, u.Key(), id); found {
			return declared(u, e)
		}
		row, found, err := u.Connections().Connection(id)
		if err != nil || !found || !u.ManagesConnections() {
			return account.FirstOf(err, connections.ErrUnknown)
		}
		return runtime(u, row)
	})
}

// getConnection serves one connection.
func getConnection(c *call) (reply, error) {
	var view backendapi.Connection
	err := readConnection(c, func(u *account.Unit, e *snapshot.Entry) (err error) {
		view, err = viewConnection(c, u, e)
		return err
	}, func(u *account.Unit, row people.Connection) (err error) {
		view, err = viewRow(c, u, row)
		return err
	})
	return object(view), err
}

// createConnection sets up a connection of an organization, or with no organization of the deployment.
func createConnection(c *call) (reply, error) {
	p := c.support()
	var organization int64
	var wanted connections.New
	var invalid error
	err := p.parse(func(o *body.Object) {
		organization = input.ID(o, "organization_id")
		wanted.Type, wanted.Change, invalid = input.NewConnection(o, site.Staging(p.Settings), p.Now)
		if organization == 0 && wanted.Change.JustInTime == nil {
			wanted.Change.JustInTime = ptr.To(false)
		}
	})
	if err = account.FirstOf(err, invalid); err != nil {
		return reply{}, err
	}
	if wanted.Type == connection.TypeSAML {
		if err := addSAMLKey(c, p, organization, &wanted); err != nil {
			return reply{}, err
		}
	}
	var view backendapi.Connection
	err = p.change(func(u *account.Unit) error {
		in, err := newConnectionScope(u, organization)
		if err != nil {
			return err
		}
		row, err := in.Create(u, wanted)
		if err == nil {
			view, err = viewRow(c, u, row)
		}
		return err
	})
	return object(view), err
}

// newConnectionScope returns the scope of a new connection of an organization, or with 0 of the deployment.
func newConnectionScope(u *account.Unit, organization int64) (in connections.Scope, err error) {
	in.Backend = true
	if organization != 0 {
		in.Organization, err = findOrganization(u, ids.Format(organization))
	}
	return in, err
}

// updateConnection changes the sent members of a connection. A backend needs no test before an enforcement: it is who
// helps an organization that locked itself out.
func updateConnection(c *call) (reply, error) {
	p := c.support()
	var change connection.Change
	var invalid error
	err := p.parse(func(o *body.Object) { change, invalid = input.ConnectionUpdate(o, site.Staging(p.Settings), p.Now) })
	if err = account.FirstOf(err, invalid); err != nil {
		return reply{}, err
	}
	var view backendapi.Connection
	err = changeConnection(c, p, func(u *account.Unit, id int64) error {
		row, err := connections.Scope{Backend: true}.Update(u, id, change)
		if err == nil {
			view, err = viewRow(c, u, row)
		}
		return err
	})
	return object(view), err
}

// deleteConnection deletes a connection, its sign-ins and its identities.
func deleteConnection(c *call) (reply, error) {
	return reply{}, changeConnection(c, c.support(), func(u *account.Unit, id int64) error {
		_, err := connections.Scope{Backend: true}.Delete(u, id)
		return err
	})
}

// changeConnection runs do on the connection of the path. If the connection has more sign-ins and identities than one
// transaction ends, it ends them in batches, and runs do again.
func changeConnection(c *call, p *peopleRequest, do func(u *account.Unit, id int64) error) error {
	id, err := connectionID(c)
	if err != nil {
		return err
	}
	if e, found := c.snapshot.ByID(v1alpha1.KindConnection, c.tenant(), id); found {
		return conflict("the Connection resource " + e.Namespace + "/" + e.Name + " declares it: change the resource")
	}
	for {
		cleared := true
		err := p.change(func(u *account.Unit) error {
			err := do(u, id)
			if cleared = !errors.Is(err, connections.ErrNotCleared); !cleared {
				return nil
			}
			return err
		})
		if err != nil || cleared {
			return err
		}
	}
}

// listConnectionFailures serves the newest failed sign-ins by a connection.
func listConnectionFailures(c *call) (reply, error) {
	list := backendapi.ConnectionFailureList{Data: []backendapi.ConnectionFailure{}}
	read := func(u *account.Unit, id int64) error {
		failures, err := u.Connections().ConnectionFailures(id, people.MaxConnectionFailures)
		for _, f := range failures {
			list.Data = append(list.Data, backendapi.ConnectionFailure{
				At: f.At, RequestId: f.RequestID, Step: f.Step, Reason: f.Reason, Expected: f.Expected, Got: f.Got, Subject: f.Subject, Email: f.Email,
			})
		}
		return err
	}
	err := readConnection(c, func(u *account.Unit, e *snapshot.Entry) error { return read(u, e.ID) }, func(u *account.Unit, row people.Connection) error { return read(u, row.ID) })
	return object(list), err
}

// listUserIdentities serves a user's identities at the providers of connections, the oldest first.
func listUserIdentities(c *call) (reply, error) {
	id, err := c.userID()
	if err != nil {
		return reply{}, err
	}
	list := backendapi.UserIdentityList{Data: []backendapi.UserIdentity{}}
	err = c.people().view(func(u *account.Unit) error {
		if _, err := findUser(u, id); err != nil {
			return err
		}
		have, err := u.Identities().IdentitiesOf(id)
		for _, i := range have {
			view := backendapi.UserIdentity{
				Id: ids.Format(i.ID), ConnectionId: ids.Format(i.Connection), Issuer: i.Issuer, Subject: i.Subject, Email: i.Email, CreatedAt: i.CreatedAt,
			}
			conn, found, err := account.NamedConnection(u, i.Connection)
			if err != nil {
				return err
			}
			if found {
				view.ConnectionSlug = conn.Slug
			}
			if !i.UsedAt.IsZero() {
				view.LastUsedAt = &i.UsedAt
			}
			list.Data = append(list.Data, view)
		}
		return err
	})
	return object(list), err
}

// removeUserIdentity removes an identity of a user, and ends the sign-ins by it. The user is notified.
func removeUserIdentity(c *call) (reply, error) {
	user, err := c.userID()
	if err != nil {
		return reply{}, err
	}
	id, malformed := ids.Parse(c.r.PathValue("id"))
	err = c.support().change(func(u *account.Unit) error {
		if _, err := findUser(u, user); err != nil {
			return err
		}
		if malformed != nil {
			return account.ErrIdentityUnknown
		}
		return account.WithdrawIdentity(u, user, id)
	})
	return reply{}, err
}
