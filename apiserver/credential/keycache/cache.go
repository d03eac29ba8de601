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
	// DefaultBytes bounds the memory of the cached keys by default: about 150,000 keys.
	DefaultBytes = 80 << 20
	// trust is how long a cached key is used without a successful poll of the feed. It bounds how late a revocation takes
	// effect.
	trust = time.Second
	// unknownFor is how long an unknown digest is cached. It bounds how late a new key is found that was tried too early.
	unknownFor = time.Second
	// readPatience bounds one read of the store. A waiting caller may leave earlier.
	readPatience = 2 * time.Second
	// maxReads bounds the concurrent reads, so that failed attempts cannot use all connections.
	maxReads = 8
	// maxFlights bounds how often a key is read again because it changed during the read.
	maxFlights = 4
)

// ErrUnknown means that no key of the installation has the digest.
var ErrUnknown = errors.New("no such API key")

// Options configures a Cache.
type Options struct {
	Store people.Keys
	// Bytes bounds the memory of the cached keys, with an equal share for each deployment; 0 means DefaultBytes.
	Bytes int64
	// MaxStaleness bounds how long cached keys are used while the store is unavailable; 0 means no bound.
	MaxStaleness time.Duration
	// Clock must have Go's monotonic reading, as time.Now has, so that jumps of the wall clock do not make stale keys
	// fresh.
	Clock    func() time.Time
	Log      logr.Logger
	Registry prometheus.Registerer
}

// Cache caches the keys in use. Its methods are safe for concurrent use. Without Run, each lookup reads the store.
type Cache struct {
	opts   Options
	shards [shards]*shard
	shared sharedPermissions
	reads  queue
	// began is when the cache was made. The cache's time is the time since then.
	began time.Time
	// contact is the cache's time, in nanoseconds, just before the last successful poll of the feed. Its value is the
	// constant never until the first one.
	contact atomic.Int64
	// unavailable reports that the last poll, or a read since then, failed.
	unavailable atomic.Bool
	// imported reports that keys of other forms than Cardea's may exist.
	imported atomic.Bool
	uses     uses
	outcomes *prometheus.CounterVec
}

// never is a time so early that neither trust nor MaxStaleness reaches back to it.
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
	c.imported.Store(true) // until the first poll of the feed reports it
	c.register(opts.Registry)
	return c
}

func (c *Cache) register(registry prometheus.Registerer) {
	c.outcomes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cardea_api_key_reads_total", Help: "API keys read from the store because they were not cached or not known to be current, by outcome.",
	}, []string{"outcome"})
	for _, outcome := range []string{"found", "unknown", "unavailable", "abandoned", "busy"} {
		c.outcomes.WithLabelValues(outcome)
	}
	if registry != nil {
		registry.MustRegister(c.outcomes, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cardea_api_keys_held", Help: "Runtime API keys that are cached in memory.",
		}, func() float64 { return float64(c.Len()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cardea_api_key_reads_waiting", Help: "Reads of API keys that wait for their turn, at most 256.",
		}, func() float64 { return float64(c.reads.length()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cardea_api_key_bytes", Help: "Memory of the cached API keys, in bytes.",
		}, func() float64 { return float64(c.Bytes()) }), prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "cardea_api_keys_evicted_total", Help: "API keys that were evicted from the cache.",
		}, func() float64 { return float64(c.Evicted()) }))
	}
}

// Len returns the number of cached keys.
func (c *Cache) Len() (n int) {
	for _, s := range c.shards {
		keys, _, _ := s.size()
		n += keys
	}
	return n
}

// Bytes returns the memory of the cached keys.
func (c *Cache) Bytes() (sum int64) {
	for _, s := range c.shards {
		_, bytes, _ := s.size()
		sum += bytes
	}
	return sum
}

// Evicted returns how many keys were evicted.
func (c *Cache) Evicted() (sum uint64) {
	for _, s := range c.shards {
		_, _, evicted := s.size()
		sum += evicted
	}
	return sum
}

