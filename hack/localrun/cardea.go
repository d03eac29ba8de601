package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/internal/testing/process"
)

const (
	cardeaNamespace = "cardea-system"
	cardeaStop      = 30 * time.Second
	migrateWithin   = 2 * time.Minute
	tokenLifetime   = 365 * 24 * time.Hour // renewed by every start
)

// startCardea runs Cardea as its own ServiceAccounts: one process over SQLite, or operator and server over --store.
func (r *localRun) startCardea(ctx context.Context) error {
	if r.store == "" {
		return r.startStandalone(ctx)
	}
	if err := r.migrate(ctx); err != nil {
		return err
	}
	rootKey, err := r.rootKey()
	if err != nil {
		return err
	}
	if err := r.startAs(ctx, "operator", "--root-key="+rootKey, "--lease-namespace="+cardeaNamespace, "--metrics-address="+address(r.ports.OperatorMetrics), r.browsersReach()); err != nil {
		return err
	}
	return r.startAs(ctx, "server", append(r.listeners(), "--root-key="+rootKey)...)
}

func (r *localRun) startStandalone(ctx context.Context) error {
	rootKey, err := r.rootKey()
	if err != nil {
		return err
	}
	database, err := r.database(ctx)
	if err != nil {
		return err
	}
	return r.startAs(ctx, "standalone", append(r.listeners(), "--root-key="+rootKey, "--store=sqlite://"+database, r.browsersReach())...)
}

// browsersReach returns the operator's flag for the URL of the samples' frontend host localhost. The samples' OAuth
// issuers begin with that URL.
func (r *localRun) browsersReach() string {
	return fmt.Sprintf("--frontend-url=http://localhost:%d", r.ports.Frontend)
}

func (r *localRun) listeners() []string {
	return []string{
		"--backend-address=" + address(r.ports.Backend),
		"--frontend-address=" + address(r.ports.Frontend),
		"--decision-address=" + address(r.ports.Decision),
		"--envoy-address=" + address(r.ports.Envoy),
		"--metrics-address=" + address(r.ports.Metrics),
		"--egress-allowed-cidrs=127.0.0.0/8", // the addresses of the message gateway stand-in
		"--dns-resolver=" + address(r.ports.CarrierDNS),
	}
}

// startAs runs a role of Cardea (operator, server, standalone) with the token of its ServiceAccount.
func (r *localRun) startAs(ctx context.Context, role string, arguments ...string) error {
	kubeconfig := r.path(role + ".kubeconfig")
	if err := r.cluster.ServiceAccountKubeconfig(ctx, cardeaNamespace, "cardea-"+role, kubeconfig, tokenLifetime); err != nil {
		return err
	}
	p, err := r.group.Start(process.Spec{
		Name: "cardea-" + role,
		Path: r.binary,
		Args: append([]string{role, "--kubeconfig=" + kubeconfig}, arguments...),
		Env:  r.cardeaEnvironment(),
	})
	if err != nil {
		return err
	}
	// Newest first: the server stops before the operator.
	r.cardea = slices.Insert(r.cardea, 0, p)
	r.step("cardea %s started; its log: %s", role, p.LogPath)
	return nil
}

func (r *localRun) migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, migrateWithin)
	defer cancel()
	return r.group.Run(ctx, process.Spec{
		Name: "cardea-migrate",
		Path: r.binary,
		Args: []string{"migrate"},
		Env:  r.cardeaEnvironment(),
	})
}

// cardeaEnvironment returns this process's environment without KUBECONFIG, so that Cardea never uses an admin's
// credentials by accident. It contains the URL of a PostgreSQL store. The URL may hold a password, so it is not on the
// command line.
func (r *localRun) cardeaEnvironment() []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "KUBECONFIG=") && !strings.HasPrefix(entry, "CARDEA_STORE=") {
			env = append(env, entry)
		}
	}
	if r.store != "" {
		env = append(env, "CARDEA_STORE="+r.store)
	}
	return env
}
