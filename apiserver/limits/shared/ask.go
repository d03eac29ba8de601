package shared

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
)

// A group is what one call can ask about: the counters of one scheme, which have one hash tag, so that a cluster keeps
// them in one slot.
type group struct {
	tag      string
	counters []int
}

// groups groups the wanted counters by scheme. A request has one scheme, and may have a second one, its app's.
func groups(r *engine.Request, counters []engine.Counter, wanted func(i int) bool) (all []group) {
	for _, ofApp := range []bool{false, true} {
		g := group{}
		for i := range counters {
			if counters[i].OfApp == ofApp && wanted(i) {
				g.counters = append(g.counters, i)
			}
		}
		if len(g.counters) > 0 {
			s := r.Scheme
			if ofApp {
				s = r.AppScheme
			}
			g.tag = s.Group(r)
			all = append(all, g)
		}
	}
	return all
}

// ask requests a token of every shared counter of which none is taken yet. It reports whether every counter granted
// one. If not, it releases all tokens, and d.waits contains how long each refusing counter refuses. It also releases
// them after an error, which means that Redis did not answer or that no call was possible.
func (c *Counters) ask(ctx context.Context, r *engine.Request, d *decision) (bool, error) {
	for _, g := range groups(r, d.counters, func(i int) bool { return !d.taken[i] && !d.own[i] }) {
		granted, err := c.call(ctx, deploymentOf(r), g, d, true)
		if err != nil || !granted {
			c.leases.release(d)
			return false, err
		}
	}
	return true, nil
}

// refill requests more tokens for the counters whose leases are nearly spent.
func (c *Counters) refill(counters []engine.Counter, r *engine.Request) {
	d := decision{now: c.opts.Clock(), counters: counters, until: time.Now().Add(callWithin)}
	c.ownLimits(r, &d)
	low := func(i int) bool {
		if d.own[i] {
			return false
		}
		key := keyOf(&counters[i])
		s := c.leases.shard(&key)
		s.Lock()
		defer s.Unlock()
		held := s.of(key, d.now.Steady)
		return held.flight == nil && held.low(d.now.Steady)
	}
	for _, g := range groups(r, counters, low) {
		if _, err := c.call(context.Background(), deploymentOf(r), g, &d, false); err != nil {
			c.failed(err, deploymentOf(r))
			return
		}
	}
}

// errBusy means that a deployment already has as many calls waiting for Redis as it may. It does not mean that Redis is
// unavailable.
var errBusy = errors.New("too many calls of this deployment wait for Redis")

// call asks Redis once, for a deployment. With spend, it takes one of the granted tokens of every counter for the
// caller and marks it as taken.
func (c *Counters) call(ctx context.Context, deployment string, g group, d *decision, spend bool) (bool, error) {
	client := c.client.Load()
	if client == nil {
		return false, fmt.Errorf("redis was not reached yet")
	}
	bounded, cancel := context.WithDeadline(ctx, d.until)
	defer cancel()
	done, err := c.slots.Begin(bounded, egress.Asker{Deployment: deployment})
	if err != nil {
		c.calls.WithLabelValues("busy").Inc()
		c.busy.Add(1)
		return false, errBusy
	}
	keys, args := make([]string, 2*len(g.counters)), make([]string, 1, 1+2*len(g.counters))
	args[0] = strconv.Itoa(c.peers.Load().count)
	flight := make(chan struct{})
	for n, i := range g.counters {
		own := c.opts.Engine.Used(d.now, &d.counters[i])
		var name names
		name, args = c.begin(args, g.tag, &d.counters[i], d.now, own, flight)
		keys[n], keys[len(g.counters)+n] = name.counter, name.mark
	}
	sent := c.opts.Clock().Steady
	all := d.counters
	got, answered := execute(bounded, c.grant, *client, keys, args, done, func(late rueidis.RedisResult) {
		_, _, _ = c.land(all, g, late, false, sent, flight)
	})
	var answers []answer
	granted, err := false, got.Error()
	if answered { // else the flight is open until the client returns, so that a counter with leases takes one slot
		answers, granted, err = c.land(all, g, got, spend, sent, flight)
	}
	if err != nil {
		c.calls.WithLabelValues("failed").Inc()
		if ctx.Err() != nil { // the client disconnected, so Redis did not fail
			err = nil
		}
		return false, err
	}
	for n := range answers {
		i := g.counters[n]
		if granted && spend {
			d.taken[i], d.from[i] = true, answers[n].cell
		}
		if !granted {
			d.waits[i] = answers[n].refusal(&d.counters[i])
		}
	}
	c.failures.reset()
	outcome := "denied"
	if granted {
		outcome = "granted"
	}
	c.calls.WithLabelValues(outcome).Inc()
	return granted, nil
}

// land stores the result of a call in the leases, and ends the waits for it. With spend, the caller gets one of the
// granted tokens of every counter.
func (c *Counters) land(all []engine.Counter, g group, got rueidis.RedisResult, spend bool, sent int64, flight chan struct{}) ([]answer, bool, error) {
	raw, err := got.ToArray()
	answers, granted, err := readAnswer(raw, err, len(g.counters))
	for n, i := range g.counters {
		var a *answer
		if answers != nil {
			a = &answers[n]
		}
		c.leases.finish(&all[i], a, granted, spend, sent, flight)
	}
	close(flight)
	return answers, granted, err
}

// answer is the result of grant.lua for one counter.
type answer struct{ granted, remaining, wait, cell, lease int64 }

