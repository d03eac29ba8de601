package enduser

import (
	"errors"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/redirecturi"
	"github.com/cardea-iam/cardea/store/people"
)

// The decisions on an authorization request.
const (
	decisionContinue = "continue"
	decisionAllow    = "allow"
	decisionDeny     = "deny"
)

// person returns the user who decides a request, nil for none.
func (b *browser) person(r *consent.Request) *consent.Person {
	g := b.signedIn()
	if g == nil {
		return nil
	}
	return r.Actor(b.session.ID, b.session.SignIns, g)
}

// readAuthorization returns an authorization request and its next step.
func readAuthorization(c *call) (reply, error) {
	var out enduserapi.Authorization
	err := c.view(func(u *account.Unit) error {
		r, err := consent.Read(u, c.r.PathValue("request"))
		if err != nil {
			return err
		}
		person := c.person(r)
		offer, err := r.Offer(u, person)
		out = viewAuthorization(r, offer, person)
		return err
	})
	return reply{data: out}, err
}

// decideAuthorization applies a decision to an authorization request. The decision "continue" completes the request if
// the user need not be asked; otherwise it returns the next step.
func decideAuthorization(c *call) (reply, error) {
	var decision string
	var organization, workspace, shown int64
	err := c.parse(func(o *body.Object) {
		decision = required(o, "decision", readDecision)
		organization, workspace = input.ID(o, "organization_id"), input.ID(o, "workspace_id")
		shown = input.ID(o, "user_id")
	})
	if err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		r, err := consent.Read(u.Unit, c.r.PathValue("request"))
		if err != nil {
			return reply{}, err
		}
		to, offer, person := "", consent.Offer{Step: consent.StepAnswer}, u.person(r)
		if person != nil {
			u.Actor = actorOf(person.SignIn) // the account that decides may differ from the active one
		}
		switch {
		case decision == decisionContinue:
			if offer, to, err = r.Resolve(u.Unit, person); err == nil && to == "" {
				err = u.showOnly(person)
			}
		case person != nil && shown != 0 && shown != person.User:
			err = errOtherAccount
		case person == nil:
			err = account.ErrUserUnknown
		case decision == decisionAllow:
			to, err = r.Allow(u.Unit, person, organization, workspace)
		default:
			to, err = r.Deny(u.Unit, person)
		}
		if errors.Is(err, consent.ErrStep) {
			err = &account.AssuranceError{Reason: account.ErrNotFresh}
		}
		out := enduserapi.AuthorizationAnswer{Step: enduserapi.AuthorizationAnswerStep(offer.Step)}
		out.RequiredAssurance, out.Strategies, out.Enroll = viewMissing(offer)
		if offer.Back != "" {
			out.ReturnTo = &offer.Back
		}
		if to != "" {
			out.Step, out.RedirectTo = enduserapi.AuthorizationAnswerStep(consent.StepAnswer), &to
		}
		return reply{data: out}, err
	})
}

// showOnly makes the person's account active if another account of the session is active, because the next step is for
// the person's account.
func (u *unit) showOnly(person *consent.Person) error {
	if person == nil || u.session.ActiveSignIn == person.ID {
		return nil
	}
	return u.makeActive(person.ID)
}

// claimUserCode returns the request of a device by the user code that the device shows. Unknown codes are counted.
func claimUserCode(c *call) (reply, error) {
	var typed string
	err := c.parse(func(o *body.Object) {
		o.Require("user_code")
		typed, _ = o.String("user_code")
	})
	if err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		handle, err := consent.ClaimUserCode(u.Unit, typed)
		return reply{data: enduserapi.AuthorizationHandle{Request: handle}}, err
	})
}

func readDecision(o *body.Object, member string) string {
	decision, sent := o.String(member)
	if sent && decision != decisionContinue && decision != decisionAllow && decision != decisionDeny {
		o.Fault(member, "must be continue, allow or deny")
	}
	return decision
}

