// Package shared counts together with other replicas, through Redis or Valkey. Over all replicas it guarantees for
// every rule what the engine does: no interval of the window's length admits more than the limit.
//
// A replica does not call Redis for every request. It leases requests of a counter: Redis charges them when it grants
// the lease (grant.lua), and the replica may spend them until the lease ends. A lease lasts a fiftieth of the window,
// at most a second. The shared window is longer than the rule's by at least the length of a lease, so the guarantee
// holds for the times at which requests are spent. If little is left, a lease has one request, so that every request
// calls Redis.
//
// All deployments share one Redis. A deployment has a bounded number of concurrent calls, and its failures alone are no
// outage. A scheme of which one request charges too many counters is not shared: each replica has an equal part of its
// limits.
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

// callWithin bounds how long one request waits for calls to Redis, both its own and those of other requests.
const callWithin = 50 * time.Millisecond

// countersMost is how many counters of a scheme one request may charge if the scheme is to be shared. Each counter
// takes up to 10 µs of Redis' one thread per call, and 600 bytes of its memory per subject.
const countersMost = 16

// callsMost bounds the concurrent calls of one replica, and callsAtOnce those of one deployment. Further calls wait for
// a slot within callWithin.
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
	// Replicas is the assumed number of replicas until Redis answers; 0: one.
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
	// failures are the consecutive failed calls.
	failures failures
	// slots admit calls.
	slots *egress.Slots
	// outage is the number of the last outage. The time until Redis is first reached is outage 1.
	outage atomic.Uint64
	peers  atomic.Pointer[peers]
	// offset is by how much Redis' wall clock is ahead of this process', in microseconds.
	offset atomic.Int64
	mark   string
	calls  *prometheus.CounterVec
	// busy counts the calls that were not made for want of a slot.
	busy atomic.Uint64
}

// peers are the number of live replicas, and the rank of this replica among them, at the last heartbeat.
type peers struct{ count, rank int }

// part returns this replica's part of a number. The parts of all replicas add up to the number.
func (p *peers) part(of int64) int64 {
	part := of / int64(p.count)
	if of%int64(p.count) > int64(p.rank) {
		part++
	}
	return part
}

// CheckURL returns an error if a URL is not one of Redis. The error may contain the URL with its password.
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
			Name: "cardea_ratelimit_shared_calls_total", Help: "Calls for leases of shared counters, by outcome: granted, denied, failed, busy (not made, because too many calls of the deployment were in progress), late (a request waited too long for the call of another).",
		}, []string{"outcome"}),
	}
	c.slots = egress.NewSlots(egress.Bounds{AtOnce: callsMost, DeploymentAtOnce: callsAtOnce}, time.Now)
	c.leases.init()
	c.peers.Store(&peers{count: max(1, opts.Replicas)})
	c.away.Store(true)
	c.outage.Store(1)
	opts.Registry.MustRegister(c.calls, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cardea_ratelimit_shared_degraded", Help: "1 while counters are not shared, because Redis is unavailable.",
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
			// If Redis does not answer, the request that made the call records it. The call may also have begun late.
			c.calls.WithLabelValues("late").Inc()
			c.alone(r, out, &d)
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
			continue // the calendar period is over by Redis' clock: ask about the next one
		default:
			c.deny(r, out, &d)
		}
		return
	}
}

// patience is how often a request waits for the call of another request before it calls Redis itself.
const patience = 3

// wait waits for a call in progress. It returns false if that does not end in time. It returns true if the call ended
// or the client disconnected.
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

// ownLimits returns the limits of this process for a request, nil if all its counters are shared. Of a scheme that is
// not shared, they are this process' parts of its limits. A shared counter has no limit here. ownLimits also marks the
// counters that are not shared.
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

// admit records a request whose tokens are taken, and fills in the result. If a scheme is not shared, its limits may
// still refuse the request.
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

// deny fills in the result of a refusal, for which nothing was spent.
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
	if out.Blocked < 0 { // the reason for the refusal no longer holds
		out.Blocked, out.RetryAfter = 0, 1000
	}
}
