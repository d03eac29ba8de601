// Package account holds the rules over a deployment's people, the same whether an end user or a backend acts: accounts, sign-ins,
// organizations, workspaces, memberships, invitations, and what each permits. It knows nothing of HTTP: what it refuses is an
// error value (errors.go), for which each listener has its own words.
package account

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
)

// Tenant is one deployment's configuration as it binds people, at one moment.
type Tenant struct {
	snapshot *snapshot.Snapshot
	// Entry is the deployment's own, and Settings its content.
	Entry    *snapshot.Entry
	Settings *document.Deployment
	// B2B has effective values.
	B2B document.B2BSettings
}

// NewTenant returns the tenant that a deployment's entry declares.
func NewTenant(s *snapshot.Snapshot, deployment *snapshot.Entry) *Tenant {
	t := &Tenant{snapshot: s, Entry: deployment, Settings: deployment.Content.(*document.Deployment), B2B: document.AbsentB2BSettings()}
	if entry, found := s.BySlug(v1alpha1.KindB2BSettings, deployment.Deployment, document.B2BKey); found {
		t.B2B = *entry.Content.(*document.B2BSettings)
	}
	return t
}

// Snapshot is the whole configuration at that moment.
func (t *Tenant) Snapshot() *snapshot.Snapshot { return t.snapshot }

// Key is the deployment's "namespace/name", by which the store keeps its people.
func (t *Tenant) Key() string { return t.Entry.Deployment }

// AppName is what messages call the deployment.
func (t *Tenant) AppName() string {
	if name := strings.TrimSpace(t.Settings.DisplayName); name != "" {
		return name
	}
	return t.Entry.Name
}

// RequireB2B returns ErrOrganizationsDisabled where the deployment has no organizations.
func (t *Tenant) RequireB2B() error {
	if !t.B2B.Enabled {
		return ErrOrganizationsDisabled
	}
	return nil
}

// RequireOwnable refuses an organization of a new user's own where nobody could own it: with ErrOrganizationsDisabled, or with a
// LimitError where users own none.
func (t *Tenant) RequireOwnable() error {
	if err := t.RequireB2B(); err != nil {
		return err
	}
	if most := t.B2B.OrganizationsPerUser(); most < 1 {
		return &LimitError{Reason: ErrTooManyOrganizations, Most: most}
	}
	return nil
}

// RequireOrganization returns ErrOrganizationRequired where a sign-up must bring an organization or an invitation and brings neither.
func (t *Tenant) RequireOrganization(brings bool) error {
	if t.B2B.Enabled && t.B2B.RequireOrgForSignup && !brings {
		return ErrOrganizationRequired
	}
	return nil
}

// Role is a role as members hold it.
type Role struct {
	// ID is 0 for the owner.
	ID          int64
	Name        string
	Permissions []string
}

// OwnerRole is the name of the role an organization's creator has.
const OwnerRole = "owner"

// RoleOf returns the role of a membership, nil if the role was deleted: the membership then permits nothing.
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

// Roles returns the roles of a level that the deployment declares, by name.
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

// HasRole reports whether the deployment has a role of a level.
func (t *Tenant) HasRole(level v1alpha1.RoleLevel, id int64) bool {
	return id != 0 && t.RoleOf(level, false, id) != nil
}

// RoleNamed returns the id of the role of a level that a resource declares, 0 if there is none.
func (t *Tenant) RoleNamed(level v1alpha1.RoleLevel, name string) int64 {
	if id := t.assigned(name); t.HasRole(level, id) {
		return id
	}
	return 0
}

// assigned returns the id of a role that the B2B settings name, 0 if it is not there.
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

// SelfServiceApp returns the app of a slug if it is active and lets users make keys of their own, else nil.
func (t *Tenant) SelfServiceApp(slug string) *snapshot.App {
	entry, found := t.snapshot.BySlug(v1alpha1.KindAPIAuthApp, t.Key(), slug)
	if !found {
		return nil
	}
	return selfService(entry)
}

// Authorizes reports whether the deployment has an active OAuth app that asks people.
func (t *Tenant) Authorizes() (any bool) {
	t.snapshot.List(v1alpha1.KindOAuthApp, t.Key(), func(entry *snapshot.Entry) bool {
		app := snapshot.ContentOf[document.OAuthApp](entry)
		any = app.Active && app.Issuer != "" && app.FrontendURL != ""
		return !any
	})
	return any
}

// SelfServiceApps returns the apps that are active and let users make keys of their own, by their slugs.
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

// selfService returns an entry's app if it is active and lets users make keys of their own, else nil.
func selfService(entry *snapshot.Entry) *snapshot.App {
	app := snapshot.ContentOf[snapshot.App](entry)
	if !app.Active || app.SelfService == nil {
		return nil
	}
	return app
}
