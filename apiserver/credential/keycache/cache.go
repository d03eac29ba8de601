package keycache

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// DefaultBytes bounds the memory of the keys that are held, unless Options say otherwise: about 150,000 keys.
	DefaultBytes = 80 << 20
	// trust is how long what was read is taken for true without word from the feed: the bound on how late a revocation is seen.
	trust = time.Second
	// unknownFor is how long a digest that no key has is remembered: as late a new key is seen where it was tried too early.
	unknownFor = time.Second
	// readPatience bounds one read of the store; a waiting caller may give up earlier.
	readPatience = 2 * time.Second
	// maxReads bounds the reads under way: failed attempts must not take every connection.
	maxReads = 8
	// maxFlights bounds how often a key is read again because it changed meanwhile.
	maxFlights = 4
)

// ErrUnknown means that no key of the install has this digest.
var ErrUnknown = errors.New("no such API key")

// Options are what a Cache needs.
type Options struct {
	Store people.Keys
	// Bytes bounds the memory of the keys that are held, with an equal share for each deployment; 0: DefaultBytes.
	Bytes int64
	// MaxStaleness bounds for how long held keys are answered with while the store is out of reach; 0: unlimited.
	MaxStaleness time.Duration
	// Clock must have Go's monotonic reading, as time.Now has: the wall's jumps then do not make anything fresh.
	Clock    func() time.Time
	Log      logr.Logger
	Registry prometheus.Registerer
}

// Cache holds the keys in use. Its methods may be called from any number of goroutines. Without Run each look-up reads the store.
type Cache struct {
	opts   Options
	shards [shards]*shard
	shared sharedPermissions
	reads  queue
	// began is when the cache's time begins to run.
	began time.Time
	// contact is the cache's time, in nanoseconds, just before the last look at the feed that succeeded; never before the first.
	contact atomic.Int64
	// away: the last look, or a read since, failed.
	away atomic.Bool
	// imported: keys of other forms than ours may exist.
	imported atomic.Bool
	uses     uses
	outcomes *prometheus.CounterVec
}

// never is before every trust and every bound on staleness.
const never = -1 << 62

// New returns a cache.
func New(opts Options) *Cache {
	if opts.Bytes <= 0 {
		opts.Bytes = DefaultBytes
	}
	c := &Cache{opts: opts, began: opts.Clock()}
	for i := range c.shards {
		c.shards[i] = newShard(opts.Bytes / shards)
	}
	c.contact.Store(never)
	c.imported.Store(true) // until the feed knows better
	c.register(opts.Registry)
	return c
}

func (c *Cache) register(registry prometheus.Registerer) {
	c.outcomes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cardea_api_key_reads_total", Help: "API keys read from the store because they were not held, or not known to be current, by what came of it.",
	}, []string{"outcome"})
	for _, outcome := range []string{"found", "unknown", "unavailable", "abandoned", "busy"} {
		c.outcomes.WithLabelValues(outcome)
	}
	if registry != nil {
		registry.MustRegister(c.outcomes, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cardea_api_keys_held", Help: "API keys that applications gave away, held in memory.",
		}, func() float64 { return float64(c.Len()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cardea_api_key_reads_waiting", Help: "Reads of API keys that wait for their turn, at most 256.",
		}, func() float64 { return float64(c.reads.length()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cardea_api_key_bytes", Help: "Memory of the API keys that are held.",
		}, func() float64 { return float64(c.Bytes()) }), prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "cardea_api_keys_evicted_total", Help: "API keys that were dropped from memory for want of room.",
		}, func() float64 { return float64(c.Evicted()) }))
	}
}

// Len returns how many keys are held.
func (c *Cache) Len() (n int) {
	for _, s := range c.shards {
		keys, _, _ := s.held()
		n += keys
	}
	return n
}

// Bytes returns the memory of the keys that are held.
func (c *Cache) Bytes() (sum int64) {
	for _, s := range c.shards {
		_, bytes, _ := s.held()
		sum += bytes
	}
	return sum
}

// Evicted returns how many keys were dropped for want of room.
func (c *Cache) Evicted() (sum uint64) {
	for _, s := range c.shards {
		_, _, evicted := s.held()
		sum += evicted
	}
	return sum
}

// now is the cache's time, in nanoseconds.
func (c *Cache) now() int64 { return int64(c.opts.Clock().Sub(c.began)) }

func (c *Cache) shard(digest *apikey.Digest) *shard { return c.shards[digest[0]%shards] }