// now returns the cache's time, in nanoseconds.
func (c *Cache) now() int64 { return int64(c.opts.Clock().Sub(c.began)) }

func (c *Cache) shard(digest *apikey.Digest) *shard { return c.shards[digest[0]%shards] }

// Find returns a key as the store has it, at most a second late: a revocation takes effect within a second. While the
// store is unavailable, it returns a cached key for as long as MaxStaleness allows. The caller checks Live. Errors:
//   - ErrUnknown: there is no such key;
//   - an error that wraps store.ErrUnavailable, such as ErrBusy: the store was not read, and no cached key may be used.
func (c *Cache) Find(ctx context.Context, key apikey.Key) (*Key, error) {
	if key.IsForeign() && !c.imported.Load() {
		return nil, ErrUnknown
	}
	digest := key.Digest()
	cached := c.shard(&digest).get(&digest)
	now := c.now()
	if cached != nil && now-max(c.contact.Load(), cached.readAt) <= int64(trust) {
		return cached, nil
	}
	return c.findSlowly(ctx, digest, cached, now)
}

// Cached returns the key with a digest if Find can return it from the cache, without a read of the store. false does
// not mean that the key is unknown.
func (c *Cache) Cached(digest apikey.Digest) (*Key, bool) {
	cached := c.shard(&digest).get(&digest)
	if cached == nil {
		return nil, false
	}
	now := c.now()
	if c.current(cached, now) || c.unavailable.Load() && c.bearable(cached, now) {
		return cached, true
	}
	return nil, false
}

// current reports whether a cached key is known to be as it is in the store.
func (c *Cache) current(k *Key, now int64) bool {
	return now-max(c.contact.Load(), k.readAt) <= int64(trust)
}

// bearable reports whether a cached key may be used while the store is unavailable.
func (c *Cache) bearable(k *Key, now int64) bool {
	return c.opts.MaxStaleness <= 0 || now-max(c.contact.Load(), k.readAt) <= int64(max(c.opts.MaxStaleness, trust))
}

var (
	errUnavailable = fmt.Errorf("%w: the API key is not cached, and the store does not answer", store.ErrUnavailable)
	errStale       = fmt.Errorf("%w: the API key could not be read again for too long", store.ErrUnavailable)
)

// findSlowly is Find for a key that is not cached, or not known to be current.
func (c *Cache) findSlowly(ctx context.Context, digest apikey.Digest, cached *Key, now int64) (*Key, error) {
	if cached == nil {
		if at, found := c.shard(&digest).unknownSince(digest); found && now-at <= int64(unknownFor) {
			return nil, ErrUnknown
		}
	}
	err := errUnavailable
	if !c.unavailable.Load() {
		var read *Key
		read, err = c.read(ctx, digest, cached)
		if err == nil || !errors.Is(err, store.ErrUnavailable) {
			return read, err
		}
	}
	switch {
	case cached == nil:
		return nil, err
	case !c.bearable(cached, now):
		return nil, errStale
	}
	return cached, nil
}

// read reads a key once for all concurrent callers that saw the same cached key, nil for none. The read does not depend
// on the caller that began it: it continues when that caller leaves, and does not start if all have left.
func (c *Cache) read(ctx context.Context, digest apikey.Digest, cached *Key) (*Key, error) {
	s := c.shard(&digest)
	for range maxFlights {
		f, lead := s.board(digest, cached)
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

// drop ends a flight without a read of the store. Its callers get err.
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

// fly reads the store for a flight, unless all its callers have left.
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
		c.unavailable.Store(true)
	case !found:
		f.err, outcome = ErrUnknown, "unknown"
	default:
		f.key = newKey(row, &c.shared, began)
	}
	c.outcomes.WithLabelValues(outcome).Inc()
	s.land(digest, f, began, int64(unknownFor))
}
