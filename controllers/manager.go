package controllers

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// forever is a time no process waits to its end: caches wait for an API server that is away as long as it takes.
const forever = 10 * 365 * 24 * time.Hour

// stopGrace bounds the end of an operator: its workers finish the passes they are in.
const stopGrace = 8 * time.Second

// NewManager composes the operator. It asks the API server nothing, so that it can start while that is away. Without a
// lock the operator leads alone.
func NewManager(ctx context.Context, config *rest.Config, lock resourcelock.Interface, log logr.Logger, opts Options) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, eventsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	mgr, err := manager.New(config, manager.Options{
		Scheme:         scheme,
		Logger:         log,
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return newMapper(), nil },
		Metrics:        metricsserver.Options{BindAddress: "0"}, // served beside the probes
		Cache: cache.Options{
			DefaultTransform:            slim,
			ReaderFailOnMissingInformer: true,
		},
		Client: client.Options{Cache: &client.CacheOptions{
			EnableReadYourWritesConsistency: ptr.To(true),
		}},
		Controller:                          ctrlconfig.Controller{CacheSyncTimeout: forever, SkipNameValidation: ptr.To(true)},
		LeaderElection:                      lock != nil,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		GracefulShutdownTimeout:             ptr.To(stopGrace - time.Second),
	})
	if err != nil {
		return nil, fmt.Errorf("compose the operator: %w", err)
	}
	if err := setup(ctx, mgr, lock, opts); err != nil {
		return nil, fmt.Errorf("compose the controllers: %w", err)
	}
	return mgr, nil
}

// Run runs a manager until ctx ends. A manager that is stopped while its caches still wait for the API server never
// returns: then it is left behind at once, for no pass can be under way before the caches are filled.
func Run(ctx context.Context, mgr manager.Manager) error {
	filled := make(chan struct{})
	go func() {
		if mgr.GetCache().WaitForCacheSync(ctx) {
			close(filled)
		}
	}()
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	select {
	case err := <-done:
		return err
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
		return err
	case <-time.After(grace):
		return nil
	}
}

func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	v1alpha1.AddToMapper(mapper)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	return mapper
}

// installID is the UID of namespace kube-system: as old and as unique as the cluster.
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

// stillLeader asks the API server who holds the Lease.
func stillLeader(lock resourcelock.Interface) func(context.Context) (bool, error) {
	if lock == nil {
		return func(context.Context) (bool, error) { return true, nil }
	}
	return func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		record, _, err := lock.Get(ctx)
		if err != nil {
			return false, fmt.Errorf("ask who holds the lease: %w", err)
		}
		return record.HolderIdentity == lock.Identity(), nil
	}
}

// slim drops what nobody reads from cached objects: a third of their size.
func slim(obj any) (any, error) {
	if object, err := meta.Accessor(obj); err == nil {
		object.SetManagedFields(nil)
		if annotations := object.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
			delete(annotations, corev1.LastAppliedConfigAnnotation)
			object.SetAnnotations(annotations)
		}
	}
	return obj, nil
}
