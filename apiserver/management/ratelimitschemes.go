package management

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/apiserver/openapi"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/internal/translation"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/document"
)

var slugForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// ListRateLimitSchemes serves a page of the deployment's schemes.
func (a *API) ListRateLimitSchemes(w http.ResponseWriter, r *http.Request, params openapi.ListRateLimitSchemesParams) {
	limit, offset, err := page(params.Limit, params.Offset)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	c := callOf(r)
	deployment := c.principal.Deployment
	l := listing{limit: limit, offset: offset}
	l.begin(`{"data":[`)
	start := len(*l.out)
	c.snapshot.List(v1alpha1.KindRateLimitScheme, deployment.Deployment, func(e *snapshot.Entry) bool {
		return l.add(func(to []byte) []byte { return snapshot.AppendObject(to, deployment.ID, e.Body) })
	})
	end := len(*l.out)
	total := c.snapshot.Count(v1alpha1.KindRateLimitScheme, deployment.Deployment)
	l.more(total)
	l.integer(`,"limit":`, int64(limit))
	l.integer(`,"offset":`, int64(offset))
	// The same objects once more: published clients look for them under this name.
	*l.out = append(append(*l.out, `,"schemes":[`...), (*l.out)[start:end]...)
	l.integer(`],"total":`, int64(total))
	l.end(w, "}")
}

// GetRateLimitScheme serves one scheme from the snapshot.
func (a *API) GetRateLimitScheme(w http.ResponseWriter, r *http.Request, slug string) {
	c := callOf(r)
	entry, found := c.snapshot.BySlug(v1alpha1.KindRateLimitScheme, c.principal.Deployment.Deployment, slug)
	if !found {
		a.refuse(w, r, noSuchScheme())
		return
	}
	answer(w, snapshot.AppendObject(make([]byte, 0, 48), c.principal.Deployment.ID, nil), entry.Body)
}

// CreateRateLimitScheme creates a RateLimitScheme resource and answers when it is in force here.
func (a *API) CreateRateLimitScheme(w http.ResponseWriter, r *http.Request) {
	obj, err := newScheme(callOf(r))
	if err == nil {
		err = a.createScheme(r.Context(), callOf(r), obj)
	}
	if err != nil {
		a.refuse(w, r, kubernetesProblem(err))
		return
	}
	synced, err := a.settleCreated(r.Context(), v1alpha1.KindRateLimitScheme, obj)
	if err != nil {
		a.refuse(w, r, kubernetesProblem(err))
		return
	}
	a.answerScheme(w, r, obj, synced)
}

// UpdateRateLimitScheme merges a request into a RateLimitScheme resource and answers when that is in force here.
func (a *API) UpdateRateLimitScheme(w http.ResponseWriter, r *http.Request, slug string) {
	update, err := readSchemeUpdate(callOf(r).body)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	c := callOf(r)
	key, err := schemeKey(c, slug)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	obj := &v1alpha1.RateLimitScheme{}
	synced, err := a.writer.update(r.Context(), v1alpha1.KindRateLimitScheme, key, obj, overrides(c.principal), func() ([]change, error) {
		if !belongs(obj, c, slug) {
			return nil, noSuchScheme()
		}
		return update.changes(obj), nil
	})
	if apierrors.IsNotFound(err) {
		err = noSuchScheme()
	}
	if err != nil {
		a.refuse(w, r, kubernetesProblem(err))
		return
	}
	a.answerScheme(w, r, obj, synced)
}

// DeleteRateLimitScheme deletes a RateLimitScheme resource that nobody uses and nobody else declares.
func (a *API) DeleteRateLimitScheme(w http.ResponseWriter, r *http.Request, slug string) {
	c := callOf(r)
	key, err := schemeKey(c, slug)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	obj := &v1alpha1.RateLimitScheme{}
	synced, err := a.writer.remove(r.Context(), v1alpha1.KindRateLimitScheme, key, obj, func() error {
		if !belongs(obj, c, slug) {
			return noSuchScheme()
		}
		return a.deletable(c, obj)
	})
	if apierrors.IsNotFound(err) {
		err = noSuchScheme()
	}
	if err != nil {
		a.refuse(w, r, kubernetesProblem(err))
		return
	}
	setSynced(w, synced)
	w.WriteHeader(http.StatusNoContent)
}

