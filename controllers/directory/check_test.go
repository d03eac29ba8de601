package directory

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
)

// giving returns an entry of groupRoles.
func giving(group, role string) v1alpha1.DirectoryGroupRole {
	return v1alpha1.DirectoryGroupRole{Group: group, RoleRef: v1alpha1.MembershipRoleReference{Name: role}}
}

func TestCheckRefusesWhatTheSchemaCannot(t *testing.T) {
	t.Parallel()
	connection := func(deployment string, organization *v1alpha1.ConnectionOrganization) *v1alpha1.Connection {
		c := &v1alpha1.Connection{}
		c.Name, c.Spec.DeploymentRef.Name, c.Spec.Organization = "okta", deployment, organization
		return c
	}
	role := func(deployment string, level v1alpha1.RoleLevel) *v1alpha1.MembershipRole {
		r := &v1alpha1.MembershipRole{}
		r.Name, r.Spec.DeploymentRef.Name, r.Spec.Level = "developer", deployment, level
		return r
	}
	own, other := &v1alpha1.ConnectionOrganization{Slug: "globex"}, &v1alpha1.ConnectionOrganization{Slug: "initech"}
	for name, tc := range map[string]struct {
		groups []v1alpha1.DirectoryGroupRole
		refs   engine.ResolvedRefs
		want   string
	}{
		"nothing optional":             {},
		"the organization's":           {refs: engine.ResolvedRefs{connectionField: connection("acme", own)}},
		"another deployment's":         {refs: engine.ResolvedRefs{connectionField: connection("other", own)}, want: `spec.connectionRef: Connection "okta" belongs to deployment "other": refer to a connection of "acme"`},
		"another organization's":       {refs: engine.ResolvedRefs{connectionField: connection("acme", other)}, want: `spec.connectionRef: Connection "okta" belongs to organization "initech": refer to a connection with spec.organization.slug "globex", or remove connectionRef`},
		"everybody's":                  {refs: engine.ResolvedRefs{connectionField: connection("acme", nil)}, want: `spec.connectionRef: Connection "okta" is for all users of the deployment: refer to a connection with spec.organization.slug "globex", or remove connectionRef`},
		"a role":                       {groups: []v1alpha1.DirectoryGroupRole{giving("A", "developer")}, refs: engine.ResolvedRefs{roleField(0): role("acme", v1alpha1.RoleLevelOrganization)}},
		"a role that does not exist":   {groups: []v1alpha1.DirectoryGroupRole{giving("A", "developer")}},
		"one role for two groups":      {groups: []v1alpha1.DirectoryGroupRole{giving("A", "developer"), giving("a", "developer")}},
		"another deployment's role":    {groups: []v1alpha1.DirectoryGroupRole{giving("A", "x"), giving("B", "developer")}, refs: engine.ResolvedRefs{roleField(1): role("other", v1alpha1.RoleLevelOrganization)}, want: `spec.groupRoles[1].roleRef: MembershipRole "developer" belongs to deployment "other": refer to a role of "acme"`},
		"a role for workspaces":        {groups: []v1alpha1.DirectoryGroupRole{giving("A", "developer")}, refs: engine.ResolvedRefs{roleField(0): role("acme", v1alpha1.RoleLevelWorkspace)}, want: `spec.groupRoles[0].roleRef: MembershipRole "developer" is of level Workspace: refer to a role of level Organization`},
		"a group that is listed twice": {groups: []v1alpha1.DirectoryGroupRole{giving("A", "x"), giving("B", "y"), giving("A", "z")}, want: `spec.groupRoles[2].group: "A" is already listed in spec.groupRoles[0], which counts: remove one`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &v1alpha1.Directory{}
			d.Spec.DeploymentRef.Name, d.Spec.Organization.Slug, d.Spec.GroupRoles = "acme", "globex", tc.groups
			err := check(d, tc.refs)
			if tc.want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			var terminal *engine.TerminalError
			if !errors.As(err, &terminal) || terminal.Reason != v1alpha1.ReasonInvalid || !strings.Contains(terminal.Message, tc.want) {
				t.Errorf("got %v, want Invalid with %q", err, tc.want)
			}
		})
	}
}

func TestReferencesAndReservations(t *testing.T) {
	t.Parallel()
	d := &v1alpha1.Directory{}
	d.Namespace, d.Name = "ns", "staff"
	d.Spec.DeploymentRef.Name, d.Spec.Slug = "acme", "globex"
	if refs, keys := references(d), reserves(d); len(refs) != 1 || !slices.Equal(keys, []string{"slug/Directory/ns/acme/globex"}) {
		t.Errorf("of the smallest directory: %v, %v", refs, keys)
	}
	d.Spec.ConnectionRef = &v1alpha1.ConnectionReference{Name: "okta"}
	d.Spec.GroupRoles = []v1alpha1.DirectoryGroupRole{giving("A", "developer")}
	d.Spec.ExistingSecretRef = &v1alpha1.ExistingTokenReference{Name: "brought"}
	refs := references(d)
	if len(refs) != 3 || refs[1].LeftOut || !refs[1].Protects || !refs[2].LeftOut || !refs[2].Protects {
		t.Errorf("a connection must hold the directory back, and a role must not: %+v", refs)
	}
	if keys := reserves(d); !slices.Equal(keys, []string{"slug/Directory/ns/acme/globex", "secret/ns/brought/scim-token"}) {
		t.Errorf("reservations %v", keys)
	}
	d.Spec.ExistingSecretRef.Key = ptr.To("token")
	if keys := reserves(d); keys[1] != "secret/ns/brought/token" {
		t.Errorf("reservations %v", keys)
	}
}
