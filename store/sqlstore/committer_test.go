package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/cardea-iam/cardea/store"
)

// gate is a commit function that shows each batch and waits to be let through.
type gate struct {
	batches chan []op
	pass    chan struct{}
}

func newGate() *gate { return &gate{make(chan []op), make(chan struct{})} }

func (g *gate) commit(_ context.Context, ops []op) []result {
	g.batches <- ops
	<-g.pass
	return make([]result, len(ops))
}

func (c *committer) waitingCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}

// submitting submits ops in goroutines and returns what waits for them and returns their errors.
func submitting(ctx context.Context, c *committer, n int, payload []byte) (wait func() []error) {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			_, errs[i] = c.submit(ctx, op{put: store.Put{Document: store.Document{Payload: payload}}})
		})
	}
	return func() []error {
		group.Wait()
		return errs
	}
}

func TestWhatWaitsSharesTheNextCommit(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	door := newGate()
	c := newCommitter(door.commit)
	go c.run(t.Context())
	first := submitting(t.Context(), c, 1, nil)
	g.Expect(<-door.batches).To(gomega.HaveLen(1), "the first does not wait for company")
	cancelled, cancel := context.WithCancel(t.Context())
	gone := submitting(cancelled, c, 3, nil)
	g.Eventually(c.waitingCount).Should(gomega.Equal(3))
	cancel()
	for _, err := range gone() {
		g.Expect(err).To(gomega.MatchError(context.Canceled))
		g.Expect(err).To(gomega.MatchError(store.ErrUnavailable))
	}
	rest := submitting(t.Context(), c, maxBatchOps+10, nil)
	g.Eventually(c.waitingCount).Should(gomega.Equal(maxBatchOps + 13))
	door.pass <- struct{}{}
	for _, want := range []int{maxBatchOps, 10} {
		g.Expect(<-door.batches).To(gomega.HaveLen(want), "who gave up is left out")
		door.pass <- struct{}{}
	}
	for _, err := range append(first(), rest()...) {
		g.Expect(err).NotTo(gomega.HaveOccurred())
	}
}

func TestBatchIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	door := newGate()
	c := newCommitter(door.commit)
	wait := submitting(t.Context(), c, 5, make([]byte, maxBatchBytes/2))
	g.Eventually(c.waitingCount).Should(gomega.Equal(5))
	go c.run(t.Context())
	for _, want := range []int{3, 2} {
		g.Expect(<-door.batches).To(gomega.HaveLen(want))
		door.pass <- struct{}{}
	}
	wait()
}

func TestStoppedCommitterRefusesWhatWaits(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	door := newGate()
	c := newCommitter(door.commit)
	ctx, stop := context.WithCancel(t.Context())
	go c.run(ctx)
	running := submitting(t.Context(), c, 1, nil)
	<-door.batches
	waiting := submitting(t.Context(), c, 3, nil)
	g.Eventually(c.waitingCount).Should(gomega.Equal(3))
	stop()
	door.pass <- struct{}{}
	c.waitStopped()
	g.Expect(running()).To(gomega.HaveEach(gomega.BeNil()))
	for _, err := range append(waiting(), submitting(t.Context(), c, 1, nil)()...) {
		g.Expect(err).To(gomega.MatchError(store.ErrUnavailable))
	}
}

// TestBatchEqualsOneByOne commits random ops in one transaction on one store and each alone on another.
func TestBatchEqualsOneByOne(t *testing.T) {
	t.Parallel()
	shared, single := migrated(t, newSQLite(t), Options{}), migrated(t, newSQLite(t), Options{})
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		ops := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) op { return anyOp(rt, run) }), 1, 40).Draw(rt, "ops")
		one, other := takenFor(rt, shared, ops), takenFor(rt, single, ops)
		together := commitBatch(t.Context(), shared, one)
		for i := range ops {
			alone := commitBatch(t.Context(), single, other[i:i+1])[0]
			if alone.revision != together[i].revision || fmt.Sprint(alone.err) != fmt.Sprint(together[i].err) {
				rt.Fatalf("op %d of %v: alone %v, together %v", i, ops, alone, together[i])
			}
		}
		a, b := contentOf(t, shared), contentOf(t, single)
		g := gomega.NewWithT(rt)
		g.Expect(a.documents).To(gomega.Equal(b.documents))
		g.Expect(a.position.Revision).To(gomega.Equal(b.position.Revision))
		reservations := []string{fmt.Sprint(run, "x"), fmt.Sprint(run, "y"), fmt.Sprint(run, "z")}
		holders, err := shared.ReservationOwners(t.Context(), reservations)
		others, failed := single.ReservationOwners(t.Context(), reservations)
		g.Expect(errors.Join(err, failed)).NotTo(gomega.HaveOccurred())
		g.Expect(holders).To(gomega.Equal(others))
		deleteAll(t, shared, one[0].term, a)
		deleteAll(t, single, other[0].term, b)
	})
}

// takenFor begins a term and gives it to copies of the ops.
func takenFor(rt *rapid.T, s *Store, ops []op) []op {
	term, err := s.Acquire(context.Background(), "install", 0)
	if err != nil {
		rt.Fatal(err)
	}
	copies := make([]op, len(ops))
	for i, o := range ops {
		o.term = term
		copies[i] = o
	}
	return copies
}

func anyOp(rt *rapid.T, run int) op {
	names, uids := rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"u", "u2"})
	owner := func(label string) store.Owner {
		return store.Owner{
			Identity: store.Identity{Kind: "Role", Namespace: fmt.Sprint("run", run), Name: names.Draw(rt, label)},
			UID:      uids.Draw(rt, label+" uid"),
		}
	}
	put := numbered("", rapid.Int64Range(1, 2).Draw(rt, "generation"))
	put.Owner = owner("owner")
	put.SeenUID = rapid.SampledFrom([]string{"", "u", "u2"}).Draw(rt, "seen")
	put.Reservations = nil
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 2, rapid.ID).Draw(rt, "reservations") {
		put.Reservations = append(put.Reservations, fmt.Sprint(run, key))
	}
	for range rapid.IntRange(0, 3).Draw(rt, "displaced") {
		put.Displace = append(put.Displace, owner("displaced"))
	}
	put, err := checkedPut(put)
	if err != nil {
		rt.Fatal(err)
	}
	return op{verb: rapid.SampledFrom([]verb{verbPut, verbPut, verbPut, verbDelete, verbRetain}).Draw(rt, "verb"), put: put}
}