func viewAuthorization(r *consent.Request, offer consent.Offer, person *consent.Person) enduserapi.Authorization {
	out := enduserapi.Authorization{
		Step: enduserapi.AuthorizationStep(offer.Step), RedirectHost: redirecturi.Host(r.RedirectURI), Scopes: viewScopes(r.App, r.Scopes), Places: []enduserapi.AuthorizationPlace{},
		Client: enduserapi.AuthorizingClient{
			Id: r.Client.ID, Name: r.Client.Name, AppName: r.App.Content.Name, LogoUrl: r.Client.LogoURL, ClientUri: r.Client.ClientURI, PolicyUri: r.Client.PolicyURI, TosUri: r.Client.TOSURI,
			Verified: r.Client.Trusted(),
		},
		OneAccount: r.Hinted != 0,
	}
	out.RequiredAssurance, out.Strategies, out.Enroll = viewMissing(offer)
	if !out.Client.Verified { // a logo may imitate the deployment's own
		out.Client.LogoUrl = ""
	}
	if person != nil {
		id := format(person.User)
		out.UserId = &id
	}
	for i, option := range offer.Options {
		place := enduserapi.AuthorizationPlace{
			OrganizationId: format(option.Member.Organization.ID), OrganizationName: option.Member.Organization.Name, Missing: append([]string{}, option.Missing...),
		}
		if option.Workspace != nil {
			id, name := format(option.Workspace.Workspace.ID), option.Workspace.Workspace.Name
			place.WorkspaceId, place.WorkspaceName = &id, &name
		}
		if offer.Place.Equal(option.Place) {
			out.Place = &i
		}
		out.Places = append(out.Places, place)
	}
	return out
}

// viewMissing returns the level that the step of an offer needs, nil for none, and how the user can reach it.
func viewMissing(offer consent.Offer) (required *string, strategies, enroll []string) {
	strategies, enroll = []string{}, []string{}
	if offer.Missing == nil || offer.Step != consent.StepStepUp && offer.Step != consent.StepEnroll {
		return nil, strategies, enroll
	}
	return ptr.To(offer.Missing.Required.String()), append(strategies, offer.Missing.Strategies...), append(enroll, offer.Missing.Enroll...)
}

// viewScopes returns scopes with their current texts.
func viewScopes(app *consent.App, scopes []string) []enduserapi.AskedScope {
	out := []enduserapi.AskedScope{}
	for _, scope := range scopes {
		view := enduserapi.AskedScope{Scope: scope}
		if declared, found := app.Scopes[scope]; found {
			view.DisplayName, view.Description, view.Category = declared.DisplayName, declared.Description, declared.Category
		}
		out = append(out, view)
	}
	return out
}

// listGrants lists the user's grants to apps.
func listGrants(c *call) (reply, error) {
	out := []enduserapi.OauthGrant{}
	err := c.view(func(u *account.Unit) error {
		grants, err := u.OAuth().GrantsOf(c.signedIn().User)
		if err != nil {
			return err
		}
		for _, g := range grants {
			view, err := viewGrant(u, g)
			if err != nil {
				return err
			}
			out = append(out, view)
		}
		return nil
	})
	return reply{data: out}, err
}

// removeGrant revokes a grant of the user with all its tokens.
func removeGrant(c *call) (reply, error) {
	return transact(c, func(u *unit) (reply, error) {
		id, err := ids.Parse(c.r.PathValue("id"))
		if err != nil {
			return reply{}, errGrantUnknown
		}
		g, found, err := u.OAuth().Grant(id)
		if err != nil {
			return reply{}, err
		}
		if !found || g.User != u.signedIn().User {
			return reply{}, errGrantUnknown
		}
		view, err := viewGrant(u.Unit, g)
		if err != nil {
			return reply{}, err
		}
		if _, err := u.OAuth().DeleteGrant(id); err != nil {
			return reply{}, err
		}
		u.Log(events.OfGrant(events.OAuthGrantRevoked, g))
		return reply{data: view}, u.Audit("oauth.grant_revoked", "oauth_grant:"+format(id))
	})
}

func viewGrant(u *account.Unit, g people.Grant) (enduserapi.OauthGrant, error) {
	view := enduserapi.OauthGrant{Id: format(g.ID), ClientId: g.Client, Scopes: []enduserapi.AskedScope{}, CreatedAt: g.CreatedAt, UpdatedAt: g.UpdatedAt}
	if g.Organization != 0 {
		id := format(g.Organization)
		view.OrganizationId = &id
	}
	if g.Workspace != 0 {
		id := format(g.Workspace)
		view.WorkspaceId = &id
	}
	if app, found := consent.FindApp(u.Tenant, g.App); found {
		view.AppName, view.Scopes = app.Content.Name, viewScopes(app, g.Scopes)
		client, _, err := consent.FindClient(u, app, g.Client)
		if err != nil {
			return view, err
		}
		if client != nil {
			view.ClientName = client.Name
		}
	}
	return view, nil
}
