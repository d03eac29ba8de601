package storetest

import (
	"errors"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

func upstreamDocument(connection int64, kind, body string) people.UpstreamDocument {
	return people.UpstreamDocument{Connection: connection, Kind: kind, Body: body, SHA256: "hash of " + body, FetchedAt: after(time.Second), ValidUntil: after(time.Hour)}
}

// fetchDocument leases and stores a document.
func fetchDocument(d people.UpstreamDocument) func(people.Tx) error {
	return func(tx people.Tx) error {
		before, _, err := tx.Connections().UpstreamDocument(d.Connection, d.Kind)
		if err != nil {
			return err
		}
		leased, err := tx.Connections().LeaseUpstreamDocument(d.Connection, d.Kind, "lease", before.TriedAt, d.FetchedAt, d.FetchedAt.Add(time.Minute))
		if err != nil || !leased {
			return errors.Join(err, errUnless(leased, "the document is leased"))
		}
		stored, err := tx.Connections().StoreUpstreamDocument(d, "lease")
		return errors.Join(err, errUnless(stored, "the lease is another caller's"))
	}
}

// documentOf reads a document of connection 1.
func documentOf(e *env, kind string) (people.UpstreamDocument, bool) {
	e.t.Helper()
	return one(e, func(tx people.Tx) (people.UpstreamDocument, bool, error) {
		return tx.Connections().UpstreamDocument(1, kind)
	})
}

// upstreamStories are about what servers fetch from providers, and about failed sign-ins.
var upstreamStories = []story{
	{name: "one caller at a time fetches a document, a failure keeps the last body, and another body is noticed", run: func(e *env) {
		e.begin()
		lease := func(name string, tried, now time.Time) func(people.Tx) (bool, error) {
			return func(tx people.Tx) (bool, error) {
				return tx.Connections().LeaseUpstreamDocument(1, people.UpstreamJWKS, name, tried, now, now.Add(time.Minute))
			}
		}
		store := func(name string, d people.UpstreamDocument) func(people.Tx) (bool, error) {
			return func(tx people.Tx) (bool, error) { return tx.Connections().StoreUpstreamDocument(d, name) }
		}
		fail := func(name, reason string) func(people.Tx) (bool, error) {
			return func(tx people.Tx) (bool, error) {
				return tx.Connections().FailUpstreamDocument(1, people.UpstreamJWKS, name, reason)
			}
		}
		first := upstreamDocument(1, people.UpstreamJWKS, "first")
		e.Expect(e.winners(20, lease("a", time.Time{}, born))).To(gomega.Equal(1))
		e.reportsFalse(lease("b", born, after(time.Minute-time.Microsecond)))
		e.reportsFalse(lease("b", time.Time{}, after(time.Minute))) // it has not read that a began
		e.reportsTrue(lease("b", born, after(time.Minute)))
		e.reportsFalse(store("a", first))
		e.reportsFalse(fail("a", "too late"))
		e.reportsTrue(fail("b", "timeout"))
		e.reportsFalse(fail("b", "again"))
		e.reportsFalse(store("", first))
		want := people.UpstreamDocument{Connection: 1, Kind: people.UpstreamJWKS, Error: "timeout", Failures: 1, TriedAt: after(time.Minute)}
		got, _ := documentOf(e, people.UpstreamJWKS)
		e.Expect(got).To(gomega.Equal(want))

		e.reportsTrue(lease("c", after(time.Minute), after(2*time.Minute)))
		got, _ = documentOf(e, people.UpstreamJWKS)
		e.Expect(got.LeasedUntil).To(gomega.Equal(after(3 * time.Minute)))
		e.reportsTrue(store("c", first))
		e.reportsFalse(lease("d", after(time.Minute), after(3*time.Minute))) // it has not read what c stored
		first.TriedAt = after(2 * time.Minute)
		got, _ = documentOf(e, people.UpstreamJWKS)
		e.Expect(got).To(gomega.Equal(first), "the first body is no change")

		e.reportsTrue(lease("d", after(2*time.Minute), after(3*time.Minute)))
		e.reportsTrue(fail("d", "refused"))
		e.reportsTrue(lease("e", after(3*time.Minute), after(4*time.Minute)))
		e.reportsTrue(fail("e", "refused"))
		got, _ = documentOf(e, people.UpstreamJWKS)
		e.Expect([]any{got.Body, got.Error, got.Failures}).To(gomega.Equal([]any{"first", "refused", 2}))

		second := upstreamDocument(1, people.UpstreamJWKS, "second")
		second.FetchedAt = after(5 * time.Minute)
		e.reportsTrue(lease("f", after(4*time.Minute), after(5*time.Minute)))
		e.reportsTrue(store("f", second))
		second.ChangedAt, second.TriedAt = second.FetchedAt, second.FetchedAt
		got, _ = documentOf(e, people.UpstreamJWKS)
		e.Expect(got).To(gomega.Equal(second))
		e.Expect(e.purged(second.TriedAt.Add(people.UpstreamDocumentKeptFor), time.Hour, 1)).To(gomega.BeZero())
		e.Expect(e.purged(second.TriedAt.Add(people.UpstreamDocumentKeptFor+time.Microsecond), time.Hour, 1)).To(gomega.BeEquivalentTo(1))
		_, found := documentOf(e, people.UpstreamJWKS)
		e.Expect(found).To(gomega.BeFalse())
	}},
	{name: "the newest failures of each connection are kept for 30 days", run: func(e *env) {
		e.begin()
		const extra = 3
		e.insert(recordConnectionFailure(connectionFailure(1, 2)))
		for n := range int64(people.MaxConnectionFailures + extra) {
			e.insert(recordConnectionFailure(connectionFailure(n+1, 1)))
		}
		read := func(connection int64, limit int) []people.ConnectionFailure {
			return all(e, func(tx people.Tx) ([]people.ConnectionFailure, error) {
				return tx.Connections().ConnectionFailures(connection, limit)
			})
		}
		kept := read(1, 2*people.MaxConnectionFailures)
		e.Expect(kept).To(gomega.HaveLen(people.MaxConnectionFailures))
		e.Expect(kept[0]).To(gomega.Equal(connectionFailure(people.MaxConnectionFailures+extra, 1)))
		e.Expect(kept[len(kept)-1]).To(gomega.Equal(connectionFailure(extra+1, 1)))
		e.Expect(read(1, 2)).To(gomega.Equal(kept[:2]))
		e.Expect(read(2, 2)).To(gomega.Equal([]people.ConnectionFailure{connectionFailure(1, 2)}))
		e.Expect(e.purged(kept[10].At.Add(people.ConnectionFailureKeptFor), time.Hour, 10)).To(gomega.BeEquivalentTo(people.MaxConnectionFailures - 11 + 1))
		e.Expect(read(1, 100)).To(gomega.Equal(kept[:11]))
	}},
}
