package consent

import (
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/store/people"
)

// grant records the scopes and resources that the user grants, merged with an earlier grant to the client in the same
// place. A grant of more than before has an event.
func (r *Request) grant(u *account.Unit, person *Person, place Place, before []people.Grant) (people.Grant, error) {
	g := people.Grant{App: r.App.Entry.ID, Client: r.Client.ID, User: person.User, Scopes: r.Scopes, Resources: r.Resources, CreatedAt: u.Now, UpdatedAt: u.Now}
	g.Organization, g.Workspace = place.IDs()
	known := false // that it grants no more than before
	for _, b := range before {
		if b.Organization == g.Organization && b.Workspace == g.Workspace {
			g.Scopes, g.Resources = union(b.Scopes, g.Scopes), union(b.Resources, g.Resources)
			known = len(g.Scopes) == len(b.Scopes) && len(g.Resources) == len(b.Resources)
		}
	}
	id, err := u.NewID()
	if err != nil {
		return g, err
	}
	g.ID = id
	if g.ID, err = u.OAuth().PutGrant(g, MaxGrants); err != nil {
		return g, err
	}
	if !known {
		u.Log(events.OfGrant(events.OAuthGrantCreated, g))
	}
	return g, nil
}
