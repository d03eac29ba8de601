package storetest

import (
	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store"
)

// everyWrite calls each operation that a tenure guards.
func everyWrite(e *env, tenure store.Tenure) map[string]error {
	_, put := e.store.Put(e.ctx, tenure, putOf("fenced", "u1", 1))
	return map[string]error{
		"Put":    put,
		"Delete": e.store.Delete(e.ctx, tenure, owner("kept", "u1")),
		"Retain": e.store.Retain(e.ctx, tenure, owner("kept", "u1")),
		"Beat":   e.store.Beat(e.ctx, tenure),
		"Prune":  e.store.Prune(e.ctx, tenure, 0),
	}
}

func expectFenced(e *env, tenure store.Tenure) {
	e.t.Helper()
	before := e.position()
	for name, err := range everyWrite(e, tenure) {
		e.Expect(err).To(gomega.MatchError(store.ErrFenced), name)
	}
	e.Expect(e.position()).To(gomega.Equal(before))
	e.Expect(e.held(owner("kept", "").Identity).Document.Retained).To(gomega.BeFalse())
}

var fenceStories = []story{
	{name: "a tenure of another epoch or store writes nothing", run: func(e *env) {
		e.begin()
		e.put(putOf("kept", "u1", 1))
		expectFenced(e, store.Tenure{StoreID: e.tenure.StoreID, Epoch: e.tenure.Epoch + 1})
		expectFenced(e, store.Tenure{StoreID: e.tenure.StoreID, Epoch: e.tenure.Epoch - 1})
		expectFenced(e, store.Tenure{StoreID: "another", Epoch: e.tenure.Epoch})
		expectFenced(e, store.Tenure{})
	}},
	{name: "an old leader writes nothing after the next one took the store", run: func(e *env) {
		e.begin()
		e.put(putOf("kept", "u1", 1))
		old := e.tenure
		e.tenure = e.take(e.store, "install")
		e.Expect(e.tenure.Epoch).To(gomega.BeNumerically(">", old.Epoch))
		expectFenced(e, old)
		e.put(again(putOf("kept", "u1", 2), "u1"))
	}},
	{name: "an old leader in another process writes nothing either", pair: true, run: func(e *env) {
		e.begin()
		e.put(putOf("kept", "u1", 1))
		other := e.suite.second(e.t, e.store)
		next := e.take(other, "install")
		expectFenced(e, e.tenure)
		_, err := other.Put(e.ctx, next, again(putOf("kept", "u1", 2), "u1"))
		e.ok(err)
	}},
	{name: "an older generation of the same life is stale, an equal one is not", run: func(e *env) {
		e.begin()
		e.put(putOf("a", "u1", 5))
		_, err := e.store.Put(e.ctx, e.tenure, again(putOf("a", "u1", 4), "u1"))
		e.fails(err, store.ErrStale)
		referent := again(putOf("a", "u1", 5), "u1")
		referent.Hash = "the referent changed"
		e.put(referent)
	}},
	{name: "a new life takes over only from the life it saw", run: func(e *env) {
		e.begin()
		e.put(putOf("a", "u1", 5, "slug/a"))
		for _, seen := range []string{"", "u0", "u2"} {
			_, err := e.store.Put(e.ctx, e.tenure, again(putOf("a", "u2", 1, "slug/a"), seen))
			e.fails(err, store.ErrStale)
		}
		_, err := e.store.Put(e.ctx, e.tenure, again(putOf("b", "u2", 1), "u1"))
		e.fails(err, store.ErrStale)
		e.put(again(putOf("a", "u2", 1, "slug/a", "slug/b"), "u1"))
		holders, err := e.store.Holders(e.ctx, []string{"slug/a", "slug/b", "slug/c"})
		e.ok(err)
		e.Expect(holders).To(gomega.Equal(map[string]store.Owner{"slug/a": owner("a", "u2"), "slug/b": owner("a", "u2")}))
	}},
}
