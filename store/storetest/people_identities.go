package storetest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

func identity(n, connection, user int64) people.Identity {
	return people.Identity{
		ID: n, Connection: connection, Issuer: "https://idp.example", Subject: fmt.Sprintf("subject-%d", n), User: user, Email: fmt.Sprintf("Person%d@Example.com", n),
		CreatedAt: after(time.Duration(n) * time.Second), UsedAt: after(time.Duration(n) * time.Minute),
	}
}

func insertIdentity(i people.Identity) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.Identities().InsertIdentity(i) }
}

var identityStories = []story{
	{name: "an identity is found by connection, issuer and subject, which together are unique", run: func(e *env) {
		e.begin()
		i := identity(1, 1, 7)
		e.insert(insertIdentity(i))
		find := func(connection int64, issuer, subject string) (people.Identity, bool) {
			return one(e, func(tx people.Tx) (people.Identity, bool, error) {
				return tx.Identities().IdentityOf(connection, issuer, subject)
			})
		}
		got, _ := find(1, i.Issuer, i.Subject)
		e.Expect(got).To(gomega.Equal(i))
		for _, of := range []struct {
			connection      int64
			issuer, subject string
		}{{2, i.Issuer, i.Subject}, {1, "https://other.example", i.Subject}, {1, i.Issuer, "SUBJECT-1"}, {1, i.Issuer, "subject-"}} {
			_, found := find(of.connection, of.issuer, of.subject)
			e.Expect(found).To(gomega.BeFalse(), "%+v", of)
		}
		again := i
		again.ID, again.User = 2, 8
		e.refuses(people.ErrDuplicate, insertIdentity(again))
		e.change("apps/other", insertIdentity(again))
		again.Issuer = "https://other.example"
		e.insert(insertIdentity(again))
		i.Email, i.UsedAt = "new@example.com", after(time.Hour)
		e.insert(func(tx people.Tx) error { return tx.Identities().UseIdentity(1, i.Email, i.UsedAt) })
		got, _ = one(e, func(tx people.Tx) (people.Identity, bool, error) { return tx.Identities().Identity(1) })
		e.Expect(got).To(gomega.Equal(i))

		var made, found atomic.Int64
		together(20, func(n int) {
			mine := identity(100+int64(n), 1, int64(n))
			mine.Subject = "raced"
			err := e.store.Change(e.ctx, home, func(tx people.Tx) error {
				if _, there, err := tx.Identities().IdentityOf(1, mine.Issuer, mine.Subject); err != nil || there {
					found.Add(1)
					return err
				}
				err := tx.Identities().InsertIdentity(mine)
				if err == nil {
					made.Add(1)
				}
				return err
			})
			if err != nil {
				e.t.Error(err)
			}
		})
		e.Expect([]int64{made.Load(), found.Load()}).To(gomega.Equal([]int64{1, 19}))
	}},
	{name: "many identities are written at once, or none, and their subjects and users are found", run: func(e *env) {
		e.begin()
		rows, subjects := make([]people.Identity, 25_000), make([]string, 25_000)
		for n := range rows {
			rows[n] = identity(int64(n)+1, 1, int64(n%5_000)+1)
			subjects[n] = rows[n].Subject
		}
		rows[0].UsedAt, rows[0].Email = time.Time{}, ""
		twice := rows[0]
		twice.ID = 30_000
		insert := func(all ...people.Identity) func(people.Tx) error {
			return func(tx people.Tx) error { return tx.Bulk().InsertIdentities(all) }
		}
		e.refuses(people.ErrDuplicate, insert(append(slices.Clone(rows), twice)...))
		e.insert(insert(rows...), insert())
		e.change("apps/other", insert(twice))
		first, _ := one(e, func(tx people.Tx) (people.Identity, bool, error) { return tx.Identities().Identity(1) })
		e.Expect(first).To(gomega.Equal(rows[0]))
		taken := func(connection int64, issuer string, subjects ...string) map[string]bool {
			return all(e, func(tx people.Tx) (map[string]bool, error) {
				return tx.Bulk().SubjectsTaken(connection, issuer, subjects)
			})
		}
		e.Expect(taken(1, twice.Issuer, subjects...)).To(gomega.HaveLen(len(rows)))
		e.Expect(taken(1, twice.Issuer, "subject-7", "SUBJECT-7", `"`, "subject-70000")).To(gomega.Equal(map[string]bool{"subject-7": true}))
		e.Expect([]int{len(taken(1, twice.Issuer)), len(taken(2, twice.Issuer, subjects...)), len(taken(1, "https://other.example", subjects...))}).To(gomega.Equal([]int{0, 0, 0}))
		counts := all(e, func(tx people.Tx) (map[int64]int, error) { return tx.Bulk().IdentityCounts([]int64{1, 5_000, 5_001}) })
		e.Expect(counts).To(gomega.Equal(map[int64]int{1: 5, 5_000: 5}))
	}},
	{name: "identities are listed by user and by connection, counted, and deleted by their user or with their connection", run: func(e *env) {
		e.begin()
		for n := int64(1); n <= 6; n++ {
			e.insert(insertIdentity(identity(n, n%2+1, n%3)))
		}
		ids := func(list []people.Identity) (ids []int64) {
			for _, i := range list {
				ids = append(ids, i.ID)
			}
			return ids
		}
		of := func(user int64) []int64 {
			return ids(all(e, func(tx people.Tx) ([]people.Identity, error) { return tx.Identities().IdentitiesOf(user) }))
		}
		list := func(connection, after int64, limit int) []int64 {
			return ids(all(e, func(tx people.Tx) ([]people.Identity, error) {
				return tx.Identities().ListIdentities(connection, after, limit)
			}))
		}
		count := func(connection int64) int64 {
			return all(e, func(tx people.Tx) (int64, error) { return tx.Identities().CountIdentities(connection) })
		}
		e.Expect([][]int64{of(1), of(2), of(9)}).To(gomega.Equal([][]int64{{1, 4}, {2, 5}, nil}))
		e.Expect([][]int64{list(2, 0, 2), list(2, 3, 2), list(1, 0, 9)}).To(gomega.Equal([][]int64{{1, 3}, {5}, {2, 4, 6}}))
		e.Expect([]int64{count(1), count(2), count(9)}).To(gomega.Equal([]int64{3, 3, 0}))
		remove := func(user, id int64) func(people.Tx) (bool, error) {
			return func(tx people.Tx) (bool, error) { return tx.Identities().DeleteIdentity(user, id) }
		}
		e.reportsFalse(remove(2, 1))
		e.reportsTrue(remove(1, 1))
		e.reportsFalse(remove(1, 1))
		var deleted []int64
		for range 3 {
			e.insert(func(tx people.Tx) error {
				n, err := tx.Identities().DeleteIdentitiesOf(1, 2)
				deleted = append(deleted, n)
				return err
			})
		}
		e.Expect(deleted).To(gomega.Equal([]int64{2, 1, 0}))
		e.Expect([]int64{count(1), count(2)}).To(gomega.Equal([]int64{0, 2}))
	}},
	{name: "a deleted user takes its identities along", run: func(e *env) {
		e.begin()
		e.insert(insertUser(1), insertUser(2), insertIdentity(identity(1, 1, 1)), insertIdentity(identity(2, 1, 2)))
		e.insert(func(tx people.Tx) error { return tx.Users().DeleteUser(1) })
		e.Expect(all(e, func(tx people.Tx) ([]people.Identity, error) { return tx.Identities().ListIdentities(1, 0, 9) })).To(gomega.Equal([]people.Identity{identity(2, 1, 2)}))
	}},
}
