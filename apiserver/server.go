// Package apiserver composes the server: it follows the store's feed and serves the listeners. It needs neither the
// operator nor the Kubernetes API to start or to answer reads.
package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/cardea-iam/cardea/apiserver/authn"
	"github.com/cardea-iam/cardea/apiserver/authn/jwks"
	"github.com/cardea-iam/cardea/apiserver/management"
	"github.com/cardea-iam/cardea/apiserver/route"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// feedPoll is how often the feed is looked at without a signal: the guarantee behind "servers follow within 1 s".
const feedPoll = 250 * time.Millisecond

// Options are what a server needs.
type Options struct {
	Feed store.Feed
	// People is the store of end users.
	People people.Store
	// Kubernetes is the client of management writes.
	Kubernetes management.Kubernetes
	// Keyring opens what the operator sealed; it may be empty.
	Keyring *seal.Keyring
	// BackendAddress is where the backend API listens, host:port.
	BackendAddress string
	// TLSCert and TLSKey are files, reloaded when they change; both empty: TLS ends at the ingress.
	TLSCert, TLSKey string
	// TrustedProxies are the ranges whose X-Forwarded-For is believed.
	TrustedProxies authn.Proxies
	// JWKSAllowed are address ranges that token issuers' keys may be fetched from although they are private.
	JWKSAllowed []netip.Prefix
	// MaxStaleness bounds how long authenticated requests are answered without contact to the store; 0: unlimited.
	MaxStaleness time.Duration
	Clock        func() time.Time
	Log          logr.Logger
	Registry     prometheus.Registerer
}

// Server serves the backend API.
type Server struct {
	opts     Options
	follower *snapshot.Follower
	backend  http.Handler
}

// New composes a server.
func New(opts Options) (*Server, error) {
	follower := snapshot.NewFollower(opts.Feed, feedPoll, opts.Clock, opts.Log.WithName("snapshot"))
	registerSnapshotMetrics(opts.Registry, follower)
	tokens := authn.NewTokens(jwks.New(opts.Clock, opts.JWKSAllowed), authn.NewReviews(opts.Kubernetes, opts.Clock), opts.Clock)
	authenticator := &authn.Authenticator{Tokens: tokens, Proxies: opts.TrustedProxies, Clock: opts.Clock}
	backend, err := management.New(management.Options{
		Snapshots: follower, Kubernetes: opts.Kubernetes, Analytics: opts.People, Authenticator: authenticator, MaxStaleness: opts.MaxStaleness,
		Clock: opts.Clock, Log: opts.Log.WithName("management"), Metrics: route.NewMetrics(opts.Registry, "backend"),
	})
	if err != nil {
		return nil, err
	}
	return &Server{opts: opts, follower: follower, backend: backend}, nil
}

// Backend returns the handler of the backend listener, for tests and benchmarks in process.
func (s *Server) Backend() http.Handler { return s.backend }

// Follow keeps the configuration current until ctx ends; Run does it as well.
func (s *Server) Follow(ctx context.Context) error { return s.follower.Run(ctx) }

// Ready tells whether the configuration was loaded once. It stays true when the store goes away later.
func (s *Server) Ready() bool {
	select {
	case <-s.follower.Loaded():
		return true
	default:
		return false
	}
}

// Run serves until ctx ends, then finishes the requests under way.
func (s *Server) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Follow(ctx) })
	group.Go(func() error { return s.listen(ctx, s.opts.BackendAddress, s.backend) })
	return group.Wait()
}

// listen serves one address until ctx ends.
func (s *Server) listen(ctx context.Context, address string, handler http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("backend listener: %w", err)
	}
	if s.opts.TLSCert != "" {
		watcher, err := certwatcher.New(s.opts.TLSCert, s.opts.TLSKey)
		if err != nil {
			return errors.Join(fmt.Errorf("--tls-cert, --tls-key: %w", err), listener.Close())
		}
		go func() {
			if err := watcher.Start(ctx); err != nil {
				s.opts.Log.Error(err, "The TLS certificate is no longer watched; restart to load a new one")
			}
		}()
		listener = tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: watcher.GetCertificate, NextProtos: []string{"h2", "http/1.1"}})
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	s.opts.Log.Info("Serving the backend API", "address", listener.Addr().String(), "tls", s.opts.TLSCert != "")
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

func registerSnapshotMetrics(registry prometheus.Registerer, follower *snapshot.Follower) {
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cardea_snapshot_staleness_seconds", Help: "Time since the configuration held in memory was last known to be current.",
		}, func() float64 { return follower.Staleness().Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cardea_snapshot_documents", Help: "Documents held in memory.",
		}, func() float64 { return float64(follower.Current().Len()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cardea_snapshot_revision", Help: "Feed revision of the configuration held in memory.",
		}, func() float64 { return float64(follower.Current().Position().Revision) }),
	)
}
