package keycache

import (
	"sync"

	"github.com/cardea-iam/cardea/internal/apikey"
)

const (
	shards = 64
	// maxUnknown bounds the unknown keys that a shard remembers.
	maxUnknown = 1024
	// maxPasses bounds how many keys in use an eviction passes over.
	maxPasses = 64
)

// shard holds the keys whose digests begin alike.
type shard struct {
	mu       sync.RWMutex
	capacity int
	keys     map[apikey.Digest]*Key
	// ring holds the same keys for the eviction, whose hand goes round: a key that was asked for since the last time stays.
	ring []*Key
	hand int
	// unknown are digests that no key had, with the cache's time at which that was read.
	unknown map[apikey.Digest]int64
	// flights are the reads under way.
	flights map[apikey.Digest]*flight
}

// flight is a read of one key, for all who ask meanwhile.
type flight struct {
	done chan struct{}
	key  *Key
	err  error
	// lost: the key changed since the read began, so that what it brings is not kept. The shard's lock guards it.
	lost bool
}

func newShard(capacity int) *shard {
	return &shard{capacity: capacity, keys: map[apikey.Digest]*Key{}, unknown: map[apikey.Digest]int64{}, flights: map[apikey.Digest]*flight{}}
}

func (s *shard) get(digest *apikey.Digest) *Key {
	s.mu.RLock()
	k := s.keys[*digest]
	s.mu.RUnlock()
	return k
}

// unknownSince returns when a digest was last found to belong to no key.
func (s *shard) unknownSince(digest apikey.Digest) (at int64, found bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at, found = s.unknown[digest]
	return at, found
}

// landed is the channel of reads that are over.
var landed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// board joins the read under way, or begins one: lead then. One that is lost already is not joined. Where one ended since the caller looked,
// and saw a key, nil for none, that is the answer.
func (s *shard) board(digest apikey.Digest, seen *Key) (f *flight, lead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.keys[digest]; k != nil && k != seen {
		return &flight{done: landed, key: k}, false
	}
	if f = s.flights[digest]; f != nil && !f.lost {
		return f, false
	}
	f = &flight{done: make(chan struct{})}
	s.flights[digest] = f
	return f, true
}

// land ends a read and keeps what it brought, unless the key changed meanwhile: it returns false then. remembered is for how long an
// unknown key is, in nanoseconds.
func (s *shard) land(digest apikey.Digest, f *flight, readAt, remembered int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flights[digest] == f {
		delete(s.flights, digest)
	}
	switch {
	case f.lost:
		return false
	case f.key != nil:
		s.put(f.key)
	case f.err == ErrUnknown: //nolint:errorlint // set a few lines before
		s.drop(digest)
		s.forget(readAt - remembered)
		s.unknown[digest] = readAt
	}
	return true
}

// forget makes room among the unknown keys: those of before a time go, and where that is not enough any.
func (s *shard) forget(before int64) {
	if len(s.unknown) < maxUnknown {
		return
	}
	for digest, at := range s.unknown {
		if at < before || len(s.unknown) >= maxUnknown {
			delete(s.unknown, digest)
		}
	}
}

// put keeps a key, in the place of one that nobody asked for lately where there is no other.
func (s *shard) put(k *Key) {
	delete(s.unknown, k.digest)
	if old, held := s.keys[k.digest]; held {
		k.place = old.place
		k.hit.Store(true)
	} else if len(s.ring) < s.capacity {
		k.place = int32(len(s.ring))
		s.ring = append(s.ring, nil)
	} else {
		k.place = s.evict()
	}
	s.ring[k.place] = k
	s.keys[k.digest] = k
}

// evict takes a key out of the shard and returns its place.
func (s *shard) evict() int32 {
	for range maxPasses {
		if !s.ring[s.hand].hit.CompareAndSwap(true, false) {
			break
		}
		s.hand = (s.hand + 1) % len(s.ring)
	}
	place := s.hand
	s.hand = (s.hand + 1) % len(s.ring)
	delete(s.keys, s.ring[place].digest)
	return int32(place)
}

// invalidate drops a key, and makes a read of it under way lose.
func (s *shard) invalidate(digest apikey.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.flights[digest]; f != nil {
		f.lost = true
	}
	s.drop(digest)
}

func (s *shard) drop(digest apikey.Digest) {
	k, held := s.keys[digest]
	if !held {
		return
	}
	delete(s.keys, digest)
	last := len(s.ring) - 1
	s.ring[k.place] = s.ring[last]
	s.ring[k.place].place = k.place
	s.ring[last] = nil
	s.ring = s.ring[:last]
	if s.hand >= last {
		s.hand = 0
	}
}

// clear drops every key, and makes every read under way lose.
func (s *shard) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.flights {
		f.lost = true
	}
	s.keys, s.ring, s.hand = map[apikey.Digest]*Key{}, nil, 0
}

func (s *shard) len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.keys)
}
