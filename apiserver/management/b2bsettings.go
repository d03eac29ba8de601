package management

import (
	"context"
	"errors"
	"math"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/apiserver/openapi"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/translation"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/document"
)

// settingsKey is the natural key of the one B2BSettings of a deployment.
const settingsKey = "b2b"

// GetB2BSettings serves the deployment's settings; those of a deployment that declares none are the documented ones.
func (a *API) GetB2BSettings(w http.ResponseWriter, r *http.Request) {
	c := callOf(r)
	content := document.AbsentB2BSettings()
	if entry, found := c.snapshot.BySlug(v1alpha1.KindB2BSettings, c.principal.Deployment.Deployment, settingsKey); found {
		content = *entry.Content.(*document.B2BSettings)
	}
	a.answerJSON(w, r, b2bSettings(c.snapshot, c.principal.Deployment, content))
}

// GetB2BSettingsShort is GetB2BSettings under its second spelling.
func (a *API) GetB2BSettingsShort(w http.ResponseWriter, r *http.Request) { a.GetB2BSettings(w, r) }

// UpdateB2BSettingsShort is UpdateB2BSettings under its second spelling.
func (a *API) UpdateB2BSettingsShort(w http.ResponseWriter, r *http.Request) {
	a.UpdateB2BSettings(w, r)
}

// UpdateB2BSettings merges a request into the deployment's B2BSettings, creating the resource if there is none.
func (a *API) UpdateB2BSettings(w http.ResponseWriter, r *http.Request) {
	c := callOf(r)
	update, err := readSettingsUpdate(c)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	obj := &v1alpha1.B2BSettings{}
	synced, err := a.mergeSettings(r.Context(), c, settingsObject(c), obj, update)
	if apierrors.IsNotFound(err) || errors.Is(err, errForeignSettings) {
		synced, err = a.createSettings(r.Context(), c, obj, update)
	}
	if err != nil {
		a.refuse(w, r, kubernetesProblem(err))
		return
	}
	current := a.Snapshots.Current()
	content := translation.B2BSettings(obj)
	id := store.Identity{Kind: v1alpha1.KindB2BSettings, Namespace: obj.Namespace, Name: obj.Name}
	if entry, found := current.Get(id); synced && found {
		content = *entry.Content.(*document.B2BSettings)
	}
	setSynced(w, synced)
	a.answerJSON(w, r, b2bSettings(current, c.principal.Deployment, content))
}

// errForeignSettings: the resource of that name belongs to another deployment.
var errForeignSettings = errors.New("the settings belong to another deployment")

// mergeSettings merges what was sent into a live resource of the caller's deployment.
func (a *API) mergeSettings(ctx context.Context, c *call, key client.ObjectKey, obj *v1alpha1.B2BSettings, update *settingsUpdate) (bool, error) {
	return a.writer.update(ctx, v1alpha1.KindB2BSettings, key, obj, overrides(c.principal), func() ([]change, error) {
		if obj.Spec.DeploymentRef.Name != c.principal.Deployment.Name {
			return nil, errForeignSettings
		}
		return update.changes(obj), nil
	})
}

// createSettings creates the deployment's B2BSettings with what was sent; if nothing was, nothing is created. Where another
// deployment's settings have the name, it gets a suffix.
func (a *API) createSettings(ctx context.Context, c *call, obj *v1alpha1.B2BSettings, update *settingsUpdate) (bool, error) {
	for attempt := range patchAttempts {
		*obj = newSettings(c, attempt)
		if len(update.changes(obj)) == 0 {
			return true, nil
		}
		update.apply(&obj.Spec)
		synced, err := a.createAndSettle(ctx, obj)
		if !apierrors.IsAlreadyExists(err) {
			return synced, err
		}
		// Somebody was first: merge into that one, if it is the deployment's.
		synced, err = a.mergeSettings(ctx, c, client.ObjectKeyFromObject(obj), obj, update)
		if !apierrors.IsNotFound(err) && !errors.Is(err, errForeignSettings) {
			return synced, err
		}
	}
	return false, apierror.New(http.StatusConflict, "no free resource name was found for the settings: try again")
}

