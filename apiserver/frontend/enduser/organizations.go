package enduser

import (
	"errors"
	"time"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// requireB2B refuses operations on organizations if the deployment has none.
func requireB2B(c *call) error { return c.answerTo(c.request.RequireB2B()) }

// switchOrganization makes another organization active (section 4.10 of the interface contract). It reads the
// membership in the transaction that writes the session, so that a concurrent removal either commits first or is seen
// by the next request.
func switchOrganization(c *call) (reply, error) {
	var id int64
	if err := c.parse(func(o *body.Object) { id = required(o, "organization_id", input.ID) }); err != nil {
		return reply{}, err
	}
	if err := requireB2B(c); err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		g := u.signedIn()
		if err := u.Users().SetLastOrganization(g.User, id); err != nil {
			return reply{}, err
		}
		member, found, err := u.Organizations().Member(id, g.User)
		if err != nil {
			return reply{}, err
		}
		if !found {
			return reply{}, errNotInOrganization
		}
		memberships, err := u.Organizations().WorkspaceMembershipsOf(g.User, id)
		if err != nil {
			return reply{}, err
		}
		if err := account.CheckAmong(u.Unit, g, member, memberships); err != nil {
			return reply{}, err
		}
		data := enduserapi.ActiveOrganization{Organization: viewOrganization(member.Organization)}
		w, active := session.Workspace(member, memberships)
		if active {
			data.Workspace = ptr.To(viewWorkspace(w))
		}
		another := g.Organization != id
		if err := u.activate(g, id, w.ID); err != nil {
			return reply{}, err
		}
		return reply{data: data}, u.auditSwitch("session.switched_organization", "organization:"+format(id), another)
	})
}

// activate makes an organization and a workspace active for the active sign-in, and gives the browser a new token.
// Callers first record the user's last organization, because the user's row must be locked before the member's.
func (u *unit) activate(g *people.SignIn, organization, workspace int64) error {
	if err := u.Sessions().SetActiveOrganization(g.ID, organization, workspace); err != nil {
		return err
	}
	g.Organization, g.Workspace = organization, workspace
	if workspace != 0 {
		if err := u.Organizations().SetMemberWorkspace(organization, g.User, workspace); err != nil {
			return err
		}
	}
	return u.rotate()
}

// switchesLogged is how many switches of a session between organizations have events per hour.
const switchesLogged = 60

// auditSwitch audits a switch at most once per hour and session, so that frequent switches do not fill the audit log.
// organization says whether the active sign-in has another active organization, which has an event.
func (u *unit) auditSwitch(action, object string, organization bool) error {
	n, err := u.Limits().Count("audit:"+action, format(u.session.ID), u.Now, u.Now.Add(time.Hour))
	if err == nil && organization && n.Count <= switchesLogged {
		u.Log(events.OfSwitch(*u.signedIn()))
	}
	if err != nil || n.Count > 1 {
		return err
	}
	return u.Audit(action, object)
}

// switchWorkspace makes another workspace of the active organization active. The token is not replaced, because the
// organization is the same.
func switchWorkspace(c *call) (reply, error) {
	var id int64
	if err := c.parse(func(o *body.Object) { id = required(o, "workspace_id", input.ID) }); err != nil {
		return reply{}, err
	}
	if err := requireB2B(c); err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		g := u.signedIn()
		m, found, err := u.Organizations().WorkspaceMember(id, g.User)
		if err != nil {
			return reply{}, err
		}
		var member people.Member
		if found && m.Workspace.Organization == g.Organization {
			member, found, err = u.Organizations().Member(g.Organization, g.User)
		}
		if err != nil {
			return reply{}, err
		}
		if !found || m.Workspace.Organization != g.Organization {
			return reply{}, errNotInWorkspace
		}
		if err := u.CheckIn(g, member); err != nil {
			return reply{}, err
		}
		if err := u.Sessions().SetActiveOrganization(g.ID, g.Organization, id); err != nil {
			return reply{}, err
		}
		g.Workspace = id
		if err := u.Organizations().SetMemberWorkspace(g.Organization, g.User, id); err != nil {
			return reply{}, err
		}
		return reply{data: enduserapi.ActiveWorkspace{Workspace: viewWorkspace(m.Workspace)}}, u.auditSwitch("session.switched_workspace", "workspace:"+format(id), false)
	})
}

// createOrganization creates an organization, which becomes active.
func createOrganization(c *call) (reply, error) {
	var name, description string
	err := c.parse(func(o *body.Object) {
		name = ptr.Deref(required(o, "name", input.Name), "")
		description = ptr.Deref(input.Description(o, "description"), "")
	})
	if err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		g := u.signedIn()
		if err := account.CheckOwner(u.Unit, g); err != nil {
			return reply{}, err
		}
		created, err := account.CreateOwnOrganization(u.Unit, g.User, name, description)
		if err != nil {
			return reply{}, err
		}
		organization, workspace := created.Member.Organization, int64(0)
		if created.Workspace != nil {
			workspace = created.Workspace.Workspace.ID
		}
		if err := u.Users().SetLastOrganization(g.User, organization.ID); err != nil {
			return reply{}, err
		}
		if err := u.activate(g, organization.ID, workspace); err != nil {
			return reply{}, err
		}
		u.Log(events.OfSwitch(*g))
		data := enduserapi.OwnOrganization{Organization: viewOrganization(organization), Membership: viewMember(u.Unit, g, created.Member, nil)}
		return reply{data: data}, u.Audit("organization.created", "organization:"+format(organization.ID))
	})
}

