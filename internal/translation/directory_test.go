package translation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

func TestDirectoryHasEffectiveValues(t *testing.T) {
	t.Parallel()
	verifiers := []document.Verifier{{ID: "id"}}
	d := &v1alpha1.Directory{}
	d.Spec.Slug, d.Spec.Organization.Slug = "staff", "globex"
	want := document.Directory{Slug: "staff", Organization: "globex", Active: true, Verifiers: verifiers}
	if diff := cmp.Diff(want, Directory(d, verifiers)); diff != "" {
		t.Errorf("nothing optional: %s", diff)
	}
	d.Spec.Active, d.Spec.OnDelete = ptr.To(false), ptr.To(v1alpha1.DirectoryOnDeleteErase)
	d.Spec.ConnectionRef = &v1alpha1.ConnectionReference{Name: "globex"}
	d.Spec.GroupRoles = []v1alpha1.DirectoryGroupRole{
		{Group: "Zeta", RoleRef: v1alpha1.MembershipRoleReference{Name: "developer"}}, {Group: "Alpha", RoleRef: v1alpha1.MembershipRoleReference{Name: "member"}},
	}
	want.Active, want.Erases, want.Connection = false, true, "globex"
	want.GroupRoles = []document.GroupRole{{Group: "Zeta", Role: "developer"}, {Group: "Alpha", Role: "member"}}
	if diff := cmp.Diff(want, Directory(d, verifiers)); diff != "" {
		t.Errorf("everything: %s", diff)
	}
	if path := DirectoryPath(42); path != "/scim/v2/42" {
		t.Errorf("path %q", path)
	}
}
