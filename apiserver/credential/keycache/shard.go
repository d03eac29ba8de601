package keycache

import (
	"sync"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/shares"
)

const (
	shards = 64
	// maxUnknown bounds the unknown keys that a shard caches.
	maxUnknown = 1024
)

// shard caches the keys whose digests have the same first byte modulo the number of shards.
type shard struct {
	mu   sync.RWMutex
	keys *shares.Set[apikey.Digest, *Key]
	// unknown maps the digests of unknown keys to the cache's time of the read.
	unknown map[apikey.Digest]int64
	// flights are the reads in progress.
	flights map[apikey.Digest]*flight
}

// flight is a read of one key, for all concurrent callers.
type flight struct {
	done chan struct{}
	key  *Key
	err  error
	// askers is how many callers wait for it. The shard's lock guards it.
	askers int
	// lost reports that the key changed since the read began, so that the result is not cached. The shard's lock guards
	// it.
	lost bool
}

// newShard returns a shard whose keys take at most a number of bytes.
func newShard(bytes int64) *shard {
	return &shard{keys: shares.New[apikey.Digest, *Key](shares.Bounds{Bytes: bytes}), unknown: map[apikey.Digest]int64{}, flights: map[apikey.Digest]*flight{}}
}

func (s *shard) get(digest *apikey.Digest) *Key {
	s.mu.RLock()
	k, _ := s.keys.Get(*digest)
	s.mu.RUnlock()
	return k
}

// unknownSince returns when a digest was last found to be unknown.
func (s *shard) unknownSince(digest apikey.Digest) (at int64, found bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at, found = s.unknown[digest]
	return at, found
}

// landed is a closed channel, for flights whose read has already ended.
var landed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// board joins the read in progress, or begins one and returns lead as true. It does not join a read whose result is
// already outdated. seen is the cached key that the caller found, nil for none. If the cache has another key by now,
// board returns that key as the result of an ended flight.
func (s *shard) board(digest apikey.Digest, seen *Key) (f *flight, lead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, cached := s.keys.Get(digest); cached && k != seen {
		return &flight{done: landed, key: k}, false
	}
	if f = s.flights[digest]; f != nil && !f.lost {
		f.askers++
		return f, false
	}
	f = &flight{done: make(chan struct{}), askers: 1}
	s.flights[digest] = f
	return f, true
}

// leave records that one caller no longer waits.
func (s *shard) leave(f *flight) {
	s.mu.Lock()
	f.askers--
	s.mu.Unlock()
}

// abandoned reports whether no caller waits for a read. No caller joins it afterwards.
func (s *shard) abandoned(digest apikey.Digest, f *flight) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.askers > 0 {
		return false
	}
	s.end(digest, f)
	return true
}

// end prevents callers from joining a read. The caller holds the lock.
func (s *shard) end(digest apikey.Digest, f *flight) {
	if s.flights[digest] == f {
		delete(s.flights, digest)
	}
}

// land ends a read and caches its result, unless the key changed meanwhile; it then returns false. remembered is how
// long an unknown key is cached, in nanoseconds.
func (s *shard) land(digest apikey.Digest, f *flight, readAt, remembered int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(digest, f)
	switch {
	case f.lost:
		return false
	case f.key != nil:
		s.put(f.key)
	case f.err == ErrUnknown: //nolint:errorlint // set a few lines above
		s.drop(digest)
		s.forget(readAt - remembered)
		s.unknown[digest] = readAt
	}
	return true
}

// forget makes room for an unknown key if the shard has maxUnknown of them. It evicts those that were read before a
// time and, if that is not enough, any others.
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

// put caches a key. If the cache is full, it evicts a key that was not used recently, of the same deployment if that
// exceeds its share.
func (s *shard) put(k *Key) {
	delete(s.unknown, k.digest)
	s.keys.Put(k.digest, k, k.Deployment, k.size())
}

// invalidate evicts a key, and marks a read of it in progress as lost.
func (s *shard) invalidate(digest apikey.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.flights[digest]; f != nil {
		f.lost = true
	}
	s.drop(digest)
}

func (s *shard) drop(digest apikey.Digest) { s.keys.Delete(digest) }

// clear evicts every key, and marks every read in progress as lost.
func (s *shard) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.flights {
		f.lost = true
	}
	s.keys.Clear()
}

// size returns the number of cached keys, their bytes, and how many were evicted.
func (s *shard) size() (keys int, bytes int64, evicted uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.keys.Len(), s.keys.Bytes(), s.keys.Evicted()
}
