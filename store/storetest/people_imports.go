package storetest

import (
	"slices"
	"strconv"
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
			begun, err = tx.Imports().LockImport("file", born)
			return err
		})
		e.Expect(begun).To(gomega.Equal(people.Import{File: "file", CreatedAt: born}))
		want := people.Import{File: "file", Done: 1, Imported: 2, Present: 3, Rejected: 4, CreatedAt: born, CompletedAt: after(time.Second)}
		e.insert(func(tx people.Tx) error { return tx.Imports().PutImport(want) })
		got, _ := one(e, func(tx people.Tx) (people.Import, bool, error) { return tx.Imports().Import("file") })
		e.Expect(got).To(gomega.Equal(want))
		e.insert(func(tx people.Tx) error {
			again, err := tx.Imports().LockImport("file", after(time.Hour))
			e.Expect(again).To(gomega.Equal(want))
			return err
		})
		_, found := one(e, func(tx people.Tx) (people.Import, bool, error) { return tx.Imports().Import("other") })
		e.Expect(found).To(gomega.BeFalse())
	}},
	{name: "a line becomes one row of its kind", run: func(e *env) {
		e.begin()
		row := func(kind, externalID string, id int64) func(people.Tx) error {
			return func(tx people.Tx) error {
				return tx.Imports().RecordImported([]people.ImportedRow{{Kind: kind, ExternalID: externalID, ID: id}})
			}
		}
		e.insert(row("user", "1", 7), row("email", "1", 8), row("user", `a "quoted" 'ü`, 9))
		found := all(e, func(tx people.Tx) (map[string]int64, error) {
			return tx.Imports().ImportedAs("user", []string{"1", "2", `a "quoted" 'ü`})
		})
		e.Expect(found).To(gomega.Equal(map[string]int64{"1": 7, `a "quoted" 'ü`: 9}))
		e.Expect(all(e, func(tx people.Tx) (map[string]int64, error) { return tx.Imports().ImportedAs("user", nil) })).To(gomega.BeEmpty())
		e.refuses(people.ErrDuplicate, row("user", "1", 9))
		e.change("apps/other", row("user", "1", 9))
	}},
	{name: "more rows than a statement takes are written, or none", run: func(e *env) {
		e.begin()
		rows, ids := make([]people.ImportedRow, 25_000), make([]string, 25_000)
		for i := range rows {
			ids[i] = strconv.Itoa(i)
			rows[i] = people.ImportedRow{Kind: "user", ExternalID: ids[i], ID: int64(i)}
		}
		twice := append(slices.Clone(rows), rows[0])
		e.refuses(people.ErrDuplicate, func(tx people.Tx) error { return tx.Imports().RecordImported(twice) })
		e.insert(func(tx people.Tx) error { return tx.Imports().RecordImported(rows) }, func(tx people.Tx) error { return tx.Imports().RecordImported(nil) })
		found := all(e, func(tx people.Tx) (map[string]int64, error) { return tx.Imports().ImportedAs("user", ids) })
		e.Expect(found).To(gomega.HaveLen(len(rows)))
		e.Expect(found["24999"]).To(gomega.BeEquivalentTo(24999))
	}},
	{name: "a digest is taken by a key of any deployment", run: func(e *env) {
		e.begin()
		e.change("apps/other", func(tx people.Tx) error { return tx.APIKeys().InsertAPIKey(bare(1, "one")) })
		taken := func(mark string) bool {
			return all(e, func(tx people.Tx) (bool, error) { return tx.Imports().DigestTaken(bare(1, mark).Digest) })
		}
		e.Expect(taken("one")).To(gomega.BeTrue())
		e.Expect(taken("two")).To(gomega.BeFalse())
	}},
	{name: "who imports one file at once takes turns", run: func(e *env) {
		e.begin()
		var lost atomic.Int64
		together(20, func(int) {
			if err := e.store.Change(e.ctx, home, func(tx people.Tx) error {
				i, err := tx.Imports().LockImport("file", born)
				if err != nil {
					return err
				}
				i.Done++
				return tx.Imports().PutImport(i)
			}); err != nil {
				lost.Add(1)
			}
		})
		got, _ := one(e, func(tx people.Tx) (people.Import, bool, error) { return tx.Imports().Import("file") })
		e.Expect(got.Done).To(gomega.BeEquivalentTo(20 - lost.Load()))
		e.Expect(lost.Load()).To(gomega.BeZero())
	}},
}
