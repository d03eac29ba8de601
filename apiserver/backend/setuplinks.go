package backend

import (
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/connections"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// setupScope returns the scope of the organization in the path.
func setupScope(c *call, u *account.Unit) (connections.Scope, error) {
	o, err := findOrganization(u, c.r.PathValue("organization_id"))
	return connections.Scope{Organization: o, Backend: true}, err
}

// createSetupLink makes a link by which a user without an account sets up connections and domains of an organization.
func createSetupLink(c *call) (reply, error) {
	p := c.support()
	var wanted connections.NewLink
	if err := p.parse(func(o *body.Object) { wanted = input.SetupLink(o) }); err != nil {
		return reply{}, err
	}
	var view backendapi.SetupLink
	err := p.change(func(u *account.Unit) error {
		in, err := setupScope(c, u)
		if err != nil {
			return err
		}
		l, token, err := in.MakeLink(u, wanted)
		view = viewSetupLink(l)
		view.Url = site.Base(p.Settings, c.r) + "/setup/" + token
		return err
	})
	return object(view), err
}

// listSetupLinks serves the live setup links of an organization, the newest first, without their URLs.
func listSetupLinks(c *call) (reply, error) {
	list := backendapi.SetupLinkList{Data: []backendapi.SetupLink{}}
	err := c.people().view(func(u *account.Unit) error {
		in, err := setupScope(c, u)
		if err != nil {
			return err
		}
		links, err := in.Links(u)
		list.Data = make([]backendapi.SetupLink, len(links))
		for i, l := range links {
			list.Data[i] = viewSetupLink(l)
		}
		return err
	})
	return object(list), err
}

// deleteSetupLink ends a setup link of an organization.
func deleteSetupLink(c *call) (reply, error) {
	return reply{}, c.support().change(func(u *account.Unit) error {
		in, err := setupScope(c, u)
		if err != nil {
			return err
		}
		id, err := ids.Parse(c.r.PathValue("setup_link_id"))
		if err != nil {
			return connections.ErrInvalidLink
		}
		return in.DeleteLink(u, id)
	})
}

func viewSetupLink(l people.SetupLink) backendapi.SetupLink {
	view := backendapi.SetupLink{Id: ids.Format(l.ID), Email: l.Email, Intents: l.Intents, CreatedAt: l.CreatedAt, ExpiresAt: l.ExpiresAt}
	if !l.ProvedAt.IsZero() {
		view.LastUsedAt = &l.ProvedAt
	}
	return view
}
