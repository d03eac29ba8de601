package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// everyCall calls every operation of a store but Close.
func everyCall(ctx context.Context, s store.Store, term store.Term) map[string]error {
	_, held := s.Stored(ctx, owner("a", "").Identity)
	_, holders := s.ReservationOwners(ctx, []string{"slug/a"})
	_, owners := s.Owners(ctx)
	_, put := s.Put(ctx, term, putOf("b", "u2", 1))
	_, _, load := s.Load(ctx)
	_, _, changes := s.Changes(ctx, store.Position{Revision: 1, Tag: "x"})
	_, take := s.Acquire(ctx, "install", 0)
	_, installed := s.Installed(ctx)
	_, oldest := s.OldestUser(ctx, home)
	_, otherPasskeys := s.OtherPasskeys(ctx, home, "acme.example")
	_, lease := s.LeaseMessages(ctx, born, time.Minute, people.Claim{Limit: 1})
	_, ack := s.AckMessage(ctx, people.Message{Deployment: home, ID: 1, Lease: "x"}, people.Outcome{State: people.MessageSent})
	_, purge := s.Purge(ctx, born, people.Retention{Audit: time.Hour, ToolCalls: time.Hour}, 1)
	_, secrets := s.SealedSecrets(ctx, people.SealedSecret{}, 1)
	_, notices := s.PendingNotices(ctx, people.PendingNotice{}, 1)
	_, connections := s.SealedConnections(ctx, people.SealedSecret{}, 1)
	_, due := s.DueDomains(ctx, born, nil, 1)
	_, directories := s.ListDirectories(ctx, people.DirectoryRef{}, 1)
	_, _, upstream := s.NextUpstreamConnection(ctx, people.UpstreamConnection{})
	_, abandon := s.AbandonToolCalls(ctx, born, 1)
	_, erase := s.Erase(ctx, term, home, 1)
	_, summarize := s.Summarize(ctx, home, people.Period{From: born, To: after(time.Hour)}, people.Period{}, 1)
	_, _, lookUp := s.APIKeyByDigest(ctx, apiKey(1, "one").Digest)
	_, unnumbered := s.UnnumberedEvents(ctx)
	_, aged := s.AgedEvents(ctx, born)
	_, keyPosition := s.KeyPosition(ctx)
	_, keyChanges := s.KeyChanges(ctx, people.KeyPosition{Revision: 1, Tag: "x"})
	return map[string]error{
		"UnnumberedEvents": unnumbered, "AgedEvents": aged, "APIKeyByDigest": lookUp, "KeyPosition": keyPosition, "KeyChanges": keyChanges,
		"RecordKeyUses": s.RecordKeyUses(ctx, []people.KeyUse{{Deployment: home, ID: 1, At: born}}),
		"Held":          held, "Holders": holders, "Owners": owners, "Put": put, "Load": load, "Changes": changes, "Take": take,
		"Installed": installed, "OldestUser": oldest, "OtherPasskeys": otherPasskeys,
		"Delete":      s.Delete(ctx, term, owner("a", "u1")),
		"Retain":      s.Retain(ctx, term, owner("a", "u1")),
		"Beat":        s.Heartbeat(ctx, term),
		"Prune":       s.Prune(ctx, term, 0),
		"Migrate":     s.Migrate(ctx),
		"CheckSchema": s.CheckSchema(ctx),
		"View": s.View(ctx, home, func(tx people.Tx) error {
			_, _, err := tx.Users().User(1)
			return err
		}),
		"Change":        s.Change(ctx, home, func(tx people.Tx) error { return tx.Users().InsertUser(user(1)) }),
		"LeaseMessages": lease, "AckMessage": ack, "Purge": purge, "SealedSecrets": secrets, "PendingNotices": notices, "SealedConnections": connections, "DueDomains": due, "NextUpstreamConnection": upstream, "ListDirectories": directories, "AbandonToolCalls": abandon, "Erase": erase, "Summarize": summarize,
	}
}

var faultStories = []story{
	{name: "a closed store answers every call with unavailable, and its signals end", run: func(e *env) {
		e.begin()
		signals, keySignals, eventSignals := e.store.Signals(e.ctx), e.store.KeySignals(e.ctx), e.store.EventSignals(e.ctx)
		e.ok(e.store.Close())
		for name, err := range everyCall(e.ctx, e.store, e.term) {
			e.Expect(err).To(gomega.MatchError(store.ErrUnavailable), name)
		}
		e.Eventually(signals).Should(gomega.BeClosed())
		e.Eventually(keySignals).Should(gomega.BeClosed())
		e.Eventually(eventSignals).Should(gomega.BeClosed())
		e.Expect(e.store.Signals(e.ctx)).To(gomega.BeClosed())
	}},
	{name: "a cancelled call does nothing and says so", run: func(e *env) {
		e.begin()
		e.put(putOf("a", "u1", 1))
		before := e.position()
		ctx, cancel := context.WithCancel(e.ctx)
		signals := e.store.Signals(ctx)
		cancel()
		for name, err := range everyCall(ctx, e.store, e.term) {
			e.Expect(err).To(gomega.MatchError(context.Canceled), name)
		}
		e.Eventually(signals).Should(gomega.BeClosed())
		e.Expect(e.position()).To(gomega.Equal(before))
		e.ok(e.store.Heartbeat(e.ctx, e.term))
	}},
	{name: "writes cancelled under way are done whole or not at all", run: func(e *env) {
		e.begin()
		var unclear atomic.Int64
		together(32, func(i int) {
			ctx, cancel := context.WithCancel(e.ctx)
			defer cancel()
			if i%2 == 0 {
				go cancel()
			}
			name := fmt.Sprintf("w%d", i)
			if _, err := e.store.Put(ctx, e.term, putOf(name, "u1", 1, "slug/"+name)); err != nil {
				unclear.Add(1)
				if i%2 == 1 {
					e.t.Errorf("an uncancelled put failed with the others: %v", err)
				}
			}
		})
		e.put(putOf("last", "u1", 1))
		documents, _, err := e.store.Load(e.ctx)
		e.ok(err)
		e.Expect(len(documents)).To(gomega.BeNumerically(">=", 33-int(unclear.Load())))
		for i := range 32 {
			held := e.held(owner(fmt.Sprintf("w%d", i), "").Identity)
			e.Expect(len(held.Reservations) == 1).To(gomega.Equal(held.Found))
			e.Expect(held.Found || i%2 == 0).To(gomega.BeTrue())
		}
	}},
	{name: "closing under load answers every writer, and what was acknowledged is there", pair: true, run: func(e *env) {
		e.begin()
		other := e.suite.second(e.t, e.store)
		errs := make([]error, 64)
		together(len(errs)+1, func(i int) {
			if i == len(errs) {
				if err := other.Close(); err != nil {
					e.t.Errorf("close: %v", err)
				}
				return
			}
			_, errs[i] = other.Put(e.ctx, e.term, putOf(fmt.Sprintf("w%d", i), "u1", 1))
		})
		for i, err := range errs {
			if err != nil {
				e.fails(err, store.ErrUnavailable)
				continue
			}
			e.Expect(e.held(owner(fmt.Sprintf("w%d", i), "").Identity).Found).To(gomega.BeTrue())
		}
	}},
}
