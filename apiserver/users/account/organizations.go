package account

import (
	"slices"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/store/people"
)

// The permissions that the end-user API requires.
const (
	PermissionInvite          = "organization:invite"
	PermissionManage          = "organization:manage"
	PermissionCreateWorkspace = "workspace:create"
	PermissionManageWorkspace = "workspace:manage"
	// PermissionConnections is for the connections and domains of an organization.
	PermissionConnections = "connection:manage"
)

// May reports whether a member has a permission in the organization.
func (t *Tenant) May(m people.Member, permission string) bool {
	if m.Owner {
		return true
	}
	role := t.RoleOf(v1alpha1.RoleLevelOrganization, false, m.Role)
	return role != nil && slices.Contains(role.Permissions, permission)
}

// RequirePermission returns a PermissionError if a member lacks a permission.
func (t *Tenant) RequirePermission(m people.Member, permission string) error {
	if !t.May(m, permission) {
		return &PermissionError{Permission: permission}
	}
	return nil
}

// RequireMember returns a user's membership; in a Change, it locks the row. ErrNotMember: the organization does not
// exist in the deployment, or the user is not a member.
func RequireMember(u *Unit, organization, user int64) (people.Member, error) {
	member, found, err := u.Organizations().Member(organization, user)
	if err == nil && !found {
		err = ErrNotMember
	}
	return member, err
}

// Created is the result of creating an organization.
type Created struct {
	Member people.Member
	// Workspace is the default workspace, nil if workspaces may not be created.
	Workspace *people.WorkspaceMember
}

// CreateOrganization creates an organization for a backend, with a default workspace if workspaces may be created. The
// user is its owner. User 0 means no owner; Created.Member then has only the organization. The slug is made from the
// name, with a number if the plain slug is taken. Errors: ErrUserUnknown; a LimitError if the user owns as many
// organizations as the B2B settings allow.
func CreateOrganization(u *Unit, user int64, name, description string) (Created, error) {
	return createOrganization(u, user, name, description, func() (string, error) { return freeSlug(name, "organization", u.Organizations().SlugTaken, u.NewID) })
}

// CreateOwnOrganization is CreateOrganization at the request of the user. The slug always has a number: the response
// must not show whether another customer's organization has the name, and users must not be able to choose a group name
// that an application trusts.
func CreateOwnOrganization(u *Unit, user int64, name, description string) (Created, error) {
	return createOrganization(u, user, name, description, func() (string, error) { return numberedSlug(name, "organization", u.NewID) })
}

func createOrganization(u *Unit, user int64, name, description string, newSlug func() (string, error)) (Created, error) {
	if err := u.RequireB2B(); err != nil {
		return Created{}, err
	}
	if user != 0 {
		if err := mayOwnAnother(u, user); err != nil {
			return Created{}, err
		}
	}
	slug, err := newSlug()
	if err != nil {
		return Created{}, err
	}
	id, err := u.NewID()
	if err != nil {
		return Created{}, err
	}
	o := people.Organization{ID: id, Name: name, Slug: slug, Description: description, CreatedAt: u.Now}
	if err := u.Organizations().InsertOrganization(o); err != nil {
		return Created{}, err
	}
	member := people.Member{ID: id, User: user, Organization: o, Owner: true, CreatedAt: u.Now}
	LogAs(u, actorFor(u, user), events.OfOrganization(events.OrganizationCreated, id))
	if user != 0 {
		if err := u.Organizations().InsertMember(member); err != nil {
			return Created{}, err
		}
		LogAs(u, actorFor(u, user), events.OfMember(events.MembershipCreated, member))
	}
	if err := u.recordEvent(people.EventOrganization, user, ""); err != nil {
		return Created{}, err
	}
	created := Created{Member: member}
	if !u.B2B.AllowWorkspaceCreation || u.B2B.DefaultWorkspaceLimit < 1 {
		return created, nil
	}
	w, err := addWorkspace(u, o.ID, user, "Default", nil)
	if err != nil {
		return Created{}, err
	}
	created.Workspace, created.Member.Organization.Workspace = &w, w.Workspace.ID
	return created, u.Organizations().SetDefaultWorkspace(o.ID, w.Workspace.ID)
}

// mayOwnAnother checks the limit on owned organizations and locks the user. With the named lock, concurrent creations
// are counted one after the other. The named lock is taken before the user's lock, as in other transactions.
func mayOwnAnother(u *Unit, user int64) error {
	if err := u.Limits().Lock(object("owner", user)); err != nil {
		return err
	}
	if _, found, err := u.Users().LockUser(user); err != nil || !found {
		return FirstOf(err, ErrUserUnknown)
	}
	owned, err := u.Organizations().OwnedOrganizations(user)
	if err != nil {
		return err
	}
	if most := u.B2B.OrganizationsPerUser(); int64(owned) >= most {
		return &LimitError{Reason: ErrTooManyOrganizations, Have: int64(owned), Most: most}
	}
	return nil
}

