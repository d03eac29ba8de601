package keycache

import (
	"slices"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/permission"
)

// Grant is the permissions of a key by its app and by its binding, in one snapshot.
type Grant struct {
	// Deployment and App are the key's entries, Settings and Content their contents.
	Deployment *snapshot.Entry
	Settings   *document.Deployment
	App        *snapshot.Entry
	Content    *snapshot.App

	own *Permissions
	// role bounds a key that is bound to an organization or a workspace.
	bounded bool
	role    []string
}

// Resolve returns a key's app and deployment, and its current role. It returns false if the key's app or deployment is
// not served or the app is not active; such a key is treated as unknown.
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

// Allows reports whether the key has a permission: its own list, its app's ceiling and its role, if it has one, must
// all contain it.
func (g *Grant) Allows(name string) bool {
	return g.own.Allows(name) && g.Content.Ceiling.Allows(name) && (!g.bounded || slices.Contains(g.role, name))
}

// Names returns the permissions of the key, sorted.
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
