package enduser

import (
	"net/http"
	"slices"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/apiserver/delivery"
	"github.com/cardea-iam/cardea/apiserver/directory"
	"github.com/cardea-iam/cardea/apiserver/session"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/text"
	"github.com/cardea-iam/cardea/store/people"
)

// switchOrganization makes another organization the active one (contract 4.10). Membership is read in the transaction that writes
// the session, so that a removal either comes first or is seen by the next request.
func (c *call) switchOrganization() (any, error) {
	var id int64
	if err := c.parse(func(o *body.Object) { id = readID(o, "organization_id", true) }); err != nil {
		return nil, err
	}
	if err := c.directory().RequireB2B(); err != nil {
		return nil, err
	}
	var data struct {
		Organization *organizationView `json:"organization"`
		Workspace    *workspaceView    `json:"workspace"`
	}
	err := c.change(func(tx people.Tx) error {
		data.Workspace = nil
		g := c.signedIn()
		if err := tx.PlaceUser(g.User, id); err != nil {
			return err
		}
		member, found, err := tx.Member(id, g.User)
		if err != nil {
			return err
		}
		if !found {
			return apierror.Bad("INVALID_ORGANIZATION", "you are not a member of such an organization: /me/organization-memberships lists yours")
		}
		memberships, err := tx.WorkspaceMembershipsOf(g.User, id)
		if err != nil {
			return err
		}
		data.Organization = viewOrganization(member.Organization)
		w, active := session.Workspace(member, memberships)
		if active {
			data.Workspace = viewWorkspace(w)
		}
		return c.moveTo(tx, g, id, w.ID, "session.switched_organization")
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// moveTo makes an organization and a workspace of it active for the active sign-in, and gives the browser a new token. Its callers
// remember where the user is first: the user's row is locked before the member's.
func (c *call) moveTo(tx people.Tx, g *people.SignIn, organization, workspace int64, action string) error {
	if err := tx.PlaceSignIn(g.ID, organization, workspace); err != nil {
		return err
	}
	g.Organization, g.Workspace = organization, workspace
	if workspace != 0 {
		if err := tx.SetMemberWorkspace(organization, g.User, workspace); err != nil {
			return err
		}
	}
	if err := c.audit(tx, c.actor(), action, "organization:"+format(organization), c.session.ID); err != nil {
		return err
	}
	return c.rotate(tx)
}

// switchWorkspace makes another workspace of the active organization the active one. The token stays: the organization does.
func (c *call) switchWorkspace() (any, error) {
	var id int64
	if err := c.parse(func(o *body.Object) { id = readID(o, "workspace_id", true) }); err != nil {
		return nil, err
	}
	if err := c.directory().RequireB2B(); err != nil {
		return nil, err
	}
	var data struct {
		Workspace *workspaceView `json:"workspace"`
	}
	err := c.change(func(tx people.Tx) error {
		g := c.signedIn()
		m, found, err := tx.WorkspaceMember(id, g.User)
		if err != nil {
			return err
		}
		if found && m.Workspace.Organization == g.Organization {
			_, found, err = tx.Member(g.Organization, g.User)
		}
		if err != nil {
			return err
		}
		if !found || m.Workspace.Organization != g.Organization {
			return apierror.Bad("INVALID_WORKSPACE", "you are not a member of such a workspace in the active organization: /me/workspace-memberships lists yours")
		}
		data.Workspace = viewWorkspace(m.Workspace)
		if err := tx.PlaceSignIn(g.ID, g.Organization, id); err != nil {
			return err
		}
		g.Workspace = id
		if err := tx.SetMemberWorkspace(g.Organization, g.User, id); err != nil {
			return err
		}
		return c.audit(tx, c.actor(), "session.switched_workspace", "workspace:"+format(id), c.session.ID)
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// createOrganization creates an organization, which becomes active.
func (c *call) createOrganization() (any, error) {
	var name, description string
	err := c.parse(func(o *body.Object) {
		name = readOrganizationName(o, "name", true)
		description = readDescription(o)
	})
	if err != nil {
		return nil, err
	}
	var data struct {
		Organization *organizationView          `json:"organization"`
		Membership   organizationMembershipView `json:"membership"`
	}
	d := c.directory()
	err = c.change(func(tx people.Tx) error {
		g := c.signedIn()
		created, err := d.CreateOrganization(tx, g.User, name, description, c.origin())
		if err != nil {
			return err
		}
		data.Organization, data.Membership = viewOrganization(created.Member.Organization), viewMember(d, created.Member)
		var workspace int64
		if created.Workspace != nil {
			workspace = created.Workspace.Workspace.ID
		}
		if err := tx.PlaceUser(g.User, created.Member.Organization.ID); err != nil {
			return err
		}
		return c.moveTo(tx, g, created.Member.Organization.ID, workspace, "organization.created")
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

func readDescription(o *body.Object) string {
	value, ok := o.String("description")
	if !ok {
		return ""
	}
	trimmed, err := text.Description(value)
	if err != nil {
		o.Fault("description", "%s", err)
	}
	return trimmed
}

// createWorkspace creates a workspace in an organization of the user. It does not become active.
func (c *call) createWorkspace() (any, error) {
	var name string
	var organization int64
	err := c.parse(func(o *body.Object) {
		name = readOrganizationName(o, "name", true)
		organization = readID(o, "organization_id", true)
	})
	if err != nil {
		return nil, err
	}
	d := c.directory()
	if err := d.RequireB2B(); err != nil {
		return nil, err
	}
	var data struct {
		Workspace *workspaceView `json:"workspace"`
	}
	err = c.change(func(tx people.Tx) error {
		user := c.signedIn().User
		member, found, err := tx.Member(organization, user)
		if err != nil {
			return err
		}
		if !found {
			return directory.NotMember()
		}
		if !d.B2B.AllowWorkspaceCreation {
			return apierror.Coded(http.StatusForbidden, "WORKSPACE_CREATION_DISABLED", "this deployment lets nobody create workspaces: its B2B settings allow it")
		}
		if !d.May(member, directory.PermissionCreateWorkspace) {
			return forbidden(directory.PermissionCreateWorkspace)
		}
		created, err := d.CreateWorkspace(tx, organization, user, name, c.origin())
		if err != nil {
			return err
		}
		data.Workspace = viewWorkspace(created.Workspace)
		return c.audit(tx, c.actor(), "workspace.created", "workspace:"+format(created.Workspace.ID), c.session.ID)
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

func forbidden(permission string) error {
	return apierror.Coded(http.StatusForbidden, "PERMISSION_DENIED", "your role in the organization lacks the permission %s", permission)
}

// listOrganizationMemberships lists the user's organizations; they stay readable while B2B is off.
func (c *call) listOrganizationMemberships() (any, error) {
	out, d := []organizationMembershipView{}, c.directory()
	err := c.view(func(tx people.Tx) error {
		members, err := tx.MembershipsOf(c.signedIn().User)
		for _, m := range members {
			out = append(out, viewMember(d, m))
		}
		return err
	})
	return out, err
}

// listWorkspaceMemberships lists the user's workspaces, of all organizations.
func (c *call) listWorkspaceMemberships() (any, error) {
	out, d := []workspaceMembershipView{}, c.directory()
	err := c.view(func(tx people.Tx) error {
		organizations := map[int64]people.Organization{}
		members, err := tx.MembershipsOf(c.signedIn().User)
		for _, m := range members {
			organizations[m.Organization.ID] = m.Organization
		}
		if err != nil {
			return err
		}
		workspaces, err := tx.WorkspaceMembershipsOf(c.signedIn().User, 0)
		for _, m := range workspaces {
			// Who left the organization meanwhile is in its workspaces no more.
			if o, member := organizations[m.Workspace.Organization]; member {
				out = append(out, viewWorkspaceMember(d, o, m))
			}
		}
		return err
	})
	return out, err
}

// leaveOrganization ends one of the user's memberships. An owner stays: the organization would be nobody's.
func (c *call) leaveOrganization() (any, error) {
	id, err := ids.Parse(c.r.PathValue("id"))
	notFound := apierror.Coded(http.StatusNotFound, "MEMBERSHIP_NOT_FOUND", "you have no such membership")
	if err != nil {
		return nil, notFound
	}
	var out organizationMembershipView
	d := c.directory()
	err = c.change(func(tx people.Tx) error {
		g := c.signedIn()
		members, err := tx.MembershipsOf(g.User)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(members, func(m people.Member) bool { return m.ID == id })
		if at < 0 {
			return notFound
		}
		m := members[at]
		if m.Owner {
			return apierror.Bad("OWNER_REMOVAL", "the owner of an organization cannot leave it")
		}
		out = viewMember(d, m)
		if _, err := tx.DeleteMember(m.Organization.ID, g.User); err != nil {
			return err
		}
		if g.Organization == m.Organization.ID {
			g.Organization, g.Workspace = 0, 0
		}
		return c.audit(tx, c.actor(), "organization.left", "organization:"+format(m.Organization.ID), c.session.ID)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// invite asks somebody into an organization by mail. The token is in that mail alone.
func (c *call) invite() (any, error) {
	var email string
	var role int64
	err := c.parse(func(o *body.Object) {
		email = readEmail(o, "email")
		role = readID(o, "role_id", false)
	})
	if err != nil {
		return nil, err
	}
	d := c.directory()
	if err := d.RequireB2B(); err != nil {
		return nil, err
	}
	organization, err := ids.Parse(c.r.PathValue("id"))
	if err != nil {
		return nil, apierror.Coded(http.StatusNotFound, "NOT_FOUND", "there is no such organization")
	}
	if err := c.requireEmail(); err != nil {
		return nil, err
	}
	var out invitationView
	err = c.change(func(tx people.Tx) error {
		user := c.signedIn().User
		member, found, err := tx.Member(organization, user)
		if err != nil {
			return err
		}
		if !found {
			return directory.NotMember()
		}
		if !d.May(member, directory.PermissionInvite) {
			return forbidden(directory.PermissionInvite)
		}
		if role != 0 && !d.HasRole(v1alpha1.RoleLevelOrganization, role) {
			return apierror.Bad("VALIDATION_ERROR", "role_id is not the id of a role of organizations in this deployment")
		}
		if err := c.mayGrant(d, member, role); err != nil {
			return err
		}
		inviter, _, err := tx.User(user)
		if err != nil {
			return err
		}
		i, err := c.newInvitation(tx, member, inviter, email, role)
		out = viewInvitation(i)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.Posted()
	return out, nil
}

// mayGrant refuses a role with permissions the inviter does not have.
func (c *call) mayGrant(d *directory.Directory, member people.Member, role int64) error {
	granted := d.RoleOf(v1alpha1.RoleLevelOrganization, false, role)
	if granted == nil {
		return nil
	}
	for _, permission := range granted.Permissions {
		if !d.May(member, permission) {
			return apierror.Coded(http.StatusForbidden, "PERMISSION_DENIED", "your role lacks %s, which the invited role would have", permission)
		}
	}
	return nil
}

// newInvitation records an invitation and posts its mail, within the limits on sending.
func (c *call) newInvitation(tx people.Tx, member people.Member, inviter people.User, email string, role int64) (people.Invitation, error) {
	q := codeRequest{purpose: "invitation", channel: people.ChannelMail, recipient: format(member.Organization.ID) + " " + people.FoldEmail(email), silent: true, life: directory.InvitationLifetime}
	// An invitation has no code: the challenge is what limits count.
	if err := c.sendCode(tx, q); err != nil {
		return people.Invitation{}, err
	}
	token, hash, err := session.Mint(c.Random)
	if err != nil {
		return people.Invitation{}, err
	}
	id, err := c.directory().NewID()
	if err != nil {
		return people.Invitation{}, err
	}
	i := people.Invitation{
		ID: id, Organization: member.Organization.ID, Email: email, Role: role, Hash: hash, InvitedBy: inviter.ID,
		CreatedAt: c.now, ExpiresAt: c.now.Add(directory.InvitationLifetime),
	}
	if err := tx.InsertInvitation(i); err != nil {
		return i, err
	}
	if err := c.audit(tx, c.actor(), "organization.invited", "invitation:"+format(id), c.session.ID); err != nil {
		return i, err
	}
	mail := delivery.InvitationMail(c.appName(), member.Organization.Name, inviter.Email, token)
	return i, c.post(tx, people.Message{Channel: people.ChannelMail, Recipient: email, ExpiresAt: c.now.Add(notifyLife)}, mail)
}

func invalidInvitation() error {
	return apierror.Bad("INVALID_INVITATION", "this invitation is unknown, accepted already, expired, or meant for another email")
}

// openInvitation returns the invitation of a token that an email may accept.
func (c *call) openInvitation(tx people.Tx, token, email string) (people.Invitation, error) {
	hash, formed := session.Hash(token)
	if !formed || !c.directory().B2B.Enabled {
		return people.Invitation{}, invalidInvitation()
	}
	i, found, err := tx.InvitationByToken(hash)
	if err != nil {
		return i, err
	}
	if !found || !i.AcceptedAt.IsZero() || !c.now.Before(i.ExpiresAt) || people.FoldEmail(i.Email) != people.FoldEmail(email) {
		return i, invalidInvitation()
	}
	return i, nil
}

// join makes a user a member by an invitation that this transaction accepted.
func (c *call) join(tx people.Tx, d *directory.Directory, i people.Invitation, user int64) error {
	o, found, err := tx.Organization(i.Organization)
	if err != nil {
		return err
	}
	if !found {
		return invalidInvitation()
	}
	// An invitation is worth what its inviter may do: who was removed lets nobody in.
	inviter, found, err := tx.Member(i.Organization, i.InvitedBy)
	if err != nil {
		return err
	}
	if !found || !d.May(inviter, directory.PermissionInvite) || c.mayGrant(d, inviter, i.Role) != nil {
		return invalidInvitation()
	}
	role := i.Role
	if !d.HasRole(v1alpha1.RoleLevelOrganization, role) {
		role = 0 // it vanished meanwhile: as if none had been named
	}
	if _, err := d.Join(tx, o, user, role); err != nil {
		return err
	}
	if err := tx.PlaceUser(user, o.ID); err != nil {
		return err
	}
	return c.audit(tx, "user:"+format(user), "organization.joined", "organization:"+format(o.ID), c.session.ID)
}

// acceptInvitation makes the signed-in user a member.
func (c *call) acceptInvitation() (any, error) {
	var token string
	err := c.parse(func(o *body.Object) {
		o.Require("token")
		token, _ = o.String("token")
	})
	if err != nil {
		return nil, err
	}
	d := c.directory()
	if err := d.RequireB2B(); err != nil {
		return nil, err
	}
	var data struct {
		Membership organizationMembershipView `json:"membership"`
	}
	err = c.change(func(tx people.Tx) error {
		user, found, err := tx.LockUser(c.signedIn().User)
		if err != nil {
			return err
		}
		if !found {
			return apierror.NotAuthenticated()
		}
		i, err := c.openInvitation(tx, token, user.Email)
		if err != nil {
			return err
		}
		if accepted, err := tx.AcceptInvitation(i.ID, c.now); err != nil || !accepted {
			return otherwise(err, invalidInvitation())
		}
		if err := c.join(tx, d, i, user.ID); err != nil {
			return err
		}
		member, _, err := tx.Member(i.Organization, user.ID)
		data.Membership = viewMember(d, member)
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}
