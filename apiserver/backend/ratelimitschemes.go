package backend

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/internal/translation"
	"github.com/cardea-iam/cardea/store"
)

var slugForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// listSchemes serves a page of the deployment's schemes.
func listSchemes(c *call) (reply, error) {
	q := c.query()
	limit, offset := q.page()
	if err := q.err(); err != nil {
		return reply{}, err
	}
	deployment := c.principal.Deployment
	l := listing{limit: limit, offset: offset}
	l.begin(`{"data":[`)
	start := len(*l.out)
	c.snapshot.List(v1alpha1.KindRateLimitScheme, c.tenant(), func(e *snapshot.Entry) bool {
		return l.add(func(to []byte) []byte { return snapshot.AppendObject(to, deployment.ID, e.Body) })
	})
	end := len(*l.out)
	total := c.snapshot.Count(v1alpha1.KindRateLimitScheme, c.tenant())
	l.more(total)
	l.integer(`,"limit":`, int64(limit))
	l.integer(`,"offset":`, int64(offset))
	// The same objects again: published clients read them under this name.
	*l.out = append(append(*l.out, `,"schemes":[`...), (*l.out)[start:end]...)
	l.integer(`],"total":`, int64(total))
	return l.end("}"), nil
}

// getScheme serves one scheme from the snapshot.
func getScheme(c *call) (reply, error) {
	entry, found := c.snapshot.BySlug(v1alpha1.KindRateLimitScheme, c.tenant(), c.r.PathValue("slug"))
	if !found {
		return reply{}, noSuchScheme()
	}
	return raw(snapshot.AppendObject(c.head[:0], c.principal.Deployment.ID, nil), entry.Body), nil
}

// createScheme creates a RateLimitScheme resource and answers when it is in force here.
func createScheme(c *call) (reply, error) {
	obj, err := newScheme(c)
	if err != nil {
		return reply{}, err
	}
	slug := string(obj.Spec.Slug)
	if err := freeSlug[v1alpha1.RateLimitScheme](c.api, c, v1alpha1.KindRateLimitScheme, slug, slugTaken); err != nil {
		return reply{}, err
	}
	synced, err := create(c.r.Context(), c.api, creation[*v1alpha1.RateLimitScheme]{
		kind: v1alpha1.KindRateLimitScheme, obj: obj, keys: candidates(c, schemeName(c, slug)),
		taken: func(existing *v1alpha1.RateLimitScheme) error {
			if isScheme(existing, c, slug) {
				return slugTaken(slug)
			}
			return nil
		},
		written: func(*v1alpha1.RateLimitScheme) { c.auditWrite("rate_limit_scheme.created", "rate_limit_scheme:"+slug) },
	})
	if err != nil {
		return reply{}, kubernetesError(err)
	}
	return answerScheme(c, obj, synced)
}

func slugTaken(slug string) error {
	return &apierror.Error{Status: http.StatusConflict, Faults: []apierror.Fault{{
		Pointer: "/slug", Message: fmt.Sprintf("%q is taken by another scheme of the deployment: choose another or PATCH that one", slug)}}}
}

// updateScheme merges a request into a RateLimitScheme resource and answers when that is in force here.
func updateScheme(c *call) (reply, error) {
	sent, err := readSchemeUpdate(c.body)
	if err != nil {
		return reply{}, err
	}
	slug := c.r.PathValue("slug")
	obj, synced, err := update(c.r.Context(), c.api.writer, edit[*v1alpha1.RateLimitScheme]{
		kind: v1alpha1.KindRateLimitScheme, keys: schemeKeys(c, slug), override: c.overrides(),
		plan: func(live *v1alpha1.RateLimitScheme) ([]change, error) {
			if !isScheme(live, c, slug) {
				return nil, errElsewhere
			}
			return sent.changes(live), nil
		},
		written: func(*v1alpha1.RateLimitScheme) { c.auditWrite("rate_limit_scheme.updated", "rate_limit_scheme:"+slug) },
	})
	if err != nil {
		return reply{}, orNoSuchScheme(err)
	}
	return answerScheme(c, obj, synced)
}

