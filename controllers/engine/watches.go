package engine

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"k8s.io/client-go/util/workqueue"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// indexReferences finds the resources that refer to another, by referenceKey.
const indexReferences = "references"

func referenceKey(kind, name string) string { return kind + "/" + name }

// index registers the indexes of a kind: the referrers of a resource, and the resources that need a reservation, are
// found by one look-up each.
func (e *Engine) index(ctx context.Context, mgr manager.Manager, k kind) error {
	indexes := map[string]func(v1alpha1.Resource) []string{
		indexReferences: func(obj v1alpha1.Resource) []string {
			var keys []string
			for _, ref := range k.references(obj) {
				keys = append(keys, referenceKey(ref.Kind, ref.Name))
			}
			return keys
		},
		indexReservations: func(obj v1alpha1.Resource) []string {
			keys := append(reservationsOf(k, obj), obj.CommonStatus().Claims...)
			slices.Sort(keys)
			return slices.Compact(keys)
		},
	}
	for name, keys := range k.indexes() {
		indexes[name] = keys
	}
	for name, keys := range indexes {
		extract := func(obj client.Object) []string { return keys(obj.(v1alpha1.Resource)) }
		if err := mgr.GetFieldIndexer().IndexField(ctx, k.newObject(), name, extract); err != nil {
			return err
		}
	}
	return nil
}

// declared passes the events of a resource that can change the result of its reconcile. It drops the operator's own
// writes of status and finalizer.
func declared() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(ev event.UpdateEvent) bool {
			before, after := ev.ObjectOld, ev.ObjectNew
			return before.GetResourceVersion() == after.GetResourceVersion() || // the informer's own resync
				before.GetUID() != after.GetUID() ||
				before.GetGeneration() != after.GetGeneration() ||
				before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero() ||
				len(after.GetFinalizers()) < len(before.GetFinalizers()) ||
				!equality.Semantic.DeepEqual(before.GetAnnotations(), after.GetAnnotations()) ||
				!equality.Semantic.DeepEqual(before.GetLabels(), after.GetLabels()) ||
				createdByHTTP(before) != createdByHTTP(after)
		},
	}
}

// competitorsOf handles the events of resources of kind k. It wakes other resources, of every kind, that need a
// reservation which the event may have freed or assigned to another resource.
func (e *Engine) competitorsOf(k kind) handler.EventHandler {
	wake := func(ctx context.Context, q queue, self client.Object, keys []string) {
		for _, key := range keys {
			e.eachCompetitor(ctx, key, func(other kind, obj v1alpha1.Resource) bool {
				switch {
				case obj.GetUID() == self.GetUID():
				case other.name() == k.name():
					q.Add(requestFor(obj))
				default:
					return e.ask(ctx, other.name(), client.ObjectKeyFromObject(obj))
				}
				return true
			})
		}
	}
	needed := func(obj client.Object) []string {
		r := obj.(v1alpha1.Resource)
		return append(reservationsOf(k, r), r.CommonStatus().Claims...)
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, ev event.CreateEvent, q queue) {
			if !ev.IsInInitialList {
				wake(ctx, q, ev.Object, needed(ev.Object))
			}
		},
		UpdateFunc: func(ctx context.Context, ev event.UpdateEvent, q queue) {
			before, after := ev.ObjectOld.(v1alpha1.Resource), ev.ObjectNew.(v1alpha1.Resource)
			if before.GetGeneration() != after.GetGeneration() || refused(before) != refused(after) ||
				createdByHTTP(before) != createdByHTTP(after) ||
				!slices.Equal(before.CommonStatus().Claims, after.CommonStatus().Claims) {
				wake(ctx, q, after, append(needed(before), needed(after)...))
			}
		},
		DeleteFunc: func(ctx context.Context, ev event.DeleteEvent, q queue) { wake(ctx, q, ev.Object, needed(ev.Object)) },
	}
}

// wakeCompetitors asks for a reconcile of the resources, of every kind, that need one of the reservations.
func (e *Engine) wakeCompetitors(ctx context.Context, keys []string) {
	for _, key := range keys {
		e.eachCompetitor(ctx, key, func(k kind, obj v1alpha1.Resource) bool {
			return e.ask(ctx, k.name(), client.ObjectKeyFromObject(obj))
		})
	}
}

