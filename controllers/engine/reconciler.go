package engine

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
)

// step is one named part of a pass. Its name is given to the test hook before it runs.
type step struct {
	name string
	run  func(*reconciler, context.Context, *pass) error
}

// liveSteps bring a declared resource into force; deletionSteps end it. Each pass ends with "report".
var (
	liveSteps = []step{
		{"resolve", (*reconciler).resolve},
		{"check", (*reconciler).check},
		{"recall", (*reconciler).recall},
		{"claim", (*reconciler).claim},
		{"hold", (*reconciler).hold},
		{"prepare", (*reconciler).prepare},
		{"translate", (*reconciler).translate},
		{"put", (*reconciler).put},
		{"settle", (*reconciler).settle},
	}
	deletionSteps = []step{
		{"unused", (*reconciler).unused},
		{"withdraw", (*reconciler).withdraw},
		{"clean up", (*reconciler).cleanUp},
		{"let go", (*reconciler).letGo},
	}
)

// Steps returns the name of every step, for tests that interrupt each.
func Steps() []string {
	var names []string
	for _, s := range append(append([]step{}, liveSteps...), deletionSteps...) {
		names = append(names, s.name)
	}
	return append(names, "report")
}

// reconciler runs passes over the resources of one kind.
type reconciler struct {
	*Engine
	kind *kind
}

// pass is one look at one resource: what was found, what was decided.
type pass struct {
	obj  v1alpha1.Resource
	base v1alpha1.Resource // as read, to patch against
	// id is the number the resource is served under.
	id        int64
	referents Referents
	// unresolved is why the references do not resolve, nil if they do.
	unresolved error
	// leftOut is the first reference that was left out of the content, nil if none was.
	leftOut   *WaitingError
	held      store.Held
	claims    []string
	displace  []store.Owner
	material  Material
	document  store.Document
	updatedAt time.Time
	// retry asks for another pass before the resync; 0: none.
	retry time.Duration
	// gone tells that the resource may have vanished: there is nothing left to report on.
	gone bool
}

func (p *pass) identity(kind string) store.Identity {
	return store.Identity{Kind: kind, Namespace: p.obj.GetNamespace(), Name: p.obj.GetName()}
}

// Reconcile runs one pass over one resource.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	obj := r.kind.newObject()
	if err := r.client.Get(ctx, req.NamespacedName, obj); err != nil {
		if apierrors.IsNotFound(err) {
			return r.result(r.sweep(ctx, store.Identity{Kind: r.kind.name, Namespace: req.Namespace, Name: req.Name}), 0)
		}
		return reconcile.Result{}, err
	}
	deleting := !obj.GetDeletionTimestamp().IsZero()
	if deleting && !controllerutil.ContainsFinalizer(obj, v1alpha1.Finalizer) {
		return reconcile.Result{}, nil
	}
	if !deleting && ptr.Deref(obj.CommonSpec().Suspend, false) {
		return reconcile.Result{}, nil
	}

	p := &pass{obj: obj, base: obj.DeepCopyObject().(v1alpha1.Resource)}
	var err error
	if deleting {
		err = r.runSteps(ctx, p, deletionSteps)
	} else {
		err = r.runSteps(ctx, p, liveSteps)
	}
	if p.gone || errors.Is(err, ErrCrash) {
		return reconcile.Result{}, err
	}
	if err := r.hook(r.kind.name, "report"); err != nil {
		return reconcile.Result{}, err
	}
	return r.result(r.report(ctx, p, err), p.retry)
}

