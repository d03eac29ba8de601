package management

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/apiserver/openapi"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/text"
	"github.com/cardea-iam/cardea/internal/translation"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/document"
)

// ListOAuthApps serves the deployment's OAuth apps with their scopes.
func (a *API) ListOAuthApps(w http.ResponseWriter, r *http.Request) {
	c := callOf(r)
	list := openapi.OAuthAppList{Apps: []openapi.OAuthApp{}}
	c.snapshot.List(v1alpha1.KindOAuthApp, c.principal.Deployment.Deployment, func(e *snapshot.Entry) bool {
		list.Apps = append(list.Apps, oauthApp(c.snapshot, e, nil))
		return true
	})
	a.answerJSON(w, r, list)
}

// GetOAuthApp serves one OAuth app with its scopes.
func (a *API) GetOAuthApp(w http.ResponseWriter, r *http.Request, slug string) {
	c := callOf(r)
	app, found := c.snapshot.BySlug(v1alpha1.KindOAuthApp, c.principal.Deployment.Deployment, slug)
	if !found {
		a.refuse(w, r, noSuchOAuthApp())
		return
	}
	a.answerJSON(w, r, oauthApp(c.snapshot, app, nil))
}

// UpdateDeploymentOAuthScope is UpdateOAuthScope under the path that names the deployment, which must be the credential's.
func (a *API) UpdateDeploymentOAuthScope(w http.ResponseWriter, r *http.Request, deploymentID, slug, _ string) {
	if deploymentID != ids.Format(callOf(r).principal.Deployment.ID) {
		// The body's faults come before the objects': a stranger learns nothing from their order.
		if _, err := readScopeUpdate(callOf(r).body); err != nil {
			a.refuse(w, r, err)
			return
		}
		a.refuse(w, r, &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{
			Pointer: ":deployment_id", Message: "is not the credential's deployment: use its own id"}}})
		return
	}
	a.UpdateOAuthScope(w, r, slug, "")
}

// UpdateOAuthScope changes how a scope is displayed, and answers with its app. The scope is taken from the routed path: the
// generated code would decode it a second time.
func (a *API) UpdateOAuthScope(w http.ResponseWriter, r *http.Request, slug, _ string) {
	c := callOf(r)
	update, err := readScopeUpdate(c.body)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	app, found := c.snapshot.BySlug(v1alpha1.KindOAuthApp, c.principal.Deployment.Deployment, slug)
	if !found {
		a.refuse(w, r, noSuchOAuthApp())
		return
	}
	entry, found := c.snapshot.BySlug(v1alpha1.KindOAuthScope, app.Deployment, app.Name+"\x1f"+r.PathValue("scope"))
	if !found {
		a.refuse(w, r, noSuchScope())
		return
	}
	obj := &v1alpha1.OAuthScope{}
	key := client.ObjectKey{Namespace: entry.Namespace, Name: entry.Name}
	synced, err := a.writer.update(r.Context(), v1alpha1.KindOAuthScope, key, obj, overrides(c.principal), func() ([]change, error) {
		if obj.Spec.OAuthAppRef.Name != app.Name || obj.Spec.Scope != r.PathValue("scope") {
			return nil, noSuchScope() // created again under the same name, as another scope
		}
		return update.changes(obj), nil
	})
	if apierrors.IsNotFound(err) {
		err = noSuchScope()
	}
	if err != nil {
		a.refuse(w, r, kubernetesProblem(err))
		return
	}
	current := a.Snapshots.Current()
	if fresh, found := current.Get(app.Identity); found {
		app = fresh
	}
	setSynced(w, synced)
	if synced {
		obj = nil
	}
	a.answerJSON(w, r, oauthApp(current, app, obj))
}

// scopeUpdate is a PATCH of a scope: what was sent.
type scopeUpdate struct {
	displayName *v1alpha1.DisplayName
	description *v1alpha1.Description
}

func readScopeUpdate(raw []byte) (*scopeUpdate, error) {
	o, err := body.Parse(raw)
	if err != nil {
		return nil, err
	}
	update := &scopeUpdate{description: readDescription(o)}
	if sent, ok := o.String("display_name"); ok {
		name, err := text.Name(sent)
		if err != nil {
			o.Fault("display_name", "%v", err)
		}
		update.displayName = ptr.To(v1alpha1.DisplayName(name))
	}
	o.Close()
	return update, o.Err()
}

func (u *scopeUpdate) changes(obj *v1alpha1.OAuthScope) []change {
	now := translation.OAuthScope(obj)
	var changes []change
	if u.displayName != nil && string(*u.displayName) != now.DisplayName {
		changes = append(changes, change{field: "/display_name", path: "displayName", value: *u.displayName})
	}
	if u.description != nil && string(*u.description) != now.Description {
		c := change{field: "/description", path: "description"}
		if *u.description != "" {
			c.value = *u.description
		}
		changes = append(changes, c)
	}
	return changes
}

// oauthApp is the served form of an app with its scopes. A live scope, if given, stands in for what the snapshot says of it.
func oauthApp(s *snapshot.Snapshot, e *snapshot.Entry, live *v1alpha1.OAuthScope) openapi.OAuthApp {
	content := e.Content.(*document.OAuthApp)
	app := openapi.OAuthApp{
		Id: ids.Format(e.ID), Slug: content.Slug, Name: content.Name, Description: content.Description, LogoUrl: content.LogoURL,
		Fqdn: content.FQDN, SupportedScopes: []string{}, ScopeDefinitions: []openapi.OAuthScopeDefinition{},
		AllowDynamicClientRegistration: content.AllowDynamicClientRegistration, IsActive: content.Active,
		CreatedAt: e.Meta.CreatedAt.UTC(), UpdatedAt: e.Meta.UpdatedAt.UTC(),
	}
	for _, entry := range s.Scopes(e) {
		scope := *entry.Content.(*document.OAuthScope)
		if live != nil && (store.Identity{Kind: entry.Kind, Namespace: live.Namespace, Name: live.Name}) == entry.Identity {
			scope = translation.OAuthScope(live)
		}
		if entry.Meta.UpdatedAt.After(app.UpdatedAt) {
			app.UpdatedAt = entry.Meta.UpdatedAt.UTC()
		}
		app.SupportedScopes = append(app.SupportedScopes, scope.Scope)
		app.ScopeDefinitions = append(app.ScopeDefinitions, openapi.OAuthScopeDefinition{
			Scope: scope.Scope, DisplayName: scope.DisplayName, Description: scope.Description, Archived: scope.Archived,
			Category: openapi.OAuthScopeDefinitionCategory(scope.Category), OrganizationPermission: scope.OrganizationPermission,
			WorkspacePermission: scope.WorkspacePermission,
		})
	}
	return app
}

func noSuchOAuthApp() error {
	return &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{
		Pointer: ":oauth_app_slug", Message: "names no OAuth app of the deployment: list them to see which there are"}}}
}

func noSuchScope() error {
	return &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{
		Pointer: ":scope", Message: "is no scope of the app: send it as one percent-encoded path segment"}}}
}
