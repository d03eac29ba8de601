// Package shared counts together with other replicas, through Redis or Valkey. Over all replicas it guarantees for
// every rule what the engine does: no interval of the window's length admits more than the limit.
//
// A replica does not ask Redis for every request. It leases requests of a counter: Redis charges them when it grants
// the lease (grant.lua), and the replica may spend them until the lease ends, after a fiftieth of the window, a
// second at most. The shared window is that much longer than the rule's, so the guarantee holds for the moments of
// spending. Where little is left, a lease is of one request: then every request asks.
//
// All deployments share one Redis. A deployment has a bounded number of concurrent calls, and its failures alone are
// no outage. A scheme of which one request charges too many counters is not shared: each replica has an equal part of
// its limits.
//
// Without Redis (outage.go) each replica continues in its own engine, with its part of what was left.
package shared

import (
	"context"
	"crypto/rand"
	_ "embed"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"

	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
)

//go:embed grant.lua
var grantSource string

//go:embed heartbeat.lua
var heartbeatSource string

// callWithin bounds the calls to Redis, its own and others', that one request waits for.
const callWithin = 50 * time.Millisecond

// countersMost is how many counters of a scheme one request may charge for the scheme to be shared: each takes up to 10
// µs of Redis' one thread, and 600 bytes of its memory for each subject.
const countersMost = 16

// callsMost are the calls of one replica under way, callsAtOnce those of one deployment: more wait for their turn as
// long as for Redis.
const (
	callsMost   = 256
	callsAtOnce = 16
)

// Options configures Counters.
type Options struct {
	// URL is redis://, rediss:// or unix://, with further addresses of a cluster as ?addr=.
	URL    string
	Engine *engine.Engine
	Clock  func() engine.Instant
	// Replicas is how many there are taken to be until Redis was heard of; 0: one.
	Replicas int
	Log      logr.Logger
	Registry prometheus.Registerer
	// Prefix begins every key in Redis; "": cardea.
	Prefix string
}

// Counters decides requests by counters that replicas share. It is safe for concurrent use. Run must be running.
type Counters struct {
	opts   Options
	node   string
	leases leases
	client atomic.Pointer[rueidis.Client]
	grant  *rueidis.Lua
	beat   *rueidis.Lua

	// away reports that decisions are made on this replica alone.
	away atomic.Bool
	// failures are the calls that failed one after another.
	failures failures
	// slots admit calls.
	slots *egress.Slots
	// outage numbers the times that Redis was away.
	outage atomic.Uint64
	peers  atomic.Pointer[peers]
	// offset is Redis' wall clock ahead of ours, in microseconds.
	offset atomic.Int64
	mark   string
	calls  *prometheus.CounterVec
	// busy counts the calls that were not made for want of a slot.
	busy atomic.Uint64
}

// peers are the replicas as they were last heard of.
type peers struct{ count, rank int }

// part is this replica's part of a number: over all replicas the parts are the number.
func (p *peers) part(of int64) int64 {
	part := of / int64(p.count)
	if of%int64(p.count) > int64(p.rank) {
		part++
	}
	return part
}

// CheckURL reports whether a URL is one of Redis. The error may repeat it, with its password.
func CheckURL(url string) error {
	_, err := rueidis.ParseURL(url)
	return err
}

// New returns Counters that decide alone until Run has reached Redis.
func New(opts Options) (*Counters, error) {
	if _, err := rueidis.ParseURL(opts.URL); err != nil {
		return nil, err
	}
	if opts.Prefix == "" {
		opts.Prefix = "cardea"
	}
	c := &Counters{
		opts: opts, node: rand.Text(), grant: rueidis.NewLuaScript(grantSource), beat: rueidis.NewLuaScript(heartbeatSource),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cardea_ratelimit_shared_calls_total", Help: "Calls for leases of shared counters, by outcome: granted, denied, failed, busy (not made, because too many of the deployment were under way).",
		}, []string{"outcome"}),
	}
	c.slots = egress.NewSlots(egress.Bounds{AtOnce: callsMost, DeploymentAtOnce: callsAtOnce}, time.Now)
	c.leases.init()
	c.peers.Store(&peers{count: max(1, opts.Replicas)})
	c.away.Store(true)
	c.outage.Store(1)
	opts.Registry.MustRegister(c.calls, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cardea_ratelimit_shared_degraded", Help: "1 while counters are not shared, because Redis is out of reach.",
	}, func() float64 {
		if c.away.Load() {
			return 1
		}
		return 0
	}))
	return c, nil
}

// Busy returns how many calls were not made because too many of their deployment were under way.
func (c *Counters) Busy() uint64 {
	if c == nil {
		return 0
	}
	return c.busy.Load()
}

// Degraded reports whether counters are not shared at present.
func (c *Counters) Degraded() bool { return c.away.Load() }

// Peek returns how a request would be decided, as far as this replica knows, and charges nothing.
func (c *Counters) Peek(r *engine.Request, out *engine.Result) {
	d := decision{now: c.opts.Clock(), counters: engine.Applying(r, nil)}
	own := *r
	own.Limits = c.ownLimits(r, &d)
	c.opts.Engine.Peek(d.now, &own, out)
	for i, counter := range d.counters {
		if i >= len(out.Rules) {
			return
		}
		if known, found := c.leases.remaining(keyOf(&counter)); found {
			out.Rules[i].Remaining = min(out.Rules[i].Remaining, known)
		}
	}
}

