package enduser

import (
	"time"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/store/people"
)

// discoveriesPerHour is how many addresses one client network may ask about in an hour.
const discoveriesPerHour = 120

// discover returns the connections that hold the domain of an address. It looks at no account, so that the response
// does not show whether the address has one.
func discover(c *call) (reply, error) {
	var email string
	if err := c.parse(func(o *body.Object) { email = required(o, "email", input.Email) }); err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		n, err := u.Limits().Count("sso-discoveries", u.Client.WideNetwork, u.Now, u.Now.Add(time.Hour))
		if err != nil {
			return reply{}, err
		}
		if n.Count > discoveriesPerHour {
			return reply{}, &account.WaitError{Reason: errTooManyDiscoveries, Wait: n.Ends.Sub(u.Now)}
		}
		holders, err := account.ConnectionsFor(u.Unit, connection.DomainOf(email))
		if err != nil {
			return reply{}, err
		}
		out := enduserapi.SSODiscovery{Connections: []enduserapi.DiscoveredConnection{}}
		for _, conn := range holders {
			out.Required = out.Required || conn.Enforcement == string(v1alpha1.ConnectionEnforcementDomains)
			if !conn.Shown {
				continue
			}
			view, err := viewDiscovered(u.Unit, conn)
			if err != nil {
				return reply{}, err
			}
			out.Connections = append(out.Connections, view)
		}
		return reply{data: out}, nil
	})
}

// viewDiscovered returns a connection with its organization.
func viewDiscovered(u *account.Unit, conn account.Connection) (enduserapi.DiscoveredConnection, error) {
	view := enduserapi.DiscoveredConnection{Id: format(conn.ID), Slug: conn.Slug, Type: conn.Type, DisplayName: conn.Name, LogoUrl: conn.LogoURL}
	if conn.Organization == "" {
		return view, nil
	}
	o, found, err := u.Organizations().OrganizationBySlug(conn.Organization)
	if found {
		view.Organization = &enduserapi.DiscoveredOrganization{Name: o.Name, ImageUrl: o.ImageURL}
	}
	return view, err
}

// connectionOffers returns the connections that the sign-in page offers to everybody.
func connectionOffers(c *call) ([]enduserapi.ConnectionOffer, error) {
	all, err := account.DeploymentConnections(c.r.Context(), c.request)
	offers := []apierror.Connection{}
	for _, conn := range all {
		if conn.Shown {
			offers = append(offers, offerOf(conn))
		}
	}
	return viewConnections(offers), err
}

func viewConnections(offers []apierror.Connection) []enduserapi.ConnectionOffer {
	out := make([]enduserapi.ConnectionOffer, len(offers))
	for i, o := range offers {
		out[i] = enduserapi.ConnectionOffer{Id: o.ID, Slug: o.Slug, Type: o.Type, DisplayName: o.Name, LogoUrl: o.LogoURL}
	}
	return out
}

// listIdentities lists the identities of the user at the providers of connections, the oldest first.
func listIdentities(c *call) (reply, error) {
	out := []enduserapi.Identity{}
	err := c.view(func(u *account.Unit) error {
		have, err := u.Identities().IdentitiesOf(c.signedIn().User)
		for _, i := range have {
			view, err := viewIdentity(u, i)
			if err != nil {
				return err
			}
			out = append(out, view)
		}
		return err
	})
	return reply{data: out}, err
}

func viewIdentity(u *account.Unit, i people.Identity) (enduserapi.Identity, error) {
	view := enduserapi.Identity{Id: format(i.ID), Connection: enduserapi.IdentityConnection{Id: format(i.Connection)}, Email: i.Email, CreatedAt: i.CreatedAt}
	if !i.UsedAt.IsZero() {
		view.LastUsedAt = ptr.To(i.UsedAt)
	}
	conn, found, err := account.NamedConnection(u, i.Connection)
	if found {
		view.Connection.Slug, view.Connection.Type, view.Connection.DisplayName = conn.Slug, conn.Type, conn.Name
	}
	return view, err
}

// removeIdentity removes an identity of the user.
func removeIdentity(c *call) (reply, error) {
	id, err := pathID(c, account.ErrIdentityUnknown)
	if err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		removed, err := account.RemoveIdentity(u.Unit, u.signedIn().User, id)
		if err != nil {
			return reply{}, err
		}
		view, err := viewIdentity(u.Unit, removed)
		return reply{data: view}, err
	})
}
