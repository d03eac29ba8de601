package storetest

import (
	"sync/atomic"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

var importStories = []story{
	{name: "an import is read as written, and begins at its beginning", run: func(e *env) {
		e.begin()
		var begun people.Import
		e.insert(func(tx people.Tx) (err error) {
			begun, err = tx.LockImport("file", born)
			return err
		})
		e.Expect(begun).To(gomega.Equal(people.Import{File: "file", CreatedAt: born}))
		want := people.Import{File: "file", Done: 1, Imported: 2, Present: 3, Rejected: 4, CreatedAt: born, CompletedAt: after(time.Second)}
		e.insert(func(tx people.Tx) error { return tx.PutImport(want) })
		got, _ := one(e, func(tx people.Tx) (people.Import, bool, error) { return tx.Import("file") })
		e.Expect(got).To(gomega.Equal(want))
		e.insert(func(tx people.Tx) error {
			again, err := tx.LockImport("file", after(time.Hour))
			e.Expect(again).To(gomega.Equal(want))
			return err
		})
		_, found := one(e, func(tx people.Tx) (people.Import, bool, error) { return tx.Import("other") })
		e.Expect(found).To(gomega.BeFalse())
	}},
	{name: "a line becomes one row of its kind", run: func(e *env) {
		e.begin()
		e.insert(func(tx people.Tx) error { return tx.RecordImported("user", "1", 7) }, func(tx people.Tx) error { return tx.RecordImported("email", "1", 8) })
		id, _ := one(e, func(tx people.Tx) (int64, bool, error) { return tx.ImportedAs("user", "1") })
		e.Expect(id).To(gomega.BeEquivalentTo(7))
		_, found := one(e, func(tx people.Tx) (int64, bool, error) { return tx.ImportedAs("user", "2") })
		e.Expect(found).To(gomega.BeFalse())
		e.refuses(people.ErrDuplicate, func(tx people.Tx) error { return tx.RecordImported("user", "1", 9) })
		e.change("apps/other", func(tx people.Tx) error { return tx.RecordImported("user", "1", 9) })
	}},
	{name: "a digest is taken by a key of any deployment", run: func(e *env) {
		e.begin()
		e.change("apps/other", func(tx people.Tx) error { return tx.InsertAPIKey(bare(1, "one")) })
		taken := func(mark string) bool {
			return all(e, func(tx people.Tx) (bool, error) { return tx.DigestTaken(bare(1, mark).Digest) })
		}
		e.Expect(taken("one")).To(gomega.BeTrue())
		e.Expect(taken("two")).To(gomega.BeFalse())
	}},
	{name: "who imports one file at once takes turns", run: func(e *env) {
		e.begin()
		var lost atomic.Int64
		together(20, func(int) {
			if err := e.store.Change(e.ctx, home, func(tx people.Tx) error {
				i, err := tx.LockImport("file", born)
				if err != nil {
					return err
				}
				i.Done++
				return tx.PutImport(i)
			}); err != nil {
				lost.Add(1)
			}
		})
		got, _ := one(e, func(tx people.Tx) (people.Import, bool, error) { return tx.Import("file") })
		e.Expect(got.Done).To(gomega.BeEquivalentTo(20 - lost.Load()))
		e.Expect(lost.Load()).To(gomega.BeZero())
	}},
}
