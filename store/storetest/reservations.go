package storetest

import (
	"errors"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/reservation"
	"github.com/cardea-iam/cardea/store"
)

// displacing returns a copy of a put that may displace the owners.
func displacing(put store.Put, owners ...store.Owner) store.Put {
	put.Displace = owners
	return put
}

var reservationStories = []story{
	{name: "a held reservation refuses the put whole and names every holder", run: func(e *env) {
		e.begin()
		e.put(putOf("a", "u1", 1, "slug/a", "host/a"))
		e.put(putOf("b", "u2", 1, "slug/b"))
		before := e.position()
		_, err := e.store.Put(e.ctx, e.term, putOf("c", "u3", 1, "slug/a", "slug/b", "slug/c"))
		var refused *store.ReservedError
		e.Expect(errors.As(err, &refused)).To(gomega.BeTrue())
		e.Expect(refused.Reservations).To(gomega.Equal(map[string]store.Owner{"slug/a": owner("a", "u1"), "slug/b": owner("b", "u2")}))
		e.Expect(refused.Error()).To(gomega.Equal("slug/a is held by Role apps/a; slug/b is held by Role apps/b"))
		e.Expect(e.held(owner("c", "").Identity)).To(gomega.Equal(store.Stored{}))
		holders, err := e.store.ReservationOwners(e.ctx, []string{"slug/c"})
		e.ok(err)
		e.Expect(holders).To(gomega.BeEmpty())
		e.Expect(e.position()).To(gomega.Equal(before))
	}},
	{name: "a reservation is free once its document is deleted or no longer lists it", run: func(e *env) {
		e.begin()
		e.put(putOf("a", "u1", 1, "slug/a", "slug/b"))
		e.put(again(putOf("a", "u1", 2, "slug/b"), "u1"))
		e.put(putOf("b", "u2", 1, "slug/a"))
		e.ok(e.store.Delete(e.ctx, e.term, owner("a", "u1")))
		e.put(putOf("c", "u3", 1, "slug/b"))
	}},
	{name: "a displaced document is deleted with all its reservations, in the feed too", run: func(e *env) {
		e.begin()
		e.put(putOf("gone", "u1", 1, "slug/a", "slug/other"))
		e.put(putOf("bystander", "u2", 1, "slug/b"))
		before := e.position()
		put := displacing(putOf("new", "u3", 1, "slug/a"), owner("gone", "u1"), owner("bystander", "u2"), owner("never", "u9"))
		revision := e.put(put)
		e.Expect(e.held(owner("gone", "").Identity)).To(gomega.Equal(store.Stored{}))
		e.Expect(e.held(owner("bystander", "").Identity).Found).To(gomega.BeTrue(), "it held no reservation the put wants")
		changes, _ := e.changes(before)
		e.Expect(changes).To(gomega.Equal([]store.Change{
			{Document: store.Document{Owner: store.Owner{Identity: owner("gone", "").Identity}}, Deleted: true},
			{Document: written(putOf("new", "u3", 1), revision)},
		}))
		e.put(putOf("third", "u4", 1, "slug/other"))
	}},
	{name: "only the life that was proven gone is displaced", run: func(e *env) {
		e.begin()
		e.put(putOf("a", "u1", 1, "slug/a"))
		var refused *store.ReservedError
		_, err := e.store.Put(e.ctx, e.term, displacing(putOf("b", "u2", 1, "slug/a"), owner("a", "u0")))
		e.Expect(errors.As(err, &refused)).To(gomega.BeTrue())
		e.put(putOf("c", "u3", 1, "slug/c"))
		_, err = e.store.Put(e.ctx, e.term, displacing(putOf("b", "u2", 1, "slug/a", "slug/c"), owner("c", "u3")))
		e.Expect(errors.As(err, &refused)).To(gomega.BeTrue())
		e.Expect(e.held(owner("c", "").Identity).Found).To(gomega.BeTrue(), "a refused put displaces nothing")
	}},
	{name: "a retained document can be displaced", run: func(e *env) {
		e.begin()
		e.put(putOf("a", "u1", 1, "slug/a"))
		e.ok(e.store.Retain(e.ctx, e.term, owner("a", "u1")))
		e.put(displacing(putOf("b", "u2", 1, "slug/a"), owner("a", "u1")))
		e.Expect(e.held(owner("a", "").Identity).Found).To(gomega.BeFalse())
	}},
	{name: "a reservation of another namespace's document stays with it, whatever the writer has proven", run: func(e *env) {
		e.begin()
		victim := putOf("victim", "u1", 1, "id/Role/7", "slug/a")
		victim.Namespace = "another"
		e.put(victim)
		e.ok(e.store.Retain(e.ctx, e.term, victim.Owner))
		_, err := e.store.Put(e.ctx, e.term, displacing(putOf("thief", "u2", 1, "id/Role/7"), victim.Owner))
		var refused *store.ReservedError
		e.Expect(errors.As(err, &refused)).To(gomega.BeTrue())
		e.Expect(e.held(victim.Identity).Found).To(gomega.BeTrue())
	}},
	{name: "the id that derives from a resource is taken over from another namespace", run: func(e *env) {
		e.begin()
		derived := reservation.ID("Role", ids.Derive("Role", "apps", "bank"))
		squatter := putOf("squatter", "u1", 1, derived)
		squatter.Namespace = "another"
		e.put(squatter)
		e.put(displacing(putOf("bank", "u2", 1, derived), squatter.Owner))
		e.Expect(e.held(squatter.Identity).Found).To(gomega.BeFalse())
	}},
}