func newSettings(c *call, attempt int) v1alpha1.B2BSettings {
	name := c.principal.Deployment.Name
	if attempt > 0 {
		name += "-" + randomSuffix()
	}
	return v1alpha1.B2BSettings{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.principal.Deployment.Namespace, Name: name,
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByHTTP},
		},
		Spec: v1alpha1.B2BSettingsSpec{DeploymentRef: v1alpha1.DeploymentReference{Name: c.principal.Deployment.Name}},
	}
}

// createAndSettle creates the resource and waits until it is in force here.
func (a *API) createAndSettle(ctx context.Context, obj *v1alpha1.B2BSettings) (bool, error) {
	bounded, cancel := context.WithTimeout(ctx, writeDeadline)
	defer cancel()
	if err := a.Kubernetes.Create(bounded, obj, client.FieldOwner(v1alpha1.FieldManagerHTTP)); err != nil {
		return false, err
	}
	return a.settleCreated(ctx, v1alpha1.KindB2BSettings, obj)
}

// settingsObject is where the deployment's B2BSettings are looked for: where the snapshot knows them, else under the name a
// creation over HTTP gives them.
func settingsObject(c *call) client.ObjectKey {
	deployment := c.principal.Deployment
	if entry, found := c.snapshot.BySlug(v1alpha1.KindB2BSettings, deployment.Deployment, settingsKey); found {
		return client.ObjectKey{Namespace: entry.Namespace, Name: entry.Name}
	}
	return client.ObjectKey{Namespace: deployment.Namespace, Name: deployment.Name}
}

// settingsUpdate is a PATCH of the settings: what was sent. Roles are given as references, a sent null as an empty one.
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
		enabled: readBool(o, "enabled"), allowWorkspaceCreation: readBool(o, "allow_workspace_creation"),
		requireOrgForSignup: readBool(o, "require_org_for_signup"),
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

func readBool(o *body.Object, name string) *bool {
	value, ok := o.Bool(name)
	if !ok {
		return nil
	}
	return &value
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
	entry, found := c.snapshot.ByID(v1alpha1.KindMembershipRole, c.principal.Deployment.Deployment, id)
	if !found || entry.Content.(*document.MembershipRole).Level != string(level) {
		o.Fault(name, "is the id of no role of level %s in the deployment: choose one that is", level)
		return nil
	}
	return &v1alpha1.MembershipRoleReference{Name: entry.Name}
}

// changes returns what must be written for live settings to have the sent values.
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

// roleValue is what to write for a sent role: nil deletes the reference.
func roleValue(ref *v1alpha1.MembershipRoleReference) any {
	if ref == nil || ref.Name == "" {
		return nil
	}
	return ref
}

// apply sets what was sent in a new resource.
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

// b2bSettings is the served form: roles by id, null where there is none that is served.
func b2bSettings(s *snapshot.Snapshot, deployment *snapshot.Entry, content document.B2BSettings) openapi.B2BSettings {
	role := func(name string) *string {
		entry, found := s.Get(store.Identity{Kind: v1alpha1.KindMembershipRole, Namespace: deployment.Namespace, Name: name})
		if name == "" || !found {
			return nil
		}
		return ptr.To(ids.Format(entry.ID))
	}
	return openapi.B2BSettings{
		Enabled: content.Enabled, AllowWorkspaceCreation: content.AllowWorkspaceCreation, DefaultWorkspaceLimit: content.DefaultWorkspaceLimit,
		RequireOrgForSignup: content.RequireOrgForSignup, AutoAssignOrgRole: role(content.OrgRole), AutoAssignWorkspaceRole: role(content.WorkspaceRole),
	}
}
