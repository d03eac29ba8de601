// Package apiserver composes the server: it follows the store's feed and serves the listeners. It needs neither the
// operator nor the Kubernetes API to start or to answer reads.
package apiserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/cardea-iam/cardea/apiserver/agents"
	"github.com/cardea-iam/cardea/apiserver/agents/caller"
	"github.com/cardea-iam/cardea/apiserver/agents/callrecord"
	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/apiserver/backend"
	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/credential/jwks"
	"github.com/cardea-iam/cardea/apiserver/credential/keycache"
	"github.com/cardea-iam/cardea/apiserver/decision"
	"github.com/cardea-iam/cardea/apiserver/domain"
	"github.com/cardea-iam/cardea/apiserver/endedconnections"
	"github.com/cardea-iam/cardea/apiserver/endeddirectories"
	"github.com/cardea-iam/cardea/apiserver/events/sequencer"
	"github.com/cardea-iam/cardea/apiserver/events/webhooks"
	"github.com/cardea-iam/cardea/apiserver/frontend"
	"github.com/cardea-iam/cardea/apiserver/frontend/enduser"
	"github.com/cardea-iam/cardea/apiserver/frontend/oauth"
	"github.com/cardea-iam/cardea/apiserver/frontend/pages"
	"github.com/cardea-iam/cardea/apiserver/frontend/pages/texts"
	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/httpapi/outage"
	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/apiserver/limits/exceeded"
	"github.com/cardea-iam/cardea/apiserver/limits/shared"
	"github.com/cardea-iam/cardea/apiserver/notices"
	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/outbound/outbox"
	"github.com/cardea-iam/cardea/apiserver/queries"
	"github.com/cardea-iam/cardea/apiserver/reprovision"
	"github.com/cardea-iam/cardea/apiserver/reseal"
	"github.com/cardea-iam/cardea/apiserver/rollup"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/upstream"
	"github.com/cardea-iam/cardea/apiserver/users/connections"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/apiserver/users/tokensigner"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// feedPoll is the interval of polls of the feed without a signal: the guarantee behind "servers follow within 1 s".
const feedPoll = 250 * time.Millisecond

// flushPatience bounds the last write of records when a server ends.
const flushPatience = 3 * time.Second

// Options configures a server.
type Options struct {
	Feed store.Feed
	// People stores users, sessions and organizations.
	People people.Store
	// Kubernetes is the client for management writes.
	Kubernetes backend.Kubernetes
	// OwnToken returns the token with which the server accesses the Kubernetes API, "" or nil if it has none.
	OwnToken func() string
	// ClusterKeys reads the keys with which the cluster signs tokens of ServiceAccounts, as JSON; nil means that they
	// cannot be read.
	ClusterKeys func(context.Context) ([]byte, error)
	// Keyring opens what the operator sealed; it may be empty.
	Keyring *seal.Keyring
	// BackendAddress is the address of the backend API, host:port.
	BackendAddress string
	// FrontendAddress is the address of the end-user API, host:port.
	FrontendAddress string
	// DecisionAddress is the address of the decision API, host:port, and EnvoyAddress that of its gRPC service for
	// Envoy.
	DecisionAddress, EnvoyAddress string
	// LimiterBytes bounds the memory of rate-limit counters; 0 means engine.DefaultMaxBytes.
	LimiterBytes int64
	// RedisURL is the Redis in which replicas share the counters of rate limits; "" means that this server counts
	// alone. Replicas is the assumed number of replicas until Redis responds.
	RedisURL string
	Replicas int
	// Journal takes a sample of the decisions; nil takes none.
	Journal *decision.Journal
	// TLSCert and TLSKey are files, reloaded when they change. If both are empty, TLS ends at the ingress.
	TLSCert, TLSKey string
	// TrustedProxies are the ranges whose X-Forwarded-For is trusted.
	TrustedProxies credential.Proxies
	// EgressAllowed are private address ranges to which the server may connect for tenants: token issuers' keys,
	// message providers, webhooks, mail servers, identity providers.
	EgressAllowed []netip.Prefix
	// EgressDenied are address ranges to which the server never connects for tenants.
	EgressDenied []netip.Prefix
	// DNSResolver is the host:port of the recursive DNS server that looks the records of organizations' domains up; ""
	// means those of the system.
	DNSResolver string
	// MaxToolCalls bounds the calls of agents' tools that run at the same time, 0: agents.DefaultToolCalls.
	MaxToolCalls int
	// MaxStaleness bounds how long authenticated requests are answered without contact to the store; 0 means no bound.
	MaxStaleness time.Duration
	// AnyDeployment allows decisions without a deployment although several deployments are served.
	AnyDeployment bool
	// AuditRetention is how long audit records are kept, at least 24 hours; 0 means DefaultAuditRetention.
	AuditRetention time.Duration
	// ToolCallRetention is how long records of calls of agents' tools are kept, at least 24 hours; 0 means
	// DefaultToolCallRetention.
	ToolCallRetention time.Duration
	// EventRetention is how long events are kept, 24 hours to 8760; 0 means DefaultEventRetention.
	EventRetention time.Duration
	// DeliveryRetention is how long records of webhooks are kept, 1 hour to 8760; 0 means DefaultDeliveryRetention.
	DeliveryRetention time.Duration
	// LeaveEvents leaves events without numbers. Only tests set it, which count the statements of requests.
	LeaveEvents bool
	// PasswordCost is the cost of new password hashes; the zero Cost means password.DefaultCost. Only tests, which hash
	// hundreds, use less.
	PasswordCost password.Cost
	// Version is the product's version, which requests to tools name.
	Version string
	// Clock is time.Now if it is nil.
	Clock    func() time.Time
	Log      logr.Logger
	Registry prometheus.Registerer
	// Tracer makes spans of requests, decisions and sends; nil makes none.
	Tracer *tracing.Tracer

	// counting is the clock of rate limits, over Clock.
	counting *engine.Clock
}