// organizationID returns the id in the path.
func organizationID(c *call) (int64, error) {
	id, err := ids.Parse(c.r.PathValue("id"))
	if err != nil {
		return 0, c.answerTo(errOrganizationUnknown)
	}
	return id, nil
}

// memberOf returns the membership of a sign-in's user. Unknown and foreign organizations get the same response. A
// sign-in that shows less than the organization requires is refused.
func memberOf(u *account.Unit, organization int64, g *people.SignIn) (people.Member, error) {
	member, err := account.RequireMember(u, organization, g.User)
	if errors.Is(err, account.ErrNotMember) {
		err = errOrganizationUnknown
	}
	if err == nil {
		err = u.CheckIn(g, member)
	}
	return member, err
}

// inOrganization runs read for a member of the organization in the path.
func inOrganization(c *call, read func(*account.Unit, people.Member) (any, error)) (reply, error) {
	if err := requireB2B(c); err != nil {
		return reply{}, err
	}
	id, err := organizationID(c)
	if err != nil {
		return reply{}, err
	}
	var data any
	err = c.view(func(u *account.Unit) error {
		member, err := memberOf(u, id, c.signedIn())
		if err == nil {
			data, err = read(u, member)
		}
		return err
	})
	return reply{data: data}, err
}

// changeOrganizationBy runs change for a member of the organization in the path.
func changeOrganizationBy(c *call, change func(*unit, people.Member) (any, error)) (reply, error) {
	if err := requireB2B(c); err != nil {
		return reply{}, err
	}
	id, err := organizationID(c)
	if err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		member, err := memberOf(u.Unit, id, u.signedIn())
		if err != nil {
			return reply{}, err
		}
		data, err := change(u, member)
		return reply{data: data}, err
	})
}

// changedOf returns the names of the members of an organization's profile that differ, as events name them.
func changedOf(before, after people.Organization) (names []string) {
	for _, member := range []struct {
		name    string
		differs bool
	}{
		{"name", before.Name != after.Name}, {"description", before.Description != after.Description}, {"image_url", before.ImageURL != after.ImageURL},
	} {
		if member.differs {
			names = append(names, member.name)
		}
	}
	return names
}

// changeOrganization changes an organization's name, description and picture, each only if the request has it. The
// slug does not change.
func changeOrganization(c *call) (reply, error) {
	var name, description, image *string
	var requirement account.RequirementChange
	err := c.parse(func(o *body.Object) {
		name, description, image = input.Name(o, "name"), input.Description(o, "description"), input.ImageURL(o, "image_url")
		requirement = readRequirement(o)
	})
	if err != nil {
		return reply{}, err
	}
	return changeOrganizationBy(c, func(u *unit, member people.Member) (any, error) {
		if err := u.RequirePermission(member, account.PermissionManage); err != nil {
			return nil, err
		}
		o, found, err := u.Organizations().LockOrganization(member.Organization.ID)
		if err == nil && !found {
			err = account.ErrNotMember
		}
		if err != nil {
			return nil, err
		}
		member.Organization = o
		o.Name, o.Description, o.ImageURL = ptr.Deref(name, o.Name), ptr.Deref(description, o.Description), ptr.Deref(image, o.ImageURL)
		described := o != member.Organization
		if requirement.Any() {
			if err := account.ChangeRequirement(u.Unit, u.signedIn(), member, &o, requirement); err != nil {
				return nil, err
			}
		}
		if o == member.Organization {
			return viewMemberOrganization(o), nil
		}
		if err := u.Organizations().UpdateOrganization(o); err != nil || !described {
			return viewMemberOrganization(o), err
		}
		u.Log(events.OfOrganization(events.OrganizationUpdated, o.ID, changedOf(member.Organization, o)...))
		return viewMemberOrganization(o), u.Audit("organization.changed", "organization:"+format(o.ID))
	})
}

// readRequirement reads a change of what an organization requires of its members.
func readRequirement(o *body.Object) (change account.RequirementChange) {
	if text, sent := o.String("required_assurance"); sent {
		level, known := assurance.ParseLevel(text)
		if !known {
			o.Fault("required_assurance", "must be one_factor, two_factors or phishing_resistant")
		}
		change.Level = &level
	}
	if o.Has("enforce_from") {
		at := input.Time(o, "enforce_from")
		change.From = &at
	}
	return change
}

// deleteOrganization deletes an organization after a confirmation by its slug, and notifies its members.
func deleteOrganization(c *call) (reply, error) {
	var confirmation string
	err := c.parse(func(o *body.Object) {
		o.Require("confirmation")
		confirmation, _ = o.String("confirmation")
	})
	if err != nil {
		return reply{}, err
	}
	out, err := changeOrganizationBy(c, func(u *unit, member people.Member) (any, error) {
		if !member.Owner {
			return nil, account.ErrOwnersOnly
		}
		if confirmation != member.Organization.Slug {
			return nil, errConfirmation
		}
		if err := account.RemoveOrganization(u.Unit, member); err != nil {
			return nil, err
		}
		g := u.signedIn()
		if g.Organization == member.Organization.ID {
			g.Organization, g.Workspace = 0, 0
			return nil, u.rotate()
		}
		return nil, nil
	})
	out.data = c.sessionSnapshot()
	return out, err
}
