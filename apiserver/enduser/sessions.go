package enduser

import (
	"slices"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/store/people"
)

type sessionView struct {
	User         *userView         `json:"user"`
	Organization *organizationView `json:"organization"`
	Workspace    *workspaceView    `json:"workspace"`
}

// place is where a sign-in is active: both are nil where B2B is off or the membership ended.
type place struct {
	member    *people.Member
	workspace *people.WorkspaceMember
}

// placeOf reads where a sign-in is active. Memberships are read every time: what ended is not served again.
func (c *call) placeOf(tx people.Tx, g *people.SignIn) (p place, err error) {
	if g.Organization == 0 || !c.directory().B2B.Enabled {
		return p, nil
	}
	member, found, err := tx.Member(g.Organization, g.User)
	if err != nil || !found {
		return p, err
	}
	p.member = &member
	if g.Workspace == 0 {
		return p, nil
	}
	workspace, found, err := tx.WorkspaceMember(g.Workspace, g.User)
	if found && workspace.Workspace.Organization == g.Organization {
		p.workspace = &workspace
	}
	return p, err
}

// getSession tells who is signed in, and where.
func (c *call) getSession() (any, error) {
	g := c.signedIn()
	if g == nil {
		return sessionView{}, nil
	}
	var out sessionView
	err := c.view(func(tx people.Tx) error {
		user, found, err := tx.User(g.User)
		if err != nil || !found {
			return err
		}
		at, err := c.placeOf(tx, g)
		if err != nil {
			return err
		}
		out.User = viewUser(user)
		if at.member != nil {
			out.Organization = viewOrganization(at.member.Organization)
		}
		if at.workspace != nil {
			out.Workspace = viewWorkspace(at.workspace.Workspace)
		}
		return nil
	})
	return out, err
}

// me tells who is signed in.
func (c *call) me() (any, error) {
	var out *userView
	err := c.view(func(tx people.Tx) error {
		user, found, err := tx.User(c.signedIn().User)
		if err == nil && !found {
			err = apierror.NotAuthenticated()
		}
		out = viewUser(user)
		return err
	})
	return out, err
}

// signOut takes one account out of the session, or ends it.
func (c *call) signOut() (any, error) {
	var id int64
	if err := c.parse(func(o *body.Object) { id = readID(o, "signin_id", false) }); err != nil {
		return nil, err
	}
	err := c.change(func(tx people.Tx) error {
		actor, s := c.actor(), c.session
		if id == 0 || len(s.SignIns) == 1 && s.SignIns[0].ID == id {
			if err := tx.EndSession(s.ID); err != nil {
				return err
			}
			c.session, c.clear = nil, true
			return c.audit(tx, actor, "session.signed_out", "session:"+format(s.ID), s.ID)
		}
		at := slices.IndexFunc(s.SignIns, func(g people.SignIn) bool { return g.ID == id })
		if at < 0 {
			return invalidSignIn()
		}
		if err := tx.DeleteSignIn(id); err != nil {
			return err
		}
		s.SignIns = slices.Delete(s.SignIns, at, at+1)
		if s.ActiveSignIn == id {
			s.ActiveSignIn = s.SignIns[len(s.SignIns)-1].ID
		}
		s.UsedAt = c.now
		if err := tx.UpdateSession(*s); err != nil {
			return err
		}
		if err := c.audit(tx, actor, "session.signed_out", "signin:"+format(id), s.ID); err != nil {
			return err
		}
		return c.rotate(tx)
	})
	if err != nil {
		return nil, err
	}
	return c.sessionSnapshot(), nil
}

func invalidSignIn() error {
	return apierror.Bad("INVALID_SIGNIN", "this session has no such sign-in: its sign-ins are in the session of every answer")
}

// switchSignIn makes another account of the session the active one.
func (c *call) switchSignIn() (any, error) {
	var id int64
	if err := c.parse(func(o *body.Object) { id = readID(o, "signin_id", true) }); err != nil {
		return nil, err
	}
	err := c.change(func(tx people.Tx) error {
		actor, s := c.actor(), c.session
		if !slices.ContainsFunc(s.SignIns, func(g people.SignIn) bool { return g.ID == id }) {
			return invalidSignIn()
		}
		s.ActiveSignIn, s.UsedAt = id, c.now
		if err := tx.UpdateSession(*s); err != nil {
			return err
		}
		if err := c.audit(tx, actor, "session.switched_signin", "signin:"+format(id), s.ID); err != nil {
			return err
		}
		return c.rotate(tx)
	})
	if err != nil {
		return nil, err
	}
	return c.sessionSnapshot(), nil
}
