package backend

import (
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// listOAuthClients serves a page of an app's clients: declared ones, then runtime ones.
func listOAuthClients(c *call) (reply, error) {
	q := c.query()
	limit, at := q.Limit(defaultLimit, maxLimit), q.clientCursor()
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	app, err := findOAuthApp(c)
	if err != nil {
		return reply{}, err
	}
	list := backendapi.OAuthClientList{Clients: []backendapi.OAuthClient{}}
	last := at
	if at.declared {
		passed := at.id == 0
		for _, e := range c.declaredOf(app, v1alpha1.KindOAuthClient) {
			if passed && len(list.Clients) == limit {
				list.HasMore, list.NextCursor = true, optional(last.String())
				return object(list), nil
			}
			if passed {
				list.Clients, last = append(list.Clients, declaredClientView(e, app)), clientCursor{declared: true, id: e.ID}
			}
			passed = passed || e.ID == at.id
		}
	}
	declared := list.Clients
	err = c.people().view(func(u *account.Unit) error {
		list.Clients, list.HasMore = declared, false
		rest := limit - len(declared)
		rows, err := u.OAuthClients().ListOAuthClients(app.ID, at.row, rest+1)
		for _, row := range rows[:min(len(rows), rest)] {
			client, err := consent.NewRegistered(u.Tenant, row)
			if err != nil {
				return err
			}
			list.Clients, last = append(list.Clients, clientView(client, app)), clientCursor{row: people.OAuthClientPlace{At: row.CreatedAt, Client: row.Client}}
		}
		list.HasMore = len(rows) > rest
		return err
	})
	if list.HasMore {
		list.NextCursor = optional(last.String())
	}
	return object(list), err
}

// createOAuthClient creates a client that the backend trusts, and replies with its secret, which no later response
// contains.
func createOAuthClient(c *call) (reply, error) {
	p := c.people()
	var content document.OAuthClient
	err := p.parse(func(o *body.Object) { content = readNewClient(o) })
	if err != nil {
		return reply{}, err
	}
	app, err := findOAuthApp(c)
	if err != nil {
		return reply{}, err
	}
	secret, err := consent.GiveSecret(c.api.Random, &content)
	if err != nil {
		return reply{}, err
	}
	var served backendapi.OAuthClient
	err = p.change(func(u *account.Unit) error {
		client, err := consent.CreateClient(u, consent.NewApp(c.snapshot, app), content)
		if err != nil {
			return err
		}
		served = clientView(client, app)
		return p.record(u, "oauth.client_created", "oauth_client:"+client.ID)
	})
	served.ClientSecret = optional(secret)
	return object(served), err
}

// updateOAuthClient changes the sent members of a client. Of a client that registered itself, only is_active can be
// changed.
func updateOAuthClient(c *call) (reply, error) {
	p := c.people()
	var sent clientUpdate
	if err := p.parse(func(o *body.Object) { sent = readClientUpdate(o) }); err != nil {
		return reply{}, err
	}
	var secret string
	answer, err := p.changeClient(func(u *account.Unit, client *consent.Client) (document.OAuthClient, string, error) {
		secret = ""
		if !client.Registered.ByBackend && len(sent.changes) > 0 {
			return client.OAuthClient, "", speaksForItself("change only is_active, or delete the client")
		}
		content, err := sent.apply(client.OAuthClient)
		if err == nil && consent.HasSecret(&content) && len(content.Verifiers) == 0 {
			secret, err = consent.GiveSecret(c.api.Random, &content)
		}
		return content, "oauth.client_changed", err
	})
	if err != nil {
		return reply{}, err
	}
	answer.ClientSecret = optional(secret)
	return object(answer), nil
}

// actionRotated is the action of rotateOAuthClientSecret in audit records.
const actionRotated = "oauth.client_secret_rotated"

// rotateOAuthClientSecret gives a client a new secret. The previous secret ends immediately, or after the requested
// overlap.
func rotateOAuthClientSecret(c *call) (reply, error) {
	p := c.people()
	var overlap time.Duration
	if err := p.parse(func(o *body.Object) { overlap = readOverlap(o) }); err != nil {
		return reply{}, err
	}
	var secret string
	answer, err := p.changeClient(func(_ *account.Unit, client *consent.Client) (document.OAuthClient, string, error) {
		content := client.OAuthClient
		if !client.Registered.ByBackend {
			return content, "", speaksForItself("it rotates its own secret")
		}
		if !consent.HasSecret(&content) {
			return content, "", conflict("the client does not authenticate with a secret: change its client_auth_method first")
		}
		before := content.Verifiers
		var err error
		if secret, err = consent.GiveSecret(c.api.Random, &content); err == nil && overlap > 0 && len(before) > 0 {
			old, until := before[0], p.Now.Add(overlap)
			if old.ExpiresAt == nil || until.Before(*old.ExpiresAt) {
				old.ExpiresAt = &until
			}
			content.Verifiers = append(content.Verifiers, old)
		}
		return content, actionRotated, err
	})
	if err != nil {
		return reply{}, err
	}
	return object(backendapi.OAuthClientSecret{ClientId: answer.ClientId, ClientSecret: secret}), nil
}

// deleteOAuthClient deletes a runtime client with everything that users granted it.
func deleteOAuthClient(c *call) (reply, error) {
	p := c.people()
	app, id, err := c.runtimeClient()
	if err != nil {
		return reply{}, err
	}
	return reply{}, p.change(func(u *account.Unit) error {
		row, found, err := u.OAuthClients().LockOAuthClient(app.ID, id)
		if err == nil && !found {
			err = noSuchClient()
		}
		if err != nil {
			return err
		}
		if _, err := u.OAuthClients().DeleteOAuthClient(app.ID, id, u.Now); err != nil {
			return err
		}
		u.Log(events.OfClient(events.OAuthClientDeleted, row))
		return p.record(u, "oauth.client_deleted", "oauth_client:"+id)
	})
}

// runtimeClient returns the app and the client id in the path. It refuses a client that a resource declares.
func (c *call) runtimeClient() (app *snapshot.Entry, id string, err error) {
	if app, err = findOAuthApp(c); err != nil {
		return nil, "", err
	}
	id = c.r.PathValue("oauth_client_id")
	if declared, found := c.declaredClient(app, id); found {
		return nil, "", clientIsDeclared(declared)
	}
	if !consent.MayBeRegistered(id) {
		return nil, "", noSuchClient()
	}
	return app, id, nil
}

// changeClient runs do with the path's client, locked against concurrent changes. If do returns a different content, it
// writes that and records the action. It returns the resulting client.
func (p *peopleRequest) changeClient(do func(*account.Unit, *consent.Client) (content document.OAuthClient, action string, err error)) (served backendapi.OAuthClient, err error) {
	app, id, err := p.c.runtimeClient()
	if err != nil {
		return served, err
	}
	err = p.change(func(u *account.Unit) error {
		row, found, err := u.OAuthClients().LockOAuthClient(app.ID, id)
		if err == nil && !found {
			err = noSuchClient()
		}
		if err != nil {
			return err
		}
		client, err := consent.NewRegistered(u.Tenant, row)
		if err != nil {
			return err
		}
		content, action, err := do(u, client)
		if err != nil {
			return err
		}
		changed, err := consent.Rewrite(u, row, content)
		if err != nil {
			return err
		}
		served = clientView(changed, app)
		if changed.Registered.Content == row.Content {
			return nil
		}
		kind := events.OAuthClientUpdated
		if action == actionRotated {
			kind = events.OAuthClientRotated
		}
		u.Log(events.OfClient(kind, row))
		return p.record(u, action, "oauth_client:"+id)
	})
	return served, err
}

// speaksForItself refuses to change a client that registered itself. instead says what is possible instead.
func speaksForItself(instead string) error {
	return conflict("the client registered itself and manages its own metadata: " + instead)
}

func conflict(message string) error { return apierror.New(409, "%s", message) }

// noSuchClient is the error for an id that no client of the app has.
func noSuchClient() error {
	return &apierror.Error{Status: 404, Faults: []apierror.Fault{{Pointer: ":oauth_client_id", Message: "is the id of no client of the app: list them to see which there are"}}}
}

// clientIsDeclared refuses to change a client that a resource declares.
func clientIsDeclared(e *snapshot.Entry) error {
	return &apierror.Error{Status: 409, Faults: []apierror.Fault{{
		Message: "the client is declared by the OAuthClient \"" + e.Name + "\": change that resource", ResourcePath: "spec"}}}
}
