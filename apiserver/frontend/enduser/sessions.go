package enduser

import (
	"errors"
	"net/url"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/store/people"
)

// active has the memberships in the active organization and workspace of a sign-in. A membership that ended is nil.
// Both are nil if B2B is disabled.
type active struct {
	member    *people.Member
	workspace *people.WorkspaceMember
	// withheld is why the organization is withheld: the sign-in shows less than it requires. It is nil otherwise.
	withheld error
}

// activeOf reads the active memberships of a sign-in. It reads them from the store each time, so that an ended
// membership has no effect. read reads the addresses of the account, if the connections of the organization require it.
func activeOf(u *account.Unit, g *people.SignIn, read account.ReadAddresses) (a active, err error) {
	if g.Organization == 0 || !u.B2B.Enabled {
		return a, nil
	}
	member, workspaces, found, err := u.Organizations().MemberWithWorkspaces(g.Organization, g.User)
	if err != nil || !found {
		return a, err
	}
	a.member = &member
	if at := slices.IndexFunc(workspaces, func(w people.WorkspaceMember) bool { return w.Workspace.ID == g.Workspace }); at >= 0 {
		a.workspace = &workspaces[at]
	}
	if a.withheld = account.CheckConnectionWith(u, g, member, read); a.withheld != nil {
		return a, unlessWithheld(a.withheld)
	}
	required := account.OutstandingAmong(u.Tenant, g, member, workspaces, u.Now)
	if g.Proven().Level() >= required.Level {
		return a, nil
	}
	a.withheld = u.Missing(g, required)
	return a, unlessWithheld(a.withheld)
}

// unlessWithheld returns nil for a reason why an organization is withheld from a sign-in, and any other error.
func unlessWithheld(err error) error {
	var assured *account.AssuranceError
	var required *account.ConnectionRequiredError
	if errors.As(err, &assured) || errors.As(err, &required) {
		return nil
	}
	return err
}

// getSession returns the signed-in user, organization and workspace. A user whose sign-in shows less than the account
// or the deployment requires is not signed in for applications: everything is null.
func getSession(c *call) (reply, error) {
	g := c.signedIn()
	if g == nil || c.held(g) {
		return reply{data: enduserapi.ActiveSession{}}, nil
	}
	var out enduserapi.ActiveSession
	err := c.view(func(u *account.Unit) error {
		var user people.User
		var read, found bool
		at, err := activeOf(u, g, func(organization, id int64) (in []people.AddressIn, err error) {
			read = true // in the statement that reads the user, so that enforcement costs no statement
			user, in, found, err = u.Domains().UserIn(organization, id)
			return in, err
		})
		if err == nil && !read {
			user, found, err = u.Users().User(g.User)
		}
		if err != nil || !found {
			return err
		}
		out.User = viewUser(user)
		if at.withheld != nil {
			return nil
		}
		if at.member != nil {
			out.Organization = ptr.To(viewOrganization(at.member.Organization))
		}
		if at.workspace != nil {
			out.Workspace = ptr.To(viewWorkspace(at.workspace.Workspace))
		}
		return nil
	})
	return reply{data: out}, err
}

// signOut removes one account from the session, or ends the session.
func signOut(c *call) (reply, error) {
	var id int64
	if err := c.parse(func(o *body.Object) { id = input.ID(o, "signin_id") }); err != nil {
		return reply{}, err
	}
	left, err := transact(c, func(u *unit) (people.Upstream, error) {
		all := id == 0 || len(u.session.SignIns) == 1 && u.session.SignIns[0].ID == id
		up, err := leftProvider(u, id, all)
		if err != nil {
			return up, err
		}
		if all {
			return up, u.endSession()
		}
		return up, u.removeSignIn(id)
	})
	if err != nil {
		return reply{}, err
	}
	after := c.sessionSnapshot()
	out := enduserapi.SignOutResult{
		SigninAttempts: after.SigninAttempts, Signins: after.Signins, SignupAttempts: after.SignupAttempts, ActiveSignin: after.ActiveSignin,
	}
	if to := endSessionURL(c, left); to != "" {
		out.EndSessionUrl = &to
	}
	return reply{data: out}, nil
}

