package testkit

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/cardea-iam/cardea/apiserver"
	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/controllers"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/sqlstore"
)

// Operator is an operator in this process.
type Operator struct {
	cancel context.CancelFunc
	done   chan error
}

// OperatorOptions change what StartOperator does; the zero value is a plain operator.
type OperatorOptions struct {
	// Hook is called before each step of each reconcile.
	Hook func(kind, step string) error
	// Resync is the time between two reconciles of an unchanged resource; 0: an hour, so that a test sees only events.
	Resync time.Duration
	Clock  func() time.Time
	Log    logr.Logger
	// Keyring seals signing keys and the values of Secrets; nil: the operator has no root key.
	Keyring *seal.Keyring
	// RequireHostGrants restricts the hosts that a namespace may declare to those that its annotation lists.
	RequireHostGrants bool
	// Limits bound the number and the total size of a deployment's documents; zero: no limits.
	Limits engine.Limits
}

// StartOperator runs an operator without leader election over a store until Stop.
func StartOperator(config *rest.Config, st store.Store, opts OperatorOptions) (*Operator, error) {
	if opts.Resync == 0 {
		opts.Resync = time.Hour
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	if opts.Log.GetSink() == nil {
		opts.Log = logr.Discard()
	}
	ctx, cancel := context.WithCancel(context.Background())
	mgr, err := controllers.NewManager(ctx, config, nil, opts.Log, controllers.Options{
		Store: st, Clock: opts.Clock, Random: rand.Reader, Resync: opts.Resync, Heartbeat: 300 * time.Millisecond, Workers: 8, Hook: opts.Hook,
		Keyring: opts.Keyring, RequireHostGrants: opts.RequireHostGrants, Limits: opts.Limits,
	})
	if err != nil {
		cancel()
		return nil, err
	}
	o := &Operator{cancel: cancel, done: make(chan error, 1)}
	go func() { o.done <- controllers.Run(ctx, mgr) }()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return nil, errors.Join(errors.New("the operator's caches were not filled"), o.Stop())
	}
	return o, nil
}

// Stop ends the operator and returns its error, nil after a clean end.
func (o *Operator) Stop() error {
	o.cancel()
	return <-o.done
}

// OpenSQLite opens a store in a folder.
func OpenSQLite(ctx context.Context, dir string) (store.Store, error) {
	st, err := sqlstore.Open(ctx, "sqlite://"+dir+"/cardea.db", sqlstore.Options{Clock: time.Now, Logger: logr.Discard()})
	if err != nil {
		return nil, err
	}
	return st, st.Migrate(ctx)
}

// Server is a server in this process, over real HTTP.
type Server struct {
	*httptest.Server
	// Frontend is the base URL of the end-user API.
	Frontend string
	frontend *httptest.Server
	cancel   context.CancelFunc
	follow   sync.WaitGroup
}

// ServerOptions change what StartServer does; the zero value is a plain server.
type ServerOptions struct {
	MaxStaleness time.Duration
	// Keyring opens what the operator sealed; nil: the server has no root key.
	Keyring *seal.Keyring
	// Clock is the server's; nil: time.Now.
	Clock func() time.Time
	// EgressAllowed are private ranges the server may send to.
	EgressAllowed []netip.Prefix
}

// StartServer serves the backend and the end-user API from a store until Stop.
func StartServer(config *rest.Config, st store.Store, opts ServerOptions) (*Server, error) {
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	kubernetes, err := apiserver.NewKubernetes(config)
	if err != nil {
		return nil, err
	}
	proxies, err := credential.ParseProxies([]string{"127.0.0.0/8", "::1/128"})
	if err != nil {
		return nil, err
	}
	server, err := apiserver.New(apiserver.Options{
		PasswordCost: password.Cost{MemoryKiB: 64, Passes: 1},
		Feed:         st, People: st, Kubernetes: kubernetes, Clock: opts.Clock, Log: logr.Discard(), Registry: prometheus.NewRegistry(),
		TrustedProxies: proxies, MaxStaleness: opts.MaxStaleness, Keyring: opts.Keyring, EgressAllowed: opts.EgressAllowed,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{Server: httptest.NewServer(server.Backend()), frontend: httptest.NewServer(server.Frontend()), cancel: cancel}
	s.Frontend = s.frontend.URL
	s.follow.Go(func() { _ = server.Follow(ctx) })
	return s, nil
}

// Stop ends the server.
func (s *Server) Stop() {
	s.cancel()
	s.follow.Wait()
	s.Close()
	s.frontend.Close()
}

// Answer is an HTTP answer, read whole.
type Answer struct {
	Status int
	Header http.Header
	Raw    []byte
	// JSON is the body as decoded JSON; nil if the body is not JSON.
	JSON map[string]any
}

// Do sends a request with a key and a JSON body, and reads the whole response. An empty key or body is left out. Header
// lines are "Name: value"; an empty value removes the header.
func Do(method, url, key, body string, header ...[2]string) (Answer, error) {
	var reader io.Reader
	if body != "" {
		reader = bytes.NewBufferString(body)
	}
	req, err := http.NewRequest(method, url, reader)
	if err != nil {
		return Answer{}, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, line := range header {
		if line[1] == "" {
			req.Header.Del(line[0])
		} else {
			req.Header.Set(line[0], line[1])
		}
	}
	client := &http.Client{Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Status: resp.StatusCode, Header: resp.Header, Raw: raw}
	if decodeErr := json.Unmarshal(raw, &a.JSON); decodeErr != nil && resp.StatusCode >= 400 {
		return a, errors.Join(errors.New("an error's body is not JSON"), decodeErr)
	}
	return a, nil
}