// Find returns the current key: a revocation, or another change that ends it, takes effect within a second. The
// caller checks Live. Errors:
//   - ErrUnknown: there is no such key;
//   - one that wraps store.ErrUnavailable: the store is unreachable, and the key is not cached, or for too long.
func (c *Cache) Find(ctx context.Context, key apikey.Key) (*Key, error) {
	if key.IsForeign() && !c.imported.Load() {
		return nil, ErrUnknown
	}
	digest := key.Digest()
	held := c.shard(&digest).get(&digest)
	now := c.now()
	if held != nil && now-max(c.contact.Load(), held.readAt) <= int64(trust) {
		return held, nil
	}
	return c.findSlowly(ctx, digest, held, now)
}

// Cached is Find for what is held, and current as far as is known without reading the store. false says nothing about the key.
func (c *Cache) Cached(key apikey.Key) (*Key, bool) {
	if key.IsForeign() && !c.imported.Load() {
		return nil, false
	}
	digest := key.Digest()
	held := c.shard(&digest).get(&digest)
	if held == nil {
		return nil, false
	}
	now := c.now()
	if c.current(held, now) || c.away.Load() && c.bearable(held, now) {
		return held, true
	}
	return nil, false
}

// current reports whether a held key is known to be as it is in the store.
func (c *Cache) current(k *Key, now int64) bool {
	return now-max(c.contact.Load(), k.readAt) <= int64(trust)
}

// bearable reports whether a held key is answered with while the store is out of reach.
func (c *Cache) bearable(k *Key, now int64) bool {
	return c.opts.MaxStaleness <= 0 || now-max(c.contact.Load(), k.readAt) <= int64(max(c.opts.MaxStaleness, trust))
}

var (
	errAway  = fmt.Errorf("%w: the API key is not held, and the store does not answer", store.ErrUnavailable)
	errStale = fmt.Errorf("%w: the API key could not be read again for too long", store.ErrUnavailable)
)

// findSlowly is Find for a key that is not held, or not known to be current.
func (c *Cache) findSlowly(ctx context.Context, digest apikey.Digest, held *Key, now int64) (*Key, error) {
	if held == nil {
		if at, found := c.shard(&digest).unknownSince(digest); found && now-at <= int64(unknownFor) {
			return nil, ErrUnknown
		}
	}
	err := errAway
	if !c.away.Load() {
		var read *Key
		read, err = c.read(ctx, digest, held)
		if err == nil || !errors.Is(err, store.ErrUnavailable) {
			return read, err
		}
	}
	switch {
	case held == nil:
		return nil, err
	case !c.bearable(held, now):
		return nil, errStale
	}
	return held, nil
}

// read reads a key, once for all that ask at the same time and saw the same held, nil for none. The read belongs to none of them: it
// goes on when the asker that began it leaves, and is not begun when all left.
func (c *Cache) read(ctx context.Context, digest apikey.Digest, held *Key) (*Key, error) {
	s := c.shard(&digest)
	for range maxFlights {
		f, lead := s.board(digest, held)
		if lead {
			detached := context.WithoutCancel(ctx)
			c.reads.add(askerOf(ctx), read{
				do: func() { c.fly(detached, s, digest, f) }, drop: func(err error) { c.drop(s, digest, f, err, "busy") },
			})
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			s.leave(f)
			return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
		}
		s.mu.RLock()
		lost := f.lost
		s.mu.RUnlock()
		if !lost || f.err != nil && !errors.Is(f.err, ErrUnknown) {
			return f.key, f.err
		}
	}
	return nil, fmt.Errorf("%w: the API key changes faster than it can be read", store.ErrUnavailable)
}

// drop ends a read that is not made.
func (c *Cache) drop(s *shard, digest apikey.Digest, f *flight, err error, outcome string) {
	s.mu.Lock()
	s.end(digest, f)
	f.err = err
	s.mu.Unlock()
	c.outcomes.WithLabelValues(outcome).Inc()
	close(f.done)
}

// errAbandoned ends a read that no caller waits for. No caller sees it.
var errAbandoned = fmt.Errorf("%w: no caller waits for the API key", store.ErrUnavailable)

// fly does one read.
func (c *Cache) fly(ctx context.Context, s *shard, digest apikey.Digest, f *flight) {
	if s.abandoned(digest, f) {
		c.drop(s, digest, f, errAbandoned, "abandoned")
		return
	}
	defer close(f.done)
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	began := c.now()
	row, found, err := c.opts.Store.APIKeyByDigest(ctx, digest)
	outcome := "found"
	switch {
	case err != nil:
		f.err, outcome = err, "unavailable"
		c.away.Store(true)
	case !found:
		f.err, outcome = ErrUnknown, "unknown"
	default:
		f.key = newKey(row, &c.shared, began)
	}
	c.outcomes.WithLabelValues(outcome).Inc()
	s.land(digest, f, began, int64(unknownFor))
}
