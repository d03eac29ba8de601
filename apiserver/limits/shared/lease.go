package shared

import (
	"slices"
	"sync"
	"time"

	"github.com/cardea-iam/cardea/apiserver/limits/engine"
)

// counterKey identifies a counter.
type counterKey struct {
	scheme, of, address uint64
	identity            [2]uint64
}

func keyOf(c *engine.Counter) counterKey {
	return counterKey{c.Scheme, c.Of, c.Address, c.Rule.Identity}
}

// lease is the state of one counter on this replica. Times are microseconds of the steady clock.
type lease struct {
	// batches are the grants with unspent tokens, the older first. granted is how many tokens the newest grant left for
	// later requests.
	batches [2]batch
	granted int64
	// want is how many tokens to request next. It follows the use of the lease.
	want int64
	// remaining is how many requests Redis had left at its last answer; answered reports whether there was one.
	remaining int64
	answered  bool
	// Until deniedUntil, Redis would refuse every request under the limit deniedLimit.
	deniedUntil, deniedLimit int64
	// counter and tag identify the counter in Redis, from its first request to Redis or its first request without
	// Redis. names caches its keys in Redis.
	counter engine.Counter
	tag     string
	names   names
	// flight is closed when the call in progress ends, for which other requests wait; nil if there is no such call.
	flight chan struct{}
	// used is the moment of the last use.
	used int64

	// localLimit is this replica's part of limit in the outage with the number outage. spent counts the requests that
	// were admitted without Redis and are in no report yet.
	outage            uint64
	localLimit, limit int64
	spent             int64
	// pending is how many requests the report with the number batch contains, until Redis acknowledges it.
	pending int64
	batch   uint64
	// lost reports that Redis may have lost what this replica admitted.
	lost bool
	// Until markedUntil, Redis must have this replica's mark. marking is the next markedUntil, once Redis has answered.
	markedUntil, marking int64
}

// marked records that Redis has the mark.
func (held *lease) marked() {
	if held.marking > 0 {
		held.markedUntil, held.marking = held.marking, 0
	}
}

// batch is the rest of one grant: tokens that can be spent until deadline, and that Redis charged to cell.
type batch struct {
	tokens, deadline, cell int64
}

// tokens returns how many tokens can be spent at a moment.
func (held *lease) tokens(now int64) (sum int64) {
	for i := range held.batches {
		if now < held.batches[i].deadline {
			sum += held.batches[i].tokens
		}
	}
	return sum
}

// take spends a token of the oldest batch that has one, and returns the index of that batch; -1 if there is no token.
func (held *lease) take(now int64) int {
	for i := range held.batches {
		if b := &held.batches[i]; b.tokens > 0 && now < b.deadline {
			b.tokens--
			return i
		}
	}
	return -1
}

// expired removes and returns the older batch if its deadline has passed and tokens are left. The caller returns these
// to Redis, once, for the cell that they were charged to.
func (held *lease) expired(now int64) batch {
	if over := held.batches[0]; over.tokens > 0 && now >= over.deadline {
		held.batches[0], held.batches[1] = held.batches[1], batch{}
		return over
	}
	return batch{}
}

// add stores a grant. If both batches have tokens, the older one is dropped: its tokens stay charged.
func (held *lease) add(b batch) {
	if held.batches[0].tokens > 0 {
		if held.batches[1].tokens > 0 {
			held.batches[0] = held.batches[1]
		}
		held.batches[1] = b
		return
	}
	if held.batches[1].tokens > 0 {
		held.batches[0], held.batches[1] = held.batches[1], b
		return
	}
	held.batches[0] = b
}

const (
	leaseShards = 64
	// leasesMost bounds the leases of one shard.
	leasesMost = 8192
	// firstWant is how many tokens are requested for a counter without recent use.
	firstWant = 4
	// mostWant bounds the tokens of a lease.
	mostWant = 10_000
)

type leases struct{ shards [leaseShards]leaseShard }

type leaseShard struct {
	sync.Mutex
	held map[counterKey]*lease
}

func (l *leases) init() {
	for i := range l.shards {
		l.shards[i].held = map[counterKey]*lease{}
	}
}

func (l *leases) shard(key *counterKey) *leaseShard {
	return &l.shards[(key.identity[0]^key.of*0x9e3779b97f4a7c15>>7^key.address*0xd6e8feb86659fd93>>9)%leaseShards]
}

// of returns the lease of a counter, and creates it if there is none. The caller holds the lock of the shard.
func (s *leaseShard) of(key counterKey, now int64) *lease {
	held := s.held[key]
	if held == nil {
		if len(s.held) >= leasesMost {
			s.makeRoom()
		}
		held = &lease{want: firstWant}
		s.held[key] = held
	}
	held.used = now
	return held
}

