package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/cardea-iam/cardea/controllers"
)

// beat is the time between two heartbeats in the store.
const beat = 5 * time.Second

func operatorCommand() *cobra.Command {
	var common commonOptions
	var opts operatorOptions
	var rootKey rootKeyOptions
	var lease leaseOptions
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Keep the runtime store equal to the declared resources (leader-elected)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runOperator(cmd.Context(), common, opts, rootKey, lease)
		},
	}
	common.register(cmd.Flags())
	opts.register(cmd.Flags())
	rootKey.register(cmd.Flags())
	cmd.Flags().StringVar(&lease.namespace, "lease-namespace", "", "namespace of the leader's Lease; absent: the pod's own")
	cmd.Flags().StringVar(&lease.name, "lease-name", "cardea-operator", "name of the leader's Lease")
	return cmd
}

type leaseOptions struct{ namespace, name string }

func runOperator(ctx context.Context, common commonOptions, opts operatorOptions, rootKey rootKeyOptions, lease leaseOptions) error {
	if err := opts.validate(); err != nil {
		return err
	}
	if lease.namespace == "" {
		if lease.namespace = podNamespace(); lease.namespace == "" {
			return errors.New("--lease-namespace is missing, and this process does not run in a pod: set the namespace of the leader's Lease")
		}
	}
	p, end, err := startProcess(ctx, "operator", common, rootKey, false)
	if err != nil {
		return err
	}
	defer end()
	lock, err := newLock(p.config, lease)
	if err != nil {
		return err
	}
	mgr, err := controllers.NewManager(ctx, p.config, lock, p.log, controllerOptions(p, opts))
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveProbes(ctx, common.metricsAddress, readiness(ctx, mgr)) })
	group.Go(func() error { return servePprof(ctx, common.pprofAddress) })
	group.Go(func() error { return controllers.Run(ctx, mgr) })
	err = group.Wait()
	if errors.Is(err, controllers.ErrLeaseLost) {
		p.log.Info("The leader's lease was lost: this process exits, to start again as the standby", "cause", err.Error())
		return nil
	}
	return err
}

// newLock returns the leader's Lease with a known identity, so that the holder can be compared with it.
func newLock(config *rest.Config, lease leaseOptions) (*resourcelock.LeaseLock, error) {
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
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: lease.namespace, Name: lease.name},
		Client:     clientset.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + hex.EncodeToString(random[:])},
	}, nil
}

// controllerOptions returns the options of the controllers.
func controllerOptions(p *process, opts operatorOptions) controllers.Options {
	local, _ := opts.localFrontend() // validated
	return controllers.Options{
		Store: p.store, Keyring: p.keyring, Clock: time.Now, Random: rand.Reader, Resync: opts.resync, Heartbeat: beat, Workers: opts.workers,
		RequireHostGrants: opts.requireHostGrants, LocalFrontend: local, Tracer: p.tracer, Limits: opts.limits, Registry: metrics.Registry,
	}
}

// readiness is true once the caches are synced, which also proves that the CRDs are served.
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
			return errors.New("the caches are not synced yet: the Kubernetes API is unavailable or the CRDs are not installed")
		}
	}
}
