package storetest

import (
	"strings"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store"
)

var schemaStories = []story{
	{name: "a new store has no schema until it is migrated, and migrating again changes nothing", run: func(e *env) {
		e.fails(e.store.CheckSchema(e.ctx), store.ErrSchema)
		e.ok(e.store.Migrate(e.ctx))
		e.ok(e.store.CheckSchema(e.ctx))
		before := e.position()
		e.ok(e.store.Migrate(e.ctx))
		e.Expect(e.position()).To(gomega.Equal(before))
		e.Expect(before.Revision).To(gomega.BeZero())
		e.Expect(before.Tag).NotTo(gomega.BeEmpty())
	}},
	{name: "processes that start at once migrate once", pair: true, run: func(e *env) {
		handles := []store.Store{e.store, e.suite.second(e.t, e.store), e.suite.second(e.t, e.store)}
		errs := make(chan error)
		for _, handle := range handles {
			go func() { errs <- handle.Migrate(e.ctx) }()
		}
		for range handles {
			e.ok(<-errs)
		}
		for _, handle := range handles {
			e.ok(handle.CheckSchema(e.ctx))
			_, position, err := handle.Load(e.ctx)
			e.ok(err)
			e.Expect(position).To(gomega.Equal(e.position()))
		}
	}},
}

