package storetest

import (
	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store"
)

// everyWrite calls each operation that a term guards.
func everyWrite(e *env, term store.Term) map[string]error {
	_, put := e.store.Put(e.ctx, term, putOf("fenced", "u1", 1))
	return map[string]error{
		"Put":    put,
		"Delete": e.store.Delete(e.ctx, term, owner("kept", "u1")),
		"Retain": e.store.Retain(e.ctx, term, owner("kept", "u1")),
		"Beat":   e.store.Heartbeat(e.ctx, term),
		"Prune":  e.store.Prune(e.ctx, term, 0),
	}
}

func expectFenced(e *env, term store.Term) {
	e.t.Helper()
	before := e.position()
	for name, err := range everyWrite(e, term) {
		e.Expect(err).To(gomega.MatchError(store.ErrFenced), name)
	}
	e.Expect(e.position()).To(gomega.Equal(before))
	e.Expect(e.held(owner("kept", "").Identity).Document.Retained).To(gomega.BeFalse())
}

var fenceStories = []story{
	{name: "a term of another epoch or store writes nothing", run: func(e *env) {
		e.begin()
		e.put(putOf("kept", "u1", 1))
		expectFenced(e, store.Term{StoreID: e.term.StoreID, Epoch: e.term.Epoch + 1})
		expectFenced(e, store.Term{StoreID: e.term.StoreID, Epoch: e.term.Epoch - 1})
		expectFenced(e, store.Term{StoreID: "another", Epoch: e.term.Epoch})
		expectFenced(e, store.Term{})
	}},
	{name: "an old leader writes nothing after the next one took the store", run: func(e *env) {
		e.begin()
		e.put(putOf("kept", "u1", 1))
		old := e.term
		e.term = e.acquire(e.store, "install")
		e.Expect(e.term.Epoch).To(gomega.BeNumerically(">", old.Epoch))
		expectFenced(e, old)
		e.put(again(putOf("kept", "u1", 2), "u1"))
	}},
	{name: "an old leader in another process writes nothing either", pair: true, run: func(e *env) {
		e.begin()
		e.put(putOf("kept", "u1", 1))
		other := e.suite.second(e.t, e.store)
		next := e.acquire(other, "install")
		expectFenced(e, e.term)
		_, err := other.Put(e.ctx, next, again(putOf("kept", "u1", 2), "u1"))
		e.ok(err)
	}},
	{name: "an older generation of the same life is stale, an equal one is not", run: func(e *env) {
		e.begin()
		e.put(putOf("a", "u1", 5))
		_, err := e.store.Put(e.ctx, e.term, again(putOf("a", "u1", 4), "u1"))
		e.fails(err, store.ErrStale)
		referent := again(putOf("a", "u1", 5), "u1")
		referent.Hash = "the referent changed"
		e.put(referent)
	}},
	{name: "a new life takes over only from the life it saw", run: func(e *env) {
		e.begin()
		e.put(putOf("a", "u1", 5, "slug/a"))
		for _, seen := range []string{"", "u0", "u2"} {
			_, err := e.store.Put(e.ctx, e.term, again(putOf("a", "u2", 1, "slug/a"), seen))
			e.fails(err, store.ErrStale)
		}
		_, err := e.store.Put(e.ctx, e.term, again(putOf("b", "u2", 1), "u1"))
		e.fails(err, store.ErrStale)
		e.put(again(putOf("a", "u2", 1, "slug/a", "slug/b"), "u1"))
		holders, err := e.store.ReservationOwners(e.ctx, []string{"slug/a", "slug/b", "slug/c"})
		e.ok(err)
		e.Expect(holders).To(gomega.Equal(map[string]store.Owner{"slug/a": owner("a", "u2"), "slug/b": owner("a", "u2")}))
	}},
}
