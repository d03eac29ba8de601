package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// listen serves HTTP at one address until ctx ends.
func (s *Server) listen(ctx context.Context, name, address string, handler http.Handler) error {
	listener, err := s.bind(ctx, name, address)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return server.Shutdown(drain)
}

// envoyMessage is the longest request of Envoy that is read, in bytes: headers, and a body that nobody should send here.
const envoyMessage = 1 << 20

// envoyWorkers is how many goroutines stay to answer Envoy one request after another, with stacks that have grown already; what comes
// while all are busy gets one of its own.
const envoyWorkers = 64

// listenEnvoy serves Envoy's external authorization at one address until ctx ends.
func (s *Server) listenEnvoy(ctx context.Context, address string) error {
	listener, err := s.bind(ctx, "ext_authz", address)
	if err != nil {
		return err
	}
	server := s.decisions.EnvoyServer(grpc.MaxRecvMsgSize(envoyMessage), grpc.ConnectionTimeout(10*time.Second), grpc.NumStreamWorkers(envoyWorkers),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 10 * time.Minute}))
	healthpb.RegisterHealthServer(server, health.NewServer())
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	drained := make(chan struct{})
	go func() { defer close(drained); server.GracefulStop() }()
	select {
	case <-drained:
	case <-time.After(10 * time.Second):
		server.Stop()
	}
	return nil
}

// bind opens a listener, with TLS where the server has a certificate.
func (s *Server) bind(ctx context.Context, name, address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s listener: %w", name, err)
	}
	s.opts.Log.Info("Serving", "api", name, "address", listener.Addr().String(), "tls", s.opts.TLSCert != "")
	if s.opts.TLSCert == "" {
		return listener, nil
	}
	watcher, err := certwatcher.New(s.opts.TLSCert, s.opts.TLSKey)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--tls-cert, --tls-key: %w", err), listener.Close())
	}
	go func() {
		if err := watcher.Start(ctx); err != nil {
			s.opts.Log.Error(err, "The TLS certificate is no longer watched; restart to load a new one")
		}
	}()
	return tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: watcher.GetCertificate, NextProtos: []string{"h2", "http/1.1"}}), nil
}
