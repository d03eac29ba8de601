package enduser

import (
	"errors"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// createWorkspace creates a workspace in an organization of the user. It does not become active.
func createWorkspace(c *call) (reply, error) {
	var name string
	var organization int64
	err := c.parse(func(o *body.Object) {
		name = ptr.Deref(required(o, "name", input.Name), "")
		organization = required(o, "organization_id", input.ID)
	})
	if err != nil {
		return reply{}, err
	}
	if err := requireB2B(c); err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		user := u.signedIn().User
		member, err := account.RequireMember(u.Unit, organization, user)
		if err == nil {
			err = u.CheckIn(u.signedIn(), member)
		}
		if err != nil {
			return reply{}, err
		}
		if !u.B2B.AllowWorkspaceCreation {
			return reply{}, account.ErrWorkspacesClosed
		}
		if err := u.RequirePermission(member, account.PermissionCreateWorkspace); err != nil {
			return reply{}, err
		}
		created, err := account.CreateWorkspace(u.Unit, organization, user, name)
		if err != nil {
			return reply{}, err
		}
		return reply{data: enduserapi.ActiveWorkspace{Workspace: viewWorkspace(created.Workspace)}}, u.Audit("workspace.created", "workspace:"+format(created.Workspace.ID))
	})
}

// workspaceID returns the id in the path. A malformed id gets the same response as an unknown one.
func workspaceID(c *call) (int64, error) {
	id, err := ids.Parse(c.r.PathValue("id"))
	if err != nil {
		return 0, c.answerTo(account.ErrWorkspaceUnknown)
	}
	return id, nil
}

// changeWorkspace runs change for a member of the organization of the workspace in the path.
func changeWorkspace(c *call, change func(*unit, account.WorkspaceAccess) (any, error)) (reply, error) {
	if err := requireB2B(c); err != nil {
		return reply{}, err
	}
	id, err := workspaceID(c)
	if err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		access, err := account.WorkspaceAccessOf(u.Unit, id, u.signedIn().User)
		if err == nil {
			err = u.CheckIn(u.signedIn(), access.In)
		}
		if err != nil {
			return reply{}, err
		}
		data, err := change(u, access)
		return reply{data: data}, err
	})
}

// renameWorkspace changes a workspace's name. The slug does not change.
func renameWorkspace(c *call) (reply, error) {
	var name string
	if err := c.parse(func(o *body.Object) { name = ptr.Deref(required(o, "name", input.Name), "") }); err != nil {
		return reply{}, err
	}
	return changeWorkspace(c, func(u *unit, access account.WorkspaceAccess) (any, error) {
		if err := u.RequireManaged(access); err != nil {
			return nil, err
		}
		w := access.Workspace
		if w.Name == name {
			return viewWorkspace(w), nil
		}
		w.Name = name
		if err := u.Organizations().RenameWorkspace(w.ID, name); err != nil {
			return nil, err
		}
		renamed := events.OfWorkspace(events.WorkspaceUpdated, w)
		renamed.Data.Changed = []string{"name"}
		u.Log(renamed)
		return viewWorkspace(w), u.Audit("workspace.changed", "workspace:"+format(w.ID))
	})
}

// listWorkspaceMembers lists the members of a workspace, for its members and managers.
func listWorkspaceMembers(c *call) (reply, error) {
	if err := requireB2B(c); err != nil {
		return reply{}, err
	}
	id, err := workspaceID(c)
	if err != nil {
		return reply{}, err
	}
	page, err := c.memberPage()
	if err != nil {
		return reply{}, err
	}
	out := []enduserapi.WorkspaceMember{}
	err = c.view(func(u *account.Unit) error {
		access, err := account.WorkspaceAccessOf(u, id, c.signedIn().User)
		if err == nil {
			err = u.CheckIn(c.signedIn(), access.In)
		}
		if err != nil {
			return err
		}
		if err := u.RequireSeen(access); err != nil {
			return err
		}
		members, err := u.Organizations().WorkspaceMembersOf(id, page.after, page.limit)
		for _, m := range members {
			out = append(out, viewWorkspaceMemberAccount(u.Tenant, m.WorkspaceMember, m.Account))
		}
		return err
	})
	return reply{data: out}, err
}

// addWorkspaceMember adds a member of the organization to the workspace.
func addWorkspaceMember(c *call) (reply, error) {
	var user, role int64
	err := c.parse(func(o *body.Object) {
		user = required(o, "user_id", input.ID)
		role = input.ID(o, "role_id")
	})
	if err != nil {
		return reply{}, err
	}
	return changeWorkspace(c, func(u *unit, access account.WorkspaceAccess) (any, error) {
		m, err := account.AddToWorkspace(u.Unit, access, user, role)
		if errors.Is(err, account.ErrNotMember) {
			return nil, apierror.Bad("VALIDATION_ERROR", "user_id is not the id of a member of the organization: invite the user first")
		}
		return workspaceMemberView(u, m, err)
	})
}

func workspaceMemberView(u *unit, m people.WorkspaceMember, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	who, err := accountOf(u.Unit, m.User)
	return viewWorkspaceMemberAccount(u.Tenant, m, who), err
}

// membershipID returns the id of the membership in the path.
func membershipID(c *call) (int64, error) {
	id, err := ids.Parse(c.r.PathValue("membership_id"))
	if err != nil {
		err = account.ErrMembershipUnknown
	}
	return id, err
}

// changeWorkspaceMember changes a member's role in a workspace.
func changeWorkspaceMember(c *call) (reply, error) {
	var role int64
	err := c.parse(func(o *body.Object) {
		if o.Require("role_id") {
			role = readRole(o)
		}
	})
	if err != nil {
		return reply{}, err
	}
	return changeWorkspace(c, func(u *unit, access account.WorkspaceAccess) (any, error) {
		id, err := membershipID(c)
		if err != nil {
			return nil, err
		}
		m, err := account.ChangeWorkspaceMember(u.Unit, access, id, role)
		return workspaceMemberView(u, m, err)
	})
}

// removeWorkspaceMember ends a membership of a workspace.
func removeWorkspaceMember(c *call) (reply, error) {
	return changeWorkspace(c, func(u *unit, access account.WorkspaceAccess) (any, error) {
		id, err := membershipID(c)
		if err != nil {
			return nil, err
		}
		m, err := account.RemoveFromWorkspace(u.Unit, access, id)
		return workspaceMemberView(u, m, err)
	})
}