// deleteScheme deletes a RateLimitScheme resource that is not used and has no other owner.
func deleteScheme(c *call) (reply, error) {
	slug := c.r.PathValue("slug")
	synced, err := remove(c.r.Context(), c.api.writer, deletion[*v1alpha1.RateLimitScheme]{
		kind: v1alpha1.KindRateLimitScheme, keys: schemeKeys(c, slug),
		permit: func(live *v1alpha1.RateLimitScheme) error {
			if !isScheme(live, c, slug) {
				return errElsewhere
			}
			return deletable(c, live)
		},
		written: func(*v1alpha1.RateLimitScheme) { c.auditWrite("rate_limit_scheme.deleted", "rate_limit_scheme:"+slug) },
	})
	if err != nil {
		return reply{}, orNoSuchScheme(err)
	}
	return reply{}.inForce(synced), nil
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
		spec.DisplayName = typed[v1alpha1.DisplayName](input.Name(o, "name"))
	}
	if !o.IsNull("description") { // on create, null is as absent
		spec.Description = typed[v1alpha1.Description](input.Description(o, "description"))
	}
	if o.Require("rules") {
		spec.Rules = translation.DeclareRules(readRules(o))
	}
	o.Close()
	if err := o.Err(); err != nil {
		return nil, err
	}
	return &v1alpha1.RateLimitScheme{ObjectMeta: created(c), Spec: spec}, nil
}

// typed gives a text that was read the type of the field it goes to.
func typed[T ~string](text *string) *T {
	if text == nil {
		return nil
	}
	return ptr.To(T(*text))
}

// schemeUpdate is a PATCH: what was sent.
type schemeUpdate struct {
	name        *v1alpha1.DisplayName
	description *v1alpha1.Description
	// clear reports that description was sent as null.
	clear bool
	rules []scheme.Rule
}

func readSchemeUpdate(raw []byte) (*schemeUpdate, error) {
	o, err := body.Parse(raw)
	if err != nil {
		return nil, err
	}
	update := &schemeUpdate{clear: o.IsNull("description")}
	update.name = typed[v1alpha1.DisplayName](input.Name(o, "name"))
	if !update.clear {
		update.description = typed[v1alpha1.Description](input.Description(o, "description"))
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
func answerScheme(c *call, obj *v1alpha1.RateLimitScheme, synced bool) (reply, error) {
	var rendered []byte
	if synced {
		id := store.Identity{Kind: v1alpha1.KindRateLimitScheme, Namespace: obj.Namespace, Name: obj.Name}
		if entry, found := c.api.Snapshots.Current().Get(id); found && entry.UID == string(obj.UID) {
			rendered = entry.Body
		}
	}
	if rendered == nil {
		content := translation.RateLimitScheme(obj)
		meta := document.Meta{CreatedAt: obj.CreationTimestamp.Time, UpdatedAt: updatedAt(obj, content, c.api.Clock())}
		var err error
		if rendered, err = snapshot.RenderScheme(meta, &content); err != nil {
			return reply{}, err
		}
	}
	return raw(snapshot.AppendObject(nil, c.principal.Deployment.ID, rendered)).inForce(synced), nil
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
func deletable(c *call, obj *v1alpha1.RateLimitScheme) error {
	id := store.Identity{Kind: v1alpha1.KindRateLimitScheme, Namespace: obj.Namespace, Name: obj.Name}
	if referrers := c.snapshot.Referrers(id); len(referrers) > 0 {
		names := make([]string, 0, len(referrers))
		for _, referrer := range referrers {
			names = append(names, referrer.Kind+" "+referrer.Name)
		}
		slices.Sort(names)
		return apierror.New(http.StatusConflict, "the scheme is in use by %s: let them use another first", strings.Join(names[:min(len(names), 5)], ", "))
	}
	if c.overrides() {
		return nil
	}
	return refuseForeign(obj)
}

// schemeName is the plain name of the resource that a creation over HTTP makes for a slug.
func schemeName(c *call, slug string) string { return c.principal.Deployment.Name + "." + slug }

// schemeKeys returns the names under which the resource of a slug may exist: the one in the snapshot, then those that
// a creation over HTTP gives it. It returns none for a text that cannot be a slug, because it would make no valid
// name.
func schemeKeys(c *call, slug string) []client.ObjectKey {
	var keys []client.ObjectKey
	if entry, found := c.snapshot.BySlug(v1alpha1.KindRateLimitScheme, c.tenant(), slug); found {
		keys = append(keys, client.ObjectKey{Namespace: entry.Namespace, Name: entry.Name})
	}
	if slugForm.MatchString(slug) {
		keys = append(keys, candidates(c, schemeName(c, slug))...)
	}
	return keys
}

// isScheme reports whether a live resource is the scheme of a slug in the caller's deployment.
func isScheme(obj *v1alpha1.RateLimitScheme, c *call, slug string) bool {
	return obj.Spec.DeploymentRef.Name == c.principal.Deployment.Name && string(obj.Spec.Slug) == slug
}

func orNoSuchScheme(err error) error {
	if errors.Is(err, errElsewhere) {
		return noSuchScheme()
	}
	return kubernetesError(err)
}

func noSuchScheme() error {
	return &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{
		Pointer: ":slug", Message: "names no rate-limit scheme of the deployment: list them to see which there are"}}}
}
