package db

import (
	"context"
	"sync"
	"testing"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store"
)

// gate has a commit function that sends each batch to batches and then waits for a value from pass.
type gate struct {
	batches chan [][]byte
	pass    chan struct{}
}

func newGate() *gate { return &gate{make(chan [][]byte), make(chan struct{})} }

func (g *gate) commit(_ context.Context, ops [][]byte) []Result[int] {
	g.batches <- ops
	<-g.pass
	return make([]Result[int], len(ops))
}

func (c *Committer[O, R]) waitingCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}

// submitting submits n ops, each in a goroutine. It returns a function that waits for the ops and returns their errors.
func submitting(ctx context.Context, c *Committer[[]byte, int], n int, payload []byte) (wait func() []error) {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			_, errs[i] = c.Submit(ctx, payload)
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
	c := NewCommitter(&DB{}, door.commit, func(payload []byte) int { return len(payload) })
	go c.Run(t.Context())
	first := submitting(t.Context(), c, 1, nil)
	g.Expect(<-door.batches).To(gomega.HaveLen(1), "the first op is committed alone, without delay")
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
		g.Expect(<-door.batches).To(gomega.HaveLen(want), "ops of cancelled callers are left out")
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
	c := NewCommitter(&DB{}, door.commit, func(payload []byte) int { return len(payload) })
	wait := submitting(t.Context(), c, 5, make([]byte, maxBatchBytes/2))
	g.Eventually(c.waitingCount).Should(gomega.Equal(5))
	go c.Run(t.Context())
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
	c := NewCommitter(&DB{}, door.commit, func(payload []byte) int { return len(payload) })
	ctx, stop := context.WithCancel(t.Context())
	go c.Run(ctx)
	running := submitting(t.Context(), c, 1, nil)
	<-door.batches
	waiting := submitting(t.Context(), c, 3, nil)
	g.Eventually(c.waitingCount).Should(gomega.Equal(3))
	stop()
	door.pass <- struct{}{}
	c.WaitStopped()
	g.Expect(running()).To(gomega.HaveEach(gomega.BeNil()))
	for _, err := range append(waiting(), submitting(t.Context(), c, 1, nil)()...) {
		g.Expect(err).To(gomega.MatchError(store.ErrUnavailable))
	}
}
