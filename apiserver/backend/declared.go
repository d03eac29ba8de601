package backend

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
)

// declared describes a kind whose resources requests create, change and delete. It is the only place that decides which
// resource a slug names, and what is refused, audited and returned.
type declared[T any, P resource[T]] struct {
	kind string
	// audit begins the names of actions and objects in audit records, such as rate_limit_scheme.
	audit string
	// noun names a resource of the kind in messages; title names it in the message that no such resource exists.
	noun, title string
	// member is the JSON pointer of the slug in the body of a creation, and segment the parameter of the path that
	// holds it.
	member, segment string
	// slug returns the slug of a resource, deployment the name of its deployment.
	slug, deployment func(P) string
	// name returns the plain name of the resource that a creation makes for a slug; nil: the deployment's, a dot and
	// the slug.
	name func(c *call, slug string) string
	// unused says how to end the references of other resources.
	unused string
	// permit refuses a deletion for further reasons; nil: there are none.
	permit func(c *call, live P) error
	// view replies with a resource: with entry, the resource in the snapshot, if entry is not nil; otherwise with obj,
	// as the Kubernetes API acknowledged it.
	view func(c *call, obj P, entry *snapshot.Entry) (reply, error)
}

// target is the resource of a request.
type target[P any] struct {
	// keys are its possible names, the most likely first. is reports whether a live resource is the target.
	keys []client.ObjectKey
	is   func(live P) bool
	// object names the resource in audit records, after the name of the kind.
	object func(P) string
	// missing is the error if there is none.
	missing error
}

// target returns the resource of a slug in the caller's deployment.
func (d declared[T, P]) target(c *call, slug string) target[P] {
	return target[P]{
		keys:    d.keys(c, slug),
		is:      func(live P) bool { return d.is(c, live, slug) },
		object:  func(P) string { return slug },
		missing: d.missing(),
	}
}

// is reports whether a live resource is the one of a slug in the caller's deployment.
func (d declared[T, P]) is(c *call, live P, slug string) bool {
	return d.deployment(live) == c.principal.Deployment.Name && d.slug(live) == slug
}

// keys returns the names under which the resource of a slug may exist: the name in the snapshot, then the names that a
// creation assigns. It returns none for a text that cannot be a slug, because the text would not make a valid name.
func (d declared[T, P]) keys(c *call, slug string) []client.ObjectKey {
	var keys []client.ObjectKey
	if entry, found := c.snapshot.BySlug(d.kind, c.tenant(), slug); found {
		keys = append(keys, client.ObjectKey{Namespace: entry.Namespace, Name: entry.Name})
	}
	if slugForm.MatchString(slug) {
		keys = append(keys, d.candidates(c, slug)...)
	}
	return keys
}

// candidates returns the names that a creation may assign to the resource of a slug.
func (d declared[T, P]) candidates(c *call, slug string) []client.ObjectKey {
	name := c.principal.Deployment.Name + "." + slug
	if d.name != nil {
		name = d.name(c, slug)
	}
	return candidates(c, name)
}

// create creates a resource and replies when this server applies it, at the latest after syncPatience.
func (d declared[T, P]) create(c *call, obj P) (reply, error) {
	slug := d.slug(obj)
	if err := freeSlug[T, P](c.api, c, d.kind, slug, d.taken); err != nil {
		return reply{}, err
	}
	synced, err := d.insert(c, obj, d.taken(slug), func(P) string { return slug })
	if err != nil {
		return reply{}, kubernetesError(err)
	}
	return d.answer(c, obj, synced)
}

// insert creates a resource, and reports whether this server applies it. taken is the error if another resource has the
// slug.
func (d declared[T, P]) insert(c *call, obj P, taken error, object func(P) string) (synced bool, err error) {
	slug := d.slug(obj)
	return create[T](c.r.Context(), c.api, creation[P]{
		kind: d.kind, obj: obj, keys: d.candidates(c, slug),
		taken: func(existing P) error {
			if d.is(c, existing, slug) {
				return taken
			}
			return nil
		},
		written: func(obj P) { c.auditWrite(d.audit+".created", d.audit+":"+object(obj)) },
	})
}

// update makes the outstanding changes to the live resource of a slug. It replies when this server applies them, at the
// latest after syncPatience.
func (d declared[T, P]) update(c *call, slug string, plan func(live P) ([]change, error)) (reply, error) {
	obj, synced, err := d.change(c, d.target(c, slug), "updated", plan)
	if err != nil {
		return reply{}, err
	}
	return d.answer(c, obj, synced)
}

