package sqlstore

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/config"
)

// onEngines runs a benchmark on a migrated store of each engine.
func onEngines(b *testing.B, run func(b *testing.B, s *Store, term store.Term)) {
	for _, engine := range []string{"sqlite", "postgres"} {
		b.Run(engine, func(b *testing.B) {
			s := migrated(b, engines[engine](b), Options{})
			term, err := s.Acquire(b.Context(), "install", 0)
			if err != nil {
				b.Fatal(err)
			}
			run(b, s, term)
		})
	}
}

func BenchmarkPut(b *testing.B) {
	for _, writers := range []int{1, 8, 32} {
		b.Run(fmt.Sprint("writers=", writers), func(b *testing.B) {
			onEngines(b, func(b *testing.B, s *Store, term store.Term) {
				var next atomic.Int64
				var group sync.WaitGroup
				b.ResetTimer()
				for range writers {
					group.Go(func() {
						for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
							if _, err := s.Put(b.Context(), term, numbered(fmt.Sprint("d", n), n)); err != nil {
								b.Error(err)
							}
						}
					})
				}
				group.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
			})
		})
	}
}

func BenchmarkHeld(b *testing.B) {
	onEngines(b, func(b *testing.B, s *Store, term store.Term) {
		fill(b, s, term, 1000)
		for n := 0; b.Loop(); n++ {
			if held, err := s.Stored(b.Context(), numbered(fmt.Sprint("d", n%1000), 0).Identity); err != nil || !held.Found {
				b.Fatal(held, err)
			}
		}
	})
}

func BenchmarkChangesNothing(b *testing.B) {
	onEngines(b, func(b *testing.B, s *Store, term store.Term) {
		fill(b, s, term, 1000)
		_, position, err := s.Load(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, _, err := s.Changes(b.Context(), position); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkChangesOne measures the read of a change of one document among 10,000.
func BenchmarkChangesOne(b *testing.B) {
	onEngines(b, func(b *testing.B, s *Store, term store.Term) {
		fill(b, s, term, 10_000)
		_, before, err := s.Load(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Put(b.Context(), term, numbered("one more", 1)); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if changes, _, err := s.Changes(b.Context(), before); err != nil || len(changes) != 1 {
				b.Fatal(len(changes), err)
			}
		}
	})
}

func BenchmarkLoad10000(b *testing.B) {
	onEngines(b, func(b *testing.B, s *Store, term store.Term) {
		fill(b, s, term, 10_000)
		for b.Loop() {
			if documents, _, err := s.Load(b.Context()); err != nil || len(documents) != 10_000 {
				b.Fatal(len(documents), err)
			}
		}
	})
}

// fill writes documents d0, d1, ... of about 1 KiB.
func fill(b *testing.B, s *Store, term store.Term, count int) {
	b.Helper()
	ops := make([]config.Op, count)
	for i := range ops {
		put := numbered(fmt.Sprint("d", i), 1)
		put.Payload = make([]byte, 1024)
		ops[i] = config.Op{Verb: config.VerbPut, Term: term, Put: put}
	}
	for _, r := range config.CommitBatch(b.Context(), s.Documents, ops) {
		if r.Err != nil {
			b.Fatal(r.Err)
		}
	}
}

// BenchmarkCreateAPIKey creates keys as the backend API does, each with an audit record, by 1 and by 16 concurrent
// writers.
func BenchmarkCreateAPIKey(b *testing.B) {
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprint("writers=", writers), func(b *testing.B) {
			onEngines(b, func(b *testing.B, s *Store, _ store.Term) {
				var next atomic.Int64
				var group sync.WaitGroup
				b.ResetTimer()
				for range writers {
					group.Go(func() {
						for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
							if err := s.Change(b.Context(), "apps/main", func(tx people.Tx) error { return createNumberedKey(tx, n) }); err != nil {
								b.Error(err)
							}
						}
					})
				}
				group.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "keys/s")
			})
		})
	}
}

func createNumberedKey(tx people.Tx, n int64) error {
	name := fmt.Sprint("key ", n)
	at := time.UnixMicro(n)
	err := tx.APIKeys().InsertAPIKey(people.APIKey{
		ID: n, PublicID: name, Digest: sha256.Sum256([]byte(name)), Prefix: "shop", Suffix: "wxyz", App: "shop", Name: name,
		Permissions: []string{"orders:read"}, Metadata: []byte(`{"plan":"gold"}`), CreatedAt: at, UpdatedAt: at,
	})
	if err != nil {
		return err
	}
	return tx.Records().RecordAudit(people.Audit{ID: n, At: at, Actor: "key:x", Action: "api_key.created", Object: name})
}

// BenchmarkAPIKeyByDigest measures the lookup at a key's first use, among 100,000 keys.
func BenchmarkAPIKeyByDigest(b *testing.B) {
	onEngines(b, func(b *testing.B, s *Store, _ store.Term) {
		const keys = 100_000
		for from := int64(1); from < keys; from += 1000 {
			if err := s.Change(b.Context(), "apps/main", func(tx people.Tx) error {
				for n := from; n < from+1000; n++ {
					if err := createNumberedKey(tx, n); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				b.Fatal(err)
			}
		}
		n := int64(0)
		for b.Loop() {
			n = (n + 7919) % keys
			digest := apikey.Digest(sha256.Sum256([]byte(fmt.Sprint("key ", n+1))))
			if _, found, err := s.APIKeyByDigest(b.Context(), digest); err != nil || !found {
				b.Fatal(found, err)
			}
		}
	})
}
