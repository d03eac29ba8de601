package storetest

import (
	"context"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// brief is a value of Acquire's patience that is short enough for a test to wait until it passes.
const brief = 300 * time.Millisecond

var termStories = []story{
	{name: "each take by the same install begins a new term at once", run: func(e *env) {
		e.begin()
		next := e.acquire(e.store, "install")
		e.Expect(next.StoreID).To(gomega.Equal(e.term.StoreID))
		e.Expect(next.Epoch).To(gomega.BeNumerically(">", e.term.Epoch))
		e.ok(e.store.Heartbeat(e.ctx, next))
	}},
	{name: "a foreign install that beats keeps the store", run: func(e *env) {
		e.begin()
		before := e.term
		stop := beating(e)
		_, err := e.store.Acquire(e.ctx, "foreign", patience)
		stop()
		e.fails(err, store.ErrForeignInstall)
		e.ok(e.store.Heartbeat(e.ctx, before))
	}},
	{name: "a foreign install that is silent for the patience loses the store", run: func(e *env) {
		e.begin()
		began := time.Now()
		term, err := e.store.Acquire(e.ctx, "foreign", brief)
		e.ok(err)
		e.Expect(time.Since(began)).To(gomega.BeNumerically(">=", brief))
		e.Expect(term.Epoch).To(gomega.BeNumerically(">", e.term.Epoch))
		e.fails(e.store.Heartbeat(e.ctx, e.term), store.ErrFenced)
		e.ok(e.store.Heartbeat(e.ctx, term))
	}},
	{name: "a take by the same install counts as its beat", pair: true, run: func(e *env) {
		e.begin()
		other := e.suite.second(e.t, e.store)
		answer := make(chan error, 1)
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		go func() {
			_, err := other.Acquire(ctx, "foreign", patience)
			answer <- err
		}()
		e.Eventually(func() error {
			e.acquire(e.store, "install")
			select {
			case err := <-answer:
				return err
			default:
				return nil
			}
		}).Should(gomega.MatchError(store.ErrForeignInstall))
	}},
	{name: "the watch for a foreign beat ends with the context", run: func(e *env) {
		e.begin()
		ctx, cancel := context.WithTimeout(e.ctx, brief)
		defer cancel()
		_, err := e.store.Acquire(ctx, "foreign", 100*patience)
		e.fails(err, context.DeadlineExceeded)
		e.ok(e.store.Heartbeat(e.ctx, e.term))
	}},
	{name: "the store tells which install marked it last", run: func(e *env) {
		e.begin()
		installed := func() string {
			install, err := e.store.Installed(e.ctx)
			e.ok(err)
			return install
		}
		e.Expect(installed()).To(gomega.Equal("install"))
		e.acquire(e.store, "foreign")
		e.Expect(installed()).To(gomega.Equal("foreign"))
	}},
	{name: "the oldest person of a deployment is found, and no other deployment's", run: func(e *env) {
		e.begin()
		oldest := func(deployment string) int64 {
			id, err := e.store.OldestUser(e.ctx, deployment)
			e.ok(err)
			return id
		}
		e.Expect(oldest(home)).To(gomega.BeZero())
		e.insert(insertUser(7))
		e.insert(insertUser(5))
		e.Expect(oldest(home)).To(gomega.BeEquivalentTo(5))
		e.Expect(oldest("apps/other")).To(gomega.BeZero())
	}},
	{name: "passkeys of other relying parties are counted, only those of the deployment", run: func(e *env) {
		e.begin()
		others := func(deployment, relyingParty string) []people.RelyingPartyCount {
			counts, err := e.store.OtherPasskeys(e.ctx, deployment, relyingParty)
			e.ok(err)
			return counts
		}
		e.Expect(others(home, "acme.example")).To(gomega.BeEmpty())
		for n, relyingParty := range []string{"acme.example", "zeta.example", "acme.example", "a.example", "zeta.example"} {
			p := passkey(int64(n+1), 7)
			p.RelyingParty = relyingParty
			e.insert(func(tx people.Tx) error { return tx.Factors().InsertPasskey(p) })
		}
		a, acme, zeta := people.RelyingPartyCount{RelyingParty: "a.example", Passkeys: 1}, people.RelyingPartyCount{RelyingParty: "acme.example", Passkeys: 2}, people.RelyingPartyCount{RelyingParty: "zeta.example", Passkeys: 2}
		e.Expect(others(home, "acme.example")).To(gomega.Equal([]people.RelyingPartyCount{a, zeta}))
		e.Expect(others(home, "zeta.example")).To(gomega.Equal([]people.RelyingPartyCount{a, acme}))
		e.Expect(others(home, "")).To(gomega.Equal([]people.RelyingPartyCount{a, acme, zeta}))
		e.Expect(others("apps/other", "acme.example")).To(gomega.BeEmpty())
	}},
	{name: "an install without a name takes nothing", run: func(e *env) {
		e.begin()
		_, err := e.store.Acquire(e.ctx, "", 0)
		e.fails(err, store.ErrInvalid)
		e.ok(e.store.Heartbeat(e.ctx, e.term))
	}},
}

// beating sends heartbeats until the returned function is called. That function fails the test if a heartbeat failed.
func beating(e *env) (stop func()) {
	ctx, cancel := context.WithCancel(e.ctx)
	done := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			// A heartbeat that is in progress at the end may fail with its context.
			if err := e.store.Heartbeat(ctx, e.term); err != nil && ctx.Err() == nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	return func() {
		e.t.Helper()
		cancel()
		e.ok(<-done)
	}
}
