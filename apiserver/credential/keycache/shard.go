package keycache

import (
	"sync"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/shares"
)

const (
	shards = 64
	// maxUnknown bounds the unknown keys that a shard remembers.
	maxUnknown = 1024
)

// shard holds the keys whose digests begin alike.
type shard struct {
	mu   sync.RWMutex
	keys *shares.Set[apikey.Digest, *Key]
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
	// askers are how many wait for it. The shard's lock guards it.
	askers int
	// lost: the key changed since the read began, so that what it brings is not kept. The shard's lock guards it.
	lost bool
}

// newShard returns a shard whose keys take at most so many bytes.
func newShard(bytes int64) *shard {
	return &shard{keys: shares.New[apikey.Digest, *Key](shares.Bounds{Bytes: bytes}), unknown: map[apikey.Digest]int64{}, flights: map[apikey.Digest]*flight{}}
}

func (s *shard) get(digest *apikey.Digest) *Key {
	s.mu.RLock()
	k, _ := s.keys.Get(*digest)
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

// board joins the read under way, or begins one and returns lead. It joins no read whose result is outdated already.
// If a read ended since the caller read seen (nil for none), its result is the answer.
func (s *shard) board(digest apikey.Digest, seen *Key) (f *flight, lead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, held := s.keys.Get(digest); held && k != seen {
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

// leave notes that one asker waits no longer.
func (s *shard) leave(f *flight) {
	s.mu.Lock()
	f.askers--
	s.mu.Unlock()
}

// abandoned reports whether no caller waits for a read. None joins it then.
func (s *shard) abandoned(digest apikey.Digest, f *flight) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.askers > 0 {
		return false
	}
	s.end(digest, f)
	return true
}

// end lets no caller join a read any more. The caller holds the lock.
func (s *shard) end(digest apikey.Digest, f *flight) {
	if s.flights[digest] == f {
		delete(s.flights, digest)
	}
}

// land ends a read and keeps what it brought, unless the key changed meanwhile: it returns false then. remembered is for how long an
// unknown key is, in nanoseconds.
func (s *shard) land(digest apikey.Digest, f *flight, readAt, remembered int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(digest, f)
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

// put keeps a key. Where there is no room, a key that was not asked for lately is dropped: of its own deployment, if that exceeds its
// share.
func (s *shard) put(k *Key) {
	delete(s.unknown, k.digest)
	s.keys.Put(k.digest, k, k.Deployment, k.size())
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

func (s *shard) drop(digest apikey.Digest) { s.keys.Delete(digest) }

// clear drops every key, and makes every read under way lose.
func (s *shard) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.flights {
		f.lost = true
	}
	s.keys.Clear()
}

// held returns how many keys the shard holds, their bytes, and how many were dropped for want of room.
func (s *shard) held() (keys int, bytes int64, evicted uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.keys.Len(), s.keys.Bytes(), s.keys.Evicted()
}
