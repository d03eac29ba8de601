package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store"
)

// Options are what an Engine needs.
type Options struct {
	// Store is the operator's side of the runtime store.
	Store interface {
		store.Documents
		store.Terms
		store.Schema
	}
	// The caller adds Term and API to its manager.
	Term *Term
	API  *APIServer
	// Clock returns the time.
	Clock func() time.Time
	// Resync is the time between two reconciles of an unchanged resource, before jitter of 10 % either way.
	Resync time.Duration
	// Workers is the number of reconciles of one kind at once.
	Workers int
	// Hook is called before each step of each reconcile with the kind and the step. An error ends the reconcile;
	// ErrCrash also skips the report, as a crash would. Nil outside tests.
	Hook func(kind, step string) error
	// Tracer makes a trace of each reconcile; nil: none.
	Tracer *tracing.Tracer
	// Limits bound the number and bytes of a deployment's documents.
	Limits Limits
}

// Engine runs the kinds added to it.
type Engine struct {
	client    client.Client // reads the cache, including its own writes
	live      client.Reader // reads from the API server, not from the cache
	documents store.Documents
	term      *Term
	api       *APIServer
	clock     func() time.Time
	resync    time.Duration
	workers   int
	hook      func(kind, step string) error
	tracer    *tracing.Tracer
	kinds     map[string]kind
	ordered   []kind
	wake      map[string]chan event.GenericEvent
	waiters   waiters
	limits    Limits
	usages    usages
	gone      []func(ctx context.Context, namespace string)
}

// New returns an Engine over a manager.
func New(mgr manager.Manager, opts Options) *Engine {
	e := &Engine{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), documents: opts.Store, term: opts.Term, api: opts.API, clock: opts.Clock,
		resync: opts.Resync, workers: opts.Workers, hook: opts.Hook, tracer: opts.Tracer, limits: opts.Limits, kinds: map[string]kind{}, wake: map[string]chan event.GenericEvent{},
	}
	if e.hook == nil {
		e.hook = func(string, string) error { return nil }
	}
	return e
}

// Add adds a kind. All kinds are added before Start.
func Add[T v1alpha1.Resource](e *Engine, k Kind[T]) {
	k.info, _ = v1alpha1.InfoOf(k.Name)
	e.kinds[k.name()] = k
	e.ordered = append(e.ordered, k)
	e.wake[k.name()] = make(chan event.GenericEvent)
}

// WhenGone adds a function that is called with the namespace of each resource that was deleted from the cache. Call it
// before Start.
func (e *Engine) WhenGone(do func(ctx context.Context, namespace string)) {
	e.gone = append(e.gone, do)
}

// Start registers indexes, controllers and the sweep of every kind with the manager. It returns an error if a kind of
// v1alpha1.Kinds was not added.
func (e *Engine) Start(ctx context.Context, mgr manager.Manager) error {
	for _, info := range v1alpha1.Kinds {
		if _, added := e.kinds[info.Kind]; !added {
			return fmt.Errorf("%s has no controller: add it to controllers/setup.go", info.Kind)
		}
	}
	for _, k := range e.ordered {
		if _, listed := v1alpha1.InfoOf(k.name()); !listed {
			return fmt.Errorf("%s is not in the table of kinds: add it to api/v1alpha1/kinds.go", k.name())
		}
		if err := e.index(ctx, mgr, k); err != nil {
			return err
		}
	}
	for _, k := range e.ordered {
		if err := e.control(mgr, k); err != nil {
			return fmt.Errorf("controller of %s: %w", k.name(), err)
		}
	}
	sweeper := newSweeper(e)
	e.term.onAcquired = func(ctx context.Context, acquired Acquired) {
		if acquired.Again {
			e.wakeAll(ctx) // the store may have lost its content
		}
		if !acquired.Rebuilt {
			sweeper.soon()
		}
	}
	e.term.onBack = e.wakeWaiters
	e.api.onBack = func(ctx context.Context) {
		sweeper.soon()
		e.wakeWaiters(ctx)
	}
	return mgr.Add(sweeper)
}

// control builds the controller of one kind.
func (e *Engine) control(mgr manager.Manager, k kind) error {
	b := builder.ControllerManagedBy(mgr).
		Named(k.name()).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: e.workers,
			UsePriorityQueue:        ptr.To(true),
			EnableWarmup:            ptr.To(true),
			ReconciliationTimeout:   30 * time.Second,
			RecoverPanic:            ptr.To(true),
			RateLimiter:             newBackoff(),
		}).
		For(k.newObject(), builder.WithPredicates(declared())).
		Watches(k.newObject(), e.competitorsOf(k)).
		WatchesRawSource(source.Channel(e.wake[k.name()], &handler.EnqueueRequestForObject{}))
	for _, other := range e.ordered {
		if slices.Contains(k.refersTo(), other.name()) || slices.Contains(other.refersTo(), k.name()) {
			b = b.Watches(other.newObject(), e.relatedTo(k, other))
		}
		if middle, through := k.through()[other.name()]; through {
			b = b.Watches(other.newObject(), e.relatedThrough(k, e.kinds[middle], other))
		}
	}
	for _, s := range k.sources() {
		b = b.WatchesRawSource(s)
	}
	return b.Complete(&reconciler{Engine: e, kind: k, backoff: newBackoff()})
}

// wakeAll asks for a reconcile of every resource.
func (e *Engine) wakeAll(ctx context.Context) {
	for _, k := range e.ordered {
		resources, err := e.list(ctx, k)
		if err != nil {
			continue // the cache is stopping, and so are we
		}
		for _, obj := range resources {
			if !e.ask(ctx, k.name(), client.ObjectKeyFromObject(obj)) {
				return
			}
		}
	}
}

// wakeWaiters asks for a reconcile of every resource that waited for the store or the API server.
func (e *Engine) wakeWaiters(ctx context.Context) {
	for kind, requests := range e.waiters.takeAll() {
		for request := range requests {
			if !e.ask(ctx, kind, request.NamespacedName) {
				return
			}
		}
	}
}

// ask asks for a reconcile of one resource, which need not exist. It returns false when ctx ended.
func (e *Engine) ask(ctx context.Context, kind string, key types.NamespacedName) bool {
	obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	select {
	case e.wake[kind] <- event.GenericEvent{Object: obj}:
		return true
	case <-ctx.Done():
		return false
	}
}
