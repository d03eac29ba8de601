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

// lease is what this replica has of one counter. Times are on the steady clock.
type lease struct {
	// batches are what was granted and not spent, the older first; granted is how many the newest had.
	batches [2]batch
	granted int64
	// want is how many to ask for next: it follows what is spent.
	want int64
	// remaining is what was left in Redis at the last answer.
	remaining int64
	answered  bool
	// deniedUntil is before when asking is in vain, for the limit deniedLimit.
	deniedUntil, deniedLimit int64
	// counter and tag name it in Redis, once it was asked for or spent without; names are its keys there, once they were
	// needed.
	counter engine.Counter
	tag     string
	names   names
	// flight is closed when the call under way is over, nil without one.
	flight chan struct{}
	// used is the moment of the last use.
	used int64

	// In the outage with number outage, localLimit is this replica's part of limit, and spent the requests admitted beyond
	// leases since then.
	outage            uint64
	localLimit, limit int64
	spent             int64
	// pending of batch is what a call to Redis under way reports.
	pending int64
	batch   uint64
	// lost: Redis may have forgotten what this replica admitted.
	lost bool
	// markedUntil is until when Redis must know this replica's mark, and marking what it becomes when Redis has answered.
	markedUntil, marking int64
}

// marked records that Redis has the mark.
func (held *lease) marked() {
	if held.marking > 0 {
		held.markedUntil, held.marking = held.marking, 0
	}
}

// batch is what one grant left: tokens may be spent until deadline, and were charged to cell.
type batch struct {
	tokens, deadline, cell int64
}

// tokens are all that may be spent at a moment.
func (held *lease) tokens(now int64) (sum int64) {
	for i := range held.batches {
		if now < held.batches[i].deadline {
			sum += held.batches[i].tokens
		}
	}
	return sum
}

// take spends a token, the oldest first, and returns the batch that it belongs to; -1 if there is none.
func (held *lease) take(now int64) int {
	for i := range held.batches {
		if b := &held.batches[i]; b.tokens > 0 && now < b.deadline {
			b.tokens--
			return i
		}
	}
	return -1
}

// expired takes out what was not spent in time, to be given back: once, and to the cell that it was charged to.
func (held *lease) expired(now int64) batch {
	if over := held.batches[0]; over.tokens > 0 && now >= over.deadline {
		held.batches[0], held.batches[1] = held.batches[1], batch{}
		return over
	}
	return batch{}
}

// add keeps a grant. Where two are held already, the older is forgotten: it stays charged.
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
	// firstWant is what a counter that was not used lately asks for.
	firstWant = 4
	// mostWant bounds a lease.
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

// of returns the lease of a counter in its locked shard; there is one afterwards.
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

// idle reports that nothing is lost with the lease but a few requests of quota.
func (held *lease) idle() bool {
	return held.flight == nil && held.spent == 0 && held.pending == 0 && !held.lost
}

// makeRoom forgets one that nothing depends on, if there is one among a few.
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
	// until is before when Redis must have answered.
	until time.Time
	// taken are the counters of which a token is reserved.
	taken [128]bool
	// from are the cells that the reserved tokens were charged to.
	from [128]int64
	// own are the counters that are not shared, and limits those of this process, nil where all are shared.
	own    [128]bool
	limits []int64
	// waits are the refusals' times, by counter.
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
	// waiting: another request asks already.
	waiting
	// short: the counters that are not taken must be asked for, and are marked as being so.
	short
)

// reserve takes a token of every counter that has one. Unless it returns reserved or short, it gives all of them
// back. A request that is not patient asks even if another request asks already.
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

// give takes a token for a decision's counter, if there is one.
func (held *lease) give(d *decision, i int) bool {
	from := held.take(d.now.Steady)
	if from < 0 {
		return false
	}
	d.taken[i], d.from[i] = true, held.batches[from].cell
	return true
}

// low reports that it is time to ask for more.
func (held *lease) low(now int64) bool {
	return held.granted > 3 && held.tokens(now)*10 <= held.granted*3
}

// release gives back what reserve took, to the batch it was of; where that is gone meanwhile, it stays charged.
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

// report fills in what is known of the remaining requests.
func (l *leases) report(out *engine.Result, d *decision) {
	for i := range min(len(out.Rules), len(d.counters)) { // a scheme that changed meanwhile has others
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

// sweep removes the leases of one shard that were not used since a moment.
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
