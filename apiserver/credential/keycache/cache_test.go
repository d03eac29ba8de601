package keycache

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// rows is a store that the test controls.
type rows struct {
	mu          sync.Mutex
	keys        map[apikey.Digest]people.BoundKey
	log         []apikey.Digest
	imported    bool
	lost        bool
	unavailable error
	uses        []people.KeyUse
	writes      int

	reads, looks atomic.Int64
	// during, if set, is called in the middle of a read, between reading the row and returning it.
	during  func()
	signals chan struct{}
}

func newRows() *rows {
	return &rows{keys: map[apikey.Digest]people.BoundKey{}, signals: make(chan struct{}, 1)}
}

func (r *rows) add(keys ...apikey.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range keys {
		r.keys[k.Digest()] = people.BoundKey{
			APIKey:     people.APIKey{ID: int64(len(r.keys) + 1), PublicID: k.ID(), Digest: k.Digest(), App: "shop", Name: "key", Permissions: []string{"orders:read"}},
			Deployment: "apps/acme",
		}
	}
}

// revoke revokes a key and writes the change to the feed.
func (r *rows) revoke(k apikey.Key) {
	r.mu.Lock()
	row := r.keys[k.Digest()]
	row.RevokedAt = time.Now()
	r.keys[k.Digest()] = row
	r.log = append(r.log, k.Digest())
	r.mu.Unlock()
	select {
	case r.signals <- struct{}{}:
	default:
	}
}

func (r *rows) set(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
}

func (r *rows) APIKeyByDigest(_ context.Context, digest apikey.Digest) (people.BoundKey, bool, error) {
	r.reads.Add(1)
	r.mu.Lock()
	row, found := r.keys[digest]
	err, during := r.unavailable, r.during
	r.mu.Unlock()
	if during != nil {
		during()
	}
	return row, found, err
}

func (r *rows) KeyPosition(context.Context) (people.KeyPosition, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return people.KeyPosition{Revision: int64(len(r.log))}, r.unavailable
}

func (r *rows) KeyChanges(_ context.Context, after people.KeyPosition) (people.KeyChanges, error) {
	defer r.looks.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost {
		r.lost = false
		return people.KeyChanges{}, people.ErrKeyFeedLost
	}
	return people.KeyChanges{
		Position: people.KeyPosition{Revision: int64(len(r.log))}, Digests: r.log[after.Revision:], Imported: r.imported,
	}, r.unavailable
}

func (r *rows) KeySignals(context.Context) <-chan struct{} { return r.signals }

func (r *rows) RecordKeyUses(_ context.Context, uses []people.KeyUse) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unavailable != nil {
		return r.unavailable
	}
	r.writes++
	r.uses = append(r.uses, uses...)
	return nil
}

// clock is a clock that tests move.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(1_700_000_000, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

type world struct {
	*testing.T
	rows  *rows
	clock *clock
	cache *Cache
	at    *people.KeyPosition
}

// newWorld returns a cache that polls its feed only when the test calls pollFeed.
func newWorld(t *testing.T, opts Options) *world {
	w := &world{T: t, rows: newRows(), clock: &clock{}}
	opts.Store, opts.Clock, opts.Log = w.rows, w.clock.now, logr.Discard()
	w.cache = New(opts)
	_ = w.pollFeed()
	return w
}

// pollFeed polls the feed once.
func (w *world) pollFeed() error { return w.cache.pollFeed(w.Context(), &w.at) }

func (w *world) find(key apikey.Key) (*Key, error) { return w.cache.Find(w.Context(), key) }

// finds checks that a key is found, and reports whether it is live.
func (w *world) finds(key apikey.Key) bool {
	w.Helper()
	found, err := w.find(key)
	if err != nil {
		w.Fatalf("a key is not found: %v", err)
	}
	return found.Live(w.clock.now())
}

func (w *world) reads(want int64) {
	w.Helper()
	if got := w.rows.reads.Load(); got != want {
		w.Errorf("the store was read %d times, want %d", got, want)
	}
}

