package shared

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/cardea-iam/cardea/apiserver/limits/engine"
)

const (
	// beatEvery is the interval of heartbeats, which announce the replica and check Redis.
	beatEvery = 250 * time.Millisecond
	// silence is the time without a heartbeat after which a replica no longer counts.
	silence = 3 * time.Second
	// failuresMost is how many consecutive failed calls begin an outage, if calls of two deployments or heartbeats are
	// among them.
	failuresMost = 3
	// recoverFor is how long after its return Redis only receives reports of requests that were admitted without it. So
	// every replica reports before any replica leases.
	recoverFor = 3 * beatEvery
	// idle is how long an unused lease is remembered.
	idle = 2 * time.Minute
)

// failed records a call of a deployment, or "" for a heartbeat, that Redis did not answer. A call that Redis refused
// does not count: only that call is at fault.
func (c *Counters) failed(err error, deployment string) {
	if err != nil && !errors.Is(err, errBusy) && !refusedCall(err) && c.failures.add(deployment) {
		c.leave(err)
	}
}

// failures are the consecutive failed calls. If all are of one deployment, the cause may be what that deployment
// requests.
type failures struct {
	mu    sync.Mutex
	count int
	// first is the deployment of the first failure, "" for a heartbeat. others reports whether another deployment's
	// calls, or heartbeats, failed too.
	first  string
	others bool
}

// add counts a failure and reports whether there are enough to regard Redis as unavailable.
func (f *failures) add(deployment string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == 0 {
		f.first = deployment
	}
	f.count++
	f.others = f.others || deployment == "" || deployment != f.first
	return f.others && f.count >= failuresMost
}

func (f *failures) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count, f.others = 0, false
}

// outOfService are the prefixes of errors with which Redis says that it does not serve.
var outOfService = []string{"LOADING", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "NOAUTH", "WRONGPASS", "NOPERM", "OOM", "MISCONF", "BUSY"}

// refusedCall reports whether Redis is available and refused only this call, such as after a script error.
func refusedCall(err error) bool {
	answer, is := rueidis.IsRedisErr(err)
	return is && !slices.ContainsFunc(outOfService, func(code string) bool { return strings.HasPrefix(answer.Error(), code) })
}

// leave begins an outage.
func (c *Counters) leave(err error) {
	if !c.away.Swap(true) {
		c.outage.Add(1)
		c.opts.Log.Info("Redis is unavailable: each replica enforces its part of the limits until Redis returns", "error", err.Error())
	}
}

// alone decides by this replica's part of each limit: what it had admitted when Redis became unavailable, and its share
// of what was left then. The parts of all replicas add up to the limit, as far as each replica knew of the others.
func (c *Counters) alone(r *engine.Request, out *engine.Result, d *decision) {
	c.leases.release(d)
	c.opts.Engine.Peek(d.now, r, out)
	if len(out.Rules) != len(d.counters) { // the scheme changed meanwhile
		d.counters, d.own = engine.Applying(r, nil), [128]bool{}
		c.ownLimits(r, d)
	}
	var buffer [8]int64
	limits := buffer[:0]
	peers, outage := c.peers.Load(), c.outage.Load()
	for i := range d.counters {
		if d.own[i] {
			limits = append(limits, peers.part(d.counters[i].Rule.Limit))
			continue
		}
		own := int64(0)
		if i < len(out.Rules) {
			own = d.counters[i].Rule.Limit - out.Rules[i].Remaining
		}
		limits = append(limits, c.leases.localLimit(&d.counters[i], d.now.Steady, own, outage, peers))
	}
	mine := *r
	mine.Limits = limits
	c.opts.Engine.Decide(d.now, &mine, out)
	if !out.Allowed {
		return
	}
	for _, g := range groups(r, d.counters, func(i int) bool { return !d.own[i] }) {
		for _, i := range g.counters {
			key := keyOf(&d.counters[i])
			s := c.leases.shard(&key)
			s.Lock()
			held := s.of(key, d.now.Steady)
			held.counter = d.counters[i]
			if held.tag != g.tag {
				held.tag, held.names = g.tag, names{}
			}
			held.spent++
			s.Unlock()
		}
	}
}

// localLimit is this replica's part of a counter's limit during an outage.
func (l *leases) localLimit(of *engine.Counter, now, own int64, outage uint64, p *peers) int64 {
	key := keyOf(of)
	s := l.shard(&key)
	s.Lock()
	defer s.Unlock()
	held := s.of(key, now)
	if held.outage == outage && held.limit == of.Rule.Limit {
		return held.localLimit
	}
	left := of.Rule.Limit - own
	if held.answered {
		left = min(left, held.remaining+held.tokens(now))
	}
	held.outage, held.limit, held.localLimit = outage, of.Rule.Limit, own+p.part(left)
	return held.localLimit
}

