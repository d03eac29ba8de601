package keycache

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/internal/apikey"
)

// benchCache returns a cache whose feed is always current.
func benchCache(b *testing.B, keys ...apikey.Key) *Cache {
	b.Helper()
	store := newRows()
	store.add(keys...)
	c := New(Options{Store: store, Clock: time.Now, Log: logr.Discard(), Bytes: 1 << 30})
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Run(ctx) }()
	b.Cleanup(func() { cancel(); <-done })
	for store.looks.Load() == 0 {
		runtime.Gosched()
	}
	for _, key := range keys {
		if _, err := c.Find(b.Context(), key); err != nil {
			b.Fatal(err)
		}
	}
	return c
}

// BenchmarkFind measures the lookup of a cached key, and the digest alone.
func BenchmarkFind(b *testing.B) {
	key := mint(b)
	c := benchCache(b, key)
	b.Run("hit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Find(b.Context(), key); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("digest", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = key.Digest()
		}
	})
	b.Run("used", func(b *testing.B) {
		found, _ := c.Find(b.Context(), key)
		at := time.Now()
		b.ReportAllocs()
		for b.Loop() {
			c.Used(found, at)
		}
	})
}

// BenchmarkFindAmongMany measures a lookup among 100,000 cached keys.
func BenchmarkFindAmongMany(b *testing.B) {
	keys := make([]apikey.Key, 100_000)
	for i := range keys {
		keys[i] = mint(b)
	}
	c := benchCache(b, keys...)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := c.Find(b.Context(), keys[i%len(keys)]); err != nil {
			b.Fatal(err)
		}
		i += 7919
	}
}

// BenchmarkHeldBytes measures the memory of a cached key, without the rows of the test's store.
func BenchmarkHeldBytes(b *testing.B) {
	const n = 100_000
	for b.Loop() {
		c := New(Options{Store: newRows(), Clock: time.Now, Log: logr.Discard(), Bytes: 1 << 30})
		store := newRows()
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range n {
			key := mint(b)
			store.add(key)
			row := store.keys[key.Digest()]
			clear(store.keys)
			row.Name, row.Permissions = "customer "+key.Last4(), append([]string{}, "orders:read", "orders:write")
			c.shard(&row.Digest).mu.Lock()
			c.shard(&row.Digest).put(newKey(row, &c.shared, 0))
			c.shard(&row.Digest).mu.Unlock()
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "bytes/key")
		runtime.KeepAlive(c)
	}
}