// Server serves the backend, end-user and decision APIs, and sends the messages of the outbox.
type Server struct {
	opts        Options
	follower    *snapshot.Follower
	backend     http.Handler
	frontend    http.Handler
	dispatcher  *outbox.Dispatcher
	keys        *keycache.Cache
	rollUps     *rollup.Worker
	reseals     []*reseal.Worker
	notices     *notices.Worker
	providers   *upstream.Providers
	ended       *endedconnections.Worker
	directories *endeddirectories.Worker
	reprovision *reprovision.Worker
	domains     *domain.Worker
	calls       *callrecord.Recorder
	events      *sequencer.Worker
	webhooks    *webhooks.Dispatcher
	refusals    *exceeded.Reporter
	// counters are shared by the replicas; nil if this server counts alone.
	counters  *shared.Counters
	decisions *decision.API
	// agents ends the streams of agents' clients.
	agents *agents.Server
	// issuing notifies clients of ended sign-ins.
	issuing  *oauth.Server
	decision http.Handler
	// connections are the metrics of the listeners' connections.
	connections *connectionMetrics
}

// setClocks sets the clocks that Clock implies.
func (o *Options) setClocks() {
	o.counting = engine.NewClock(o.Clock)
	if o.Clock == nil {
		o.Clock = time.Now
	}
}

