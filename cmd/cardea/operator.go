package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cardea-iam/cardea/controllers"
	"github.com/cardea-iam/cardea/store"
)

// beat is the time between two signs of life in the store.
const beat = 5 * time.Second

// forever is a time no process waits to its end: caches wait for an API server that is away as long as it takes.
const forever = 10 * 365 * 24 * time.Hour

func operatorCommand() *cobra.Command {
	var common commonOptions
	var opts operatorOptions
	var lease leaseOptions
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Keep the runtime store equal to what is declared (leader-elected)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runOperator(cmd.Context(), common, opts, lease)
		},
	}
	common.register(cmd.Flags())
	opts.register(cmd.Flags())
	cmd.Flags().StringVar(&lease.namespace, "lease-namespace", "", "namespace of the leader's Lease; absent: the pod's own")
	cmd.Flags().StringVar(&lease.name, "lease-name", "cardea-operator", "name of the leader's Lease")
	return cmd
}

type leaseOptions struct{ namespace, name string }

func runOperator(ctx context.Context, common commonOptions, opts operatorOptions, lease leaseOptions) error {
	log, err := newLogger(common.logLevel)
	if err != nil {
		return err
	}
	if err := opts.validate(); err != nil {
		return err
	}
	if lease.namespace == "" {
		if lease.namespace = podNamespace(); lease.namespace == "" {
			return errors.New("--lease-namespace is missing, and this process runs in no pod: name the namespace of the leader's Lease")
		}
	}
	config, err := restConfig(common.kubeconfig)
	if err != nil {
		return err
	}
	st, err := openStore(ctx, common.store, false, log)
	if err != nil {
		return err
	}
	defer st.Close()
	lock, err := newLock(config, lease)
	if err != nil {
		return err
	}
	mgr, err := newManager(ctx, config, log, st, opts, lock)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveProbes(ctx, common.metricsAddress, readiness(ctx, mgr)) })
	group.Go(func() error { return mgr.Start(ctx) })
	return group.Wait()
}

// newLock returns the leader's Lease with an identity we know, to be able to ask who holds it.
func newLock(config *rest.Config, lease leaseOptions) (resourcelock.Interface, error) {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return resourcelock.New(resourcelock.LeasesResourceLock, lease.namespace, lease.name, clientset.CoreV1(), clientset.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: host + "_" + hex.EncodeToString(random[:])})
}

// newManager composes the operator. Without a lock it leads alone.
func newManager(ctx context.Context, config *rest.Config, log logr.Logger, st store.Store, opts operatorOptions, lock resourcelock.Interface) (manager.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	mgr, err := manager.New(config, manager.Options{
		Scheme:         scheme,
		Logger:         log,
		MapperProvider: static,
		Metrics:        metricsserver.Options{BindAddress: "0"}, // served beside the probes
		Cache: cache.Options{
			DefaultTransform:            slim,
			ReaderFailOnMissingInformer: true,
		},
		Client: client.Options{Cache: &client.CacheOptions{
			DisableFor:                      []client.Object{&corev1.Secret{}},
			EnableReadYourWritesConsistency: ptr.To(true),
		}},
		Controller:                          ctrlconfig.Controller{CacheSyncTimeout: forever},
		LeaderElection:                      lock != nil,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		GracefulShutdownTimeout:             ptr.To(15 * time.Second),
	})
	if err != nil {
		return nil, fmt.Errorf("compose the operator: %w", err)
	}
	err = controllers.Setup(ctx, mgr, controllers.Options{
		Store: st, Install: installID(mgr.GetAPIReader()), StillLeader: stillLeader(lock),
		Clock: time.Now, Random: rand.Reader, Resync: opts.resync, Beat: beat, Workers: opts.workers,
	})
	if err != nil {
		return nil, fmt.Errorf("compose the controllers: %w", err)
	}
	return mgr, nil
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

// readiness is true once the caches are filled, which also proves that the CRDs are served.
func readiness(ctx context.Context, mgr manager.Manager) func() error {
	synced := make(chan struct{})
	go func() {
		if mgr.GetCache().WaitForCacheSync(ctx) {
			close(synced)
		}
	}()
	return func() error {
		select {
		case <-synced:
			return nil
		default:
			return errors.New("the caches are not filled yet: the Kubernetes API is away or the CRDs are not installed")
		}
	}
}