// eachCompetitor calls f for every cached resource, of every kind, that needs a reservation or lists it in its status,
// until f returns false or the cache stops.
func (e *Engine) eachCompetitor(ctx context.Context, key string, f func(kind, v1alpha1.Resource) bool) {
	for _, k := range e.ordered {
		found, err := e.list(ctx, k, client.MatchingFields{indexReservations: key})
		if err != nil {
			return
		}
		for _, obj := range found {
			if !f(k, obj) {
				return
			}
		}
	}
}

// relatedTo wakes resources of kind k when a resource of kind other changed that they refer to, or that refers to them.
func (e *Engine) relatedTo(k, other kind) handler.EventHandler {
	referrers := func(ctx context.Context, q queue, referent client.Object, contentOnly bool) {
		for _, obj := range e.referrersIn(ctx, k, other.name(), referent) {
			if !contentOnly || slices.ContainsFunc(k.references(obj), func(ref Reference) bool {
				return ref.Content && ref.Kind == other.name() && ref.Name == referent.GetName()
			}) {
				q.Add(requestFor(obj))
			}
		}
	}
	// A referenced resource whose deletion waits is enqueued when a referrer drops the reference.
	referents := func(ctx context.Context, q queue, referrer client.Object) {
		for _, ref := range other.references(referrer.(v1alpha1.Resource)) {
			if ref.Kind != k.name() || !ref.Protects {
				continue
			}
			key := types.NamespacedName{Namespace: referrer.GetNamespace(), Name: ref.Name}
			referent := k.newObject()
			if err := e.client.Get(ctx, key, referent, disableReadYourWrites{}); err != nil || referent.GetDeletionTimestamp().IsZero() {
				continue
			}
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
	return eachChange(referrers, referents)
}

// relatedThrough wakes resources of kind k when a resource of kind other changed, if they refer to a resource of kind
// middle that refers to the changed resource.
func (e *Engine) relatedThrough(k, middle, other kind) handler.EventHandler {
	referrers := func(ctx context.Context, q queue, referent client.Object, _ bool) {
		for _, between := range e.referrersIn(ctx, middle, other.name(), referent) {
			for _, obj := range e.referrersIn(ctx, k, middle.name(), between) {
				q.Add(requestFor(obj))
			}
		}
	}
	return eachChange(referrers, func(context.Context, queue, client.Object) {})
}

// referrersIn returns the cached resources of a kind that refer to a referent.
func (e *Engine) referrersIn(ctx context.Context, k kind, referentKind string, referent client.Object) []v1alpha1.Resource {
	key := client.MatchingFields{indexReferences: referenceKey(referentKind, referent.GetName())}
	found, err := e.list(ctx, k, client.InNamespace(referent.GetNamespace()), key)
	if err != nil {
		return nil // the cache is stopping
	}
	return found
}

// eachChange calls referrers and referents for the events of a resource. referrers wakes the resources that refer to
// it: all of them or, with contentOnly, those whose content depends on it. referents wakes the resources to which it
// refers, or referred before an update.
func eachChange(referrers func(ctx context.Context, q queue, obj client.Object, contentOnly bool), referents func(context.Context, queue, client.Object)) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, ev event.CreateEvent, q queue) {
			if !ev.IsInInitialList {
				referrers(ctx, q, ev.Object, false)
			}
		},
		UpdateFunc: func(ctx context.Context, ev event.UpdateEvent, q queue) {
			switch before, after := ev.ObjectOld, ev.ObjectNew; {
			case before.GetDeletionTimestamp().IsZero() && !after.GetDeletionTimestamp().IsZero():
				referrers(ctx, q, after, false)
				referents(ctx, q, after)
			case before.GetGeneration() != after.GetGeneration():
				referrers(ctx, q, after, true)
				referents(ctx, q, before)
			}
		},
		DeleteFunc: func(ctx context.Context, ev event.DeleteEvent, q queue) {
			referrers(ctx, q, ev.Object, false)
			referents(ctx, q, ev.Object)
		},
	}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func requestFor(obj client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)}
}
