package backend

import (
	"errors"
	"math"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/translation"
	"github.com/cardea-iam/cardea/store"
)

// getB2BSettings serves the deployment's settings, or the documented defaults if it declares none.
func getB2BSettings(c *call) (reply, error) {
	content := document.DefaultB2BSettings()
	if entry, found := c.snapshot.BySlug(v1alpha1.KindB2BSettings, c.tenant(), document.B2BKey); found {
		content = *snapshot.ContentOf[document.B2BSettings](entry)
	}
	return object(b2bSettings(c.snapshot, c.principal.Deployment, content)), nil
}

// settings are the B2BSettings of deployments, each of which has at most one.
var settings = declared[v1alpha1.B2BSettings, *v1alpha1.B2BSettings]{
	kind: v1alpha1.KindB2BSettings, audit: "b2b_settings",
	slug:       func(*v1alpha1.B2BSettings) string { return document.B2BKey },
	deployment: func(obj *v1alpha1.B2BSettings) string { return obj.Spec.DeploymentRef.Name },
	name:       func(c *call, _ string) string { return c.principal.Deployment.Name },
	view:       viewSettings,
}

// updateB2BSettings merges a request into the deployment's B2BSettings, and creates the resource if there is none.
func updateB2BSettings(c *call) (reply, error) {
	sent, err := readSettingsUpdate(c)
	if err != nil {
		return reply{}, err
	}
	obj, synced, err := mergeSettings(c, sent)
	if errors.Is(err, errNoSettings) {
		obj, synced, err = createSettings(c, sent)
	}
	if err != nil {
		return reply{}, err
	}
	return settings.answer(c, obj, synced)
}

var (
	errNoSettings = errors.New("the deployment has no settings")
	// errSettingsExist: a concurrent request created the deployment's settings first.
	errSettingsExist = errors.New("the settings exist")
)

// mergeSettings merges the request into the live resource of the caller's deployment. Errors: errNoSettings.
func mergeSettings(c *call, sent *settingsUpdate) (*v1alpha1.B2BSettings, bool, error) {
	of := settings.target(c, document.B2BKey)
	of.object, of.missing = (*v1alpha1.B2BSettings).GetName, errNoSettings
	return settings.change(c, of, "updated", func(live *v1alpha1.B2BSettings) ([]change, error) { return sent.changes(live), nil })
}

// createSettings creates the deployment's B2BSettings from the request. An empty request creates nothing.
func createSettings(c *call, sent *settingsUpdate) (*v1alpha1.B2BSettings, bool, error) {
	obj := &v1alpha1.B2BSettings{
		ObjectMeta: created(c), Spec: v1alpha1.B2BSettingsSpec{DeploymentRef: v1alpha1.DeploymentReference{Name: c.principal.Deployment.Name}},
	}
	if len(sent.changes(obj)) == 0 {
		return obj, true, nil
	}
	sent.apply(&obj.Spec)
	synced, err := settings.insert(c, obj, errSettingsExist, (*v1alpha1.B2BSettings).GetName)
	if errors.Is(err, errSettingsExist) {
		return mergeSettings(c, sent)
	}
	if err != nil {
		return nil, false, kubernetesError(err)
	}
	return obj, synced, nil
}

// viewSettings replies with settings.
func viewSettings(c *call, obj *v1alpha1.B2BSettings, entry *snapshot.Entry) (reply, error) {
	content := translation.B2BSettings(obj)
	if entry != nil {
		content = *snapshot.ContentOf[document.B2BSettings](entry)
	}
	return object(b2bSettings(c.snapshot, c.principal.Deployment, content)), nil
}

// settingsUpdate is a PATCH of the settings: the members that were sent. A role is a reference; null is sent as an
// empty reference.
type settingsUpdate struct {
	enabled, allowWorkspaceCreation, requireOrgForSignup *bool
	defaultWorkspaceLimit                                *int32
	orgRole, workspaceRole                               *v1alpha1.MembershipRoleReference
}

func readSettingsUpdate(c *call) (*settingsUpdate, error) {
	o, err := body.Parse(c.body)
	if err != nil {
		return nil, err
	}
	u := &settingsUpdate{
		enabled: input.Bool(o, "enabled"), allowWorkspaceCreation: input.Bool(o, "allow_workspace_creation"),
		requireOrgForSignup: input.Bool(o, "require_org_for_signup"),
		orgRole:             readRole(o, c, "auto_assign_org_role", v1alpha1.RoleLevelOrganization),
		workspaceRole:       readRole(o, c, "auto_assign_workspace_role", v1alpha1.RoleLevelWorkspace),
	}
	if limit, ok := o.Integer("default_workspace_limit"); ok {
		if limit < 0 || limit > math.MaxInt32 {
			o.Fault("default_workspace_limit", "must be from 0 to %d", math.MaxInt32)
		} else {
			u.defaultWorkspaceLimit = ptr.To(int32(limit))
		}
	}
	o.Close()
	return u, o.Err()
}

