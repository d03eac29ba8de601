package backend

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
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
	inactive := ptr.Deref(q.flag("include_inactive"), false)
	if err := q.err(); err != nil {
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

// createAuthApp creates an APIAuthApp resource and answers when it is in force here.
func createAuthApp(c *call) (reply, error) {
	obj, err := newAuthApp(c)
	if err != nil {
		return reply{}, err
	}
	if err := c.mayGrant(permissionNames(obj.Spec.Permissions), permission.NewSet([]string{permission.All})); err != nil {
		return reply{}, err
	}
	slug := string(obj.Spec.Slug)
	if err := freeSlug[v1alpha1.APIAuthApp](c.api, c, v1alpha1.KindAPIAuthApp, slug, appTaken); err != nil {
		return reply{}, err
	}
	synced, err := create(c.r.Context(), c.api, creation[*v1alpha1.APIAuthApp]{
		kind: v1alpha1.KindAPIAuthApp, obj: obj, keys: candidates(c, appName(c, slug)),
		taken: func(existing *v1alpha1.APIAuthApp) error {
			if isAuthApp(existing, c, slug) {
				return appTaken(slug)
			}
			return nil
		},
		written: func(*v1alpha1.APIAuthApp) { c.auditWrite("api_auth_app.created", "api_auth_app:"+slug) },
	})
	if err != nil {
		return reply{}, kubernetesError(err)
	}
	return answerAuthApp(c, obj, synced), nil
}

func appTaken(slug string) error {
	return &apierror.Error{Status: http.StatusConflict, Faults: []apierror.Fault{{
		Pointer: "/app_slug", Message: fmt.Sprintf("%q is taken by another app of the deployment: choose another or PATCH that one", slug)}}}
}

// updateAuthApp merges a request into an APIAuthApp resource and answers when that is in force here.
func updateAuthApp(c *call) (reply, error) {
	sent, err := readAuthAppUpdate(c)
	if err != nil {
		return reply{}, err
	}
	slug := c.r.PathValue("slug")
	obj, synced, err := update(c.r.Context(), c.api.writer, edit[*v1alpha1.APIAuthApp]{
		kind: v1alpha1.KindAPIAuthApp, keys: appKeys(c, slug), override: c.overrides(),
		plan: func(live *v1alpha1.APIAuthApp) ([]change, error) {
			if !isAuthApp(live, c, slug) {
				return nil, errElsewhere
			}
			granted := added(permissionNames(sent.permissions), permissionNames(live.Spec.Permissions))
			if err := c.mayGrant(granted, permission.NewSet([]string{permission.All})); err != nil {
				return nil, err
			}
			return sent.changes(live), nil
		},
		written: func(*v1alpha1.APIAuthApp) { c.auditWrite("api_auth_app.updated", "api_auth_app:"+slug) },
	})
	if err != nil {
		return reply{}, orNoSuchApp(err)
	}
	return answerAuthApp(c, obj, synced), nil
}

// deleteAuthApp deletes an APIAuthApp resource that has no keys left and no other owner.
func deleteAuthApp(c *call) (reply, error) {
	slug := c.r.PathValue("slug")
	synced, err := remove(c.r.Context(), c.api.writer, deletion[*v1alpha1.APIAuthApp]{
		kind: v1alpha1.KindAPIAuthApp, keys: appKeys(c, slug),
		permit: func(live *v1alpha1.APIAuthApp) error {
			if !isAuthApp(live, c, slug) {
				return errElsewhere
			}
			return c.appDeletable(live)
		},
		written: func(*v1alpha1.APIAuthApp) { c.auditWrite("api_auth_app.deleted", "api_auth_app:"+slug) },
	})
	if err != nil {
		return reply{}, orNoSuchApp(err)
	}
	return reply{}.inForce(synced), nil
}

// appDeletable refuses what has keys, and what another manager declares. The keys of the store would come back to life with the next app of
// the slug.
func (c *call) appDeletable(obj *v1alpha1.APIAuthApp) error {
	id := store.Identity{Kind: v1alpha1.KindAPIAuthApp, Namespace: obj.Namespace, Name: obj.Name}
	if referrers := c.snapshot.Referrers(id); len(referrers) > 0 {
		names := make([]string, 0, len(referrers))
		for _, referrer := range referrers {
			names = append(names, referrer.Kind+" "+referrer.Name)
		}
		slices.Sort(names)
		return apierror.New(http.StatusConflict, "the app is in use by %s: delete these first", strings.Join(names[:min(len(names), 5)], ", "))
	}
	p := c.people()
	err := p.view(func(u *account.Unit) error {
		keys, err := u.APIKeys().ListAPIKeys(people.APIKeyFilter{App: string(obj.Spec.Slug), ActiveAt: p.Now}, 1)
		if err == nil && len(keys) > 0 {
			err = apierror.New(http.StatusConflict, "the app has keys that are active: revoke them first, or set is_active to false")
		}
		return err
	})
	if err != nil || c.overrides() {
		return err
	}
	return refuseForeign(obj)
}

// answerAuthApp answers with what is in force here, else with what the API server acknowledged.
func answerAuthApp(c *call, obj *v1alpha1.APIAuthApp, synced bool) reply {
	c.snapshot = c.api.Snapshots.Current()
	if synced {
		id := store.Identity{Kind: v1alpha1.KindAPIAuthApp, Namespace: obj.Namespace, Name: obj.Name}
		if entry, found := c.snapshot.Get(id); found && entry.UID == string(obj.UID) {
			return object(c.authApp(entry.Namespace, entry.Meta, &snapshot.ContentOf[snapshot.App](entry).APIAuthApp)).inForce(true)
		}
	}
	content := translation.APIAuthApp(obj)
	meta := document.Meta{CreatedAt: obj.CreationTimestamp.Time, UpdatedAt: c.api.Clock()}
	hash, err := document.Hash(v1alpha1.KindAPIAuthApp, content)
	if err == nil && obj.Status.ContentHash == hash && obj.Status.UpdatedAt != nil {
		meta.UpdatedAt = obj.Status.UpdatedAt.Time
	}
	return object(c.authApp(obj.Namespace, meta, &content)).inForce(synced)
}

// appName is the plain name of the resource that a creation over HTTP makes for a slug; a scheme's of the same slug is of another kind.
func appName(c *call, slug string) string { return c.principal.Deployment.Name + "." + slug }

// appKeys is schemeKeys for apps.
func appKeys(c *call, slug string) []client.ObjectKey {
	var keys []client.ObjectKey
	if entry, found := c.snapshot.BySlug(v1alpha1.KindAPIAuthApp, c.tenant(), slug); found {
		keys = append(keys, client.ObjectKey{Namespace: entry.Namespace, Name: entry.Name})
	}
	if slugForm.MatchString(slug) {
		keys = append(keys, candidates(c, appName(c, slug))...)
	}
	return keys
}

// isAuthApp reports whether a live resource is the app of a slug in the caller's deployment.
func isAuthApp(obj *v1alpha1.APIAuthApp, c *call, slug string) bool {
	return obj.Spec.DeploymentRef.Name == c.principal.Deployment.Name && string(obj.Spec.Slug) == slug
}

func orNoSuchApp(err error) error {
	if errors.Is(err, errElsewhere) {
		return noSuchApp()
	}
	return kubernetesError(err)
}

func noSuchApp() error {
	return &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{
		Pointer: ":slug", Message: "names no app of the deployment: list them to see which there are"}}}
}
