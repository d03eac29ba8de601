package backend

import (
	"net/http"
	"time"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/permission"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/internal/translation"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// listAuthApps serves the deployment's apps.
func listAuthApps(c *call) (reply, error) {
	q := c.query()
	inactive := ptr.Deref(q.Flag("include_inactive"), false)
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	list := backendapi.ApiAuthAppList{Apps: []backendapi.ApiAuthApp{}}
	c.snapshot.List(v1alpha1.KindAPIAuthApp, c.tenant(), func(e *snapshot.Entry) bool {
		if app := snapshot.ContentOf[snapshot.App](e); app.Active || inactive {
			list.Apps = append(list.Apps, c.authApp(e.Namespace, e.Meta, &app.APIAuthApp))
		}
		return true
	})
	return object(list), nil
}

// getAuthApp serves one app from the snapshot.
func getAuthApp(c *call) (reply, error) {
	entry, app, err := c.keyApp()
	if err != nil {
		return reply{}, err
	}
	return object(c.authApp(entry.Namespace, entry.Meta, &app.APIAuthApp)), nil
}

// authApp is the served form of an app.
func (c *call) authApp(namespace string, meta document.Meta, app *document.APIAuthApp) backendapi.ApiAuthApp {
	served := backendapi.ApiAuthApp{
		DeploymentId: ids.Format(c.principal.Deployment.ID), AppSlug: app.Slug, Name: app.Name, KeyPrefix: app.EffectiveKeyPrefix(), Description: app.Description,
		IsActive: app.Active, Permissions: listed(app.Permissions), Resources: []string{}, RateLimits: []backendapi.RateLimitRule{},
		CreatedAt: meta.CreatedAt.UTC().Truncate(time.Microsecond), UpdatedAt: meta.UpdatedAt.UTC().Truncate(time.Microsecond),
	}
	if app.Scheme == "" {
		return served
	}
	entry, found := c.snapshot.Get(store.Identity{Kind: v1alpha1.KindRateLimitScheme, Namespace: namespace, Name: app.Scheme})
	if !found {
		return served
	}
	content := snapshot.ContentOf[document.RateLimitScheme](entry)
	served.RateLimitSchemeSlug = &content.Slug
	for _, rule := range scheme.Effective(content.Rules) {
		served.RateLimits = append(served.RateLimits, snapshot.ServedRule(rule))
	}
	return served
}

// authApps are the APIAuthApps of deployments.
var authApps = declared[v1alpha1.APIAuthApp, *v1alpha1.APIAuthApp]{
	kind: v1alpha1.KindAPIAuthApp, audit: "api_auth_app", noun: "app", title: "app", member: "/app_slug", segment: "slug",
	slug:       func(obj *v1alpha1.APIAuthApp) string { return string(obj.Spec.Slug) },
	deployment: func(obj *v1alpha1.APIAuthApp) string { return obj.Spec.DeploymentRef.Name },
	unused:     "delete these first",
	permit:     withoutKeys,
	view:       viewAuthApp,
}

// createAuthApp creates an APIAuthApp resource and replies when this server applies it, at the latest after
// syncPatience.
func createAuthApp(c *call) (reply, error) {
	obj, err := newAuthApp(c)
	if err != nil {
		return reply{}, err
	}
	if err := c.mayGrant(permissionNames(obj.Spec.Permissions), permission.NewSet([]string{permission.All})); err != nil {
		return reply{}, err
	}
	return authApps.create(c, obj)
}

// updateAuthApp merges a request into an APIAuthApp resource and replies when this server applies it, at the latest
// after syncPatience.
func updateAuthApp(c *call) (reply, error) {
	sent, err := readAuthAppUpdate(c)
	if err != nil {
		return reply{}, err
	}
	return authApps.update(c, c.r.PathValue("slug"), func(live *v1alpha1.APIAuthApp) ([]change, error) {
		granted := added(permissionNames(sent.permissions), permissionNames(live.Spec.Permissions))
		if err := c.mayGrant(granted, permission.NewSet([]string{permission.All})); err != nil {
			return nil, err
		}
		return sent.changes(live), nil
	})
}

// deleteAuthApp deletes an APIAuthApp resource that has no active runtime keys, that no other resource refers to, and
// that no other field manager declares.
func deleteAuthApp(c *call) (reply, error) { return authApps.delete(c, c.r.PathValue("slug")) }

// withoutKeys refuses the deletion of an app with active runtime keys: they would become valid again with the next app
// of the slug.
func withoutKeys(c *call, obj *v1alpha1.APIAuthApp) error {
	p := c.people()
	return p.view(func(u *account.Unit) error {
		keys, err := u.APIKeys().ListAPIKeys(people.APIKeyFilter{App: string(obj.Spec.Slug), ActiveAt: p.Now}, 1)
		if err == nil && len(keys) > 0 {
			err = apierror.New(http.StatusConflict, "the app has keys that are active: revoke them first, or set is_active to false")
		}
		return err
	})
}

// viewAuthApp replies with an app.
func viewAuthApp(c *call, obj *v1alpha1.APIAuthApp, entry *snapshot.Entry) (reply, error) {
	if entry != nil {
		return object(c.authApp(entry.Namespace, entry.Meta, &snapshot.ContentOf[snapshot.App](entry).APIAuthApp)), nil
	}
	content := translation.APIAuthApp(obj)
	return object(c.authApp(obj.Namespace, metaOf(c, v1alpha1.KindAPIAuthApp, obj, content), &content)), nil
}