// New composes a server.
func New(opts Options) (*Server, error) {
	opts.setClocks()
	follower := newFollower(&opts)
	policy := egress.NewPolicy(opts.EgressAllowed, opts.EgressDenied)
	kubernetes := watched{api: opts.Kubernetes, watch: outage.New("the Kubernetes API", opts.Log.WithName("kubernetes"))}
	keySets := jwks.New(opts.Clock, policy, jwks.Declared())
	reviews := credential.NewReviews(kubernetes, opts.OwnToken, opts.Clock)
	if opts.ClusterKeys != nil {
		reviews.CheckSignatures(opts.ClusterKeys)
	}
	tokens := credential.NewTokens(keySets, reviews, opts.Clock)
	opts.Registry.MustRegister(tokens.Collectors()...)
	keys := keycache.New(keycache.Options{
		Store: opts.People, MaxStaleness: opts.MaxStaleness, Clock: opts.Clock, Log: opts.Log.WithName("api-keys"), Registry: opts.Registry,
	})
	authenticator := &credential.Authenticator{Tokens: tokens, Keys: keys, Attempts: credential.NewAttempts(), Proxies: opts.TrustedProxies, Clock: opts.Clock}
	hasher := password.NewHasher(cmp.Or(opts.PasswordCost, password.DefaultCost)) // shared by both listeners, because they share the processors
	limiter, refusals, counters, err := newLimiter(opts, follower)
	if err != nil {
		return nil, err
	}
	rollUp := rollup.New(rollup.Options{
		Store: opts.People, Retention: retentionIn(follower), Clock: opts.Clock, Log: opts.Log.WithName("roll-up"), Registry: opts.Registry,
	})
	reseals := reseal.All(reseal.Options{Store: opts.People, Keyring: opts.Keyring, Clock: opts.Clock, Log: opts.Log.WithName("reseal"), Registry: opts.Registry})
	dispatcher := outbox.New(outbox.Options{
		Store: opts.People, Snapshots: follower, Keyring: opts.Keyring, Transport: delivery.NewTransport(policy, opts.Clock, opts.Log.WithName("delivery")),
		Clock: opts.Clock, Log: opts.Log.WithName("outbox"), Registry: opts.Registry, Tracer: opts.Tracer,
	})
	memberNotices := notices.New(notices.Options{
		Store: opts.People, Snapshots: follower, Keyring: opts.Keyring, Clock: opts.Clock, OnEnqueue: dispatcher.Wake,
	})
	endUserMetrics, liveReads, analytics, connectionKeys := enduser.NewMetrics(opts.Registry, opts.Tracer), backend.NewLiveReads(opts.Clock), queries.New(), connections.NewKeys(opts.Clock)
	tools, numbering := toolset.NewSets(opts.Clock, opts.Log.WithName("agents")), sequencer.New(sequencer.Options{Store: opts.People, Clock: opts.Clock, Log: opts.Log.WithName("events"), Registry: opts.Registry})
	signer, accessTokens := tokensigner.New(opts.Keyring), bearer.NewAccessTokens(opts.Keyring)
	hooks, callers := newWebhooks(opts, follower, signer, policy, numbering, dispatcher), caller.New(caller.Options{Authenticator: authenticator, Tokens: accessTokens, People: opts.People, Clock: opts.Clock})
	var agentTools *agents.Server
	management, err := backend.New(backend.Options{
		CallTool: callLater(&agentTools), Callers: callers,
		Snapshots: follower, Kubernetes: kubernetes, LiveReads: liveReads, Keys: connectionKeys, Queries: analytics, Authenticator: authenticator, Limiter: limiter, Tools: tools, MaxStaleness: opts.MaxStaleness,
		Clock: opts.Clock, Log: opts.Log.WithName("management"), Metrics: httpapi.NewMetrics(opts.Registry, "backend", opts.Tracer),
		People: opts.People, Events: numbering, TestWebhook: hooks.Test, WakeWebhooks: hooks.Wake, Hasher: hasher, Random: rand.Reader, OnImported: rollUp.Imported,
		Keyring: opts.Keyring, OnEnqueue: dispatcher.Wake, FactorsRemoved: endUserMetrics.Removed,
	})
	if err != nil {
		return nil, err
	}
	providers := upstream.New(upstream.Options{
		Store: opts.People, Snapshots: follower, Keyring: opts.Keyring, Egress: policy, Clock: opts.Clock, Log: opts.Log.WithName("upstream"), Registry: opts.Registry,
		OnNewCertificates: onNewCertificates(connections.Notifier{Store: opts.People, Snapshots: follower, Keyring: opts.Keyring, OnEnqueue: dispatcher.Wake, Clock: opts.Clock}),
	})
	domains := domain.NewWorker(domain.Options{
		Store: opts.People, Snapshots: follower, Resolver: domain.NewResolver(opts.DNSResolver, opts.Clock, opts.Registry), Keyring: opts.Keyring, OnEnqueue: dispatcher.Wake,
		Clock: opts.Clock, Log: opts.Log.WithName("domains"),
	})
	endUser, err := enduser.New(enduser.Options{
		Snapshots: follower, Store: opts.People, Keyring: opts.Keyring, Signer: signer, Hasher: hasher, Providers: providers, Keys: connectionKeys, Domains: domains.Resolver, Proxies: opts.TrustedProxies, Clock: opts.Clock,
		OnEnqueue: dispatcher.Wake, Languages: texts.Languages(), Log: opts.Log.WithName("end-user"), Metrics: endUserMetrics,
	})
	if err != nil {
		return nil, err
	}
	pages, err := pages.New(pages.Options{
		Snapshots: follower, API: endUser, Keyring: opts.Keyring, Clock: opts.Clock, Log: opts.Log.WithName("pages"),
		Metrics: httpapi.NewMetrics(opts.Registry, "pages", opts.Tracer),
	})
	if err != nil {
		return nil, err
	}
	issuing := oauth.New(oauth.Options{
		Snapshots: follower, Store: opts.People, Keyring: opts.Keyring, Tokens: accessTokens, Keys: keySets, Egress: policy, Proxies: opts.TrustedProxies, Authenticator: authenticator, Clock: opts.Clock,
		OnEnqueue: dispatcher.Wake, Log: opts.Log.WithName("oauth"), Metrics: httpapi.NewMetrics(opts.Registry, "oauth", opts.Tracer), Pages: pages,
	})
	if err := opts.Registry.Register(issuing); err != nil {
		return nil, err
	}
	decisions, err := decision.New(decision.Options{
		Snapshots: follower, Authenticator: authenticator, Limiter: limiter, People: opts.People, Tokens: accessTokens, MaxStaleness: opts.MaxStaleness, AnyDeployment: opts.AnyDeployment,
		Clock: opts.Clock, Log: opts.Log.WithName("decision"), Metrics: httpapi.NewMetrics(opts.Registry, "decision", opts.Tracer), Registry: opts.Registry,
		Journal: opts.Journal, Tracer: opts.Tracer,
	})
	if err != nil {
		return nil, err
	}
	calls := callrecord.New(callrecord.Options{
		Store: opts.People, Keyring: opts.Keyring, Served: agents.Served(follower), Log: opts.Log.WithName("tool-calls"), Registry: opts.Registry,
	})
	agentTools = agents.New(agents.Options{
		Snapshots: follower, Authenticator: authenticator, Callers: callers, Limiter: limiter, Egress: policy, Tools: tools, Keyring: opts.Keyring, Signer: signer, MaxToolCalls: opts.MaxToolCalls, MaxStaleness: opts.MaxStaleness,
		Version: opts.Version, Clock: opts.Clock, Log: opts.Log.WithName("agents"), Metrics: httpapi.NewMetrics(opts.Registry, "agents", opts.Tracer), Records: calls,
	})
	connections := newConnectionMetrics(opts.Registry)
	reportShares(opts.Registry, agentTools.Streams, map[string]func() uint64{
		"counters": limiter.Exhausted, "api_keys": keys.Evicted, "decisions": decisions.Evicted, "tokens": tokens.Evicted, "access_tokens": accessTokens.Evicted,
		"declared_key_sets": keySets.Exhausted, "registered_key_sets": issuing.KeySetsExhausted, "registered_clients": func() uint64 { return follower.Current().PreparedClientsEvicted() },
		"connections": connections.exhausted.Load, "messages": dispatcher.Exhausted, "password_hashes": hasher.Exhausted, "token_reviews": reviews.Exhausted,
		"domain_lookups": domains.Resolver.Exhausted, "upstream_documents": providers.DocumentsExhausted, "upstream_requests": providers.RequestsExhausted, "redis_calls": counters.Busy, "client_metadata": issuing.MetadataExhausted,
		"resource_reads": liveReads.Exhausted, "analytics": analytics.Exhausted, "tool_call_records": calls.Dropped, "tool_call_bodies": calls.NotKept, "rate_limit_events": refusals.Dropped, "agent_streams": agentTools.StreamsExhausted,
	})
	untrusted := newUntrusted(opts.Registry)
	guarded := func(listener string, next http.Handler) http.Handler {
		return &guard{
			next: next, listener: listener, tracer: opts.Tracer, proxies: opts.TrustedProxies, clock: opts.Clock, log: opts.Log.WithName(listener),
			untrusted: untrusted.WithLabelValues(listener),
		}
	}
	return &Server{
		opts: opts, follower: follower, dispatcher: dispatcher, keys: keys, rollUps: rollUp, reseals: reseals, notices: memberNotices, providers: providers, ended: newEnded(opts, follower), directories: endeddirectories.New(endeddirectories.Options{Store: opts.People, Snapshots: follower, Clock: opts.Clock, Log: opts.Log.WithName("ended-directories")}), reprovision: newReprovision(opts, follower, dispatcher), domains: domains, calls: calls, refusals: refusals, events: numbering, webhooks: hooks, counters: counters, decisions: decisions, agents: agentTools, issuing: issuing, decision: guarded("decision", decisions),
		backend: guarded("backend", management), frontend: guarded("end-user", frontend.New(endUser, newProvisioning(opts, follower, dispatcher), issuing, pages, agentTools)), connections: connections,
	}, nil
}

