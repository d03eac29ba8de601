package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store"
)

// together calls do in n goroutines that start at once, and waits for all.
func together(n int, do func(i int)) {
	var group sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		group.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	group.Wait()
}

var concurrencyStories = []story{
	{name: "of puts that want one reservation at once exactly one wins", run: func(e *env) {
		e.begin()
		race(e, e.store, e.store)
	}},
	{name: "of puts of two processes that want one reservation at once exactly one wins", pair: true, run: func(e *env) {
		e.begin()
		race(e, e.store, e.suite.second(e.t, e.store))
	}},
	{name: "every acknowledged write is there, with a revision of its own", run: func(e *env) {
		e.begin()
		const writers, each = 16, 10
		revisions := make([]map[string]int64, writers)
		var failed atomic.Int64
		together(writers, func(i int) {
			revisions[i] = map[string]int64{}
			for j := range each {
				name := fmt.Sprintf("w%d-%d", i, j)
				revision, err := e.store.Put(e.ctx, e.term, putOf(name, "u1", 1, "slug/"+name))
				if err != nil {
					failed.Add(1)
				}
				revisions[i][name] = revision
			}
		})
		e.Expect(failed.Load()).To(gomega.BeZero())
		documents, position, err := e.store.Load(e.ctx)
		e.ok(err)
		e.Expect(position.Revision).To(gomega.BeEquivalentTo(writers * each))
		e.Expect(documents).To(gomega.HaveLen(writers * each))
		seen := map[int64]bool{}
		for _, document := range documents {
			var i, j int
			_, err := fmt.Sscanf(document.Name, "w%d-%d", &i, &j)
			e.ok(err)
			e.Expect(document.Revision).To(gomega.Equal(revisions[i][document.Name]))
			seen[document.Revision] = true
		}
		e.Expect(seen).To(gomega.HaveLen(writers * each))
	}},
	{name: "writes that share a commit fail each by itself", run: func(e *env) {
		e.begin()
		e.put(putOf("holder", "u0", 5, "slug/held"))
		errs := make([]error, 40)
		together(len(errs), func(i int) {
			put, term := putOf(fmt.Sprintf("d%d", i), "u1", 1), e.term
			switch i % 5 {
			case 1:
				put.Reservations = []string{"slug/held"}
			case 2:
				put.SeenUID = "nobody"
			case 3:
				term.Epoch--
			case 4:
				put.Key = "zero\x00byte"
			}
			_, errs[i] = e.store.Put(e.ctx, term, put)
		})
		for i, err := range errs {
			var refused *store.ReservedError
			switch i % 5 {
			case 0:
				e.ok(err)
			case 1:
				e.Expect(errors.As(err, &refused)).To(gomega.BeTrue(), "%v", err)
			case 2:
				e.fails(err, store.ErrStale)
			case 3:
				e.fails(err, store.ErrFenced)
			case 4:
				e.fails(err, store.ErrInvalid)
			}
			e.Expect(e.held(owner(fmt.Sprintf("d%d", i), "").Identity).Found).To(gomega.Equal(err == nil))
		}
	}},
	{name: "a take-over by two lives at once is won by one", run: func(e *env) {
		e.begin()
		e.put(putOf("a", "u0", 1))
		var won, stale atomic.Int64
		together(8, func(i int) {
			_, err := e.store.Put(e.ctx, e.term, again(putOf("a", fmt.Sprintf("u%d", i+1), 1), "u0"))
			if err == nil {
				won.Add(1)
			} else if errors.Is(err, store.ErrStale) {
				stale.Add(1)
			}
		})
		e.Expect(won.Load()).To(gomega.BeEquivalentTo(1))
		e.Expect(stale.Load()).To(gomega.BeEquivalentTo(7))
	}},
}

// race runs pairs of concurrent puts with the same reservation. It expects that one put of each pair succeeds, and that
// the other fails with an error that names the holder.
func race(e *env, one, other store.Store) {
	const races = 12
	names := make([]string, 2*races)
	errs := make([]error, 2*races)
	together(2*races, func(i int) {
		handle := one
		if i%2 == 1 {
			handle = other
		}
		names[i] = fmt.Sprintf("racer%d", i)
		_, errs[i] = handle.Put(e.ctx, e.term, putOf(names[i], "u1", 1, fmt.Sprintf("slug/%d", i/2)))
	})
	for i := 0; i < len(errs); i += 2 {
		winner, loser := i, i+1
		if errs[i] != nil {
			winner, loser = i+1, i
		}
		e.ok(errs[winner])
		var refused *store.ReservedError
		e.Expect(errors.As(errs[loser], &refused)).To(gomega.BeTrue(), "%v", errs[loser])
		e.Expect(refused.Reservations).To(gomega.HaveKeyWithValue(fmt.Sprintf("slug/%d", i/2), owner(names[winner], "u1")))
	}
}