// Run stays connected to Redis until ctx ends. If Redis is never reached, Run logs that once, after failuresMost
// heartbeats.
func (c *Counters) Run(ctx context.Context) error {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	defer func() {
		if client := c.client.Load(); client != nil {
			(*client).Close()
		}
	}()
	back := time.Time{}
	missed := 0 // the heartbeats that failed before the first that succeeded
	for shard := 0; ; shard++ {
		err := c.heartbeat(ctx)
		if err == nil {
			missed = failuresMost
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			back = time.Time{}
			c.failed(err, "")
			if missed++; missed == failuresMost {
				c.opts.Log.Info("Redis has not been reached since the start: each replica enforces its part of the limits until Redis answers. "+
					"Check its address, password and certificate", "error", err.Error())
			}
		case c.away.Load():
			if back.IsZero() {
				back = time.Now()
			}
			c.report(ctx)
			if time.Since(back) >= recoverFor {
				back = time.Time{}
				c.failures.reset()
				c.away.Store(false)
				c.report(ctx)
				c.opts.Log.Info("Redis is back: limits are shared again", "replicas", c.peers.Load().count)
			}
		}
		c.leases.sweep(shard, c.opts.Clock().Steady-idle.Microseconds())
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
		}
	}
}

// connect returns the client, and creates it if there is none: a Redis that starts late must not prevent the start of
// the server.
func (c *Counters) connect() (rueidis.Client, error) {
	if known := c.client.Load(); known != nil {
		return *known, nil
	}
	options, err := rueidis.ParseURL(c.opts.URL)
	if err != nil {
		return nil, err
	}
	options.DisableCache, options.DisableRetry = true, true
	options.Dialer.Timeout, options.ConnWriteTimeout = time.Second, time.Second
	made, err := rueidis.NewClient(options)
	if err != nil {
		return nil, err
	}
	c.client.Store(&made)
	return made, nil
}

// heartbeat reports this replica as live and reads which other replicas are. If the mark of the data is another one
// than before, Redis has lost every counter. The replica then reports again what it knows.
func (c *Counters) heartbeat(ctx context.Context) error {
	client, err := c.connect()
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, 4*callWithin)
	defer cancel()
	before := c.opts.Clock()
	keys := []string{c.opts.Prefix + ":{nodes}", c.opts.Prefix + ":{nodes}:mark"}
	args := []string{c.node, strconv.FormatInt(silence.Milliseconds(), 10), c.node + strconv.FormatInt(before.Wall, 36)}
	raw, err := executeAlone(bounded, c.beat, client, keys, args).AsStrSlice()
	if err != nil {
		return err
	}
	return c.heard(raw, before)
}

// heard processes a heartbeat's answer: the time, the mark, and the live replicas.
func (c *Counters) heard(raw []string, before engine.Instant) error {
	if len(raw) < 3 {
		return fmt.Errorf("redis answered %d values to a heartbeat", len(raw))
	}
	wall, err := strconv.ParseInt(raw[0], 10, 64)
	if err != nil {
		return fmt.Errorf("redis did not return its time: %w", err)
	}
	c.offset.Store(wall - before.Wall)
	nodes := slices.Sorted(slices.Values(raw[2:]))
	c.peers.Store(&peers{count: len(nodes), rank: max(0, slices.Index(nodes, c.node))})
	if c.mark != "" && c.mark != raw[1] {
		c.leave(errors.New("its data was lost"))
		c.recount()
	}
	c.mark = raw[1]
	return nil
}

// recount schedules a report of every counter to Redis. If this replica's mark is missing there, Redis charges again
// what the replica admitted in the current window.
func (c *Counters) recount() {
	for i := range c.leases.shards {
		s := &c.leases.shards[i]
		s.Lock()
		for _, held := range s.held {
			held.lost = true
			held.batches = [2]batch{}
		}
		s.Unlock()
	}
}

// report sends Redis the requests that were admitted without it, counter by counter, and leases nothing.
func (c *Counters) report(ctx context.Context) {
	now := c.opts.Clock()
	for i := range c.leases.shards {
		for _, key := range c.leases.shards[i].unreported() {
			if ctx.Err() != nil || !c.reportOne(ctx, i, key, now) {
				return
			}
		}
	}
}

// unreported returns the counters of which Redis does not have all requests.
func (s *leaseShard) unreported() (keys []counterKey) {
	s.Lock()
	defer s.Unlock()
	for key, held := range s.held {
		if held.spent > 0 || held.pending > 0 || held.lost {
			keys = append(keys, key)
		}
	}
	return keys
}

// reportOne reports one counter. The number of the batch prevents Redis from counting it twice. Only admitted requests
// that are still in the window count. It returns false if Redis does not respond.
func (c *Counters) reportOne(ctx context.Context, shard int, key counterKey, now engine.Instant) bool {
	client := c.client.Load()
	s := &c.leases.shards[shard]
	s.Lock()
	held := s.held[key]
	if held == nil || client == nil || held.tag == "" {
		s.Unlock()
		return client != nil
	}
	own := c.opts.Engine.Used(now, &held.counter)
	if held.pending == 0 && held.spent > 0 {
		held.pending, held.spent = min(held.spent, own), 0
		held.batch++
	}
	of, tag, amount := held.counter, held.tag, held.pending
	if amount == 0 && !held.lost {
		s.Unlock()
		return true
	}
	kind, size, term := of.Rule.Shared(now.Wall + c.offset.Load())
	name := c.namesOf(tag, &of)
	args := held.arguments([]string{"1"}, &of, now, request{kind, size, term, 0, batch{}, own, c.offset.Load()})
	s.Unlock()
	bounded, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	if err := executeAlone(bounded, c.grant, *client, []string{name.counter, name.mark}, args).Error(); err != nil {
		c.failed(err, "")
		return false
	}
	s.Lock()
	defer s.Unlock()
	if held.pending == amount {
		held.pending = 0
	}
	held.lost = false
	held.marked()
	return true
}