// Backend returns the handler of the backend listener, for tests and benchmarks in process.
func (s *Server) Backend() http.Handler { return s.backend }

// Frontend returns the handler of the end-user listener, for tests and benchmarks in process.
func (s *Server) Frontend() http.Handler { return s.frontend }

// Decision returns the handler of the decision listener, for tests and benchmarks in process.
func (s *Server) Decision() http.Handler { return s.decision }

// Keys returns the cache of runtime keys.
func (s *Server) Keys() *keycache.Cache { return s.keys }

// Position returns the position of the configuration that the server uses.
func (s *Server) Position() store.Position { return s.follower.Current().Position() }

// Follow runs the work without listeners until ctx ends: it keeps the configuration current, sends the messages of the
// outbox, fetches the documents of identity providers, ends what belongs to deleted connections, looks organizations'
// domains up, deletes expired data, seals secrets again, writes the records of calls, numbers events and sends
// them to webhook endpoints, reports exceeded rate limits, and rolls up analytics. Run includes it.
func (s *Server) Follow(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.follower.Run(ctx) })
	group.Go(func() error { return s.dispatcher.Run(ctx) })
	group.Go(func() error { return s.keepUp(ctx) })
	group.Go(func() error { return s.keys.Run(ctx) })
	group.Go(func() error { return s.rollUp(ctx) })
	group.Go(func() error { return s.issuing.Run(ctx) })
	group.Go(func() error { return s.providers.Run(ctx) })
	group.Go(func() error { return s.ended.Run(ctx) })
	group.Go(func() error { return s.domains.Run(ctx) })
	group.Go(func() error { return s.reprovision.Run(ctx) })
	group.Go(func() error { return s.agents.Run(ctx) })
	group.Go(func() error { return s.calls.Work(ctx) })
	if !s.opts.LeaveEvents {
		group.Go(func() error { return s.events.Run(ctx) })
		group.Go(func() error { return s.webhooks.Run(ctx) })
		group.Go(func() error { return s.refusals.Run(ctx) })
	}
	if s.counters != nil {
		group.Go(func() error { return s.counters.Run(ctx) })
	}
	if s.opts.Journal != nil {
		group.Go(func() error { return s.opts.Journal.Run(ctx) })
	}
	return group.Wait()
}

