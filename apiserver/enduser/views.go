package enduser

import (
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/account"
	"github.com/cardea-iam/cardea/store/people"
)

type userView struct {
	ID                 string    `json:"id"`
	Email              string    `json:"email"`
	FirstName          string    `json:"first_name"`
	LastName           string    `json:"last_name"`
	PrimaryPhoneNumber *string   `json:"primary_phone_number"`
	CreatedAt          time.Time `json:"created_at"`
}

func viewUser(u people.User) *userView {
	view := &userView{ID: format(u.ID), Email: u.Email, FirstName: u.FirstName, LastName: u.LastName, CreatedAt: u.CreatedAt}
	if u.Phone != "" {
		view.PrimaryPhoneNumber = &u.Phone
	}
	return view
}

// phoneView is the contract's phone number (2.9).
type phoneView struct {
	ID          string     `json:"id"`
	PhoneNumber string     `json:"phone_number"`
	Verified    bool       `json:"verified"`
	Primary     bool       `json:"primary"`
	CreatedAt   time.Time  `json:"created_at"`
	VerifiedAt  *time.Time `json:"verified_at"`
}

func viewPhone(p people.Phone) phoneView {
	view := phoneView{ID: format(p.ID), PhoneNumber: p.Number, Verified: !p.VerifiedAt.IsZero(), Primary: p.Primary, CreatedAt: p.CreatedAt}
	if view.Verified {
		view.VerifiedAt = &p.VerifiedAt
	}
	return view
}

// organizationView and workspaceView are the contract's (2.10).
type organizationView struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Slug     string `json:"slug"`
	ImageURL string `json:"image_url"`
}

func viewOrganization(o people.Organization) *organizationView {
	return &organizationView{format(o.ID), o.Name, o.Slug, o.ImageURL}
}

type workspaceView struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Slug string `json:"slug"`
}

func viewWorkspace(w people.Workspace) *workspaceView {
	return &workspaceView{format(w.ID), w.Name, w.Slug}
}

type roleView struct {
	// ID is null for the owner, whose role is built in.
	ID          *string  `json:"id"`
	Name        string   `json:"name"`
	Permissions []string `json:"permissions"`
}

func viewRole(r *account.Role) *roleView {
	if r == nil {
		return nil
	}
	view := &roleView{Name: r.Name, Permissions: r.Permissions}
	if view.Permissions == nil {
		view.Permissions = []string{}
	}
	if r.ID != 0 {
		id := format(r.ID)
		view.ID = &id
	}
	return view
}

type organizationMembershipView struct {
	ID           string            `json:"id"`
	Organization *organizationView `json:"organization"`
	Role         *roleView         `json:"role"`
	CreatedAt    time.Time         `json:"created_at"`
}

func viewMember(t *account.Tenant, m people.Member) organizationMembershipView {
	return organizationMembershipView{format(m.ID), viewOrganization(m.Organization), viewRole(t.RoleOf(v1alpha1.RoleLevelOrganization, m.Owner, m.Role)), m.CreatedAt}
}

type workspaceMembershipView struct {
	ID           string            `json:"id"`
	Organization *organizationView `json:"organization"`
	Workspace    *workspaceView    `json:"workspace"`
	Role         *roleView         `json:"role"`
	CreatedAt    time.Time         `json:"created_at"`
}

func viewWorkspaceMember(t *account.Tenant, o people.Organization, m people.WorkspaceMember) workspaceMembershipView {
	return workspaceMembershipView{
		format(m.ID), viewOrganization(o), viewWorkspace(m.Workspace), viewRole(t.RoleOf(v1alpha1.RoleLevelWorkspace, m.Owner, m.Role)), m.CreatedAt,
	}
}

type invitationView struct {
	ID             string    `json:"id"`
	OrganizationID string    `json:"organization_id"`
	Email          string    `json:"email"`
	RoleID         *string   `json:"role_id"`
	CreatedAt      time.Time `json:"created_at"`
	ExpiresAt      time.Time `json:"expires_at"`
}

func viewInvitation(i people.Invitation) invitationView {
	view := invitationView{ID: format(i.ID), OrganizationID: format(i.Organization), Email: i.Email, CreatedAt: i.CreatedAt, ExpiresAt: i.ExpiresAt}
	if i.Role != 0 {
		id := format(i.Role)
		view.RoleID = &id
	}
	return view
}

// sessionView tells who is signed in, and where; all are null when nobody is.
type sessionView struct {
	User         *userView         `json:"user"`
	Organization *organizationView `json:"organization"`
	Workspace    *workspaceView    `json:"workspace"`
}

// switchedView is the contract's result of a switch (2.10).
type switchedView struct {
	Organization *organizationView `json:"organization"`
	Workspace    *workspaceView    `json:"workspace"`
}

type activeWorkspaceView struct {
	Workspace *workspaceView `json:"workspace"`
}

type createdOrganizationView struct {
	Organization *organizationView          `json:"organization"`
	Membership   organizationMembershipView `json:"membership"`
}

type acceptedView struct {
	Membership organizationMembershipView `json:"membership"`
}

// sentView tells that a code was sent, and for how many seconds it lives.
type sentView struct {
	Sent        bool   `json:"sent"`
	PhoneNumber string `json:"phone_number"`
	ExpiresIn   int    `json:"expires_in"`
}

// verifiedView is the contract's result of a verification (4.9).
type verifiedView struct {
	Verified    bool      `json:"verified"`
	PhoneNumber phoneView `json:"phone_number"`
}

type tokenView struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}
