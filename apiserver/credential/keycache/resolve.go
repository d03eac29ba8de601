package keycache

import (
	"slices"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/permission"
)

// Grant is what a key may do, by its app and by what it is bound to, at one moment.
type Grant struct {
	// Deployment and App are the entries the key belongs to, Settings and Content what they say.
	Deployment *snapshot.Entry
	Settings   *document.Deployment
	App        *snapshot.Entry
	Content    *snapshot.App

	own *Permissions
	// role bounds a key that is bound to an organization or a workspace.
	bounded bool
	role    []string
}

// Resolve finds a key's app and deployment, and what its role grants now. false: a key whose app or deployment is not served, or whose app
// is not active, is answered like an unknown one.
func Resolve(s *snapshot.Snapshot, k *Key) (Grant, bool) {
	app, found := s.BySlug(v1alpha1.KindAPIAuthApp, k.Deployment, k.App)
	if !found {
		return Grant{}, false
	}
	deployment, found := s.Deployment(k.Deployment)
	content := snapshot.ContentOf[snapshot.App](app)
	if !found || !content.Active {
		return Grant{}, false
	}
	g := Grant{Deployment: deployment, Settings: snapshot.ContentOf[document.Deployment](deployment), App: app, Content: content, own: k.Permissions}
	switch {
	case k.WorkspaceID != 0:
		g.bounded, g.role = true, s.RolePermissions(deployment, v1alpha1.RoleLevelWorkspace, k.Owner, k.RoleID)
	case k.OrganizationID != 0:
		g.bounded, g.role = true, s.RolePermissions(deployment, v1alpha1.RoleLevelOrganization, k.Owner, k.RoleID)
	}
	return g, true
}

// Allows reports whether the key has a permission: its own, its app's and its role's.
func (g *Grant) Allows(name string) bool {
	return g.own.Allows(name) && g.Content.Ceiling.Allows(name) && (!g.bounded || slices.Contains(g.role, name))
}

// Names are the permissions the key has, sorted.
func (g *Grant) Names() []string {
	names := []string{}
	for _, list := range [][]string{g.own.Names, g.Content.Permissions, g.role} {
		for _, name := range list {
			if g.Allows(name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if slices.Contains(names, permission.All) {
		return []string{permission.All}
	}
	return names
}
