// Package sharedlimit counts together with other replicas, through Redis or Valkey. What it promises of every rule, over all
// replicas, is the engine's promise: no interval of the window's length admits more than the limit.
//
// A replica does not ask for every request. It leases requests of a counter: they are charged in Redis when they are granted
// (grant.lua), and may be spent here until the lease ends, a fiftieth of the window later, a second at most. The shared window is that
// much longer than the rule's, so that the promise holds for the moments of spending. Where little is left, a lease is of one request:
// then every request asks.
//
// Without Redis (outage.go) each replica goes on in its own engine, with its part of what was left.
package sharedlimit

import (
	"context"
	"crypto/rand"
	_ "embed"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"

	"github.com/cardea-iam/cardea/apiserver/ratelimit"
)

//go:embed grant.lua
var grantSource string

//go:embed heartbeat.lua
var heartbeatSource string

// callWithin bounds the calls to Redis, its own and others', that one request waits for.
const callWithin = 50 * time.Millisecond

// Options are what Counters need.
type Options struct {
	// URL is redis://, rediss:// or unix://, with further addresses of a cluster as ?addr=.
	URL    string
	Engine *ratelimit.Engine
	Clock  func() ratelimit.Instant
	// Replicas is how many there are taken to be until Redis was heard of; 0: one.
	Replicas int
	Log      logr.Logger
	Registry prometheus.Registerer
	// Prefix begins every key in Redis; "": cardea.
	Prefix string
}

// Counters judge requests by counters that replicas share. They are safe for concurrent use. Run must run.
type Counters struct {
	opts   Options
	node   string
	leases leases
	client atomic.Pointer[rueidis.Client]
	grant  *rueidis.Lua
	beat   *rueidis.Lua

	// away: decisions are made here alone.
	away atomic.Bool
	// failures are the calls that failed one after another.
	failures atomic.Int32
	// outage numbers the times that Redis was away.
	outage atomic.Uint64
	peers  atomic.Pointer[peers]
	// offset is Redis' wall clock ahead of ours, in microseconds.
	offset atomic.Int64
	mark   string
	calls  *prometheus.CounterVec
}

// peers are the replicas as they were last heard of.
type peers struct{ count, rank int }

// CheckURL tells whether a URL is one of Redis. The error may repeat it, with its password.
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
			Name: "cardea_ratelimit_shared_calls_total", Help: "Calls for leases of shared counters, by outcome: granted, denied, failed.",
		}, []string{"outcome"}),
	}
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

// Degraded tells whether counters are not shared at present.
func (c *Counters) Degraded() bool { return c.away.Load() }

// Peek tells how a request would be judged, as far as is known here, and charges nothing.
func (c *Counters) Peek(r *ratelimit.Request, out *ratelimit.Result) {
	c.opts.Engine.Peek(c.opts.Clock(), r, out)
	for i, counter := range ratelimit.Applying(r, nil) {
		if i >= len(out.Rules) {
			return
		}
		if known, found := c.leases.remaining(keyOf(&counter)); found {
			out.Rules[i].Remaining = min(out.Rules[i].Remaining, known)
		}
	}
}

// Decide judges one request: it charges every rule that matches, or none.
func (c *Counters) Decide(ctx context.Context, r *ratelimit.Request, out *ratelimit.Result) {
	var buffer [8]ratelimit.Counter
	d := decision{counters: ratelimit.Applying(r, buffer[:0])}
	if len(d.counters) == 0 {
		out.Allowed, out.Blocked, out.RetryAfter, out.Rules = true, -1, 0, out.Rules[:0]
		return
	}
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
			c.deny(out, &d)
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
			c.alone(r, out, &d) // who asked will tell that Redis does not answer
			return
		}
		granted, err := c.ask(ctx, r, &d)
		switch {
		case err != nil:
			c.failed(err)
			c.alone(r, out, &d)
		case granted:
			c.admit(r, out, &d)
		case tries < patience && !d.refusedBy():
			continue // a calendar period ended between the clocks: ask about the next
		default:
			c.deny(out, &d)
		}
		return
	}
}

// patience is how often a request waits for what another has asked for, before it asks itself.
const patience = 3

// wait tells whether a call that is under way was over in time, or need not be waited for because the client left.
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

// admit notes what was spent and reports.
func (c *Counters) admit(r *ratelimit.Request, out *ratelimit.Result, d *decision) {
	c.opts.Engine.Record(d.now, r, out)
	out.Allowed, out.Blocked, out.RetryAfter = true, -1, 0
	c.leases.report(out, d)
}

// deny reports a refusal: nothing was spent.
func (c *Counters) deny(out *ratelimit.Result, d *decision) {
	out.Allowed, out.Blocked, out.RetryAfter, out.Rules = false, -1, 0, out.Rules[:0]
	for i := range d.counters {
		out.Rules = append(out.Rules, ratelimit.RuleState{Rule: d.counters[i].Rule})
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
