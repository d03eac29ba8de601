package backend

import (
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/translation"
	"github.com/cardea-iam/cardea/store"
)

// listOAuthApps serves the deployment's OAuth apps with their scopes.
func listOAuthApps(c *call) (reply, error) {
	list := backendapi.OAuthAppList{Apps: []backendapi.OAuthApp{}}
	c.snapshot.List(v1alpha1.KindOAuthApp, c.tenant(), func(e *snapshot.Entry) bool {
		list.Apps = append(list.Apps, oauthApp(c.snapshot, e, nil))
		return true
	})
	return object(list), nil
}

// getOAuthApp serves one OAuth app with its scopes.
func getOAuthApp(c *call) (reply, error) {
	app, err := findOAuthApp(c)
	if err != nil {
		return reply{}, err
	}
	return object(oauthApp(c.snapshot, app, nil)), nil
}

func findOAuthApp(c *call) (*snapshot.Entry, error) {
	app, found := c.snapshot.BySlug(v1alpha1.KindOAuthApp, c.tenant(), c.r.PathValue("oauth_app_slug"))
	if !found {
		return nil, noSuchOAuthApp()
	}
	return app, nil
}

// updateScopeOfDeployment is updateScope under the path that names the deployment, which must be the credential's.
func updateScopeOfDeployment(c *call) (reply, error) {
	if c.r.PathValue("deployment_id") == ids.Format(c.principal.Deployment.ID) {
		return updateScope(c)
	}
	// As in updateScope, the body is validated before the objects are found, so the order of errors does not reveal
	// which objects exist.
	if _, err := readScopeUpdate(c.body); err != nil {
		return reply{}, err
	}
	return reply{}, &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{
		Pointer: ":deployment_id", Message: "is not the credential's deployment: use its own id"}}}
}

// updateScope changes how a scope is displayed, and answers with its app.
func updateScope(c *call) (reply, error) {
	sent, err := readScopeUpdate(c.body)
	if err != nil {
		return reply{}, err
	}
	return changeScope(c, "updated", sent.changes)
}

// archiveScope prevents new grants of a scope.
func archiveScope(c *call) (reply, error) {
	return changeScope(c, "archived", func(live *v1alpha1.OAuthScope) []change {
		if translation.OAuthScope(live).Archived {
			return nil
		}
		return []change{{path: "archived", value: true}}
	})
}

// unarchiveScope lets users grant a scope again.
func unarchiveScope(c *call) (reply, error) {
	return changeScope(c, "unarchived", func(live *v1alpha1.OAuthScope) []change {
		if !translation.OAuthScope(live).Archived {
			return nil
		}
		return []change{{path: "archived"}}
	})
}

// scopes are the OAuthScopes of deployments. They are found by their app and their name, and are not created over HTTP.
var scopes = declared[v1alpha1.OAuthScope, *v1alpha1.OAuthScope]{kind: v1alpha1.KindOAuthScope, audit: "oauth_scope"}

// changeScope makes the changes that a live scope still needs, records the action, and answers with the scope's app.
func changeScope(c *call, action string, changes func(live *v1alpha1.OAuthScope) []change) (reply, error) {
	app, err := findOAuthApp(c)
	if err != nil {
		return reply{}, err
	}
	scope := c.r.PathValue("scope")
	entry, found := c.snapshot.BySlug(v1alpha1.KindOAuthScope, app.Deployment, document.ScopeKey(app.Name, scope))
	if !found {
		return reply{}, noSuchScope()
	}
	obj, synced, err := scopes.change(c, target[*v1alpha1.OAuthScope]{
		keys: []client.ObjectKey{{Namespace: entry.Namespace, Name: entry.Name}},
		// The resource may have been created again under the same name, for another scope.
		is: func(live *v1alpha1.OAuthScope) bool {
			return live.Spec.OAuthAppRef.Name == app.Name && live.Spec.Scope == scope
		},
		object:  func(*v1alpha1.OAuthScope) string { return c.r.PathValue("oauth_app_slug") + " " + scope },
		missing: noSuchScope(),
	}, action, func(live *v1alpha1.OAuthScope) ([]change, error) { return changes(live), nil })
	if err != nil {
		return reply{}, err
	}
	current := c.api.Snapshots.Current()
	if fresh, found := current.Get(app.Identity); found {
		app = fresh
	}
	if synced {
		obj = nil
	}
	return object(oauthApp(current, app, obj)).inForce(synced), nil
}

// scopeUpdate is a PATCH of a scope: the members that were sent.
type scopeUpdate struct {
	displayName *v1alpha1.DisplayName
	description *v1alpha1.Description
}

func readScopeUpdate(raw []byte) (*scopeUpdate, error) {
	o, err := body.Parse(raw)
	if err != nil {
		return nil, err
	}
	update := &scopeUpdate{
		displayName: typed[v1alpha1.DisplayName](input.Name(o, "display_name")),
		description: typed[v1alpha1.Description](input.Description(o, "description")),
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

// oauthApp is the served form of an app with its scopes. A live scope, if given, replaces that scope of the snapshot.
func oauthApp(s *snapshot.Snapshot, e *snapshot.Entry, live *v1alpha1.OAuthScope) backendapi.OAuthApp {
	content := snapshot.ContentOf[document.OAuthApp](e)
	app := backendapi.OAuthApp{
		Id: ids.Format(e.ID), Slug: content.Slug, Name: content.Name, Description: content.Description, LogoUrl: content.LogoURL,
		Fqdn: content.FQDN, SupportedScopes: []string{}, ScopeDefinitions: []backendapi.OAuthScopeDefinition{},
		AllowDynamicClientRegistration: content.AllowDynamicClientRegistration, IsActive: content.Active,
		CreatedAt: e.Meta.CreatedAt.UTC(), UpdatedAt: e.Meta.UpdatedAt.UTC(),
	}
	for _, entry := range s.Scopes(e) {
		scope := *snapshot.ContentOf[document.OAuthScope](entry)
		if live != nil && (store.Identity{Kind: entry.Kind, Namespace: live.Namespace, Name: live.Name}) == entry.Identity {
			scope = translation.OAuthScope(live)
		}
		if entry.Meta.UpdatedAt.After(app.UpdatedAt) {
			app.UpdatedAt = entry.Meta.UpdatedAt.UTC()
		}
		app.SupportedScopes = append(app.SupportedScopes, scope.Scope)
		app.ScopeDefinitions = append(app.ScopeDefinitions, backendapi.OAuthScopeDefinition{
			Scope: scope.Scope, DisplayName: scope.DisplayName, Description: scope.Description, Archived: scope.Archived,
			Category: backendapi.OAuthScopeDefinitionCategory(scope.Category), OrganizationPermission: scope.OrganizationPermission,
			WorkspacePermission: scope.WorkspacePermission,
		})
	}
	return app
}

func noSuchOAuthApp() error {
	return fault(http.StatusNotFound, ":oauth_app_slug", "names no OAuth app of the deployment: list them to see which there are")
}

func noSuchScope() error {
	return fault(http.StatusNotFound, ":scope", "is no scope of the app: send it as one percent-encoded path segment")
}