var documentStories = []story{
	{name: "what was put is held, with its reservations, until it is deleted", run: func(e *env) {
		e.begin()
		e.Expect(e.held(owner("a", "").Identity)).To(gomega.Equal(store.Stored{}))
		first := putOf("a", "u1", 1, "slug/b", "slug/a", "slug/b")
		revision := e.put(first)
		e.Expect(e.held(first.Identity)).To(gomega.Equal(store.Stored{
			Document: written(first, revision), Found: true, Reservations: []string{"slug/a", "slug/b"},
		}))
		second := again(putOf("a", "u1", 2, "slug/b"), "u1")
		e.Expect(e.put(second)).To(gomega.Equal(revision + 1))
		e.Expect(e.held(first.Identity).Document).To(gomega.Equal(written(second, revision+1)))
		e.Expect(e.held(first.Identity).Reservations).To(gomega.Equal([]string{"slug/b"}))

		e.ok(e.store.Delete(e.ctx, e.term, second.Owner))
		e.Expect(e.held(first.Identity)).To(gomega.Equal(store.Stored{}))
		e.Expect(e.position().Revision).To(gomega.Equal(revision + 2))
	}},
	{name: "a put without reservations or payload is held as such", run: func(e *env) {
		e.begin()
		e.put(putOf("a", "u1", 1, "slug/a"))
		bare := again(putOf("a", "u1", 2), "u1")
		bare.Payload = nil
		e.put(bare)
		held := e.held(bare.Identity)
		e.Expect(held.Reservations).To(gomega.BeEmpty())
		e.Expect(held.Document.Payload).To(gomega.BeEmpty())
		holders, err := e.store.ReservationOwners(e.ctx, []string{"slug/a"})
		e.ok(err)
		e.Expect(holders).To(gomega.BeEmpty())
	}},
	{name: "an equal put adds no revision, a put that differs in anything adds one", run: func(e *env) {
		e.begin()
		base := again(putOf("a", "u1", 5, "slug/a"), "u1")
		revision := e.put(again(base, ""))
		before := e.position()
		e.Expect(e.put(base)).To(gomega.Equal(revision))
		e.Expect(e.position()).To(gomega.Equal(before))
		for _, change := range []func(*store.Put){
			func(p *store.Put) { p.Generation++ },
			func(p *store.Put) { p.Hash += "'" },
			func(p *store.Put) { p.Payload = []byte("other") },
			func(p *store.Put) { p.Deployment += "'" },
			func(p *store.Put) { p.ID++ },
			func(p *store.Put) { p.Key += "'" },
			func(p *store.Put) { p.Reservations = append(p.Reservations, "slug/b") },
			func(p *store.Put) { p.Reservations = nil },
		} {
			change(&base)
			revision++
			e.Expect(e.put(base)).To(gomega.Equal(revision))
			e.Expect(e.put(base)).To(gomega.Equal(revision))
		}
	}},
	{name: "deleting nothing, or another life, is success and changes nothing", run: func(e *env) {
		e.begin()
		e.put(putOf("a", "u1", 1, "slug/a"))
		before := e.position()
		e.ok(e.store.Delete(e.ctx, e.term, owner("a", "u0")))
		e.ok(e.store.Delete(e.ctx, e.term, owner("b", "u1")))
		e.ok(e.store.Retain(e.ctx, e.term, owner("a", "u0")))
		e.ok(e.store.Retain(e.ctx, e.term, owner("b", "u1")))
		e.Expect(e.position()).To(gomega.Equal(before))
		e.Expect(e.held(owner("a", "").Identity).Reservations).To(gomega.Equal([]string{"slug/a"}))
	}},
	{name: "a retained document keeps its reservations and is owned by nobody; a new life takes it over", run: func(e *env) {
		e.begin()
		e.put(putOf("a", "u1", 1, "slug/a"))
		e.put(putOf("b", "u2", 1))
		e.ok(e.store.Retain(e.ctx, e.term, owner("a", "u1")))
		after := e.position()
		e.ok(e.store.Retain(e.ctx, e.term, owner("a", "u1")))
		e.Expect(e.position()).To(gomega.Equal(after), "retaining twice changes nothing")
		held := e.held(owner("a", "").Identity)
		e.Expect(held.Document.Retained).To(gomega.BeTrue())
		e.Expect(held.Reservations).To(gomega.Equal([]string{"slug/a"}))
		owners, err := e.store.Owners(e.ctx)
		e.ok(err)
		e.Expect(owners).To(gomega.Equal([]store.Owner{owner("b", "u2")}))

		e.put(again(putOf("a", "u3", 1, "slug/a"), "u1"))
		e.Expect(e.held(owner("a", "").Identity).Document.Retained).To(gomega.BeFalse())
		owners, err = e.store.Owners(e.ctx)
		e.ok(err)
		e.Expect(owners).To(gomega.ConsistOf(owner("a", "u3"), owner("b", "u2")))
	}},
	{name: "the usage of a namespace is that of its deployments' documents, retained ones included", run: func(e *env) {
		e.begin()
		first := putOf("a", "u1", 1)
		second := putOf("b", "u2", 1)
		second.Deployment += "-other"
		third := putOf("c", "u3", 1)
		third.Payload = append(third.Payload, "more"...)
		elsewhere := putOf("a", "u4", 1)
		elsewhere.Namespace, elsewhere.ID = "elsewhere", 77
		for _, put := range []store.Put{first, second, third, elsewhere} {
			e.put(put)
		}
		e.ok(e.store.Retain(e.ctx, e.term, third.Owner))
		size := func(puts ...store.Put) (u store.Usage) {
			for _, put := range puts {
				u.Documents++
				u.Bytes += int64(len(put.Payload))
			}
			return u
		}
		used, err := e.store.Usage(e.ctx, first.Namespace)
		e.ok(err)
		e.Expect(used).To(gomega.Equal(map[string]store.Usage{first.Deployment: size(first, third), second.Deployment: size(second)}))
		e.ok(e.store.Delete(e.ctx, e.term, first.Owner))
		used, err = e.store.Usage(e.ctx, first.Namespace)
		e.ok(err)
		e.Expect(used).To(gomega.Equal(map[string]store.Usage{first.Deployment: size(third), second.Deployment: size(second)}))
		used, err = e.store.Usage(e.ctx, "nowhere")
		e.ok(err)
		e.Expect(used).To(gomega.BeEmpty())
	}},
	{name: "an equal put over a retained document ends the retention", run: func(e *env) {
		e.begin()
		revision := e.put(putOf("a", "u1", 1))
		e.ok(e.store.Retain(e.ctx, e.term, owner("a", "u1")))
		e.Expect(e.put(again(putOf("a", "u1", 1), "u1"))).To(gomega.Equal(revision + 2))
		e.Expect(e.held(owner("a", "").Identity).Document.Retained).To(gomega.BeFalse())
	}},
	{name: "what breaks a bound is refused as invalid and disturbs nothing", run: func(e *env) {
		e.begin()
		for _, spoil := range []func(*store.Put){
			func(p *store.Put) { p.Reservations = make([]string, 0, 257); addReservations(p, 257) },
			func(p *store.Put) { p.Reservations = []string{strings.Repeat("x", 513)} },
			func(p *store.Put) { p.Reservations = []string{""} },
			func(p *store.Put) { p.Reservations = []string{"zero\x00byte"} },
			func(p *store.Put) { p.Key = "not\xffUTF-8" },
			func(p *store.Put) { p.ID = 0 },
			func(p *store.Put) { p.UID = "" },
			func(p *store.Put) { p.Name = "" },
		} {
			put := putOf("a", "u1", 1)
			spoil(&put)
			_, err := e.store.Put(e.ctx, e.term, put)
			e.fails(err, store.ErrInvalid)
		}
		e.Expect(e.position().Revision).To(gomega.BeZero())
		widest := putOf("a", "u1", 1, strings.Repeat("x", 512))
		addReservations(&widest, 255)
		e.put(widest)
		e.Expect(e.held(widest.Identity).Reservations).To(gomega.HaveLen(256))
	}},
}

func addReservations(put *store.Put, n int) {
	for i := range n {
		put.Reservations = append(put.Reservations, "c"+strings.Repeat("i", i))
	}
}
