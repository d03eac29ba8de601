package translation

import (
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
)

// Directory translates a Directory with the verifiers of its tokens.
func Directory(d *v1alpha1.Directory, verifiers []document.Verifier) document.Directory {
	content := document.Directory{
		Slug: string(d.Spec.Slug), Organization: d.Spec.Organization.Slug, Active: ptr.Deref(d.Spec.Active, true),
		Erases: ptr.Deref(d.Spec.OnDelete, v1alpha1.DirectoryOnDeleteKeep) == v1alpha1.DirectoryOnDeleteErase, Verifiers: verifiers,
	}
	if ref := d.Spec.ConnectionRef; ref != nil {
		content.Connection = ref.Name
	}
	for _, given := range d.Spec.GroupRoles {
		content.GroupRoles = append(content.GroupRoles, document.GroupRole{Group: given.Group, Role: given.RoleRef.Name})
	}
	return content
}

// DirectoryPath is the path of a directory's endpoints on every frontend host.
func DirectoryPath(id int64) string { return "/scim/v2/" + ids.Format(id) }
