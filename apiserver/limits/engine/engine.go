package engine

import (
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/cardea-iam/cardea/internal/scheme"
)

// DefaultMaxBytes is the default bound of the counters' memory. It has room for about half a million counters of the
// usual size.
const DefaultMaxBytes = 128 << 20

const (
	shardCount = 256
	// Every sweepEvery-th use of a shard checks sweepSlots of its slots: 64 slots in 1,024 uses.
	sweepEvery = 16
	sweepSlots = 1
)

// Engine counts requests and decides by the counts. It is safe for concurrent use.
//
// Its memory is bounded, and every deployment with counters has an equal share of it (evict.go):
//   - If the memory is full, a new block replaces an idle block of a deployment that exceeds its share. Stats.Evicted
//     counts the replaced blocks that still counted something.
//   - Blocks of addresses take at most half of the memory. If a deployment exceeds its share of that half, the block of
//     a new address replaces one whose counters are below a hundredth of their limits. If there is no such block, the
//     address shares one strict counter with other addresses of its scheme.
//
// So a flood of addresses neither escapes its limits nor evicts another deployment's counters.
type Engine struct {
	seed     uint64
	maxShard int64
	layouts  atomic.Uint32
	// schemes are all schemes by their schemeKey, until Forget.
	schemes sync.Map
	shards  [shardCount]shard

	mu sync.Mutex
	// owners are the deployments that have schemes.
	owners map[string]*owner
}

// schemeKey identifies a scheme.
type schemeKey struct {
	owner *owner
	id    uint64
}

// NewEngine returns an engine whose counters take at most maxBytes.
func NewEngine(maxBytes int64) *Engine {
	return &Engine{seed: rand.Uint64(), maxShard: max(maxBytes/shardCount, 32<<10), owners: map[string]*owner{}}
}

// Scheme is SchemeOf for a scheme that belongs to no deployment: one of the server's own.
func (e *Engine) Scheme(id uint64, rules []scheme.Rule) *Scheme { return e.SchemeOf("", id, rules) }

// SchemeOf activates the rules of a deployment's scheme, which internal/scheme has validated, and returns the scheme. A
// known scheme continues with its counters where identities are the same.
func (e *Engine) SchemeOf(deployment string, id uint64, rules []scheme.Rule) *Scheme {
	e.mu.Lock()
	defer e.mu.Unlock()
	of := e.owners[deployment]
	if of == nil {
		of = &owner{}
		e.owners[deployment] = of
	}
	if known, found := e.schemes.Load(schemeKey{of, id}); found {
		known := known.(*Scheme)
		known.Replace(rules)
		return known
	}
	made := &Scheme{ID: id, owner: of, deployment: deployment, numbers: &e.layouts}
	made.Replace(rules)
	of.schemes++
	e.schemes.Store(schemeKey{of, id}, made)
	return made
}

// Forget drops a scheme that is no longer used. If it is used again, its counters start empty.
func (e *Engine) Forget(s *Scheme) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if known, found := e.schemes.Load(schemeKey{s.owner, s.ID}); !found || known != s {
		return
	}
	e.schemes.Delete(schemeKey{s.owner, s.ID})
	if s.owner.schemes--; s.owner.schemes == 0 && e.owners[s.deployment] == s.owner {
		delete(e.owners, s.deployment)
	}
}

// Stats are what the engine holds.
type Stats struct {
	// Blocks counts the blocks, one for each scheme, mode and subject. Bytes is their memory, without the tables.
	Blocks, Bytes int64
	// Evicted counts blocks that were evicted while they still counted something. Shared counts the decisions about
	// addresses without their own block.
	Evicted, Shared uint64
}

// Stats adds up all shards.
func (e *Engine) Stats() Stats {
	var all Stats
	for i := range e.shards {
		s := &e.shards[i]
		s.Lock()
		for _, t := range s.tables {
			all.Blocks += int64(t.blocks)
		}
		all.Bytes += s.bytes
		all.Evicted += s.evicted
		all.Shared += s.shared
		s.Unlock()
	}
	return all
}

// Decide evaluates one request. It charges every rule that matches, or none.
func (e *Engine) Decide(now Instant, r *Request, out *Result) { e.judge(now, r, out, deciding) }

// Peek returns the decision that Decide would make, and charges nothing. The result has what is left before the
// request.
func (e *Engine) Peek(now Instant, r *Request, out *Result) { e.judge(now, r, out, peeking) }

// Record charges every rule that matches, even beyond its limit, because the request was admitted elsewhere. The result
// has the decision that Decide would have made, and what is left after the request.
func (e *Engine) Record(now Instant, r *Request, out *Result) { e.judge(now, r, out, recording) }

// purpose is the purpose of an evaluation.
type purpose uint8

const (
	deciding purpose = iota
	peeking
	recording
)

// Used returns how many requests of a counter are in its window.
func (e *Engine) Used(now Instant, c *Counter) int64 {
	p := c.scheme.program.Load()
	key := blockKey{c.Scheme, c.Of, c.Address, c.Rule.Mode}
	hash := key.hash(e.seed)
	s := &e.shards[hash&(shardCount-1)]
	s.Lock()
	defer s.Unlock()
	b := s.find(&c.scheme.owner.tables[hash&(shardCount-1)], &key, hash)
	if b == nil || layoutNumber(b) != p.layout.number {
		return 0
	}
	for i := range p.layout.modes[c.Rule.Mode].rows {
		if row := &p.layout.modes[c.Rule.Mode].rows[i]; row.identity == c.Rule.Identity {
			return row.window.used(row.of(b, &row.window), now)
		}
	}
	return 0
}

