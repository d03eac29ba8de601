package storetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store"
)

var feedStories = []story{
	{name: "a reader of the empty store follows from there", run: func(e *env) {
		e.begin()
		start := e.position()
		changes, position := e.changes(start)
		e.Expect(changes).To(gomega.BeEmpty())
		e.Expect(position).To(gomega.Equal(start))
		a, b := putOf("a", "u1", 1), putOf("b", "u2", 1)
		e.put(a)
		second := e.put(b)
		third := e.put(again(putOf("a", "u1", 2), "u1"))
		changes, position = e.changes(start)
		e.Expect(changes).To(gomega.Equal([]store.Change{
			{Document: written(b, second)}, {Document: written(putOf("a", "u1", 2), third)},
		}), "each identity once, in the order of the last revisions")
		e.Expect(position).To(gomega.Equal(e.position()))
	}},
	{name: "a deletion is told with the identity alone, and not after the document came back", run: func(e *env) {
		e.begin()
		e.put(putOf("a", "u1", 1))
		before := e.position()
		e.ok(e.store.Delete(e.ctx, e.term, owner("a", "u1")))
		changes, middle := e.changes(before)
		e.Expect(changes).To(gomega.Equal([]store.Change{
			{Document: store.Document{Owner: store.Owner{Identity: owner("a", "").Identity}}, Deleted: true},
		}))
		back := putOf("a", "u2", 1)
		revision := e.put(back)
		for _, position := range []store.Position{before, middle} {
			changes, _ = e.changes(position)
			e.Expect(changes).To(gomega.Equal([]store.Change{{Document: written(back, revision)}}))
		}
	}},
	{name: "a retained document is told with its mark", run: func(e *env) {
		e.begin()
		e.put(putOf("a", "u1", 1))
		before := e.position()
		e.ok(e.store.Retain(e.ctx, e.term, owner("a", "u1")))
		changes, _ := e.changes(before)
		e.Expect(changes).To(gomega.HaveLen(1))
		e.Expect(changes[0].Document.Retained).To(gomega.BeTrue())
	}},
	{name: "a position of another history is lost", run: func(e *env) {
		e.begin()
		e.put(putOf("a", "u1", 1))
		e.put(putOf("b", "u1", 1))
		here := e.position()
		replaced := newEnv(e.t, e.suite, e.suite.open)
		replaced.begin()
		expectLost(replaced, here, "a new empty store")
		replaced.put(putOf("a", "u1", 1))
		replaced.put(putOf("c", "u1", 1))
		e.Expect(replaced.position().Revision).To(gomega.Equal(here.Revision))
		expectLost(replaced, here, "the same revision of another history")
		replaced.put(putOf("d", "u1", 1))
		expectLost(replaced, here, "an older revision of another history")
		expectLost(e, replaced.position(), "a revision above the newest")
		expectLost(e, store.Position{}, "no position at all")
	}},
	{name: "pruning forgets the old and keeps the newest", run: func(e *env) {
		e.begin()
		first := e.position()
		e.put(putOf("a", "u1", 1))
		middle := e.position()
		e.put(putOf("b", "u1", 1))
		last := e.position()
		// The tables, with the first position, may be as old as the test binary: stores are copies of one.
		e.ok(e.store.Prune(e.ctx, e.term, 24*time.Hour))
		changes, _ := e.changes(first)
		e.Expect(changes).To(gomega.HaveLen(2), "nothing is that old")
		for range 2 {
			e.ok(e.store.Prune(e.ctx, e.term, -patience))
			expectLost(e, first, "a pruned position")
			expectLost(e, middle, "a pruned position")
			changes, position := e.changes(last)
			e.Expect(changes).To(gomega.BeEmpty())
			e.Expect(position).To(gomega.Equal(last))
		}
		e.put(putOf("c", "u1", 1))
		changes, _ = e.changes(last)
		e.Expect(changes).To(gomega.HaveLen(1))
	}},
	{name: "a reader beside writers loses nothing and sees revisions grow", run: func(e *env) {
		e.begin()
		follow(e, e.store, e.store)
	}},
	{name: "a reader beside writers of another process loses nothing either", pair: true, run: func(e *env) {
		e.begin()
		follow(e, e.store, e.suite.second(e.t, e.store))
	}},
	{name: "a commit is signalled", run: func(e *env) {
		e.begin()
		expectSignals(e, e.store)
	}},
	{name: "a commit of another process is signalled", pair: true, run: func(e *env) {
		e.begin()
		expectSignals(e, e.suite.second(e.t, e.store))
	}},
}

func expectLost(e *env, position store.Position, why string) {
	e.t.Helper()
	_, _, err := e.store.Changes(e.ctx, position)
	e.Expect(err).To(gomega.MatchError(store.ErrFeedLost), why)
}

// follow replays the feed of one handle while writers work through another, and expects the result to equal the loaded
// documents.
func follow(e *env, reader, writer store.Store) {
	documents, position, err := reader.Load(e.ctx)
	e.ok(err)
	copied := map[store.Identity]store.Document{}
	for _, document := range documents {
		copied[document.Identity] = document
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		together(8, func(i int) { churn(e, writer, i) })
	}()
	for running := true; running; {
		select {
		case <-done:
			// Changes written before this moment are read below.
			running = false
		default:
		}
		changes, next, err := reader.Changes(e.ctx, position)
		e.ok(err)
		last := position.Revision
		for _, change := range changes {
			if change.Deleted {
				delete(copied, change.Document.Identity)
				continue
			}
			e.Expect(change.Document.Revision).To(gomega.BeNumerically(">", last))
			last = change.Document.Revision
			copied[change.Document.Identity] = change.Document
		}
		e.Expect(next.Revision).To(gomega.BeNumerically(">=", last))
		position = next
	}
	documents, at, err := reader.Load(e.ctx)
	e.ok(err)
	e.Expect(at).To(gomega.Equal(position))
	e.Expect(copied).To(gomega.HaveLen(len(documents)))
	for _, document := range documents {
		e.Expect(copied[document.Identity]).To(gomega.Equal(document))
	}
}

// churn writes and deletes a few documents that no other writer uses. It reports errors to e.t.
func churn(e *env, writer store.Store, i int) {
	random := rand.New(rand.NewPCG(uint64(i), 1))
	seen := map[string]string{}
	for step := range 25 {
		name := fmt.Sprintf("f%d-%d", i, random.IntN(3))
		uid := seen[name]
		if uid != "" && random.IntN(3) == 0 {
			if err := writer.Delete(e.ctx, e.term, owner(name, uid)); err != nil {
				e.t.Errorf("delete: %v", err)
			}
			delete(seen, name)
			continue
		}
		put := again(putOf(name, "u", int64(step), "slug/"+name), uid)
		if _, err := writer.Put(e.ctx, e.term, put); err != nil {
			e.t.Errorf("put: %v", err)
		}
		seen[name] = "u"
	}
}

// expectSignals expects a listener to receive signals of commits through e.store. A signal may be spurious, so it reads
// the feed after each signal, as a reader does.
func expectSignals(e *env, listener store.Store) {
	signals := listener.Signals(e.ctx)
	position := e.position()
	for i := range 3 {
		// If the listener is not connected yet, it receives a signal when it connects.
		e.put(putOf(fmt.Sprintf("s%d", i), "u1", 1))
		e.Eventually(func() int {
			select {
			case <-signals:
			case <-e.ctx.Done():
			}
			changes, next, err := listener.Changes(e.ctx, position)
			e.ok(err)
			position = next
			return len(changes)
		}).Should(gomega.Equal(1))
	}
}