// Ready reports whether the configuration was loaded once. It stays true when the store becomes unavailable later.
func (s *Server) Ready() bool {
	select {
	case <-s.follower.Loaded():
		return true
	default:
		return false
	}
}

// Run serves until ctx ends, then finishes the requests in progress.
func (s *Server) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Follow(ctx) })
	group.Go(func() error { return s.listen(ctx, "backend", s.opts.BackendAddress, s.backend) })
	group.Go(func() error { return s.listen(ctx, "end-user", s.opts.FrontendAddress, s.frontend) })
	group.Go(func() error { return s.listen(ctx, "decision", s.opts.DecisionAddress, s.decision) })
	if s.opts.EnvoyAddress != "" {
		group.Go(func() error { return s.listenEnvoy(ctx, s.opts.EnvoyAddress) })
	}
	err := group.Wait()
	s.flushCalls(ctx)
	return err
}

// flushCalls writes the records of the calls that ended last.
func (s *Server) flushCalls(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushPatience)
	defer cancel()
	if err := s.calls.Flush(ctx); err != nil {
		s.opts.Log.Error(err, "Writing the last records of calls of agents' tools failed", "lost", s.calls.Waiting())
	}
}

// onNewCertificates returns what notifies the admins of new certificates of a provider.
func onNewCertificates(n connections.Notifier) func(context.Context, upstream.Connection, []*x509.Certificate, func(people.Tx) (bool, error)) error {
	return func(ctx context.Context, c upstream.Connection, added []*x509.Certificate, store func(people.Tx) (bool, error)) error {
		return n.NewCertificates(ctx, c.Deployment, c.ID, added, store)
	}
}