// leftProvider returns how the sign-in that a sign-out ends came from a connection. If the whole session ends, it is
// the active one.
func leftProvider(u *unit, id int64, all bool) (people.Upstream, error) {
	if all {
		id = u.session.ActiveSignIn
	}
	at := slices.IndexFunc(u.session.SignIns, func(g people.SignIn) bool { return g.ID == id })
	if at < 0 || u.session.SignIns[at].Upstream.Connection == 0 {
		return people.Upstream{}, nil
	}
	up, _, err := u.Sessions().UpstreamOf(id)
	return up, err
}

// endSessionURL returns the address at which a sign-out continues at the provider (OpenID Connect RP-Initiated Logout
// 1.0, or a logout request of SAML), "" if it does not.
func endSessionURL(c *call, left people.Upstream) string {
	if left.IDToken == "" {
		return ""
	}
	conn, err := activeConnection(c, left.Connection)
	if err != nil || !conn.SignOutUpstream {
		return ""
	}
	hint, err := c.Keyring.Open(people.SealedIDToken, people.SealedFor(c.request.Key(), left.Identity), left.IDToken)
	if err != nil {
		return "" // the root key was removed meanwhile
	}
	if conn.SAML != nil {
		return samlSignOutURL(c, conn, left, hint)
	}
	metadata, err := c.Providers.Metadata(c.r.Context(), upstreamOf(c, conn))
	if err != nil || metadata.EndSessionURL == "" {
		return ""
	}
	to, err := url.Parse(metadata.EndSessionURL)
	if err != nil {
		return ""
	}
	query := to.Query()
	query.Set("id_token_hint", string(hint))
	query.Set("client_id", conn.Client.ID)
	query.Set("post_logout_redirect_uri", site.Origin(c.request.Settings, c.r)+"/sign-in")
	to.RawQuery = query.Encode()
	return to.String()
}

// endSession ends the session, and deletes the browser's cookie.
func (u *unit) endSession() error {
	id := u.session.ID
	if err := u.Sessions().EndSession(id); err != nil {
		return err
	}
	account.LogEnds(u.Unit, u.session.SignIns, u.Actor, events.SignedOut)
	u.session, u.clear = nil, true
	return u.Audit("session.signed_out", "session:"+format(id))
}

// removeSignIn removes one of several accounts from the session.
func (u *unit) removeSignIn(id int64) error {
	s := u.session
	at := slices.IndexFunc(s.SignIns, func(g people.SignIn) bool { return g.ID == id })
	if at < 0 {
		return errSignInUnknown
	}
	if err := u.Sessions().DeleteSignIn(id); err != nil {
		return err
	}
	u.Log(events.OfEnd(s.SignIns[at], events.SignedOut))
	s.SignIns = slices.Delete(s.SignIns, at, at+1)
	if s.ActiveSignIn == id {
		s.ActiveSignIn = s.SignIns[len(s.SignIns)-1].ID
	}
	s.UsedAt = u.Now
	if err := u.Sessions().UpdateSession(*s); err != nil {
		return err
	}
	if err := u.Audit("session.signed_out", "signin:"+format(id)); err != nil {
		return err
	}
	return u.rotate()
}

// switchSignIn makes another account of the session active.
func switchSignIn(c *call) (reply, error) {
	var id int64
	if err := c.parse(func(o *body.Object) { id = required(o, "signin_id", input.ID) }); err != nil {
		return reply{}, err
	}
	out, err := transact(c, func(u *unit) (reply, error) {
		if !slices.ContainsFunc(u.session.SignIns, func(g people.SignIn) bool { return g.ID == id }) {
			return reply{}, errSignInUnknown
		}
		return reply{}, u.makeActive(id)
	})
	out.data = c.sessionSnapshot()
	return out, err
}

// makeActive makes a sign-in of the session active.
func (u *unit) makeActive(id int64) error {
	u.session.ActiveSignIn, u.session.UsedAt = id, u.Now
	if err := u.Sessions().UpdateSession(*u.session); err != nil {
		return err
	}
	if err := u.auditSwitch("session.switched_signin", "signin:"+format(id), false); err != nil {
		return err
	}
	return u.rotate()
}