// runSteps runs steps until one fails.
func (r *reconciler) runSteps(ctx context.Context, p *pass, steps []step) error {
	for _, s := range steps {
		if err := r.hook(r.kind.name, s.name); err != nil {
			return err
		}
		if err := s.run(r, ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// result turns the end of a pass into the queue's words: resync with jitter, at low priority, so that fresh changes
// pass before it.
func (r *reconciler) result(err error, retry time.Duration) (reconcile.Result, error) {
	var waiting *WaitingError
	var terminal *TerminalError
	switch {
	case err == nil:
	case errors.As(err, &terminal):
	case errors.As(err, &waiting):
		if waiting.RetryAfter > 0 {
			retry = waiting.RetryAfter
		}
	case errors.Is(err, errAgain), apierrors.IsConflict(err), errors.Is(err, store.ErrStale):
		return reconcile.Result{RequeueAfter: time.Millisecond}, nil
	default:
		return reconcile.Result{}, err
	}
	resync := r.resync + time.Duration((rand.Float64()-0.5)*0.2*float64(r.resync))
	if retry > 0 && retry < resync {
		return reconcile.Result{RequeueAfter: retry}, nil
	}
	return reconcile.Result{RequeueAfter: resync, Priority: ptr.To(handler.LowPriority)}, nil
}

// idOf returns the number a resource is served under.
func idOf(kind string, obj v1alpha1.Resource) (int64, error) {
	if declared := obj.CommonSpec().ID; declared != nil {
		return ids.Parse(*declared)
	}
	return ids.Derive(kind, obj.GetNamespace(), obj.GetName()), nil
}

// resolve finds every referent in the cache. A missing one is a wait, not an error: its creation wakes this resource.
func (r *reconciler) resolve(ctx context.Context, p *pass) error {
	p.referents = Referents{}
	id, err := idOf(r.kind.name, p.obj)
	if err != nil {
		return Terminal(v1alpha1.ReasonInvalid, "spec.id: %v", err)
	}
	p.id = id

	for _, ref := range r.kind.references(p.obj) {
		if err := r.resolveOne(ctx, p, ref); err != nil {
			var waiting *WaitingError
			if !errors.As(err, &waiting) {
				return err
			}
			if ref.LeftOut && waiting.Reason == v1alpha1.ReasonNotFound {
				p.leftOut = cmp.Or(p.leftOut, waiting)
			} else if p.unresolved == nil {
				p.unresolved = err
			}
		}
	}
	return nil
}

func (r *reconciler) resolveOne(ctx context.Context, p *pass, ref Reference) error {
	referent := r.kinds[ref.Kind].newObject()
	err := r.client.Get(ctx, client.ObjectKey{Namespace: p.obj.GetNamespace(), Name: ref.Name}, referent)
	if apierrors.IsNotFound(err) {
		return Waiting(v1alpha1.ConditionReferencesResolved, v1alpha1.ReasonNotFound,
			"%s: there is no %s %q in namespace %q: create it or correct the name", ref.Field, ref.Kind, ref.Name, p.obj.GetNamespace())
	}
	if err != nil {
		return err
	}
	p.referents[ref.Field] = referent
	if !referent.GetDeletionTimestamp().IsZero() {
		return r.referentLeaves(p, ref)
	}
	return nil
}

// referentLeaves judges a reference to something that is being deleted: one that is already in force stays in force,
// a new one is refused.
func (r *reconciler) referentLeaves(p *pass, ref Reference) error {
	if p.obj.CommonStatus().ObservedGeneration == p.obj.GetGeneration() && p.obj.CommonStatus().ContentHash != "" {
		return nil
	}
	return Waiting(v1alpha1.ConditionReferencesResolved, v1alpha1.ReasonBeingDeleted,
		"%s: %s %q is being deleted: refer to another one or create it again", ref.Field, ref.Kind, ref.Name)
}

// check judges what the API server could not.
func (r *reconciler) check(_ context.Context, p *pass) error {
	return r.kind.check(p.obj, p.referents)
}

// recall reads what the store holds.
func (r *reconciler) recall(ctx context.Context, p *pass) error {
	held, err := r.documents.Held(ctx, p.identity(r.kind.name))
	if err != nil {
		return &storeError{err}
	}
	p.held = held
	return nil
}

// hold adds the finalizer. Claims were judged before, so that a resource that owns nothing holds nothing.
func (r *reconciler) hold(ctx context.Context, p *pass) error {
	if !controllerutil.AddFinalizer(p.obj, v1alpha1.Finalizer) {
		return nil
	}
	return r.patchMetadata(ctx, p)
}

// patchMetadata writes a changed list of finalizers. It is locked on the resource version: the list is owned by many.
func (r *reconciler) patchMetadata(ctx context.Context, p *pass) error {
	patch := client.MergeFromWithOptions(p.base, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, p.obj, patch, client.FieldOwner(v1alpha1.FieldManagerOperator)); err != nil {
		return client.IgnoreNotFound(err)
	}
	p.base = p.obj.DeepCopyObject().(v1alpha1.Resource)
	return nil
}

// prepare lets the kind make what its content needs outside the store.
func (r *reconciler) prepare(ctx context.Context, p *pass) error {
	material, err := r.kind.prepare(ctx, p.obj, p.referents, heldPayload(p.held))
	p.material = material
	if err != nil {
		return err
	}
	p.retry = material.RequeueAfter
	p.claims = append(p.claims, material.Claims...)
	return nil
}

func heldPayload(held store.Held) []byte {
	if !held.Found {
		return nil
	}
	return held.Document.Payload
}

// settle lets the kind finish what may only happen once the store holds the content.
func (r *reconciler) settle(ctx context.Context, p *pass) error {
	if p.material.Committed == nil {
		return nil
	}
	return p.material.Committed(ctx)
}