func mint(t testing.TB) apikey.Key {
	t.Helper()
	key, err := apikey.Mint(rand.Reader, "ck")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestKeyIsReadOnceAndCached(t *testing.T) {
	w, key := newWorld(t, Options{}), mint(t)
	w.rows.add(key)
	if _, cached := w.cache.Cached(key.Digest()); cached {
		t.Error("a key is cached that was never read")
	}
	for range 3 {
		found, err := w.find(key)
		if err != nil || found.PublicID != key.ID() || found.App != "shop" || found.Deployment != "apps/acme" || !found.Permissions.Allows("orders:read") {
			t.Fatalf("found %+v, %v", found, err)
		}
	}
	if _, cached := w.cache.Cached(key.Digest()); !cached {
		t.Error("a key that was read is not cached")
	}
	w.reads(1)
}

func TestConcurrentCallersShareOneRead(t *testing.T) {
	w, key := newWorld(t, Options{}), mint(t)
	w.rows.add(key)
	entered, release := make(chan struct{}, 100), make(chan struct{})
	w.rows.during = func() { entered <- struct{}{}; <-release }
	var asking sync.WaitGroup
	for range 50 {
		asking.Go(func() {
			if _, err := w.find(key); err != nil {
				t.Error(err)
			}
		})
	}
	<-entered
	close(release)
	asking.Wait()
	w.reads(1)
}

func TestRevocationInFeedEvictsKey(t *testing.T) {
	w, key, other := newWorld(t, Options{}), mint(t), mint(t)
	w.rows.add(key, other)
	if !w.finds(key) || !w.finds(other) {
		t.Fatal("a key is dead")
	}
	w.rows.revoke(key)
	_ = w.pollFeed()
	if w.finds(key) {
		t.Error("a revoked key lives")
	}
	if !w.finds(other) {
		t.Error("another key is dead")
	}
	w.reads(3)
}

func TestReadBeforeRevocationIsDiscarded(t *testing.T) {
	w, key := newWorld(t, Options{}), mint(t)
	w.rows.add(key)
	var once sync.Once
	w.rows.during = func() {
		once.Do(func() { // the row is read already, and is live
			w.rows.revoke(key)
			_ = w.pollFeed()
		})
	}
	if w.finds(key) {
		t.Error("Find returned a read from before a revocation that the feed already reported")
	}
	w.reads(2)
	if w.finds(key) {
		t.Error("a read from before a revocation was kept")
	}
}

func TestReadsRacingRevocationsNeverCacheRevokedKey(t *testing.T) {
	w := newWorld(t, Options{Bytes: 64 << 10})
	for range 200 {
		key := mint(t)
		w.rows.add(key)
		var racing sync.WaitGroup
		for range 4 {
			racing.Go(func() {
				if _, err := w.find(key); err != nil {
					t.Error(err)
				}
			})
		}
		w.rows.revoke(key)
		_ = w.pollFeed()
		if w.finds(key) {
			t.Fatal("a key whose revocation the feed reported is live")
		}
		racing.Wait()
		if w.finds(key) {
			t.Fatal("a revoked key is cached as live")
		}
	}
}

func TestKeyIsReadAgainWhenFeedIsStale(t *testing.T) {
	w, key := newWorld(t, Options{}), mint(t)
	w.rows.add(key)
	w.finds(key)
	w.clock.advance(trust)
	w.finds(key)
	w.reads(1)
	w.rows.revoke(key) // and the cache does not poll the feed
	w.clock.advance(1)
	if w.finds(key) {
		t.Error("a revoked key is live although the feed was not polled for more than a second")
	}
	w.reads(2)
}

func TestCachedKeysRemainValidWhileStoreIsUnavailable(t *testing.T) {
	w, key := newWorld(t, Options{MaxStaleness: time.Minute}), mint(t)
	w.rows.add(key)
	w.finds(key)
	w.rows.set(func() { w.rows.unavailable = fmt.Errorf("%w: test", store.ErrUnavailable) })
	w.clock.advance(30 * time.Second)
	if !w.finds(key) { // the key is read again, and the failure marks the store as unavailable
		t.Error("a cached key is dead")
	}
	w.reads(2)
	w.finds(key)
	w.reads(2)
	if _, cached := w.cache.Cached(key.Digest()); !cached {
		t.Error("a cached key is not reported as cached while the store is unavailable")
	}
	if _, err := w.find(mint(t)); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a key that is not cached: %v, want unavailable", err)
	}
	w.reads(2)
	w.clock.advance(30*time.Second + 1)
	if _, err := w.find(key); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a key cached for longer than the staleness allows: %v, want unavailable", err)
	}
	if _, cached := w.cache.Cached(key.Digest()); cached {
		t.Error("a key cached for longer than the staleness allows is reported as cached")
	}
	w.rows.set(func() { w.rows.unavailable = nil })
	w.rows.revoke(key)
	if err := w.pollFeed(); err != nil {
		t.Fatal(err)
	}
	if w.finds(key) {
		t.Error("a key that was revoked in the outage lives")
	}
}

func TestUnknownKeysAreCachedBrieflyAndBounded(t *testing.T) {
	w, late := newWorld(t, Options{}), mint(t)
	for range 3 {
		if _, err := w.find(late); !errors.Is(err, ErrUnknown) {
			t.Fatalf("an unknown key: %v", err)
		}
	}
	w.reads(1)
	w.rows.add(late)
	w.clock.advance(unknownFor + 1)
	_ = w.pollFeed()
	if !w.finds(late) {
		t.Error("a new key that was tried too early stays unknown")
	}
	s := newShard(1 << 10)
	for i := range 10 * maxUnknown {
		digest := apikey.Digest{1: byte(i), 2: byte(i >> 8), 3: byte(i >> 16)}
		f, _ := s.board(digest, nil)
		f.err = ErrUnknown
		s.land(digest, f, int64(i), 100)
	}
	if len(s.unknown) > maxUnknown || len(s.flights) > 0 {
		t.Errorf("%d unknown keys are remembered, at most %d should; %d reads are under way", len(s.unknown), maxUnknown, len(s.flights))
	}
}

