// Package account holds the rules for a deployment's users, which are the same for end users and backends: accounts,
// sign-ins, organizations, workspaces, memberships, invitations, and their permissions. It does not depend on HTTP: it
// returns error values (errors.go), which each listener maps to its own responses.
package account

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
)

// Tenant is the configuration of one deployment for its users, from one snapshot.
type Tenant struct {
	snapshot *snapshot.Snapshot
	// Entry is the deployment's entry, and Settings its content.
	Entry    *snapshot.Entry
	Settings *document.Deployment
	// B2B has the effective B2B settings.
	B2B document.B2BSettings
}

// NewTenant returns the tenant of a deployment's entry.
func NewTenant(s *snapshot.Snapshot, deployment *snapshot.Entry) *Tenant {
	t := &Tenant{snapshot: s, Entry: deployment, Settings: deployment.Content.(*document.Deployment), B2B: document.DefaultB2BSettings()}
	if entry, found := s.BySlug(v1alpha1.KindB2BSettings, deployment.Deployment, document.B2BKey); found {
		t.B2B = *entry.Content.(*document.B2BSettings)
	}
	return t
}

// Snapshot returns the snapshot that the tenant was made from.
func (t *Tenant) Snapshot() *snapshot.Snapshot { return t.snapshot }

// Key returns the deployment's "namespace/name", which is its key in the store.
func (t *Tenant) Key() string { return t.Entry.Deployment }

// AppName returns the deployment's name in messages.
func (t *Tenant) AppName() string {
	if name := strings.TrimSpace(t.Settings.DisplayName); name != "" {
		return name
	}
	return t.Entry.Name
}

// RequireB2B returns ErrOrganizationsDisabled if the deployment has no organizations.
func (t *Tenant) RequireB2B() error {
	if !t.B2B.Enabled {
		return ErrOrganizationsDisabled
	}
	return nil
}

// RequireOwnable returns an error if a new user cannot own an organization: ErrOrganizationsDisabled, or a LimitError
// if the limit of owned organizations is 0.
func (t *Tenant) RequireOwnable() error {
	if err := t.RequireB2B(); err != nil {
		return err
	}
	if most := t.B2B.OrganizationsPerUser(); most < 1 {
		return &LimitError{Reason: ErrTooManyOrganizations, Most: most}
	}
	return nil
}

// RequireOrganization returns ErrOrganizationRequired if a sign-up must have an organization or an invitation and has
// neither.
func (t *Tenant) RequireOrganization(brings bool) error {
	if t.B2B.Enabled && t.B2B.RequireOrgForSignup && !brings {
		return ErrOrganizationRequired
	}
	return nil
}

// Role is a member's role with its permissions.
type Role struct {
	// ID is 0 for the owner.
	ID          int64
	Name        string
	Permissions []string
}

// OwnerRole is the name of the role of an organization's creator.
const OwnerRole = "owner"

// RoleOf returns the role of a membership, nil if the role was deleted. A membership without a role has no permissions.
func (t *Tenant) RoleOf(level v1alpha1.RoleLevel, owner bool, id int64) *Role {
	role := &Role{ID: id, Name: OwnerRole}
	if owner {
		role.ID = 0
	} else {
		content, found := t.snapshot.MembershipRole(t.Key(), level, id)
		if !found {
			return nil
		}
		role.Name = content.Name
	}
	role.Permissions = slices.Clone(t.snapshot.RolePermissions(t.Entry, level, owner, id))
	return role
}

// Roles returns the deployment's roles of a level, sorted by name.
func (t *Tenant) Roles(level v1alpha1.RoleLevel) []Role {
	var roles []Role
	t.snapshot.List(v1alpha1.KindMembershipRole, t.Key(), func(e *snapshot.Entry) bool {
		if role := t.RoleOf(level, false, e.ID); role != nil {
			roles = append(roles, *role)
		}
		return true
	})
	slices.SortFunc(roles, func(a, b Role) int { return cmp.Compare(a.Name, b.Name) })
	return roles
}

// roleName returns the name of the role of a membership, "" for none.
func roleName(t *Tenant, of events.Data) string {
	levels := map[string]v1alpha1.RoleLevel{events.LevelOrganization: v1alpha1.RoleLevelOrganization, events.LevelWorkspace: v1alpha1.RoleLevelWorkspace}
	if role := t.RoleOf(levels[of.Level], false, of.Role); role != nil {
		return role.Name
	}
	return ""
}

// HasRole reports whether the deployment has a role of a level.
func (t *Tenant) HasRole(level v1alpha1.RoleLevel, id int64) bool {
	return id != 0 && t.RoleOf(level, false, id) != nil
}

// RoleNamed returns the id of a MembershipRole resource by its name, 0 if there is none of this level.
func (t *Tenant) RoleNamed(level v1alpha1.RoleLevel, name string) int64 {
	if id := t.assigned(name); t.HasRole(level, id) {
		return id
	}
	return 0
}

// assigned returns the id of a role that the B2B settings name, 0 if it does not exist.
func (t *Tenant) assigned(name string) int64 {
	if name == "" {
		return 0
	}
	entry, found := t.snapshot.Get(store.Identity{Kind: v1alpha1.KindMembershipRole, Namespace: t.Entry.Namespace, Name: name})
	if !found || entry.Deployment != t.Key() {
		return 0
	}
	return entry.ID
}

// SelfServiceApp returns the app with a slug if it is active and lets users create their own keys, else nil.
func (t *Tenant) SelfServiceApp(slug string) *snapshot.App {
	entry, found := t.snapshot.BySlug(v1alpha1.KindAPIAuthApp, t.Key(), slug)
	if !found {
		return nil
	}
	return selfService(entry)
}

// Approves reports whether the deployment has an active tool whose calls need the approval of a person.
func (t *Tenant) Approves() (any bool) {
	t.snapshot.List(v1alpha1.KindAITool, t.Key(), func(entry *snapshot.Entry) bool {
		tool := snapshot.ContentOf[snapshot.Tool](entry)
		any = tool.Active && tool.RequiresUserApproval
		return !any
	})
	return any
}

// Authorizes reports whether the deployment has an active OAuth app that asks users for consent.
func (t *Tenant) Authorizes() (any bool) {
	t.snapshot.List(v1alpha1.KindOAuthApp, t.Key(), func(entry *snapshot.Entry) bool {
		app := snapshot.ContentOf[document.OAuthApp](entry)
		any = app.Active && app.Issuer != "" && app.FrontendURL != ""
		return !any
	})
	return any
}

// SelfServiceApps returns the active apps that let users create their own keys, sorted by slug.
func (t *Tenant) SelfServiceApps() []*snapshot.App {
	var apps []*snapshot.App
	t.snapshot.List(v1alpha1.KindAPIAuthApp, t.Key(), func(entry *snapshot.Entry) bool {
		if app := selfService(entry); app != nil {
			apps = append(apps, app)
		}
		return true
	})
	slices.SortFunc(apps, func(a, b *snapshot.App) int { return strings.Compare(a.Slug, b.Slug) })
	return apps
}

// selfService returns an entry's app if it is active and lets users create their own keys, else nil.
func selfService(entry *snapshot.Entry) *snapshot.App {
	app := snapshot.ContentOf[snapshot.App](entry)
	if !app.Active || app.SelfService == nil {
		return nil
	}
	return app
}
