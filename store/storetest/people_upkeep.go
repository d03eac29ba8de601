package storetest

import (
	"errors"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

// purged calls Purge in batches until nothing is left to delete, and returns the number of deleted rows.
func (e *env) purged(now time.Time, auditRetention time.Duration, limit int) (sum int64) {
	e.t.Helper()
	for {
		n, err := e.store.Purge(e.ctx, now, people.Retention{Audit: auditRetention, ToolCalls: 100 * 365 * 24 * time.Hour}, limit)
		e.ok(err)
		e.Expect(n).To(gomega.BeNumerically("<=", 9*limit))
		if sum += n; n == 0 {
			return sum
		}
	}
}

var upkeepStories = []story{
	{name: "all rows of a deployment are erased in batches, and no rows of other deployments", run: func(e *env) {
		e.begin()
		e.change("apps/other", func(tx people.Tx) error { return furnish(tx, "other") })
		other := e.pictureOf("apps/other")
		e.change(home, func(tx people.Tx) error { return furnish(tx, "mine") })
		for n := int64(100); n < 125; n++ {
			e.insert(insertUser(n), func(tx people.Tx) error { return tx.Records().RecordEvent(event(n, people.EventSignIn, n)) })
		}
		empty := e.pictureOf("apps/empty")
		var sum int64
		for batches := 1; ; batches++ {
			n, err := e.store.Erase(e.ctx, e.term, home, 10)
			e.ok(err)
			if sum += n; n == 0 {
				e.Expect(batches).To(gomega.Equal(4), "26 rows of three tables take three batches, and one that finds none")
				break
			}
		}
		e.Expect(sum).To(gomega.BeEquivalentTo(63 + 3*25))
		e.Expect(e.pictureOf(home)).To(gomega.Equal(empty))
		e.Expect(e.pictureOf("apps/other")).To(gomega.Equal(other))
		n, err := e.store.Erase(e.ctx, e.term, "apps/other", 10)
		e.ok(err)
		e.Expect(n).To(gomega.BeEquivalentTo(63), "one row of every table, two of emails")
	}},
	{name: "expired sessions are purged in batches with everything that depends on them, in every deployment", run: func(e *env) {
		e.begin()
		const expired = 25
		for n := range int64(expired) {
			deployment := []string{home, "apps/other"}[n%2]
			e.change(deployment, func(tx people.Tx) error { return tx.Sessions().InsertSession(session(n + 1)) })
			e.change(deployment, func(tx people.Tx) error { return tx.Sessions().InsertToken(tokenOf(n+1, n+1)) })
			e.change(deployment, func(tx people.Tx) error { return tx.Sessions().InsertSignIn(signIn(n+1, n+1, 1)) })
		}
		alive := session(100)
		alive.ExpiresAt = after(48 * time.Hour)
		e.insert(insertSession(alive), insertToken(tokenOf(100, 100)), insertSignIn(signIn(100, 100, 1)))
		e.Expect(e.purged(born, time.Hour, 10)).To(gomega.BeZero())
		e.Expect(e.purged(after(2*time.Hour), time.Hour, 10)).To(gomega.BeEquivalentTo(expired))
		e.Expect(tokensLeft(e, 100)).To(gomega.Equal([]int64{100}))
		e.Expect(all(e, func(tx people.Tx) ([]people.SignIn, error) { return tx.Sessions().SignInsOf(1) })).To(gomega.Equal([]people.SignIn{signIn(100, 100, 1)}))
		erased, err := e.store.Erase(e.ctx, e.term, "apps/other", 100)
		e.ok(err)
		e.Expect(erased).To(gomega.BeEquivalentTo(expired/2), "only the ended sign-ins are left")
	}},
	{name: "rows that bound sending and guessing are purged after 25 hours, attempts when they expire, invitations a day after they expire, audit records after the retention", run: func(e *env) {
		e.begin()
		e.change(home, func(tx people.Tx) error { return furnish(tx, "kept") })
		e.insert(func(tx people.Tx) error {
			s := session(1)
			s.ExpiresAt = after(10_000 * time.Hour)
			return tx.Sessions().UpdateSession(s)
		}, insertMessage(message(2)))
		claimed := e.claim(after(time.Second), 1)
		e.settle(true, claimed[0], people.Outcome{State: people.MessageSent})
		for _, step := range []struct {
			now, retention time.Duration
			purged         int64
			what           string
		}{
			{8 * time.Minute, 90 * 24 * time.Hour, 1, "the spent challenge"},
			{10 * time.Minute, 90 * 24 * time.Hour, 2, "the authorization request and the device"},
			{11 * time.Minute, 90 * 24 * time.Hour, 4, "the attempt with its SSO attempt, the unconfirmed authenticator, and the key of the approval"},
			{time.Hour, 90 * 24 * time.Hour, 5, "the counter, the family of tokens with its refresh token, the temporary code, and the look at the API key that expired"},
			{25 * time.Hour, 90 * 24 * time.Hour, 5, "the failure, the code, the client that was not used, the arguments of the approval, and the setup link"},
			{25*time.Hour + 2*time.Second, 90 * 24 * time.Hour, 3, "the challenge, the send and the message that was sent"},
			{26 * time.Hour, 26 * time.Hour, 0, "the audit record is as old as its retention says"},
			{26*time.Hour + 2*time.Second, 26 * time.Hour, 2, "the audit record, and the invitation a day after its end"},
			{people.UnfinishedImportFor - time.Second, time.Hour, 0, "the import may still go on"},
			{people.UnfinishedImportFor, time.Hour, 1, "the import that nobody completed"},
			{people.ConnectionFailureKeptFor + 2*time.Second, time.Hour, 2, "the failure and the document of the connection"},
			{999 * time.Hour, time.Hour, 0, "a pending message stays, and users, memberships and events do"},
			{people.KnownFor, people.KnownFor + time.Hour, 1, "the client that was known"},
		} {
			e.Expect(e.purged(born.Add(step.now+time.Microsecond), step.retention, 1)).To(gomega.Equal(step.purged), step.what)
		}
		e.Expect(e.claim(after(time.Hour), 10)).To(gomega.HaveLen(1))
		erased, err := e.store.Erase(e.ctx, e.term, home, 100)
		e.ok(err)
		e.Expect(erased).To(gomega.BeEquivalentTo(62-23+1), "all rows except the purged ones and the record of the deleted client, plus the pending message")
	}},
	{name: "the sealed secrets of all deployments are listed in batches, each once", run: func(e *env) {
		e.begin()
		var want []people.SealedSecret
		for _, deployment := range []string{"apps/a", "apps/a-b", "apps/b", "apps/none"} {
			for n := range int64(5) {
				if deployment == "apps/none" {
					continue
				}
				a := authenticator(n+1, 7)
				if n == 4 {
					a.ConfirmedAt = born
				}
				e.change(deployment, func(tx people.Tx) error { return tx.Factors().InsertAuthenticator(a) })
				want = append(want, people.SealedSecret{Deployment: deployment, ID: a.ID, Sealed: a.Sealed})
			}
		}
		for _, limit := range []int{1, 4, 5, 15, 100} {
			var got []people.SealedSecret
			for after := (people.SealedSecret{}); ; after = got[len(got)-1] {
				batch, err := e.store.SealedSecrets(e.ctx, after, limit)
				e.ok(err)
				e.Expect(len(batch)).To(gomega.BeNumerically("<=", limit))
				if len(batch) == 0 {
					break
				}
				got = append(got, batch...)
			}
			e.Expect(got).To(gomega.ConsistOf(want), "in batches of %d", limit)
		}
	}},
	{name: "organizations with pending notices are listed in batches", run: func(e *env) {
		e.begin()
		for _, deployment := range []string{"apps/b", "apps/a"} {
			e.change(deployment, func(tx people.Tx) error {
				for n := range int64(3) {
					if err := tx.Organizations().InsertOrganization(organization(n + 1)); err != nil {
						return err
					}
				}
				return errors.Join(tx.Organizations().SetPendingNotices(1, 11), tx.Organizations().SetPendingNotices(3, 13))
			})
		}
		list := func(after people.PendingNotice, limit int) []people.PendingNotice {
			pending, err := e.store.PendingNotices(e.ctx, after, limit)
			e.ok(err)
			return pending
		}
		want := []people.PendingNotice{{Deployment: "apps/a", Organization: 1, After: 11}, {Deployment: "apps/a", Organization: 3, After: 13}, {Deployment: "apps/b", Organization: 1, After: 11}}
		e.Expect(list(people.PendingNotice{}, 3)).To(gomega.Equal(want))
		e.Expect(list(want[2], 3)).To(gomega.Equal([]people.PendingNotice{{Deployment: "apps/b", Organization: 3, After: 13}}))
		e.change("apps/a", func(tx people.Tx) error {
			after, err := tx.Organizations().NoticesAfter(1)
			e.ok(err)
			e.Expect(after).To(gomega.BeEquivalentTo(11))
			return tx.Organizations().SetPendingNotices(1, 20)
		})
		e.Expect(list(people.PendingNotice{}, 1)).To(gomega.Equal([]people.PendingNotice{{Deployment: "apps/a", Organization: 1, After: 20}}))
		e.change("apps/a", func(tx people.Tx) error { return tx.Organizations().SetPendingNotices(1, 0) })
		e.Expect(list(people.PendingNotice{}, 1)).To(gomega.Equal(want[1:2]))
	}},
	{name: "audit records after their retention are purged in batches, the oldest of each deployment first, and no younger ones", run: func(e *env) {
		e.begin()
		deployments := []string{"apps/a", home, "apps/z"}
		for _, deployment := range deployments {
			e.change(deployment, func(tx people.Tx) error {
				var errs []error
				for n := range int64(12) {
					errs = append(errs, tx.Records().RecordAudit(audit(n+1)))
				}
				return errors.Join(errs...)
			})
		}
		left := func(deployment string) (ids []int64) {
			e.view(deployment, func(tx people.Tx) error {
				records, err := tx.Listings().ListAudit(people.AuditFilter{OldestFirst: true}, 20)
				for _, record := range records {
					ids = append(ids, record.ID)
				}
				return err
			})
			return ids
		}
		now := audit(8).At.Add(time.Hour) // the records before the eighth are too old
		first, err := e.store.Purge(e.ctx, now, people.Retention{Audit: time.Hour, ToolCalls: time.Hour}, 5)
		e.ok(err)
		e.Expect(first).To(gomega.BeEquivalentTo(5), "one batch")
		e.Expect(left("apps/a")).To(gomega.Equal([]int64{6, 7, 8, 9, 10, 11, 12}))
		e.Expect(e.purged(now, time.Hour, 5)).To(gomega.BeEquivalentTo(3*7 - 5))
		for _, deployment := range deployments {
			e.Expect(left(deployment)).To(gomega.Equal([]int64{8, 9, 10, 11, 12}), deployment)
		}
	}},
	{name: "completed imports are purged after the audit retention, and the ids that they imported stay recorded", run: func(e *env) {
		e.begin()
		for n, completed := range []time.Time{after(time.Hour), after(3 * time.Hour), {}} {
			e.insert(func(tx people.Tx) error {
				i, err := tx.Imports().LockImport(string(rune('a'+n)), born)
				i.Done, i.CompletedAt = 1, completed
				return errors.Join(err, tx.Imports().PutImport(i))
			})
		}
		e.insert(func(tx people.Tx) error {
			return tx.Imports().RecordImported([]people.ImportedRow{{Kind: people.ImportedUser, ExternalID: "1", ID: 7}})
		})
		unfinished := func() int64 {
			return all(e, func(tx people.Tx) (int64, error) { return tx.Imports().UnfinishedImports() })
		}
		e.Expect(unfinished()).To(gomega.BeEquivalentTo(1))
		e.Expect(e.purged(after(4*time.Hour), 2*time.Hour, 10)).To(gomega.BeEquivalentTo(1))
		_, first := one(e, func(tx people.Tx) (people.Import, bool, error) { return tx.Imports().Import("a") })
		_, second := one(e, func(tx people.Tx) (people.Import, bool, error) { return tx.Imports().Import("b") })
		e.Expect([]bool{first, second}).To(gomega.Equal([]bool{false, true}))
		e.Expect(e.purged(born.Add(people.UnfinishedImportFor+time.Second), 365*24*time.Hour, 10)).To(gomega.BeEquivalentTo(1))
		e.Expect(unfinished()).To(gomega.BeZero())
		e.Expect(all(e, func(tx people.Tx) (map[string]int64, error) { return tx.Imports().ImportedAs("user", []string{"1"}) })).To(gomega.HaveLen(1))
	}},
}