// Applying appends the counters that a request would charge, in the order in which Result.Rules reports their rules.
func Applying(r *Request, to []Counter) []Counter {
	to = applying(r, r.Scheme, false, to)
	if r.AppScheme != r.Scheme {
		to = applying(r, r.AppScheme, true, to)
	}
	return to
}

func applying(r *Request, s *Scheme, ofApp bool, to []Counter) []Counter {
	if s == nil {
		return to
	}
	p := s.program.Load()
	mask := p.matcher.match(r.Method, r.Path)
	if ofApp && !r.WholeAppScheme {
		mask &= p.appRules
	}
	for ; mask != 0; mask &= mask - 1 {
		rule := &p.rules[bits.TrailingZeros64(mask)]
		of, address := rule.Mode.subject(r)
		to = append(to, Counter{Rule: rule, scheme: s, Scheme: s.ID, Of: of, Address: address, OfApp: ofApp})
	}
	return to
}

func (e *Engine) judge(now Instant, r *Request, out *Result, why purpose) {
	out.Allowed, out.Blocked, out.RetryAfter, out.Rules = true, -1, 0, out.Rules[:0]
	d := &out.work
	d.now = now
	for tries := 0; ; tries++ {
		d.count = 0
		e.plan(d, r.Scheme, r, false)
		if r.AppScheme != r.Scheme {
			e.plan(d, r.AppScheme, r, true)
		}
		if d.count == 0 {
			return
		}
		e.lock(d)
		if e.open(d, tries >= staleTries) {
			break
		}
		e.unlock(d) // a newer program migrated a block: load the program again
	}
	d.check(out, r.Limits)
	if why == recording || out.Allowed && why == deciding {
		d.charge(out)
	}
	if why != peeking {
		d.countDecisions(out, out.Allowed || why == recording)
	}
	for _, at := range d.locked[:d.locks] {
		s := &e.shards[at]
		if s.uses++; s.uses%sweepEvery == 0 {
			s.sweep(now.Steady, sweepSlots)
		}
	}
	e.unlock(d)
}

// plan adds the blocks that a scheme's matching rules need. With ofApp, only the rules that count by app match, unless
// the request wants all of them.
func (e *Engine) plan(d *decision, s *Scheme, r *Request, ofApp bool) {
	if s == nil {
		return
	}
	p := s.program.Load()
	mask := p.matcher.match(r.Method, r.Path)
	if ofApp && !r.WholeAppScheme {
		mask &= p.appRules
	}
	for mode := Mode(0); mask != 0 && mode < modeCount; mode++ {
		rules := p.ofMode[mode] & mask
		if rules == 0 {
			continue
		}
		mask &^= rules
		part := &d.parts[d.count]
		d.count++
		part.scheme, part.program, part.rules = s, p, rules
		of, address := mode.subject(r)
		part.key = blockKey{s.ID, of, address, mode}
		part.place(e)
	}
}

func (p *part) place(e *Engine) {
	p.hash = p.key.hash(e.seed)
	p.shard = int32(p.hash & (shardCount - 1))
}

// lock locks the shards of all parts in ascending order, each once.
func (e *Engine) lock(d *decision) {
	d.locks = 0
	for i := range d.count {
		d.hold(d.parts[i].shard)
	}
	for _, at := range d.locked[:d.locks] {
		e.shards[at].Lock()
	}
}

// hold adds a shard to the shards to lock, which stay in ascending order without duplicates.
func (d *decision) hold(shard int32) {
	at := d.locks
	for at > 0 && d.locked[at-1] >= shard {
		at--
	}
	if at < d.locks && d.locked[at] == shard {
		return
	}
	copy(d.locked[at+1:d.locks+1], d.locked[at:d.locks])
	d.locked[at] = shard
	d.locks++
}

func (e *Engine) unlock(d *decision) {
	for _, at := range d.locked[:d.locks] {
		e.shards[at].Unlock()
	}
}

// staleTries is how often a decision loads its program again because a block has a newer layout. A Scheme that was
// forgotten and then declared again never gets the newer program: after staleTries, the block starts empty.
const staleTries = 100

// open finds or makes the block of every part, in the layout of its program. It returns false if a block has a newer
// layout; with force, it migrates that block too.
func (e *Engine) open(d *decision, force bool) bool {
	for i := range d.count {
		part := &d.parts[i]
		s := &e.shards[part.shard]
		layout := part.program.layout
		b := s.find(&part.scheme.owner.tables[part.shard], &part.key, part.hash)
		if b == nil {
			b = e.own(s, part, d.now)
		}
		switch number := layoutNumber(b); {
		case number > layout.number && !force:
			return false
		case number != layout.number:
			b = e.migrate(s, part, b, d.now)
		}
		b[wordUsed] = uint64(d.now.Steady)
		part.words = b
	}
	return true
}