// change makes the outstanding changes to a live resource, and records the action. It returns the resource, and whether
// this server applies it.
func (d declared[T, P]) change(c *call, of target[P], action string, plan func(live P) ([]change, error)) (P, bool, error) {
	obj, synced, err := update[T](c.r.Context(), c.api.writer, edit[P]{
		kind: d.kind, keys: of.keys, override: c.overrides(),
		plan: func(live P) ([]change, error) {
			if !of.is(live) {
				return nil, errElsewhere
			}
			return plan(live)
		},
		written: func(obj P) { c.auditWrite(d.audit+"."+action, d.audit+":"+of.object(obj)) },
	})
	return obj, synced, of.found(err)
}

// delete deletes the resource of a slug unless others use it or declare it.
func (d declared[T, P]) delete(c *call, slug string) (reply, error) {
	of := d.target(c, slug)
	synced, err := remove[T](c.r.Context(), c.api.writer, deletion[P]{
		kind: d.kind, keys: of.keys,
		permit: func(live P) error {
			if !of.is(live) {
				return errElsewhere
			}
			return d.deletable(c, live)
		},
		written: func(obj P) { c.auditWrite(d.audit+".deleted", d.audit+":"+of.object(obj)) },
	})
	if err != nil {
		return reply{}, of.found(err)
	}
	return reply{}.inForce(synced), nil
}

// deletable refuses the deletion of a resource that others use, or that another manager declares.
func (d declared[T, P]) deletable(c *call, live P) error {
	if referrers := c.snapshot.Referrers(d.identity(live)); len(referrers) > 0 {
		names := make([]string, 0, len(referrers))
		for _, referrer := range referrers {
			names = append(names, referrer.Kind+" "+referrer.Name)
		}
		slices.Sort(names)
		return apierror.New(http.StatusConflict, "the %s is in use by %s: %s", d.noun, strings.Join(names[:min(len(names), 5)], ", "), d.unused)
	}
	if d.permit != nil {
		if err := d.permit(c, live); err != nil {
			return err
		}
	}
	if c.overrides() {
		return nil
	}
	return refuseForeign(live)
}

// answer replies with a resource, and reports whether this server applies it.
func (d declared[T, P]) answer(c *call, obj P, synced bool) (reply, error) {
	c.snapshot = c.api.Snapshots.Current()
	var served *snapshot.Entry
	if entry, found := c.snapshot.Get(d.identity(obj)); synced && found && entry.UID == string(obj.GetUID()) {
		served = entry
	}
	answered, err := d.view(c, obj, served)
	return answered.inForce(synced), err
}

// metaOf returns when a resource that this server does not apply yet was created, and when its content last changed.
// The latter is the time in its status if the status describes this content, otherwise now.
func metaOf(c *call, kind string, obj v1alpha1.Resource, content any) document.Meta {
	meta := document.Meta{CreatedAt: obj.GetCreationTimestamp().Time, UpdatedAt: c.api.Clock()}
	status := obj.CommonStatus()
	hash, err := document.Hash(kind, content)
	if err == nil && status.ContentHash == hash && status.UpdatedAt != nil {
		meta.UpdatedAt = status.UpdatedAt.Time
	}
	return meta
}

func (d declared[T, P]) identity(obj P) store.Identity {
	return store.Identity{Kind: d.kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// taken is the error of a creation whose slug another resource has.
func (d declared[T, P]) taken(slug string) error {
	return fault(http.StatusConflict, d.member, fmt.Sprintf("%q is taken by another %s of the deployment: choose another or PATCH that one", slug, d.noun))
}

// missing is the error of a request for a slug that no resource has.
func (d declared[T, P]) missing() error {
	return fault(http.StatusNotFound, ":"+d.segment, "names no "+d.title+" of the deployment: list them to see which there are")
}

// found returns the error of a write: the target's own if there is no such resource.
func (of target[P]) found(err error) error {
	if errors.Is(err, errElsewhere) {
		return of.missing
	}
	if err != nil {
		return kubernetesError(err)
	}
	return nil
}

// fault is an error about one member of a body, or one parameter.
func fault(status int, pointer, message string) error {
	return &apierror.Error{Status: status, Faults: []apierror.Fault{{Pointer: pointer, Message: message}}}
}
