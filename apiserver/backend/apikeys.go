package backend

import (
	"time"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// keyApp finds the app in the path.
func (c *call) keyApp() (*snapshot.Entry, *snapshot.App, error) {
	entry, found := c.snapshot.BySlug(v1alpha1.KindAPIAuthApp, c.tenant(), c.r.PathValue("slug"))
	if !found {
		return nil, nil, authApps.missing()
	}
	return entry, snapshot.ContentOf[snapshot.App](entry), nil
}

// keyInPath returns the id in the path, which may be a public id, and the key's entry if a resource of the app declares
// it.
func (c *call) keyInPath(app *snapshot.Entry) (id string, declared *snapshot.Entry) {
	id = c.r.PathValue("id")
	if e, found := c.declaredKey(id); found && snapshot.ContentOf[document.APIKey](e).App == app.Name {
		declared = e
	}
	return id, declared
}

// listKeys serves a page of an app's keys: declared ones, then those of the store.
func listKeys(c *call) (reply, error) {
	q := c.query()
	limit := q.Limit(defaultLimit, maxLimit)
	at, owner, organization := q.keyCursor(), q.ID("owner_user_id"), q.ID("organization_id")
	inactive := ptr.Deref(q.Flag("include_inactive"), false)
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	entry, app, err := c.keyApp()
	if err != nil {
		return reply{}, err
	}
	list := backendapi.ApiKeyList{Keys: []backendapi.ApiKey{}}
	last := at
	if at.declared && owner == 0 && organization == 0 {
		passed := at.id == 0
		for _, e := range c.declaredOf(entry, v1alpha1.KindAPIKey) {
			if view := c.declaredView(e, app); passed && (inactive || view.IsActive) {
				if len(list.Keys) == limit {
					list.HasMore, list.NextCursor = true, optional(last.String())
					return object(list), nil
				}
				list.Keys, last = append(list.Keys, view), keyCursor{declared: true, id: e.ID}
			}
			passed = passed || e.ID == at.id
		}
	}
	p := c.people()
	filter := people.APIKeyFilter{App: app.Slug, Owner: owner, Organization: organization}
	if !at.declared {
		filter.Before = at.id
	}
	if !inactive {
		filter.ActiveAt = p.Now
	}
	declared := list.Keys
	err = p.view(func(u *account.Unit) error {
		list.Keys, list.HasMore = declared, false
		rest := limit - len(declared)
		rows, err := u.APIKeys().ListAPIKeys(filter, rest+1)
		for _, k := range rows[:min(len(rows), rest)] {
			view, err := p.keyView(u, k)
			if err != nil {
				return err
			}
			list.Keys, last = append(list.Keys, view), keyCursor{id: k.ID}
		}
		list.HasMore = len(rows) > rest
		return err
	})
	if list.HasMore {
		list.NextCursor = optional(last.String())
	}
	return object(list), err
}

// getKey serves one key.
func getKey(c *call) (reply, error) {
	entry, app, err := c.keyApp()
	if err != nil {
		return reply{}, err
	}
	id, declared := c.keyInPath(entry)
	if declared != nil {
		return object(c.declaredView(declared, app)), nil
	}
	p := c.people()
	var served backendapi.ApiKey
	err = p.view(func(u *account.Unit) error {
		k, err := account.FindKey(u, app.Slug, id)
		if err != nil {
			return err
		}
		served, err = p.keyView(u, k)
		return err
	})
	return object(served), err
}

// createKey creates a key and returns its secret, which no later response contains.
func createKey(c *call) (reply, error) {
	_, app, err := c.keyApp()
	if err != nil {
		return reply{}, err
	}
	p := c.people()
	asked := people.APIKey{App: app.Slug}
	if err := p.parse(func(o *body.Object) { p.readNewKey(o, app, &asked) }); err != nil {
		return reply{}, err
	}
	if err := c.mayGrant(asked.Permissions, app.Ceiling); err != nil {
		return reply{}, err
	}
	var served backendapi.ApiKey
	var secret apikey.Key
	err = p.change(func(u *account.Unit) error {
		k, minted, err := account.CreateKey(u, asked, app.EffectiveKeyPrefix())
		if err != nil {
			return unboundKey(err)
		}
		if served, err = p.keyView(u, k); err != nil {
			return err
		}
		secret = minted
		return p.audit(u, "api_key.created", "api_key", k.ID)
	})
	if err != nil {
		return reply{}, err
	}
	return object(withSecret(served, secret)), nil
}

// updateKey changes the mutable members of a key.
func updateKey(c *call) (reply, error) {
	entry, app, err := c.keyApp()
	if err != nil {
		return reply{}, err
	}
	p := c.people()
	var sent keyUpdate
	if err := p.parse(func(o *body.Object) { sent = p.readKeyUpdate(o, app) }); err != nil {
		return reply{}, err
	}
	return p.changeKey(entry, app, func(u *account.Unit, k people.APIKey) (people.APIKey, error) {
		if !k.Active(p.Now) {
			return k, account.ErrKeyEnded
		}
		before := k
		changed := sent.apply(&k)
		if err := c.mayExtend(before, k, app.Ceiling); err != nil {
			return k, err
		}
		if len(changed) == 0 {
			return k, nil
		}
		u.Log(events.OfKey(events.APIKeyUpdated, k, changed...))
		k.UpdatedAt = p.Now
		if err := u.APIKeys().UpdateAPIKey(k); err != nil {
			return k, err
		}
		return k, p.audit(u, "api_key.updated", "api_key", k.ID)
	})
}

// revokeKey revokes a key for good.
func revokeKey(c *call) (reply, error) {
	entry, app, err := c.keyApp()
	if err != nil {
		return reply{}, err
	}
	p := c.people()
	var reason *string
	err = p.parse(func(o *body.Object) {
		if !o.IsNull("reason") {
			reason = input.Description(o, "reason")
		}
	})
	if err != nil {
		return reply{}, err
	}
	return p.changeKey(entry, app, func(u *account.Unit, k people.APIKey) (people.APIKey, error) {
		revoked, err := account.RevokeKey(u, &k, u.Actor, ptr.Deref(reason, ""))
		if err != nil || !revoked {
			return k, err
		}
		return k, p.audit(u, "api_key.revoked", "api_key", k.ID)
	})
}

// changeKey runs do with the path's key, locked against concurrent changes, and replies with the changed key.
func (p *peopleRequest) changeKey(entry *snapshot.Entry, app *snapshot.App, do func(*account.Unit, people.APIKey) (people.APIKey, error)) (reply, error) {
	id, declared := p.c.keyInPath(entry)
	if declared != nil {
		return reply{}, isDeclared(declared)
	}
	var served backendapi.ApiKey
	err := p.change(func(u *account.Unit) error {
		k, err := account.LockKey(u, app.Slug, id)
		if err != nil {
			return err
		}
		if k, err = do(u, k); err != nil {
			return err
		}
		served, err = p.keyView(u, k)
		return err
	})
	return object(served), err
}

// rotateKey replaces a key by a new one with the same permissions.
func rotateKey(c *call) (reply, error) {
	entry, app, err := c.keyApp()
	if err != nil {
		return reply{}, err
	}
	p := c.people()
	var overlap time.Duration
	if err = p.parse(func(o *body.Object) { overlap = readOverlap(o) }); err != nil {
		return reply{}, err
	}
	var secret apikey.Key
	answer, err := p.changeKey(entry, app, func(u *account.Unit, k people.APIKey) (people.APIKey, error) {
		if err := c.mayGrant(k.Permissions, app.Ceiling); err != nil && k.Owner == 0 {
			return k, err // a key that is bound to a user has no management permissions
		}
		next, minted, err := account.RotateKey(u, k, app.EffectiveKeyPrefix(), overlap)
		if err != nil {
			return k, err
		}
		secret = minted
		return next, p.audit(u, "api_key.rotated", "api_key", k.ID)
	})
	if err != nil {
		return reply{}, err
	}
	return object(withSecret(answer.value.(backendapi.ApiKey), secret)), nil
}