// idle reports whether the lease can be dropped: at most the quota of its unspent tokens is lost with it.
func (held *lease) idle() bool {
	return held.flight == nil && held.spent == 0 && held.pending == 0 && !held.lost
}

// makeRoom drops one idle lease, if there is one among the first few.
func (s *leaseShard) makeRoom() {
	tries := 0
	for key, held := range s.held {
		if held.idle() {
			delete(s.held, key)
			return
		}
		if tries++; tries > 16 {
			return
		}
	}
}

// decision is the working state of one request.
type decision struct {
	now      engine.Instant
	counters []engine.Counter
	// until is when Redis must have answered.
	until time.Time
	// taken are the counters of which a token is reserved.
	taken [128]bool
	// from are the cells that the reserved tokens were charged to.
	from [128]int64
	// own marks the counters that are not shared. limits are the limits of this process, nil if all counters are
	// shared.
	own    [128]bool
	limits []int64
	// waits are how long each counter refuses, in microseconds; 0 if it does not.
	waits  [128]int64
	flight <-chan struct{}
	// refill reports that a lease is nearly spent.
	refill bool
}

// refusedBy reports whether a counter is known to refuse.
func (d *decision) refusedBy() bool {
	return slices.ContainsFunc(d.waits[:len(d.counters)], func(wait int64) bool { return wait > 0 })
}

type state int

const (
	// reserved: every counter gave a token.
	reserved state = iota
	// refused: a counter is known to be used up.
	refused
	// waiting: another request already calls Redis.
	waiting
	// short: Redis must be asked for the counters that are not taken.
	short
)

// reserve takes a token of every counter that has one. Unless it returns reserved or short, it releases all of them. A
// request that is not patient calls Redis even if another request already does.
func (l *leases) reserve(d *decision, patient bool) state {
	answer := reserved
	d.refill = false
	for i := range d.counters {
		d.taken[i], d.waits[i] = false, 0
		if d.own[i] {
			continue
		}
		key := keyOf(&d.counters[i])
		s := l.shard(&key)
		s.Lock()
		held := s.of(key, d.now.Steady)
		switch {
		case held.give(d, i):
			d.refill = d.refill || held.flight == nil && held.low(d.now.Steady)
		case held.deniedUntil > d.now.Steady && held.deniedLimit == d.counters[i].Rule.Limit:
			d.waits[i], answer = held.deniedUntil-d.now.Steady, refused
		case held.flight != nil && patient && answer != refused:
			d.flight, answer = held.flight, waiting
		case answer == reserved:
			answer = short
		}
		s.Unlock()
	}
	if answer == refused || answer == waiting {
		l.release(d)
	}
	return answer
}

// give takes a token for a decision's counter, and reports whether there was one.
func (held *lease) give(d *decision, i int) bool {
	from := held.take(d.now.Steady)
	if from < 0 {
		return false
	}
	d.taken[i], d.from[i] = true, held.batches[from].cell
	return true
}

// low reports whether it is time to request more tokens: at most 30 % of the last grant are left.
func (held *lease) low(now int64) bool {
	return held.granted > 3 && held.tokens(now)*10 <= held.granted*3
}

// release gives the tokens that reserve took back to their batches. If a batch no longer exists, its token stays
// charged.
func (l *leases) release(d *decision) {
	for i := range d.counters {
		if !d.taken[i] {
			continue
		}
		d.taken[i] = false
		key := keyOf(&d.counters[i])
		s := l.shard(&key)
		s.Lock()
		held := s.of(key, d.now.Steady)
		for b := range held.batches {
			if held.batches[b].cell == d.from[i] && held.batches[b].deadline > 0 {
				held.batches[b].tokens++
				break
			}
		}
		s.Unlock()
	}
}

// report sets the remaining requests of the rules, as far as they are known.
func (l *leases) report(out *engine.Result, d *decision) {
	for i := range min(len(out.Rules), len(d.counters)) { // the rules differ if the scheme changed meanwhile
		key := keyOf(&d.counters[i])
		if known, found := l.remaining(key); found {
			out.Rules[i].Remaining = known
		}
	}
}

func (l *leases) remaining(key counterKey) (int64, bool) {
	s := l.shard(&key)
	s.Lock()
	defer s.Unlock()
	held := s.held[key]
	if held == nil || !held.answered {
		return 0, false
	}
	return held.remaining + held.batches[0].tokens + held.batches[1].tokens, true
}

// sweep drops the idle leases of one shard that were last used before a moment.
func (l *leases) sweep(shard int, before int64) {
	s := &l.shards[shard%leaseShards]
	s.Lock()
	defer s.Unlock()
	for key, held := range s.held {
		if held.used < before && held.idle() {
			delete(s.held, key)
		}
	}
}
