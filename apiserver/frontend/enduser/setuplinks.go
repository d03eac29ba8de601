package enduser

import (
	"slices"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/connections"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// makeSetupLink makes a link by which a user without an account sets up what an organization needs.
func makeSetupLink(c *call) (reply, error) {
	var wanted connections.NewLink
	if err := c.parse(func(o *body.Object) { wanted = input.SetupLink(o) }); err != nil {
		return reply{}, err
	}
	return changeOrganizationBy(c, func(u *unit, by people.Member) (any, error) {
		l, token, err := scopeOf(by).MakeLink(u.Unit, wanted)
		if err != nil {
			return nil, err
		}
		view := viewSetupLink(l)
		view.Url = u.Base + "/setup/" + token
		return view, nil
	})
}

// listSetupLinks lists the live setup links of an organization, the newest first. Only the response to their creation
// has their URLs.
func listSetupLinks(c *call) (reply, error) {
	return inOrganization(c, func(u *account.Unit, in people.Member) (any, error) {
		links, err := scopeOf(in).Links(u)
		out := make([]enduserapi.SetupLink, len(links))
		for i, l := range links {
			out[i] = viewSetupLink(l)
		}
		return out, err
	})
}

// removeSetupLink ends a setup link.
func removeSetupLink(c *call) (reply, error) {
	return changeOrganizationBy(c, func(u *unit, by people.Member) (any, error) {
		id, err := ids.Parse(c.r.PathValue("setup_link_id"))
		if err != nil {
			return nil, connections.ErrInvalidLink
		}
		links, err := scopeOf(by).Links(u.Unit)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(links, func(l people.SetupLink) bool { return l.ID == id })
		if at < 0 {
			return nil, connections.ErrInvalidLink
		}
		return viewSetupLink(links[at]), scopeOf(by).DeleteLink(u.Unit, id)
	})
}

func viewSetupLink(l people.SetupLink) enduserapi.SetupLink {
	view := enduserapi.SetupLink{Id: format(l.ID), Email: l.Email, Intents: l.Intents, CreatedAt: l.CreatedAt, ExpiresAt: l.ExpiresAt}
	if !l.ProvedAt.IsZero() {
		view.LastUsedAt = &l.ProvedAt
	}
	return view
}
