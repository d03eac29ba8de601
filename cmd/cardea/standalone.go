package main

import (
	"context"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/cardea-iam/cardea/controllers"
)

func standaloneCommand() *cobra.Command {
	var common commonOptions
	var operator operatorOptions
	var server serverOptions
	var rootKey rootKeyOptions
	cmd := &cobra.Command{
		Use:   "standalone",
		Short: "Operator and server in one process over SQLite, for small installs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runStandalone(cmd.Context(), common, operator, server, rootKey)
		},
	}
	common.register(cmd.Flags())
	operator.register(cmd.Flags())
	server.register(cmd.Flags())
	rootKey.register(cmd.Flags())
	return cmd
}

// runStandalone needs no leader election: the store's file lock lets only one process in.
func runStandalone(ctx context.Context, common commonOptions, operator operatorOptions, serve serverOptions, rootKey rootKeyOptions) error {
	giveHeapRoom()
	if err := operator.validate(); err != nil {
		return err
	}
	p, end, err := startProcess(ctx, "standalone", common, rootKey, true)
	if err != nil {
		return err
	}
	defer end()
	// The server may start while the Kubernetes API is unavailable, and the operator has not migrated the store.
	if err := p.store.Migrate(ctx); err != nil {
		return err
	}
	server, err := newServer(p, serve)
	if err != nil {
		return err
	}
	mgr, err := controllers.NewManager(ctx, p.config, nil, p.log, controllerOptions(p, operator))
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveProbes(ctx, common.metricsAddress, loaded(server)) })
	group.Go(func() error { return servePprof(ctx, common.pprofAddress) })
	group.Go(func() error { return server.Run(ctx) })
	group.Go(func() error { return controllers.Run(ctx, mgr) })
	return group.Wait()
}