func TestEvictionKeepsBoundAndKeysInUse(t *testing.T) {
	const bytes = 1 << 20
	w, hot := newWorld(t, Options{Bytes: bytes}), mint(t)
	w.rows.add(hot)
	w.finds(hot)
	for range 8192 {
		key := mint(t)
		w.rows.add(key)
		w.finds(key)
		if _, cached := w.cache.Cached(hot.Digest()); !cached {
			t.Fatal("a key that is asked for all the time was evicted")
		}
	}
	if cached := w.cache.Bytes(); cached > bytes || cached < bytes/2 {
		t.Errorf("%d bytes are cached, the bound is %d", cached, bytes)
	}
}

// Keys with the most permissions and metadata stay within the bound, and another deployment's keys remain cached.
func TestKeysOfOneDeploymentEvictNoOthers(t *testing.T) {
	t.Parallel()
	const bytes = 8 << 20
	w := newWorld(t, Options{Bytes: bytes})
	large := func(key apikey.Key) {
		w.rows.add(key)
		w.rows.set(func() {
			row := w.rows.keys[key.Digest()]
			row.Deployment, row.Metadata, row.Permissions = "apps/large", make([]byte, 4<<10), nil
			for i := range 128 {
				row.Permissions = append(row.Permissions, fmt.Sprintf("%s:%d:%060d", key.ID(), i, i))
			}
			w.rows.keys[key.Digest()] = row
		})
		w.finds(key)
	}
	var others []apikey.Key
	for range 100 {
		other := mint(t)
		others = append(others, other)
		w.rows.add(other)
		w.finds(other)
	}
	for range 1500 {
		large(mint(t))
		if cached := w.cache.Bytes(); cached > bytes {
			t.Fatalf("%d bytes are cached, the bound is %d", cached, bytes)
		}
	}
	for i, other := range others {
		if _, cached := w.cache.Cached(other.Digest()); !cached {
			t.Errorf("key %d of the other deployment was pushed out", i)
		}
	}
	if w.cache.shared.bytes > sharedBytes {
		t.Errorf("lists of permissions take %d bytes", w.cache.shared.bytes)
	}
}

func TestLostFeedPositionEvictsAllKeys(t *testing.T) {
	w, key := newWorld(t, Options{}), mint(t)
	w.rows.add(key)
	w.finds(key)
	w.rows.set(func() { w.rows.lost = true })
	if err := w.pollFeed(); err != nil {
		t.Fatal(err)
	}
	if n := w.cache.Len(); n != 0 {
		t.Errorf("%d keys are cached", n)
	}
}

func TestImportedKeysAreLookedUpOnlyAfterAnImport(t *testing.T) {
	w := newWorld(t, Options{})
	foreign, err := apikey.Foreign("sk_live_51H.abc")
	if err != nil {
		t.Fatal(err)
	}
	w.rows.add(foreign)
	if _, err := w.find(foreign); !errors.Is(err, ErrUnknown) {
		t.Errorf("a foreign key: %v", err)
	}
	w.reads(0)
	w.rows.set(func() { w.rows.imported = true })
	_ = w.pollFeed()
	if found, err := w.find(foreign); err != nil || found.PublicID != "" {
		t.Errorf("an imported key: %v, %v", found, err)
	}
}

func TestUsesAreWrittenOncePerMinuteAndAtEnd(t *testing.T) {
	w, key, other := newWorld(t, Options{}), mint(t), mint(t)
	w.rows.add(key, other)
	found, _ := w.find(key)
	at := w.clock.now()
	for i := range 100 {
		w.cache.Used(found, at.Add(time.Duration(i)*500*time.Millisecond)) // within 50 s
	}
	w.rows.set(func() { w.rows.unavailable = errors.New("unavailable") })
	if err := w.cache.flush(t.Context()); err == nil {
		t.Error("a failed write was not reported")
	}
	w.cache.Used(found, at.Add(time.Minute)) // a minute later while the first still waits
	w.rows.set(func() { w.rows.unavailable = nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.cache.flushUses(ctx); err != nil {
		t.Fatal(err)
	}
	want := people.KeyUse{Deployment: "apps/acme", ID: found.ID, At: at.Add(time.Minute)}
	if len(w.rows.uses) != 1 || w.rows.uses[0] != want {
		t.Errorf("written at the end: %+v, want %+v", w.rows.uses, want)
	}
}

func TestRunFollowsSignals(t *testing.T) {
	w, key := newWorld(t, Options{}), mint(t)
	w.rows.add(key)
	w.finds(key)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.cache.Run(ctx) }()
	w.rows.revoke(key)
	for looked := w.rows.looks.Load(); w.rows.looks.Load() < looked+2; {
		select {
		case w.rows.signals <- struct{}{}:
		default:
		}
	}
	if w.finds(key) {
		t.Error("a revoked key lives after the feed was looked at")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
