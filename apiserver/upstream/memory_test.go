package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// memory is a store of documents, and the feed of a configuration, for tests in which time passes.
type memory struct {
	people.Store
	mu        sync.Mutex
	rows      map[string]people.UpstreamDocument
	leases    map[string]string
	of        string // the deployment of the transaction in progress
	documents []store.Document
	revision  int64
}

func newMemory() *memory {
	return &memory{rows: map[string]people.UpstreamDocument{}, leases: map[string]string{}}
}

func (m *memory) run(deployment string, do func(people.Tx) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of = deployment
	return do(transaction{Tx: nil, memory: m})
}

// View implements people.Store.
func (m *memory) View(_ context.Context, deployment string, do func(people.Tx) error) error {
	return m.run(deployment, do)
}

// Single implements people.Store.
func (m *memory) Single(_ context.Context, deployment string, do func(people.Tx) error) error {
	return m.run(deployment, do)
}

// transaction is a transaction of a memory, which is locked.
type transaction struct {
	people.Tx
	memory *memory
}

// Connections implements people.Tx.
func (t transaction) Connections() people.Connections { return documentRows{memory: t.memory} }

type documentRows struct {
	people.Connections
	memory *memory
}

func (r documentRows) key(connection int64, kind string) string {
	return fmt.Sprint(r.memory.of, " ", connection, " ", kind)
}

func (r documentRows) UpstreamDocument(connection int64, kind string) (people.UpstreamDocument, bool, error) {
	row, found := r.memory.rows[r.key(connection, kind)]
	return row, found, nil
}

func (r documentRows) LeaseUpstreamDocument(connection int64, kind, lease string, tried, now, until time.Time) (bool, error) {
	row := r.memory.rows[r.key(connection, kind)]
	if row.LeasedUntil.After(now) || !row.TriedAt.Equal(tried) {
		return false, nil
	}
	row.Connection, row.Kind, row.TriedAt, row.LeasedUntil = connection, kind, now, until
	r.memory.rows[r.key(connection, kind)], r.memory.leases[r.key(connection, kind)] = row, lease
	return true, nil
}

func (r documentRows) StoreUpstreamDocument(d people.UpstreamDocument, lease string) (bool, error) {
	key := r.key(d.Connection, d.Kind)
	if r.memory.leases[key] != lease {
		return false, nil
	}
	d.TriedAt = r.memory.rows[key].TriedAt
	r.memory.rows[key], r.memory.leases[key] = d, ""
	return true, nil
}

func (r documentRows) FailUpstreamDocument(connection int64, kind, lease, why string) (bool, error) {
	key := r.key(connection, kind)
	if r.memory.leases[key] != lease {
		return false, nil
	}
	row := r.memory.rows[key]
	row.Error, row.Failures, row.LeasedUntil = why, row.Failures+1, time.Time{}
	r.memory.rows[key], r.memory.leases[key] = row, ""
	return true, nil
}

// row returns a row of the deployment of the tests.
func (m *memory) row(connection int64, kind string) people.UpstreamDocument {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of = testDeployment
	return m.rows[documentRows{memory: m}.key(connection, kind)]
}

// declare replaces the configuration by connections of the type OIDC, by their names.
func (m *memory) declare(issuers map[string]string) {
	var documents []store.Document
	for name, issuer := range issuers {
		payload, err := document.Encode(document.Meta{CreatedAt: time.Now(), UpdatedAt: time.Now()}, document.Connection{Slug: name, Type: "OIDC", Provider: document.UpstreamProvider{Issuer: issuer}})
		if err != nil {
			panic(err)
		}
		documents = append(documents, store.Document{
			Owner:      store.Owner{Identity: store.Identity{Kind: v1alpha1.KindConnection, Namespace: "acme", Name: name}, UID: name},
			Deployment: testDeployment, ID: int64(len(name)), Key: name, Payload: payload,
		})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.documents, m.revision = documents, m.revision+1
}

// Load implements store.Feed.
func (m *memory) Load(context.Context) ([]store.Document, store.Position, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.documents, store.Position{Revision: m.revision}, nil
}

// Changes implements store.Feed. Every change loads everything again.
func (m *memory) Changes(_ context.Context, after store.Position) ([]store.Change, store.Position, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if after.Revision != m.revision {
		return nil, store.Position{}, store.ErrFeedLost
	}
	return nil, after, nil
}

// Signals implements store.Feed.
func (m *memory) Signals(context.Context) <-chan struct{} { return nil }

// answers is a transport without a network. It records when each URL was fetched.
type answers struct {
	mu      sync.Mutex
	fetched map[string][]time.Time
	answer  func(r *http.Request) (int, io.ReadCloser, error)
}

// RoundTrip implements http.RoundTripper.
func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	a.fetched[r.URL.String()] = append(a.fetched[r.URL.String()], time.Now())
	answer := a.answer
	a.mu.Unlock()
	status, body, err := answer(r)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, nil
}

// times returns when a URL was fetched, since a time.
func (a *answers) times(url string, since time.Time) (all []time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range a.fetched[url] {
		all = append(all, at.Sub(since))
	}
	return all
}

func (a *answers) set(answer func(r *http.Request) (int, io.ReadCloser, error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
}

// good answers as the provider of any issuer.
func good(r *http.Request) (int, io.ReadCloser, error) {
	origin := "https://" + r.URL.Host
	text := encoded(map[string]string{
		"issuer": origin, "authorization_endpoint": origin + "/authorize", "token_endpoint": origin + "/token", "jwks_uri": origin + "/jwks",
	})
	if r.URL.Path == "/jwks" {
		text = `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k1","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`
	}
	return 200, io.NopCloser(strings.NewReader(text)), nil
}

// bad answers that the provider is down.
func bad(*http.Request) (int, io.ReadCloser, error) {
	return 503, io.NopCloser(bytes.NewReader(nil)), nil
}

// running runs servers over a memory, without a network, until the test ends.
func running(t *testing.T, n int, m *memory, web *answers) (servers []*Providers) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range n {
		follower := snapshot.NewFollower(m, 250*time.Millisecond, time.Now, logr.Discard())
		p := New(Options{
			Store: m, Snapshots: follower, Egress: egress.NewPolicy(nil, nil), Clock: time.Now, Log: logr.Discard(), Registry: prometheus.NewRegistry(),
		})
		p.web.secure = web
		group.Go(func() { _ = follower.Run(ctx) })
		group.Go(func() { _ = p.Run(ctx) })
		servers = append(servers, p)
	}
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	return servers
}
