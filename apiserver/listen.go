package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// listen serves HTTP at one address until ctx ends.
func (s *Server) listen(ctx context.Context, name, address string, handler http.Handler) error {
	listener, unbind, err := s.bind(ctx, name, address, httpConnections)
	if err != nil {
		return err
	}
	defer unbind()
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 128, MaxReceiveBufferPerConnection: 256 << 10},
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

// listenEnvoy serves Envoy's external authorization at one address until ctx ends.
func (s *Server) listenEnvoy(ctx context.Context, address string) error {
	const name = "ext_authz"
	listener, unbind, err := s.bind(ctx, name, address, envoyConnections)
	if err != nil {
		return err
	}
	defer unbind()
	server := s.decisions.EnvoyServer(envoyOptions(newPlaces(envoyCalls), envoyWithin, s.connections.refuse(name))...)
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

// bind opens a listener with a bound on its connections, with TLS if the server has a certificate. The caller calls
// unbind after serving.
func (s *Server) bind(ctx context.Context, name, address string, connections int) (_ net.Listener, unbind func(), _ error) {
	opened, err := net.Listen("tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("%s listener: %w", name, err)
	}
	s.opts.Log.Info("Serving", "api", name, "address", opened.Addr().String(), "tls", s.opts.TLSCert != "")
	listener, unbind := s.connections.bounded(opened, name, connections)
	if s.opts.TLSCert == "" {
		return listener, unbind, nil
	}
	watcher, err := certwatcher.New(s.opts.TLSCert, s.opts.TLSKey)
	if err != nil {
		unbind()
		return nil, nil, errors.Join(fmt.Errorf("--tls-cert, --tls-key: %w", err), listener.Close())
	}
	go func() {
		if err := watcher.Start(ctx); err != nil {
			s.opts.Log.Error(err, "The TLS certificate is no longer watched; restart to load a new one")
		}
	}()
	return tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: watcher.GetCertificate, NextProtos: []string{"h2", "http/1.1"}}), unbind, nil
}
