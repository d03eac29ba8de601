package consent

import (
	"cmp"
	"slices"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// The scopes of every app (OpenID Connect Core 5.4 and 11), unless the app declares them itself. Platform tools request
// ScopeGroups.
const (
	ScopeOpenID  = "openid"
	ScopeProfile = "profile"
	ScopeEmail   = "email"
	ScopePhone   = "phone"
	ScopeGroups  = "groups"
	ScopeOffline = account.ScopeOffline
)

// BuiltIn lists the names of the scopes that every app has.
var BuiltIn = []string{ScopeOpenID, ScopeProfile, ScopeEmail, ScopePhone, ScopeGroups, ScopeOffline}

// The categories of scopes: a scope applies to an organization, to a workspace of an organization, or to the user
// alone.
const (
	categoryOrganization = "organization"
	categoryWorkspace    = "workspace"
)

// MayAsk reports whether a client may request a scope: the app has it, it is not archived, and it is within the
// client's ceiling.
func (a *App) MayAsk(client *Client, scope string) bool {
	if client.Scopes != nil && !slices.Contains(*client.Scopes, scope) {
		return false
	}
	if declared, found := a.Scopes[scope]; found {
		return !declared.Archived
	}
	return slices.Contains(BuiltIn, scope)
}

// PermissionsOf returns the permissions that a scope of the app gives, sorted: its own name, and the permissions of the
// organization and the workspace for which it stands.
func (a *App) PermissionsOf(scope string) []string {
	names := []string{scope}
	if declared := a.Scopes[scope]; declared != nil {
		for _, name := range []string{declared.OrganizationPermission, declared.WorkspacePermission} {
			if name != "" {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Permissions returns what an access token permits, sorted: the permissions of its scopes, and those that its client
// was declared with.
func (a *App) Permissions(evaluated *Evaluation) []string {
	var permissions []string
	for _, scope := range evaluated.Scopes {
		permissions = append(permissions, a.PermissionsOf(scope)...)
	}
	permissions = append(permissions, evaluated.Claims.Permissions...)
	slices.Sort(permissions)
	return slices.Compact(permissions)
}

// Serves reports whether the app issues tokens for a resource besides itself: one that it declares, or the URL of an
// active agent that accepts its tokens.
func (a *App) Serves(s *snapshot.Snapshot, resource string) bool {
	if slices.Contains(a.Content.Resources, resource) {
		return true
	}
	agent, found := s.AgentAt(a.Entry, resource)
	return found && snapshot.ContentOf[snapshot.Agent](agent).OAuthApp == a.Entry.Name
}

// Needs reports whether the scopes need an organization, a workspace, and the user's groups. Groups are those of an
// organization, if the user chooses one.
func (a *App) Needs(scopes []string) (organization, workspace, groups bool) {
	for _, scope := range scopes {
		declared := a.Scopes[scope]
		switch {
		case declared == nil:
			groups = groups || scope == ScopeGroups
		case declared.Category == categoryOrganization:
			organization = true
		case declared.Category == categoryWorkspace:
			organization, workspace = true, true
		}
	}
	return organization, workspace, groups
}

// Place is where a user acts: in an organization, in a workspace of it, or in neither (nil).
type Place struct {
	Member    *people.Member
	Workspace *people.WorkspaceMember
}

// IDs returns the ids of the organization and the workspace, 0 for none.
func (p Place) IDs() (organization, workspace int64) {
	if p.Member != nil {
		organization = p.Member.Organization.ID
	}
	if p.Workspace != nil {
		workspace = p.Workspace.Workspace.ID
	}
	return organization, workspace
}

// Equal reports whether both are the same place.
func (p Place) Equal(other Place) bool {
	organization, workspace := p.IDs()
	otherOrganization, otherWorkspace := other.IDs()
	return organization == otherOrganization && workspace == otherWorkspace
}

// PlaceOf returns a user's place in an organization and a workspace, as far as the user is still a member.
func PlaceOf(u *account.Unit, user, organization, workspace int64) (p Place, err error) {
	if organization == 0 || !u.B2B.Enabled {
		return p, nil
	}
	member, found, err := u.Organizations().Member(organization, user)
	if err != nil || !found {
		return p, err
	}
	p.Member = &member
	if workspace == 0 {
		return p, nil
	}
	in, found, err := u.Organizations().WorkspaceMember(workspace, user)
	if found && in.Workspace.Organization == organization {
		p.Workspace = &in
	}
	return p, err
}

// Permissions returns the permissions of the user's roles in a place: in the organization, and in the workspace.
func (p Place) Permissions(u *account.Unit) (organization, workspace []string) {
	if p.Member != nil {
		if role := u.RoleOf(v1alpha1.RoleLevelOrganization, p.Member.Owner, p.Member.Role); role != nil {
			organization = role.Permissions
		}
	}
	if p.Workspace != nil {
		if role := u.RoleOf(v1alpha1.RoleLevelWorkspace, p.Workspace.Owner, p.Workspace.Role); role != nil {
			workspace = role.Permissions
		}
	}
	return organization, workspace
}

// clusterOwn is the prefix of Kubernetes' own groups, such as system:masters. An organization with this slug has no
// groups.
const clusterOwn = "system"

// Groups returns a user's roles in the organization as platform tools know them: <organization's slug>:<role>. Without
// a membership it is empty.
func (p Place) Groups(u *account.Unit) []string {
	groups := []string{}
	if p.Member == nil || p.Member.Organization.Slug == clusterOwn {
		return groups
	}
	if role := u.RoleOf(v1alpha1.RoleLevelOrganization, p.Member.Owner, p.Member.Role); role != nil {
		groups = append(groups, p.Member.Organization.Slug+":"+role.Name)
	}
	return groups
}

// Permitted returns those of the scopes that a user still has in a place: not archived, and permitted by the user's
// roles there.
func (a *App) Permitted(u *account.Unit, scopes []string, at Place) (permitted []string) {
	organization, workspace := at.Permissions(u)
	for _, scope := range scopes {
		declared, found := a.Scopes[scope]
		if !found && slices.Contains(BuiltIn, scope) || found && !declared.Archived && permits(declared, at, organization, workspace) {
			permitted = append(permitted, scope)
		}
	}
	return permitted
}

func permits(scope *document.OAuthScope, at Place, organization, workspace []string) bool {
	switch scope.Category {
	case categoryOrganization:
		return at.Member != nil && (scope.OrganizationPermission == "" || slices.Contains(organization, scope.OrganizationPermission))
	case categoryWorkspace:
		return at.Workspace != nil && (scope.WorkspacePermission == "" || slices.Contains(workspace, scope.WorkspacePermission))
	}
	return true
}

// Option is a place that a user may choose, with the scopes that the user cannot grant there.
type Option struct {
	Place
	// Missing lists the scopes that the user does not have there, and MissingConnection or MissingAssurance.
	Missing []string
}

// options returns the places that a user may choose for the requested scopes; none if the scopes need no place.
func (r *Request) options(u *account.Unit, person *Person) (all []Option, err error) {
	organization, workspace, groups := r.App.Needs(r.Scopes)
	if !organization && !groups || !u.B2B.Enabled {
		return nil, nil
	}
	members, err := u.Organizations().MembershipsOf(person.User)
	if err != nil {
		return nil, err
	}
	inside, err := u.Organizations().WorkspaceMembershipsOf(person.User, 0)
	if err != nil {
		return nil, err
	}
	for i := range members {
		places := []Place{{Member: &members[i]}}
		for j := range inside {
			if workspace && inside[j].Workspace.Organization == members[i].Organization.ID {
				places = append(places, Place{&members[i], &inside[j]})
			}
		}
		if len(places) > 1 { // the scopes need a workspace, and there is one
			places = places[1:]
		}
		lacks, err := withheld(u, person.SignIn, members[i], inside, nil)
		if err != nil {
			return nil, err
		}
		for _, place := range places {
			all = append(all, Option{Place: place, Missing: append(r.App.missing(u, r.Scopes, place), lacks...)})
		}
	}
	return all, nil
}

// missing returns the scopes that a user does not have in a place.
func (a *App) missing(u *account.Unit, scopes []string, at Place) (missing []string) {
	permitted := a.Permitted(u, scopes, at)
	for _, scope := range scopes {
		if !slices.Contains(permitted, scope) {
			missing = append(missing, scope)
		}
	}
	return missing
}

func covers(all, some []string) bool {
	return !slices.ContainsFunc(some, func(one string) bool { return !slices.Contains(all, one) })
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.SortFunc(all, cmp.Compare[string])
	return slices.Compact(all)
}