// newScheme reads the body of a creation into a resource.
func newScheme(c *call) (*v1alpha1.RateLimitScheme, error) {
	o, err := body.Parse(c.body)
	if err != nil {
		return nil, err
	}
	spec := v1alpha1.RateLimitSchemeSpec{DeploymentRef: v1alpha1.DeploymentReference{Name: c.principal.Deployment.Name}}
	if o.Require("slug") {
		if slug, ok := o.String("slug"); ok {
			if !slugForm.MatchString(slug) {
				o.Fault("slug", "must be 1 to 63 lower-case letters, digits and inner dashes")
			}
			spec.Slug = v1alpha1.Slug(slug)
		}
	}
	if o.Require("name") {
		spec.DisplayName = readName(o)
	}
	if !o.IsNull("description") { // on create, null is as absent
		spec.Description = readDescription(o)
	}
	if o.Require("rules") {
		spec.Rules = translation.DeclareRules(readRules(o))
	}
	o.Close()
	if err := o.Err(); err != nil {
		return nil, err
	}
	return &v1alpha1.RateLimitScheme{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.principal.Deployment.Namespace,
			Name:      c.principal.Deployment.Name + "." + string(spec.Slug),
			Labels:    map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByHTTP},
		},
		Spec: spec,
	}, nil
}

// createScheme creates the resource. Its name may be taken by a resource with another slug: then it gets a suffix.
func (a *API) createScheme(ctx context.Context, c *call, obj *v1alpha1.RateLimitScheme) error {
	slug := string(obj.Spec.Slug)
	duplicate := &apierror.Error{Status: http.StatusConflict, Faults: []apierror.Fault{{
		Pointer: "/slug", Message: "is taken by another scheme of the deployment: choose another or PATCH that one"}}}
	if _, taken := c.snapshot.BySlug(v1alpha1.KindRateLimitScheme, c.principal.Deployment.Deployment, slug); taken {
		return duplicate
	}
	ctx, cancel := context.WithTimeout(ctx, writeDeadline)
	defer cancel()
	plain := obj.Name
	for range patchAttempts {
		err := a.Kubernetes.Create(ctx, obj, client.FieldOwner(v1alpha1.FieldManagerHTTP))
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		existing := &v1alpha1.RateLimitScheme{}
		err = a.Kubernetes.Get(ctx, client.ObjectKeyFromObject(obj), existing)
		if err == nil && belongs(existing, c, slug) {
			return duplicate
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		obj.Name = plain + "-" + randomSuffix()
		obj.ResourceVersion = ""
	}
	return apierror.New(http.StatusConflict, "no free resource name was found for the slug: try again")
}

// randomSuffix is five hexadecimal digits.
func randomSuffix() string {
	var random [3]byte
	_, _ = rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])[:5]
}

// settleCreated waits until a created resource is in force here. One that the operator does not accept is deleted again.
func (a *API) settleCreated(ctx context.Context, kind string, obj v1alpha1.Resource) (bool, error) {
	synced, err := a.writer.settle(ctx, kind, obj)
	if err != nil {
		a.withdraw(ctx, obj)
	}
	return synced, err
}

// withdraw deletes a resource that was created and then refused.
func (a *API) withdraw(ctx context.Context, obj v1alpha1.Resource) {
	// Also when the client is gone: nobody else knows that this object must not stay.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeDeadline)
	defer cancel()
	if err := a.Kubernetes.Delete(ctx, obj, client.Preconditions{UID: ptr.To(obj.GetUID())}); err != nil && !apierrors.IsNotFound(err) {
		a.Log.Error(err, "A refused resource could not be deleted again", "namespace", obj.GetNamespace(), "name", obj.GetName())
	}
}

// schemeUpdate is a PATCH: what was sent.
type schemeUpdate struct {
	name        *v1alpha1.DisplayName
	description *v1alpha1.Description
	// clear tells that description was sent as null.
	clear bool
	rules []scheme.Rule
}

func readSchemeUpdate(raw []byte) (*schemeUpdate, error) {
	o, err := body.Parse(raw)
	if err != nil {
		return nil, err
	}
	update := &schemeUpdate{clear: o.IsNull("description")}
	update.name = readName(o)
	if !update.clear {
		update.description = readDescription(o)
	}
	if o.Has("rules") {
		update.rules = readRules(o)
	}
	o.Close()
	return update, o.Err()
}

