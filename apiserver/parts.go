package apiserver

import (
	"cmp"
	"crypto/rand"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/agents"
	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/apiserver/endedconnections"
	"github.com/cardea-iam/cardea/apiserver/events/sequencer"
	"github.com/cardea-iam/cardea/apiserver/events/webhooks"
	"github.com/cardea-iam/cardea/apiserver/frontend/provisioning"
	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/limits"
	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/apiserver/limits/exceeded"
	"github.com/cardea-iam/cardea/apiserver/limits/shared"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/outbound/outbox"
	"github.com/cardea-iam/cardea/apiserver/reprovision"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/tokensigner"
	backendapi "github.com/cardea-iam/cardea/client/backend"
)

// newProvisioning returns the server of directories.
func newProvisioning(opts Options, follower *snapshot.Follower, dispatcher *outbox.Dispatcher) *provisioning.Server {
	return provisioning.New(provisioning.Options{
		Snapshots: follower, Store: opts.People, Keyring: opts.Keyring, Proxies: opts.TrustedProxies, OnEnqueue: dispatcher.Wake, Clock: opts.Clock,
		Log: opts.Log.WithName("scim"), Metrics: httpapi.NewMetrics(opts.Registry, "scim", opts.Tracer), Requests: provisioning.NewMetrics(opts.Registry),
	})
}

// newReprovision returns the worker that applies changes of domains and group roles to users of directories.
func newReprovision(opts Options, follower *snapshot.Follower, dispatcher *outbox.Dispatcher) *reprovision.Worker {
	return reprovision.New(reprovision.Options{
		Store: opts.People, Snapshots: follower, Keyring: opts.Keyring, OnEnqueue: dispatcher.Wake, Clock: opts.Clock, Log: opts.Log.WithName("reprovision"),
	})
}

// newEnded returns the worker that ends what belongs to deleted connections.
func newEnded(opts Options, follower *snapshot.Follower) *endedconnections.Worker {
	return endedconnections.New(endedconnections.Options{
		Store: opts.People, Snapshots: follower, Keyring: opts.Keyring, Clock: opts.Clock, Log: opts.Log.WithName("ended-connections"),
	})
}

// newWebhooks returns the dispatcher of webhooks, which the sequencer wakes.
func newWebhooks(opts Options, follower *snapshot.Follower, signer *tokensigner.Signer, policy *egress.Policy, numbering *sequencer.Worker, mails *outbox.Dispatcher) *webhooks.Dispatcher {
	d := webhooks.New(webhooks.Options{
		Store: opts.People, Snapshots: follower, Keyring: opts.Keyring, Signer: signer, Egress: policy, Server: rand.Text(), Version: opts.Version, Clock: opts.Clock,
		OnEnqueue: mails.Wake, Log: opts.Log.WithName("webhooks"), Registry: opts.Registry,
	})
	numbering.OnNumbered(d.Wake)
	return d
}

// newFollower returns the follower of the configuration, and registers its metrics.
func newFollower(opts *Options) *snapshot.Follower {
	follower := snapshot.NewFollower(opts.Feed, feedPoll, opts.Clock, opts.Log.WithName("snapshot"))
	opts.Registry.MustRegister(
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
	return follower
}

// newLimiter returns the limiter, what reports its refusals, and the counters that replicas share, nil without Redis.
func newLimiter(opts Options, follower *snapshot.Follower) (*limits.Limiter, *exceeded.Reporter, *shared.Counters, error) {
	local, clock := engine.NewEngine(cmp.Or(opts.LimiterBytes, engine.DefaultMaxBytes)), opts.counting
	if opts.RedisURL == "" {
		limiter := limits.New(local, clock.Now, nil, follower.Current)
		return limiter, newRefusals(opts, follower, limiter), nil, opts.Registry.Register(limiter)
	}
	counters, err := shared.New(shared.Options{
		URL: opts.RedisURL, Engine: local, Clock: clock.Now, Replicas: opts.Replicas, Log: opts.Log.WithName("shared-limits"), Registry: opts.Registry,
	})
	if err != nil {
		return nil, nil, nil, err
	}
	limiter := limits.New(local, clock.Now, counters, follower.Current)
	return limiter, newRefusals(opts, follower, limiter), counters, opts.Registry.Register(limiter)
}

// newRefusals returns the reporter of the limiter's refusals.
func newRefusals(opts Options, follower *snapshot.Follower, limiter *limits.Limiter) *exceeded.Reporter {
	r := exceeded.New(exceeded.Options{
		Store: opts.People, Clock: opts.Clock, Log: opts.Log.WithName("rate-limits"),
		Served: func(deployment string) bool { _, found := follower.Current().Deployment(deployment); return found },
	})
	limiter.ReportTo(r)
	return r
}

// callLater returns a function that calls tools by a server of agents that is made later.
func callLater(made **agents.Server) func(*httpapi.Exchange, *http.Request, toolset.Call) (*backendapi.ToolCallResult, error) {
	return func(x *httpapi.Exchange, r *http.Request, of toolset.Call) (*backendapi.ToolCallResult, error) {
		return (*made).CallDirectly(x, r, of)
	}
}