// refusal returns how long the counter refuses requests, in microseconds, or 0 if it does not refuse.
func (a *answer) refusal(of *engine.Counter) int64 {
	if a.remaining > 0 {
		return 0
	}
	return max(a.wait, 1000)
}

func readAnswer(raw []rueidis.RedisMessage, err error, counters int) ([]answer, bool, error) {
	if err != nil {
		return nil, false, err
	}
	if len(raw) != 2+5*counters {
		return nil, false, fmt.Errorf("redis answered %d values, want %d", len(raw), 2+5*counters)
	}
	number := func(m *rueidis.RedisMessage) int64 {
		if n, intErr := m.AsInt64(); intErr == nil {
			return n
		} else if err == nil {
			err = intErr
		}
		return 0
	}
	answers := make([]answer, counters)
	for i := range answers {
		of := raw[2+5*i:]
		answers[i] = answer{granted: number(&of[0]), remaining: number(&of[1]), wait: number(&of[2]), cell: number(&of[3]), lease: number(&of[4])}
	}
	return answers, number(&raw[0]) == 1, err
}

// names are the Redis keys of a counter: its own, and the key of the mark that this replica sets for it.
type names struct{ counter, mark string }

// namesOf returns the Redis keys of a counter. The counter's own key has at most 64 bytes after the prefix. Neither key
// contains text that a client chose.
func (c *Counters) namesOf(tag string, of *engine.Counter) names {
	h := fnv.New128a()
	fmt.Fprintf(h, "%x %x %x %x", of.Rule.Identity[0], of.Rule.Identity[1], of.Of, of.Address)
	counter := c.opts.Prefix + ":{" + tag + "}:" + hex.EncodeToString(h.Sum(nil))
	return names{counter, counter + ":" + c.node}
}

// begin marks a counter as requested, names it, and appends the arguments of its Redis call.
func (c *Counters) begin(args []string, tag string, of *engine.Counter, now engine.Instant, own int64, flight chan struct{}) (names, []string) {
	key, offset := keyOf(of), c.offset.Load()
	s := c.leases.shard(&key)
	s.Lock()
	defer s.Unlock()
	held := s.of(key, now.Steady)
	held.counter = *of
	if held.tag != tag || held.names.counter == "" {
		held.tag, held.names = tag, c.namesOf(tag, of)
	}
	kind, size, term := of.Rule.Shared(now.Wall + offset)
	back := held.expired(now.Steady)
	held.ask(back.tokens, term)
	if held.pending == 0 && held.spent > 0 {
		held.pending, held.spent = held.spent, 0
		held.batch++
	}
	if held.flight == nil && held.want > 1 { // no request waits for the single token of another request
		held.flight = flight
	}
	return held.names, held.arguments(args, of, now, request{kind, size, term, held.want, back, own, offset})
}

// request contains the values of a Redis call for one counter that are not in its lease.
type request struct {
	kind             string
	size, term, want int64
	back             batch
	own, offset      int64
}

// arguments appends the two texts of grant.lua for one counter.
func (held *lease) arguments(args []string, of *engine.Counter, now engine.Instant, r request) []string {
	kind, window := byte(0), of.Rule.Length
	if r.kind == "c" {
		kind, window = 1, max(0, r.size-now.Wall-r.offset)
	}
	known := int64(0)
	if now.Steady < held.markedUntil {
		known = 1
	} else {
		held.marking = now.Steady + window
	}
	values := make([]byte, 1, 1+10*8)
	values[0] = kind
	for _, n := range [...]int64{
		of.Rule.Limit, r.size, r.term, r.want, r.back.tokens, r.back.cell, held.pending, r.own + held.tokens(now.Steady), known,
		window/1000 + markSpare.Milliseconds(),
	} {
		values = binary.BigEndian.AppendUint64(values, math.Float64bits(float64(n)))
	}
	return append(args, string(values), strconv.FormatUint(held.batch, 10))
}

// markSpare is how much longer than the window a mark lives, so that a replica does not mistake an expired mark for
// lost data.
const markSpare = time.Hour

// ask chooses how many tokens to request next: twice as many if none of the last lease expired, half as many if more
// than half of it did.
func (held *lease) ask(back, term int64) {
	switch {
	case term < int64(shortestLease/time.Microsecond):
		held.want = 1
	case held.granted == 0:
		held.want = max(held.want, firstWant)
	case back*2 > held.granted:
		held.want = max(firstWant, held.want/2)
	case back == 0:
		held.want = min(mostWant, held.want*2)
	}
}

// shortestLease is the shortest useful duration of a lease. For windows of less than 2.5 s, which have shorter leases,
// every request asks Redis.
const shortestLease = 50 * time.Millisecond

// finish stores an answer in the lease; a nil answer means that the call failed. With spend, it leaves one of the
// granted tokens to the caller.
func (l *leases) finish(of *engine.Counter, a *answer, granted, spend bool, sent int64, flight chan struct{}) {
	key := keyOf(of)
	s := l.shard(&key)
	s.Lock()
	defer s.Unlock()
	held := s.of(key, sent)
	if held.flight == flight {
		held.flight = nil
	}
	if a == nil {
		return
	}
	held.pending, held.remaining, held.answered = 0, a.remaining, true
	held.marked()
	if !granted {
		if a.remaining == 0 {
			held.deniedUntil, held.deniedLimit = sent+max(a.wait, 1000), of.Rule.Limit
		}
		return
	}
	tokens := a.granted
	if spend {
		tokens--
	}
	held.granted, held.deniedUntil = tokens, 0
	held.add(batch{tokens: tokens, deadline: sent + a.lease, cell: a.cell})
}