// changes returns what must be written for a live resource to have the sent values.
func (u *schemeUpdate) changes(obj *v1alpha1.RateLimitScheme) []change {
	now := translation.RateLimitScheme(obj)
	var changes []change
	if u.name != nil && string(*u.name) != now.Name {
		changes = append(changes, change{field: "/name", path: "displayName", value: *u.name})
	}
	switch {
	case u.clear && obj.Spec.Description != nil:
		changes = append(changes, change{field: "/description", path: "description"})
	case u.description != nil && string(*u.description) != ptr.Deref(now.Description, "\x00"):
		changes = append(changes, change{field: "/description", path: "description", value: *u.description})
	}
	if u.rules != nil && !scheme.EqualEffective(u.rules, now.Rules) {
		changes = append(changes, change{field: "/rules", path: "rules", value: translation.DeclareRules(u.rules)})
	}
	return changes
}

// answerScheme answers with what is in force here, else with what the API server acknowledged.
func (a *API) answerScheme(w http.ResponseWriter, r *http.Request, obj *v1alpha1.RateLimitScheme, synced bool) {
	deployment := callOf(r).principal.Deployment
	var rendered []byte
	if synced {
		id := store.Identity{Kind: v1alpha1.KindRateLimitScheme, Namespace: obj.Namespace, Name: obj.Name}
		if entry, found := a.Snapshots.Current().Get(id); found && entry.UID == string(obj.UID) {
			rendered = entry.Body
		}
	}
	if rendered == nil {
		content := translation.RateLimitScheme(obj)
		meta := document.Meta{CreatedAt: obj.CreationTimestamp.Time, UpdatedAt: updatedAt(obj, content, a.Clock())}
		var err error
		if rendered, err = snapshot.RenderScheme(meta, &content); err != nil {
			a.refuse(w, r, err)
			return
		}
	}
	setSynced(w, synced)
	answer(w, snapshot.AppendObject(nil, deployment.ID, rendered))
}

// updatedAt is when the content of a resource that is not in force yet last changed: as its status says if that speaks of
// this content, else now.
func updatedAt(obj *v1alpha1.RateLimitScheme, content document.RateLimitScheme, now time.Time) time.Time {
	hash, err := document.Hash(v1alpha1.KindRateLimitScheme, content)
	if err == nil && obj.Status.ContentHash == hash && obj.Status.UpdatedAt != nil {
		return obj.Status.UpdatedAt.Time
	}
	return now
}

// deletable refuses what is in use, and what another manager declares.
func (a *API) deletable(c *call, obj *v1alpha1.RateLimitScheme) error {
	id := store.Identity{Kind: v1alpha1.KindRateLimitScheme, Namespace: obj.Namespace, Name: obj.Name}
	if users := c.snapshot.Users(id); len(users) > 0 {
		names := make([]string, 0, len(users))
		for _, user := range users {
			names = append(names, user.Kind+" "+user.Name)
		}
		slices.Sort(names)
		return apierror.New(http.StatusConflict, "the scheme is in use by %s: let them use another first", strings.Join(names[:min(len(names), 5)], ", "))
	}
	if overrides(c.principal) {
		return nil
	}
	return refuseForeign(obj)
}

// schemeKey returns where the resource of a slug is looked for: where the snapshot knows it, else under the name that a
// creation over HTTP gives it. What cannot be a slug is never asked for: it would not make a name.
func schemeKey(c *call, slug string) (client.ObjectKey, error) {
	deployment := c.principal.Deployment
	if entry, found := c.snapshot.BySlug(v1alpha1.KindRateLimitScheme, deployment.Deployment, slug); found {
		return client.ObjectKey{Namespace: entry.Namespace, Name: entry.Name}, nil
	}
	if !slugForm.MatchString(slug) {
		return client.ObjectKey{}, noSuchScheme()
	}
	return client.ObjectKey{Namespace: deployment.Namespace, Name: deployment.Name + "." + slug}, nil
}

// belongs tells whether a live resource is the scheme of a slug in the caller's deployment.
func belongs(obj *v1alpha1.RateLimitScheme, c *call, slug string) bool {
	return obj.Spec.DeploymentRef.Name == c.principal.Deployment.Name && string(obj.Spec.Slug) == slug
}

func noSuchScheme() error {
	return &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{
		Pointer: ":slug", Message: "names no rate-limit scheme of the deployment: list them to see which there are"}}}
}
