package backend

import (
	"regexp"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/internal/translation"
)

var slugForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// listSchemes serves a page of the deployment's schemes.
func listSchemes(c *call) (reply, error) {
	q := c.query()
	limit, offset := q.page()
	if err := q.Err(); err != nil {
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
		return reply{}, schemes.missing()
	}
	return raw(snapshot.AppendObject(c.head[:0], c.principal.Deployment.ID, nil), entry.Body), nil
}

// schemes are the RateLimitSchemes of deployments.
var schemes = declared[v1alpha1.RateLimitScheme, *v1alpha1.RateLimitScheme]{
	kind: v1alpha1.KindRateLimitScheme, audit: "rate_limit_scheme", noun: "scheme", title: "rate-limit scheme", member: "/slug", segment: "slug",
	slug:       func(obj *v1alpha1.RateLimitScheme) string { return string(obj.Spec.Slug) },
	deployment: func(obj *v1alpha1.RateLimitScheme) string { return obj.Spec.DeploymentRef.Name },
	unused:     "let them use another first",
	view:       viewScheme,
}

// createScheme creates a RateLimitScheme resource and replies when this server applies it, at the latest after
// syncPatience.
func createScheme(c *call) (reply, error) {
	obj, err := newScheme(c)
	if err != nil {
		return reply{}, err
	}
	return schemes.create(c, obj)
}

// updateScheme merges a request into a RateLimitScheme resource and replies when this server applies it, at the latest
// after syncPatience.
func updateScheme(c *call) (reply, error) {
	sent, err := readSchemeUpdate(c.body)
	if err != nil {
		return reply{}, err
	}
	return schemes.update(c, c.r.PathValue("slug"), func(live *v1alpha1.RateLimitScheme) ([]change, error) { return sent.changes(live), nil })
}

// deleteScheme deletes a RateLimitScheme resource that no other resource uses or declares.
func deleteScheme(c *call) (reply, error) { return schemes.delete(c, c.r.PathValue("slug")) }

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
	if !o.IsNull("description") { // on create, null means absent
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

// typed converts a text to the type of its field.
func typed[T ~string](text *string) *T {
	if text == nil {
		return nil
	}
	return ptr.To(T(*text))
}

// schemeUpdate is a PATCH: the members that were sent.
type schemeUpdate struct {
	name        *v1alpha1.DisplayName
	description *v1alpha1.Description
	// clear reports whether description was sent as null.
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

// changes returns the writes after which a live resource has the sent values.
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

// viewScheme replies with a scheme.
func viewScheme(c *call, obj *v1alpha1.RateLimitScheme, entry *snapshot.Entry) (reply, error) {
	if entry != nil {
		return raw(snapshot.AppendObject(nil, c.principal.Deployment.ID, entry.Body)), nil
	}
	content := translation.RateLimitScheme(obj)
	rendered, err := snapshot.RenderScheme(metaOf(c, v1alpha1.KindRateLimitScheme, obj, content), &content)
	if err != nil {
		return reply{}, err
	}
	return raw(snapshot.AppendObject(nil, c.principal.Deployment.ID, rendered)), nil
}
