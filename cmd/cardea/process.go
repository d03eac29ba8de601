package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/internal/tracing/otlp"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/sqlstore"
)

// newLogger returns a logger of JSON lines on standard error, and sets it for the libraries.
func newLogger(level string) (logr.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return logr.Logger{}, fmt.Errorf("--log-level %q: give debug, info, warn or error", level)
	}
	log := logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: least}))
	ctrllog.SetLogger(log)
	klog.SetLogger(log)
	return log, nil
}

// process has the dependencies that every long-running role needs.
type process struct {
	log     logr.Logger
	keyring *seal.Keyring
	tracer  *tracing.Tracer
	config  *rest.Config
	store   store.Store
}

// startProcess starts a role, such as operator. SQLite is accepted only for a single process. The caller calls end
// when the role ends.
func startProcess(ctx context.Context, role string, common commonOptions, rootKey rootKeyOptions, sqliteAllowed bool) (_ *process, end func(), err error) {
	p := &process{}
	if p.log, err = newLogger(common.logLevel); err != nil {
		return nil, nil, err
	}
	if p.keyring, err = rootKey.keyring(); err != nil {
		return nil, nil, err
	}
	var flush func()
	if p.tracer, flush, err = startTracing(ctx, "cardea-"+role, p.log); err != nil {
		return nil, nil, err
	}
	if p.config, err = restConfig(common.kubeconfig, p.tracer); err == nil {
		p.store, err = openStore(ctx, common.store, sqliteAllowed, p.log, p.tracer)
	}
	if err != nil {
		flush()
		return nil, nil, err
	}
	return p, func() {
		_ = p.store.Close() // nothing is written any more
		flush()
	}, nil
}

// startTracing starts sending spans if the environment asks for it. It returns the tracer, nil if tracing is off, and a
// function that sends the remaining spans.
func startTracing(ctx context.Context, role string, log logr.Logger) (*tracing.Tracer, func(), error) {
	tracer, stop, err := otlp.Start(ctx, otlp.Options{Service: role, Version: version, Log: log.WithName("traces")})
	if err != nil {
		return nil, nil, fmt.Errorf("traces: %w", err)
	}
	return tracer, stop, nil
}

// openStore opens the runtime store; SQLite only for a single process.
func openStore(ctx context.Context, url string, sqliteAllowed bool, log logr.Logger, tracer *tracing.Tracer) (store.Store, error) {
	if url == "" {
		return nil, errors.New("--store (or CARDEA_STORE) is missing: give a postgres:// URL, or sqlite:///path for standalone")
	}
	if !sqliteAllowed && strings.HasPrefix(url, "sqlite:") {
		return nil, errors.New("--store: SQLite is for `cardea standalone` only, because one process must own the file: give a postgres:// URL")
	}
	return sqlstore.Open(ctx, url, sqlstore.Options{Clock: time.Now, Logger: log.WithName("store"), Tracer: tracer})
}

// serveProbes serves /metrics, /healthz and /readyz until ctx ends.
func serveProbes(ctx context.Context, address string, ready func() error) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return serveUntil(ctx, "--metrics-address", address, mux)
}

// servePprof serves the profiles of this process until ctx ends, or nothing without an address.
func servePprof(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return serveUntil(ctx, "--pprof-address", address, mux)
}

// serveUntil serves at the address of a flag until ctx ends.
func serveUntil(ctx context.Context, flag, address string, handler http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return server.Close()
	}
}
