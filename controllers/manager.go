package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
)

// forever is longer than any process runs: caches wait for an unavailable API server without a bound.
const forever = 10 * 365 * 24 * time.Hour

// stopGrace bounds the shutdown of an operator, in which its workers finish their current reconciles.
const stopGrace = 8 * time.Second

// Operator is a manager with the operator's controllers.
type Operator struct {
	manager.Manager
	lease *renewedLock // nil without leader election
}

// NewManager composes the operator. It sends no request to the API server, so that the operator can start while the API
// server is unavailable. Without a lock there is no leader election.
func NewManager(ctx context.Context, config *rest.Config, lock *resourcelock.LeaseLock, log logr.Logger, opts Options) (*Operator, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, eventsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	var ask client.Reader
	api := engine.NewAPIServer(func(ctx context.Context) error {
		_, err := installID(ask)(ctx)
		return err
	})
	managerOptions := manager.Options{
		Scheme:         scheme,
		Logger:         log,
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return newMapper(), nil },
		Metrics:        metricsserver.Options{BindAddress: "0"}, // the server of the probes also serves the metrics
		Cache: cache.Options{
			DefaultTransform:            slim,
			ReaderFailOnMissingInformer: true,
			DefaultWatchErrorHandler:    watchErrors(api),
		},
		Client: client.Options{Cache: &client.CacheOptions{
			EnableReadYourWritesConsistency: ptr.To(true),
		}},
		Controller:              ctrlconfig.Controller{CacheSyncTimeout: forever, SkipNameValidation: ptr.To(true)},
		GracefulShutdownTimeout: ptr.To(stopGrace - time.Second),
	}
	var lease *renewedLock
	if lock != nil {
		lease = &renewedLock{LeaseLock: lock, clock: time.Now}
		lead(&managerOptions, lease)
	}
	mgr, err := manager.New(config, managerOptions)
	if err != nil {
		return nil, fmt.Errorf("compose the operator: %w", err)
	}
	ask = mgr.GetAPIReader()
	if err := setup(ctx, mgr, lock, api, opts); err != nil {
		return nil, fmt.Errorf("compose the controllers: %w", err)
	}
	return &Operator{Manager: mgr, lease: lease}, nil
}

// Run runs an operator until ctx ends, or until it is not the leader any more: then it returns ErrLeaseLost. A manager
// that is stopped while its caches still wait for the API server never returns. Run then waits only one second for the
// manager, because no reconcile can run before the caches are filled.
func Run(ctx context.Context, operator *Operator) error {
	filled := make(chan struct{})
	go func() {
		if operator.GetCache().WaitForCacheSync(ctx) {
			close(filled)
		}
	}()
	done := make(chan error, 1)
	go func() { done <- operator.Start(ctx) }()
	select {
	case err := <-done:
		return operator.ended(ctx, err)
	case <-ctx.Done():
	}
	grace := stopGrace
	select {
	case <-filled:
	default:
		grace = time.Second
	}
	select {
	case err := <-done:
		return operator.ended(ctx, err)
	case <-time.After(grace):
		return nil
	}
}

// ended returns why a manager ended: on request, by the loss of the lease, by a fault.
func (o *Operator) ended(ctx context.Context, err error) error {
	switch {
	case err == nil || o.lease == nil:
		return err
	case errors.Is(err, engine.ErrDeposed), ctx.Err() == nil && o.lease.lost():
		return fmt.Errorf("%w: %w", ErrLeaseLost, err)
	}
	return err
}

func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	v1alpha1.AddToMapper(mapper)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	return mapper
}

// installID returns a function that reads the UID of namespace kube-system, which identifies the cluster.
func installID(reader client.Reader) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		var namespace corev1.Namespace
		if err := reader.Get(ctx, client.ObjectKey{Name: "kube-system"}, &namespace); err != nil {
			return "", fmt.Errorf("identify the cluster by namespace kube-system: %w", err)
		}
		return string(namespace.UID), nil
	}
}

// watchErrors logs broken watches once per outage, and other errors as client-go does.
func watchErrors(api *engine.APIServer) toolscache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, reflector *toolscache.Reflector, err error) {
		if !api.Failed(ctx, err) {
			toolscache.DefaultWatchErrorHandler(ctx, reflector, err)
		}
	}
}

// slim drops unused fields from cached objects: a third of their size.
func slim(obj any) (any, error) {
	if object, err := meta.Accessor(obj); err == nil {
		engine.SlimOrigin(object)
	}
	return obj, nil
}
