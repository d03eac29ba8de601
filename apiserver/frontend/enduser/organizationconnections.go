package enduser

import (
	"context"
	"errors"
	"time"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/upstream"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/connections"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// The connections of an organization, which its admins set up: owners, and members with the permission
// connection:manage.

// fetchedWithin is how long the response to a new provider waits for its documents.
const fetchedWithin = 3 * time.Second

// listOrganizationConnections lists the connections of an organization: the declared ones, then its own, the newest
// first.
func listOrganizationConnections(c *call) (reply, error) {
	return inManaged(c, func(u *account.Unit, in connections.Scope) (any, error) {
		rows, err := in.List(u)
		if err != nil {
			return nil, err
		}
		out := []enduserapi.OrganizationConnection{}
		for _, declared := range account.DeclaredConnectionsOf(u, in.Organization) {
			view, err := viewDeclaredOf(c, u, in.Organization.ID, declared)
			if err != nil {
				return nil, err
			}
			out = append(out, view)
		}
		for _, row := range rows {
			view, err := viewOrganizationConnection(c, u, row)
			if err != nil {
				return nil, err
			}
			out = append(out, view)
		}
		return out, nil
	})
}

// getOrganizationConnection returns a connection of an organization.
func getOrganizationConnection(c *call) (reply, error) {
	id := organizationConnectionID(c)
	return inManaged(c, func(u *account.Unit, in connections.Scope) (any, error) {
		return viewConnectionOf(c, u, in, id)
	})
}

// viewConnectionOf returns a connection of an organization, declared or not.
func viewConnectionOf(c *call, u *account.Unit, in connections.Scope, id int64) (any, error) {
	row, err := in.Find(u, id)
	if errors.Is(err, connections.ErrDeclared) {
		declared, found, err := account.NamedConnection(u, id)
		if err != nil || !found {
			return nil, account.FirstOf(err, connections.ErrUnknown)
		}
		return viewDeclaredOf(c, u, in.Organization.ID, declared)
	}
	if err != nil {
		return nil, err
	}
	return viewOrganizationConnection(c, u, row)
}

// organizationConnectionID returns the id in the path, 0, which no connection has, if it is malformed. The membership
// in the organization is checked before the id.
func organizationConnectionID(c *call) int64 {
	id, err := ids.Parse(c.r.PathValue("connection_id"))
	if err != nil {
		return 0
	}
	return id
}

// addOrganizationConnection sets up a connection of an organization.
func addOrganizationConnection(c *call) (reply, error) {
	var wanted connections.New
	var invalid error
	err := c.parse(func(o *body.Object) {
		wanted.Type, wanted.Change, invalid = input.NewConnection(o, site.Staging(c.request.Settings), c.now)
	})
	if err = account.FirstOf(err, invalid); err != nil {
		return reply{}, err
	}
	if wanted.Type == connection.TypeSAML {
		if err := addSAMLKey(c, &wanted); err != nil {
			return reply{}, err
		}
	}
	var row people.Connection
	_, err = changeManaged(c, func(u *unit, in connections.Scope) (_ any, err error) {
		row, err = in.Create(u.Unit, wanted)
		return nil, err
	})
	if err != nil {
		return reply{}, err
	}
	return fetchedConnection(c, row)
}

// changeOrganizationConnection changes what the request has of a connection of an organization.
func changeOrganizationConnection(c *call) (reply, error) {
	var change connection.Change
	var invalid error
	err := c.parse(func(o *body.Object) {
		change, invalid = input.ConnectionUpdate(o, site.Staging(c.request.Settings), c.now)
	})
	if err = account.FirstOf(err, invalid); err != nil {
		return reply{}, err
	}
	var row people.Connection
	err = manageConnection(c, func(u *unit, in connections.Scope, id int64) (err error) {
		row, err = in.Update(u.Unit, id, change)
		return err
	})
	if err != nil {
		return reply{}, err
	}
	return fetchedConnection(c, row)
}

// removeOrganizationConnection deletes a connection of an organization, its sign-ins and its identities.
func removeOrganizationConnection(c *call) (reply, error) {
	var row people.Connection
	var view enduserapi.OrganizationConnection
	err := manageConnection(c, func(u *unit, in connections.Scope, id int64) (err error) {
		if row, err = in.Delete(u.Unit, id); err == nil {
			view, err = viewOrganizationConnection(c, u.Unit, row)
		}
		return err
	})
	return reply{data: view}, err
}

// manageConnection runs do on the connection of the path for an admin. If the connection has more sign-ins and
// identities than one transaction ends, it ends them in batches, and runs do again.
func manageConnection(c *call, do func(u *unit, in connections.Scope, id int64) error) error {
	id := organizationConnectionID(c)
	for {
		cleared := true
		_, err := changeManaged(c, func(u *unit, in connections.Scope) (any, error) {
			err := do(u, in, id)
			if cleared = !errors.Is(err, connections.ErrNotCleared); !cleared {
				return nil, nil // the transaction has ended a batch
			}
			return nil, err
		})
		if err != nil || cleared {
			return err
		}
	}
}

// fetchedConnection returns a connection after its provider's documents were fetched, or could not be.
func fetchedConnection(c *call, row people.Connection) (reply, error) {
	ctx, cancel := context.WithTimeout(c.r.Context(), fetchedWithin)
	defer cancel()
	var conn account.Connection
	err := c.view(func(u *account.Unit) (err error) {
		conn, _, err = account.NamedConnection(u, row.ID)
		return err
	})
	if err != nil {
		return reply{}, err
	}
	if err := fetchDocuments(ctx, c, conn); err != nil && !errors.Is(err, upstream.ErrUnavailable) {
		return reply{}, c.answerTo(err)
	}
	return inManaged(c, func(u *account.Unit, in connections.Scope) (any, error) { return viewConnectionOf(c, u, in, row.ID) })
}

// fetchDocuments fetches the documents of a connection's provider, if there is anything to fetch.
func fetchDocuments(ctx context.Context, c *call, conn account.Connection) (err error) {
	switch {
	case conn.Connection == nil:
	case conn.SAML != nil && conn.SAML.MetadataURL != "":
		_, err = c.Providers.SAML(ctx, upstreamOf(c, conn))
	case conn.SAML == nil && conn.Provider.Issuer != "":
		_, err = c.Providers.Metadata(ctx, upstreamOf(c, conn))
	}
	return err
}

// listOrganizationConnectionFailures lists the newest failed sign-ins by a connection of an organization.
func listOrganizationConnectionFailures(c *call) (reply, error) {
	id := organizationConnectionID(c)
	return inManaged(c, func(u *account.Unit, in connections.Scope) (any, error) {
		if _, err := in.Find(u, id); err != nil && !errors.Is(err, connections.ErrDeclared) {
			return nil, err
		}
		out := []enduserapi.ConnectionFailure{}
		failures, err := u.Connections().ConnectionFailures(id, people.MaxConnectionFailures)
		for _, f := range failures {
			out = append(out, enduserapi.ConnectionFailure{
				At: f.At, RequestId: f.RequestID, Step: f.Step, Reason: f.Reason, Expected: f.Expected, Got: f.Got, Subject: f.Subject, Email: f.Email,
			})
		}
		return out, err
	})
}
