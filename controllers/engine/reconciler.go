package engine

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/store"
)

// step is one named part of a reconcile. Its name is given to the test hook before it runs.
type step struct {
	name string
	run  func(*reconciler, context.Context, *state) error
}

// liveSteps activate a declared resource; deletionSteps end it. Each reconcile ends with "report".
var (
	liveSteps = []step{
		{"resolve", (*reconciler).resolve},
		{"check", (*reconciler).check},
		{"observe", (*reconciler).observe},
		{"reserve", (*reconciler).reserve},
		{"add finalizer", (*reconciler).addFinalizer},
		{"prepare", (*reconciler).prepare},
		{"translate", (*reconciler).translate},
		{"put", (*reconciler).put},
		{"after commit", (*reconciler).afterCommit},
		{"disown", (*reconciler).disown},
	}
	deletionSteps = []step{
		{"unused", (*reconciler).unused},
		{"withdraw", (*reconciler).withdraw},
		{"clean up", (*reconciler).cleanUp},
		{"remove finalizer", (*reconciler).removeFinalizer},
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

// reconciler reconciles the resources of one kind.
type reconciler struct {
	*Engine
	kind    kind
	backoff workqueue.TypedRateLimiter[reconcile.Request]
	// keptOwners are the resources whose owner disown could not remove.
	keptOwners keptOwners
}

// state is the observations and decisions of one reconcile.
type state struct {
	obj  v1alpha1.Resource
	base v1alpha1.Resource // as read, to patch against
	// id is the number the resource is served under.
	id   int64
	refs ResolvedRefs
	// unresolved is why the references do not resolve, nil if they do.
	unresolved error
	// leftOut is the first reference that was left out of the content, nil if none was.
	leftOut      *WaitingError
	stored       store.Stored
	reservations []string
	displace     []store.Owner
	prepared     Prepared
	document     store.Document
	updatedAt    time.Time
	// retry asks for another reconcile before the resync; 0: none.
	retry time.Duration
	// released reports that the finalizer was removed: the resource may no longer exist, so no status is written.
	released bool
	// plain is the reconcile's logger without the ids of a span.
	plain logr.Logger
}

func (s *state) identity(kind string) store.Identity {
	return store.Identity{Kind: kind, Namespace: s.obj.GetNamespace(), Name: s.obj.GetName()}
}

// Reconcile activates one resource, or ends it.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if r.tracer.On() {
		return r.reconcileTraced(ctx, req)
	}
	return r.reconcile(ctx, req, logr.Logger{})
}

// reconcile is Reconcile without its span; plain is the logger for the spans of its steps.
func (r *reconciler) reconcile(ctx context.Context, req reconcile.Request, plain logr.Logger) (reconcile.Result, error) {
	obj := r.kind.newObject()
	if err := r.client.Get(ctx, req.NamespacedName, obj); err != nil {
		if apierrors.IsNotFound(err) {
			r.keptOwners.remove(req.NamespacedName)
			for _, gone := range r.gone {
				gone(ctx, req.Namespace)
			}
			err = r.sweep(ctx, store.Identity{Kind: r.kind.name(), Namespace: req.Namespace, Name: req.Name})
		}
		return r.result(ctx, req, err, 0)
	}
	deleting := !obj.GetDeletionTimestamp().IsZero()
	if deleting && !controllerutil.ContainsFinalizer(obj, v1alpha1.Finalizer) {
		return reconcile.Result{}, nil
	}
	s := &state{obj: obj, base: obj.DeepCopyObject().(v1alpha1.Resource), plain: plain}
	if !deleting && ptr.Deref(obj.CommonSpec().Suspend, false) {
		return r.result(ctx, req, r.reportSuspended(ctx, s), 0)
	}
	steps := liveSteps
	if deleting {
		steps = deletionSteps
	}
	err := r.runSteps(ctx, s, steps)
	switch {
	case errors.Is(err, ErrCrash):
		return reconcile.Result{}, err
	case s.released, errors.Is(err, errVanished):
		return r.result(ctx, req, err, 0)
	}
	if err := r.hook(r.kind.name(), "report"); err != nil {
		return reconcile.Result{}, err
	}
	err = r.traced(ctx, s, "report", func(ctx context.Context) error { return r.report(ctx, s, err) })
	return r.result(ctx, req, err, s.retryAfter(err, r.clock()))
}

// runSteps runs steps until one fails.
func (r *reconciler) runSteps(ctx context.Context, s *state, steps []step) error {
	for _, step := range steps {
		if err := r.hook(r.kind.name(), step.name); err != nil {
			return err
		}
		if err := r.traced(ctx, s, step.name, func(ctx context.Context) error { return step.run(r, ctx, s) }); err != nil {
			return err
		}
	}
	return nil
}

// check validates what the API server could not.
func (r *reconciler) check(ctx context.Context, s *state) error {
	if err := r.kind.check(s.obj, s.refs); err != nil {
		return err
	}
	return r.kind.permit(ctx, s.obj)
}

// observe reads the store's document of the resource.
func (r *reconciler) observe(ctx context.Context, s *state) error {
	stored, err := r.documents.Stored(ctx, s.identity(r.kind.name()))
	if err != nil {
		return &storeError{err}
	}
	s.stored = stored
	return nil
}

// addFinalizer runs after the reservations were decided, so that a resource without effects has no finalizer.
func (r *reconciler) addFinalizer(ctx context.Context, s *state) error {
	if !controllerutil.AddFinalizer(s.obj, v1alpha1.Finalizer) {
		return nil
	}
	return r.patchMetadata(ctx, s)
}

// patchMetadata writes changed lists of finalizers and owners. The patch requires the resource version that was read,
// because other writers share these lists. It returns errVanished if the resource is deleted: the cache was stale, and
// nothing of the resource is activated.
func (r *reconciler) patchMetadata(ctx context.Context, s *state) error {
	patch := client.MergeFromWithOptions(s.base, client.MergeFromWithOptimisticLock{})
	err := r.client.Patch(ctx, s.obj, patch, client.FieldOwner(v1alpha1.FieldManagerOperator))
	if apierrors.IsNotFound(err) {
		return errVanished
	}
	if err != nil {
		return err
	}
	s.base = s.obj.DeepCopyObject().(v1alpha1.Resource)
	return nil
}

// prepare lets the kind make what its content needs outside the store.
func (r *reconciler) prepare(ctx context.Context, s *state) error {
	prepared, err := r.kind.prepare(ctx, s.obj, s.id, s.refs, storedPayload(s.stored))
	s.prepared = prepared
	if err != nil {
		return err
	}
	s.retry = prepared.RequeueAfter
	s.reservations = append(s.reservations, prepared.Reserves...)
	return nil
}

func storedPayload(stored store.Stored) []byte {
	if !stored.Found {
		return nil
	}
	return stored.Document.Payload
}

// afterCommit lets the kind finish what may only happen once the store holds the content.
func (r *reconciler) afterCommit(ctx context.Context, s *state) error {
	if s.prepared.Committed == nil {
		return nil
	}
	return s.prepared.Committed(ctx)
}
