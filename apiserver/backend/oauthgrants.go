package backend

import (
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// listOAuthGrants serves a page of users' grants to an app's clients, the newest first.
func listOAuthGrants(c *call) (reply, error) {
	q := c.query()
	filter := people.GrantFilter{User: q.ID("user_id")}
	filter.Client, _ = q.Text("client_id")
	return c.listGrants(q, filter)
}

// listGrantsOfOAuthClient is listOAuthGrants of the client in the path.
func listGrantsOfOAuthClient(c *call) (reply, error) {
	q := c.query()
	return c.listGrants(q, people.GrantFilter{User: q.ID("user_id"), Client: c.r.PathValue("oauth_client_id")})
}

func (c *call) listGrants(q *parameters, filter people.GrantFilter) (reply, error) {
	limit := q.Limit(defaultLimit, maxLimit)
	filter.Before = q.ID("cursor")
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	app, err := findOAuthApp(c)
	if err != nil {
		return reply{}, err
	}
	filter.App = app.ID
	list := backendapi.OAuthGrantList{Grants: []backendapi.OAuthGrant{}}
	err = c.people().view(func(u *account.Unit) error {
		if err := c.ofPath(u, app); err != nil {
			return err
		}
		found, err := u.OAuth().ListGrants(filter, limit+1)
		list.Grants, list.HasMore, list.NextCursor = list.Grants[:0], len(found) > limit, nil
		for _, g := range found[:min(len(found), limit)] {
			list.Grants = append(list.Grants, grantView(g, app))
		}
		if list.HasMore {
			list.NextCursor = optionalID(found[limit-1].ID)
		}
		return err
	})
	return object(list), err
}

// ofPath refuses a client in the path that the app does not have. A path without a client passes.
func (c *call) ofPath(u *account.Unit, app *snapshot.Entry) error {
	id := c.r.PathValue("oauth_client_id")
	if _, declared := c.declaredClient(app, id); declared || id == "" {
		return nil
	}
	if !consent.MayBeRegistered(id) {
		return noSuchClient()
	}
	_, found, err := u.OAuthClients().OAuthClient(app.ID, id)
	if err == nil && !found {
		err = noSuchClient()
	}
	return err
}

// revokeOAuthGrant deletes a user's grant, with all its tokens.
func revokeOAuthGrant(c *call) (reply, error) {
	app, err := findOAuthApp(c)
	if err != nil {
		return reply{}, err
	}
	id, err := ids.Parse(c.r.PathValue("grant_id"))
	if err != nil {
		return reply{}, noSuchGrant()
	}
	p := c.people()
	var served backendapi.OAuthGrant
	err = p.change(func(u *account.Unit) error {
		g, found, err := u.OAuth().Grant(id)
		if err != nil {
			return err
		}
		if of := c.r.PathValue("oauth_client_id"); !found || g.App != app.ID || of != "" && of != g.Client {
			return noSuchGrant()
		}
		deleted, err := u.OAuth().DeleteGrant(id)
		if err == nil && !deleted {
			err = noSuchGrant()
		}
		if err != nil {
			return err
		}
		served = grantView(g, app)
		served.Status, served.RevokedAt, served.UpdatedAt = backendapi.OAuthGrantStatusRevoked, &p.Now, p.Now
		u.Log(events.OfGrant(events.OAuthGrantRevoked, g))
		return p.audit(u, "oauth.grant_revoked", "oauth_grant", id)
	})
	return object(served), err
}

func grantView(g people.Grant, app *snapshot.Entry) backendapi.OAuthGrant {
	served := backendapi.OAuthGrant{
		Id: ids.Format(g.ID), ApiAuthAppSlug: snapshot.ContentOf[document.OAuthApp](app).Slug, OauthClientId: g.Client, Resources: listed(g.Resources), Scopes: listed(g.Scopes),
		Status: backendapi.OAuthGrantStatusActive, GrantedByUserId: ids.Format(g.User), OrganizationId: optionalID(g.Organization), WorkspaceId: optionalID(g.Workspace),
		GrantedAt: g.UpdatedAt, CreatedAt: g.CreatedAt, UpdatedAt: g.UpdatedAt,
	}
	if len(g.Resources) > 0 {
		served.Resource = g.Resources[0]
	}
	return served
}

// noSuchGrant is the error for an id that no grant of the app's clients has.
func noSuchGrant() error {
	return &apierror.Error{Status: 404, Faults: []apierror.Fault{{Pointer: ":grant_id", Message: "is the id of no active grant: list the grants to see which exist"}}}
}