// readRole reads the id of a role of a level in the caller's deployment; null is an empty reference.
func readRole(o *body.Object, c *call, name string, level v1alpha1.RoleLevel) *v1alpha1.MembershipRoleReference {
	if o.IsNull(name) {
		return &v1alpha1.MembershipRoleReference{}
	}
	sent, ok := o.String(name)
	if !ok {
		return nil
	}
	id, err := ids.Parse(sent)
	if err != nil {
		o.Fault(name, "must be the id of a role: a decimal integer from 1 to 9223372036854775807, as a string")
		return nil
	}
	entry, found := c.snapshot.ByID(v1alpha1.KindMembershipRole, c.tenant(), id)
	if !found || snapshot.ContentOf[document.MembershipRole](entry).Level != string(level) {
		o.Fault(name, "is not the id of a role of level %s in the deployment: use the id of one", level)
		return nil
	}
	return &v1alpha1.MembershipRoleReference{Name: entry.Name}
}

// changes returns the writes after which live settings have the sent values.
func (u *settingsUpdate) changes(obj *v1alpha1.B2BSettings) []change {
	now := translation.B2BSettings(obj)
	var changes []change
	add := func(sent bool, field, path string, value any) {
		if sent {
			changes = append(changes, change{field: field, path: path, value: value})
		}
	}
	add(u.enabled != nil && *u.enabled != now.Enabled, "/enabled", "enabled", u.enabled)
	add(u.allowWorkspaceCreation != nil && *u.allowWorkspaceCreation != now.AllowWorkspaceCreation,
		"/allow_workspace_creation", "allowWorkspaceCreation", u.allowWorkspaceCreation)
	add(u.defaultWorkspaceLimit != nil && int64(*u.defaultWorkspaceLimit) != now.DefaultWorkspaceLimit,
		"/default_workspace_limit", "defaultWorkspaceLimit", u.defaultWorkspaceLimit)
	add(u.requireOrgForSignup != nil && *u.requireOrgForSignup != now.RequireOrgForSignup,
		"/require_org_for_signup", "requireOrgForSignup", u.requireOrgForSignup)
	add(u.orgRole != nil && u.orgRole.Name != now.OrgRole, "/auto_assign_org_role", "autoAssignOrgRoleRef", roleValue(u.orgRole))
	add(u.workspaceRole != nil && u.workspaceRole.Name != now.WorkspaceRole, "/auto_assign_workspace_role", "autoAssignWorkspaceRoleRef", roleValue(u.workspaceRole))
	return changes
}

// roleValue is the value to write for a sent role: nil deletes the reference.
func roleValue(ref *v1alpha1.MembershipRoleReference) any {
	if ref == nil || ref.Name == "" {
		return nil
	}
	return ref
}

// apply sets the sent members in a new resource.
func (u *settingsUpdate) apply(spec *v1alpha1.B2BSettingsSpec) {
	spec.Enabled, spec.AllowWorkspaceCreation, spec.RequireOrgForSignup = u.enabled, u.allowWorkspaceCreation, u.requireOrgForSignup
	spec.DefaultWorkspaceLimit = u.defaultWorkspaceLimit
	if u.orgRole != nil && u.orgRole.Name != "" {
		spec.AutoAssignOrgRoleRef = u.orgRole
	}
	if u.workspaceRole != nil && u.workspaceRole.Name != "" {
		spec.AutoAssignWorkspaceRoleRef = u.workspaceRole
	}
}

// b2bSettings is the served form: roles by id, null if no role is served.
func b2bSettings(s *snapshot.Snapshot, deployment *snapshot.Entry, content document.B2BSettings) backendapi.B2BSettings {
	role := func(name string) *string {
		entry, found := s.Get(store.Identity{Kind: v1alpha1.KindMembershipRole, Namespace: deployment.Namespace, Name: name})
		if name == "" || !found {
			return nil
		}
		return ptr.To(ids.Format(entry.ID))
	}
	return backendapi.B2BSettings{
		Enabled: content.Enabled, AllowWorkspaceCreation: content.AllowWorkspaceCreation, DefaultWorkspaceLimit: content.DefaultWorkspaceLimit,
		RequireOrgForSignup: content.RequireOrgForSignup, AutoAssignOrgRole: role(content.OrgRole), AutoAssignWorkspaceRole: role(content.WorkspaceRole),
	}
}
