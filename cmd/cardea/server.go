package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/cardea-iam/cardea/apiserver"
	"github.com/cardea-iam/cardea/apiserver/decision"
)

func serverCommand() *cobra.Command {
	var common commonOptions
	var opts serverOptions
	var rootKey rootKeyOptions
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Serve the backend API, the end-user API and the decision API (stateless; run any number)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runServer(cmd.Context(), common, opts, rootKey)
		},
	}
	common.register(cmd.Flags())
	opts.register(cmd.Flags())
	rootKey.register(cmd.Flags())
	return cmd
}

func runServer(ctx context.Context, common commonOptions, opts serverOptions, rootKey rootKeyOptions) error {
	giveHeapRoom()
	p, end, err := startProcess(ctx, "server", common, rootKey, false)
	if err != nil {
		return err
	}
	defer end()
	server, err := newServer(p, opts)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveProbes(ctx, common.metricsAddress, loaded(server)) })
	group.Go(func() error { return servePprof(ctx, common.pprofAddress) })
	group.Go(func() error { return server.Run(ctx) })
	return group.Wait()
}

func newServer(p *process, opts serverOptions) (*apiserver.Server, error) {
	read, err := opts.validate()
	if err != nil {
		return nil, err
	}
	journal, err := opts.journal()
	if err != nil {
		return nil, err
	}
	kubernetes, err := apiserver.NewKubernetes(p.config)
	if err != nil {
		return nil, err
	}
	clusterKeys, err := apiserver.ClusterKeys(p.config)
	if err != nil {
		return nil, err
	}
	return apiserver.New(apiserver.Options{
		Version: version,
		Feed:    p.store, People: p.store, Kubernetes: kubernetes, OwnToken: apiserver.OwnToken(p.config), ClusterKeys: clusterKeys, Keyring: p.keyring, BackendAddress: opts.backendAddress, FrontendAddress: opts.frontendAddress,
		DecisionAddress: opts.decisionAddress, EnvoyAddress: opts.envoyAddress, LimiterBytes: opts.limiterMemory, RedisURL: opts.redis, Replicas: opts.replicas, Journal: journal, TLSCert: opts.tlsCert, TLSKey: opts.tlsKey,
		TrustedProxies: read.trusted, EgressAllowed: read.egressAllowed, EgressDenied: read.egressDenied, MaxStaleness: opts.maxStaleness, AnyDeployment: opts.anyDeployment, AuditRetention: opts.auditRetention, ToolCallRetention: opts.callRetention, EventRetention: opts.eventRetention, DeliveryRetention: opts.deliveryRetention, MaxToolCalls: opts.toolCalls, DNSResolver: opts.dnsResolver, Log: p.log,
		Registry: metrics.Registry, Tracer: p.tracer,
	})
}

func loaded(server *apiserver.Server) func() error {
	return func() error {
		if !server.Ready() {
			return errors.New("the configuration is not loaded yet: the store is unavailable or not migrated")
		}
		return nil
	}
}

// journal opens the decision log, or returns nil if it is off. The file stays open until the process ends.
func (o *serverOptions) journal() (*decision.Journal, error) {
	switch o.decisionLog {
	case "":
		return nil, nil
	case "-":
		return decision.NewJournal(os.Stdout, o.decisionShare), nil
	}
	file, err := os.OpenFile(o.decisionLog, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--decision-log: %w", err)
	}
	return decision.NewJournal(file, o.decisionShare), nil
}