// Decide evaluates one request. It charges every rule that matches, or none.
func (c *Counters) Decide(ctx context.Context, r *engine.Request, out *engine.Result) {
	var buffer [8]engine.Counter
	d := decision{counters: engine.Applying(r, buffer[:0])}
	if len(d.counters) == 0 {
		out.Allowed, out.Blocked, out.RetryAfter, out.Rules = true, -1, 0, out.Rules[:0]
		return
	}
	d.limits = c.ownLimits(r, &d)
	for tries := 0; ; tries++ {
		d.now = c.opts.Clock()
		state := c.leases.reserve(&d, tries < patience)
		switch {
		case state == reserved:
			c.admit(r, out, &d)
			if d.refill && !c.away.Load() {
				go c.refill(d.counters, r)
			}
			return
		case state == refused:
			c.deny(r, out, &d)
			return
		case c.away.Load():
			c.alone(r, out, &d)
			return
		}
		if d.until.IsZero() {
			d.until = time.Now().Add(callWithin)
		}
		if state == waiting {
			if wait(ctx, d.flight, d.until) {
				continue
			}
			c.alone(r, out, &d) // the request that asks will learn that Redis does not answer
			return
		}
		granted, err := c.ask(ctx, r, &d)
		switch {
		case err != nil:
			c.failed(err, deploymentOf(r))
			c.alone(r, out, &d)
		case granted:
			c.admit(r, out, &d)
		case tries < patience && !d.refusedBy():
			continue // a calendar period ended between the clocks: ask about the next
		default:
			c.deny(r, out, &d)
		}
		return
	}
}

// patience is how often a request waits for what another has asked for, before it asks itself.
const patience = 3

// wait reports whether a call that is under way was over in time, or need not be waited for because the client left.
func wait(ctx context.Context, flight <-chan struct{}, until time.Time) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-flight:
	case <-ctx.Done():
	case <-timer.C:
		return false
	}
	return true
}

// ownLimits are the limits of this process' own counters where a scheme is not shared, nil where all are: its parts of
// that scheme's limits, and none of those that are shared. It marks the counters that are not shared.
func (c *Counters) ownLimits(r *engine.Request, d *decision) (limits []int64) {
	wide := func(s *engine.Scheme) bool { return s != nil && s.Widest() > countersMost }
	scheme, appScheme := wide(r.Scheme), wide(r.AppScheme)
	if !scheme && !appScheme {
		return nil
	}
	peers := c.peers.Load()
	for i := range d.counters {
		limit := int64(math.MaxInt32)
		if d.counters[i].OfApp && appScheme || !d.counters[i].OfApp && scheme {
			d.own[i], limit = true, peers.part(d.counters[i].Rule.Limit)
		}
		limits = append(limits, limit)
	}
	return limits
}

// deploymentOf is the deployment that a request counts for.
func deploymentOf(r *engine.Request) string {
	if r.Scheme != nil {
		return r.Scheme.Deployment()
	}
	return r.AppScheme.Deployment()
}

// admit notes what was spent and reports. Where a scheme is not shared, it may still refuse.
func (c *Counters) admit(r *engine.Request, out *engine.Result, d *decision) {
	if d.limits != nil {
		own := *r
		own.Limits = d.limits
		if c.opts.Engine.Decide(d.now, &own, out); !out.Allowed {
			c.leases.release(d)
		}
		c.leases.report(out, d)
		return
	}
	c.opts.Engine.Record(d.now, r, out)
	out.Allowed, out.Blocked, out.RetryAfter = true, -1, 0
	c.leases.report(out, d)
}

// deny reports a refusal: nothing was spent.
func (c *Counters) deny(r *engine.Request, out *engine.Result, d *decision) {
	if d.limits != nil {
		own := *r
		own.Limits = d.limits
		c.opts.Engine.Peek(d.now, &own, out)
	}
	known := out.Rules[:0]
	if d.limits != nil && len(out.Rules) == len(d.counters) {
		known = slices.Clone(out.Rules)
	}
	out.Allowed, out.Blocked, out.RetryAfter, out.Rules = false, -1, 0, out.Rules[:0]
	for i := range d.counters {
		state := engine.RuleState{Rule: d.counters[i].Rule}
		if d.own[i] && i < len(known) {
			state = known[i]
		}
		out.Rules = append(out.Rules, state)
	}
	c.leases.report(out, d)
	for i := range out.Rules {
		if d.waits[i] > 0 {
			state := &out.Rules[i]
			state.Remaining, state.Returns = 0, d.waits[i]
			out.RetryAfter = max(out.RetryAfter, d.waits[i])
			state.Rule.Decisions.CountDenied()
			if out.Blocked < 0 {
				out.Blocked = i
			}
		}
	}
	if out.Blocked < 0 { // the refusal's reason went by meanwhile
		out.Blocked, out.RetryAfter = 0, 1000
	}
}
