package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/store"
)

// Options are what an Engine needs.
type Options struct {
	// Store is the operator's side of the runtime store.
	Store interface {
		store.Documents
		store.Tenures
		store.Schema
	}
	// Tenure is kept by the caller's manager.
	Tenure *Tenure
	// Clock tells the time.
	Clock func() time.Time
	// Resync is the time between two passes over an unchanged resource, before jitter of 10 % either way.
	Resync time.Duration
	// Workers is the number of passes of one kind at once.
	Workers int
	// Hook is called before each step of each pass with the kind and the step; an error ends the pass as a crash would.
	// Nil outside tests.
	Hook func(kind, step string) error
}

// Engine runs the kinds added to it.
type Engine struct {
	client    client.Client // reads the cache, and its own writes in it
	live      client.Reader // asks the API server itself
	documents store.Documents
	tenure    *Tenure
	clock     func() time.Time
	resync    time.Duration
	workers   int
	hook      func(kind, step string) error
	kinds     map[string]*kind
	ordered   []*kind
	wake      map[string]chan event.GenericEvent
}

// New returns an Engine over a manager.
func New(mgr manager.Manager, opts Options) *Engine {
	e := &Engine{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), documents: opts.Store, tenure: opts.Tenure, clock: opts.Clock,
		resync: opts.Resync, workers: opts.Workers, hook: opts.Hook, kinds: map[string]*kind{}, wake: map[string]chan event.GenericEvent{},
	}
	if e.hook == nil {
		e.hook = func(string, string) error { return nil }
	}
	return e
}

// Add adds a kind. All kinds are added before Start.
func Add[T v1alpha1.Resource](e *Engine, k Kind[T]) {
	erased := erase(k)
	e.kinds[k.Name] = erased
	e.ordered = append(e.ordered, erased)
	e.wake[k.Name] = make(chan event.GenericEvent)
}

// Start registers indexes, controllers and the sweep of every added kind with the manager.
func (e *Engine) Start(ctx context.Context, mgr manager.Manager) error {
	for _, k := range e.ordered {
		for _, other := range k.refersTo {
			if _, known := e.kinds[other]; !known {
				return fmt.Errorf("%s refers to %s, which was not added", k.name, other)
			}
		}
		if err := e.index(ctx, mgr, k); err != nil {
			return err
		}
	}
	for _, k := range e.ordered {
		if err := e.control(mgr, k); err != nil {
			return fmt.Errorf("controller of %s: %w", k.name, err)
		}
	}
	e.tenure.onReplaced = e.wakeAll
	return mgr.Add(&sweeper{engine: e})
}

// control builds the controller of one kind.
func (e *Engine) control(mgr manager.Manager, k *kind) error {
	b := builder.ControllerManagedBy(mgr).
		Named(k.name).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: e.workers,
			UsePriorityQueue:        ptr.To(true),
			EnableWarmup:            ptr.To(true),
			ReconciliationTimeout:   30 * time.Second,
			RecoverPanic:            ptr.To(true),
		}).
		For(k.newObject(), builder.WithPredicates(declared())).
		Watches(k.newObject(), e.rivalsOf(k)).
		WatchesRawSource(source.Channel(e.wake[k.name], &handler.EnqueueRequestForObject{}))
	for _, other := range e.ordered {
		if slices.Contains(k.refersTo, other.name) || slices.Contains(other.refersTo, k.name) {
			b = b.Watches(other.newObject(), e.neighboursOf(k, other))
		}
	}
	for _, s := range k.sources {
		b = b.WatchesRawSource(s)
	}
	return b.Complete(&reconciler{Engine: e, kind: k})
}

// wakeAll asks for a pass over every resource: the store lost what it held.
func (e *Engine) wakeAll(ctx context.Context) {
	for _, k := range e.ordered {
		resources, err := e.list(ctx, k)
		if err != nil {
			continue // the cache is stopping, and so are we
		}
		for _, obj := range resources {
			select {
			case e.wake[k.name] <- event.GenericEvent{Object: obj}:
			case <-ctx.Done():
				return
			}
		}
	}
}