// CreateWorkspace creates a workspace in an organization. The user is its owner. A LimitError: the organization has as
// many workspaces as the B2B settings allow. ErrNotMember: the organization does not exist.
func CreateWorkspace(u *Unit, organization, user int64, name string) (people.WorkspaceMember, error) {
	// With the lock, concurrent creations are counted one after the other.
	o, found, err := u.Organizations().LockOrganization(organization)
	if err != nil {
		return people.WorkspaceMember{}, err
	}
	if !found {
		return people.WorkspaceMember{}, ErrNotMember
	}
	workspaces, err := u.Organizations().WorkspacesOf(organization)
	if err != nil {
		return people.WorkspaceMember{}, err
	}
	slugs := make([]string, len(workspaces))
	for i, w := range workspaces {
		slugs[i] = w.Slug
	}
	if have, most := int64(len(slugs)), u.B2B.DefaultWorkspaceLimit; have >= most {
		return people.WorkspaceMember{}, &LimitError{Reason: ErrTooManyWorkspaces, Have: have, Most: most}
	}
	w, err := addWorkspace(u, organization, user, name, slugs)
	if err == nil && o.Workspace == 0 {
		err = u.Organizations().SetDefaultWorkspace(organization, w.Workspace.ID)
	}
	return w, err
}

func addWorkspace(u *Unit, organization, user int64, name string, taken []string) (people.WorkspaceMember, error) {
	slug, err := freeSlug(name, "workspace", func(slug string) (bool, error) { return slices.Contains(taken, slug), nil }, u.NewID)
	if err != nil {
		return people.WorkspaceMember{}, err
	}
	id, err := u.NewID()
	if err != nil {
		return people.WorkspaceMember{}, err
	}
	w := people.Workspace{ID: id, Organization: organization, Name: name, Slug: slug, CreatedAt: u.Now}
	if err := u.Organizations().InsertWorkspace(w); err != nil {
		return people.WorkspaceMember{}, err
	}
	LogAs(u, actorFor(u, user), events.OfWorkspace(events.WorkspaceCreated, w))
	m := people.WorkspaceMember{ID: id, User: user, Workspace: w, Owner: true, CreatedAt: u.Now}
	if user != 0 {
		if err := u.Organizations().InsertWorkspaceMember(m); err != nil {
			return people.WorkspaceMember{}, err
		}
		LogAs(u, actorFor(u, user), events.OfWorkspaceMember(events.MembershipCreated, m))
	}
	return m, u.recordEvent(people.EventWorkspace, user, "")
}

// Join makes a user a member of an organization and of its default workspace. With role 0, the member gets the role
// that the B2B settings assign. ErrAlreadyMember: the user is a member already. ErrSuspended: a directory of the
// organization deactivated the user.
func Join(u *Unit, organization people.Organization, user, role int64) (people.Member, error) {
	// The lock prevents a concurrent deletion of the organization.
	if _, found, err := u.Organizations().LockOrganization(organization.ID); err != nil || !found {
		return people.Member{}, FirstOf(err, ErrNotMember)
	}
	if err := requireNotSuspended(u, organization, user); err != nil {
		return people.Member{}, err
	}
	return join(u, organization, user, role)
}

// join is Join in a locked organization, without the check for a suspended membership.
func join(u *Unit, organization people.Organization, user, role int64) (people.Member, error) {
	if _, found, err := u.Organizations().Member(organization.ID, user); err != nil {
		return people.Member{}, err
	} else if found {
		return people.Member{}, ErrAlreadyMember
	}
	return addMember(u, organization, user, role)
}

// addMember makes a user a member, and a member of the default workspace, with a role; 0 for the one that new members
// get. The user is no member yet, and the organization is locked.
func addMember(u *Unit, organization people.Organization, user, role int64) (people.Member, error) {
	if role == 0 {
		role = u.assigned(u.B2B.OrgRole)
	}
	id, err := u.NewID()
	if err != nil {
		return people.Member{}, err
	}
	m := people.Member{ID: id, User: user, Organization: organization, Role: role, CreatedAt: u.Now}
	if err := u.Organizations().InsertMember(m); err != nil {
		return m, err
	}
	LogAs(u, actorFor(u, user), events.OfMember(events.MembershipCreated, m))
	if organization.Workspace == 0 {
		return m, nil
	}
	w, found, err := u.Organizations().Workspace(organization.Workspace)
	if err != nil || !found {
		return m, err
	}
	in := people.WorkspaceMember{ID: id, User: user, Workspace: w, Role: u.assigned(u.B2B.WorkspaceRole), CreatedAt: u.Now}
	LogAs(u, actorFor(u, user), events.OfWorkspaceMember(events.MembershipCreated, in))
	return m, u.Organizations().InsertWorkspaceMember(in)
}

// Leave ends a user's membership by its id. ErrNotMember: it does not exist. ErrOwnerLeaves: the user is the last
// owner.
func Leave(u *Unit, user, membership int64) (people.Member, error) {
	members, err := u.Organizations().MembershipsOf(user)
	if err != nil {
		return people.Member{}, err
	}
	at := slices.IndexFunc(members, func(m people.Member) bool { return m.ID == membership })
	if at < 0 {
		return people.Member{}, ErrNotMember
	}
	m, found, err := u.Organizations().Member(members[at].Organization.ID, user) // locked: the user may have become an owner meanwhile
	if err != nil || !found {
		return m, FirstOf(err, ErrNotMember)
	}
	if err := keepOwner(u, m); err != nil {
		return m, err
	}
	if _, err := u.Organizations().DeleteMember(m.Organization.ID, user); err != nil {
		return m, err
	}
	u.Log(events.OfMember(events.MembershipDeleted, m))
	return m, u.Audit("organization.left", object("organization", m.Organization.ID))
}
