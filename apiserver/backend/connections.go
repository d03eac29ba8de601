package backend

import (
	"errors"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// The operations on connections to identity providers, and on the identities of users.

// errConnectionUnknown: the deployment has no such connection.
var errConnectionUnknown = errors.New("no such connection")

// listConnections serves a page of the deployment's connections, the newest first.
func listConnections(c *call) (reply, error) {
	q := c.query()
	limit, before := q.Limit(defaultLimit, maxLimit), q.ID("cursor")
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	list := backendapi.ConnectionList{Data: []backendapi.Connection{}}
	passed := before == 0
	var last int64
	c.snapshot.List(v1alpha1.KindConnection, c.tenant(), func(e *snapshot.Entry) bool {
		switch {
		case !passed:
			passed = e.ID == before
		case len(list.Data) == limit:
			list.HasMore, list.NextCursor = true, optionalID(last)
			return false
		default:
			list.Data, last = append(list.Data, viewConnection(e)), e.ID
		}
		return true
	})
	return object(list), nil
}

// connectionAt returns the connection of the path.
func connectionAt(c *call) (*snapshot.Entry, error) {
	id, err := ids.Parse(c.r.PathValue("connection_id"))
	if err != nil {
		return nil, peopleError(errConnectionUnknown)
	}
	e, found := c.snapshot.ByID(v1alpha1.KindConnection, c.tenant(), id)
	if !found {
		return nil, peopleError(errConnectionUnknown)
	}
	return e, nil
}

// getConnection serves one connection.
func getConnection(c *call) (reply, error) {
	e, err := connectionAt(c)
	if err != nil {
		return reply{}, err
	}
	return object(viewConnection(e)), nil
}

// viewConnection returns a connection without its secret.
func viewConnection(e *snapshot.Entry) backendapi.Connection {
	content := snapshot.ContentOf[snapshot.Connection](e)
	view := backendapi.Connection{
		Id: ids.Format(e.ID), Slug: content.Slug, Type: content.Type, Source: backendapi.ConnectionSourceDeclared, DisplayName: content.Name, IsActive: content.Active,
		Enforcement: content.Enforcement, Domains: append([]string{}, content.Domains...), Issuer: content.Provider.Issuer, ClientId: content.Client.ID,
		JustInTime: content.Organization != "" && content.Membership.JustInTime, CreatedAt: e.Meta.CreatedAt, UpdatedAt: e.Meta.UpdatedAt,
	}
	if content.Organization != "" {
		view.OrganizationSlug = &content.Organization
	}
	return view
}

// listConnectionFailures serves the newest failed sign-ins by a connection.
func listConnectionFailures(c *call) (reply, error) {
	e, err := connectionAt(c)
	if err != nil {
		return reply{}, err
	}
	list := backendapi.ConnectionFailureList{Data: []backendapi.ConnectionFailure{}}
	err = c.people().view(func(u *account.Unit) error {
		failures, err := u.Connections().ConnectionFailures(e.ID, people.MaxConnectionFailures)
		for _, f := range failures {
			list.Data = append(list.Data, backendapi.ConnectionFailure{
				At: f.At, RequestId: f.RequestID, Step: f.Step, Reason: f.Reason, Expected: f.Expected, Got: f.Got, Subject: f.Subject, Email: f.Email,
			})
		}
		return err
	})
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
			if e, found := c.snapshot.ByID(v1alpha1.KindConnection, c.tenant(), i.Connection); found {
				view.ConnectionSlug = e.Key
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
