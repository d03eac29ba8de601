package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/cardea-iam/cardea/store"
)

const (
	// maxBatchOps and maxBatchBytes bound a shared transaction, and with it the wait of those behind it.
	maxBatchOps   = 256
	maxBatchBytes = 16 << 20
	// batchTimeout bounds a shared transaction with its retries, above the statement and lock timeouts of the engine.
	batchTimeout = 15 * time.Second
)

// errClosed is the cause where a store is used after its Close.
var errClosed = errors.New("the store was closed")

// committer lets writes that wait share a transaction: while one batch commits, the next one gathers. Nothing is
// delayed to gather more.
type committer struct {
	commit func(ctx context.Context, ops []op) []result
	// span makes the span of an op: from its caller's call to the commit that it shares.
	span func(ctx context.Context, kind transaction) (context.Context, trace.Span)

	mu      sync.Mutex
	waiting []*waiter
	closed  bool

	// wake holds a token while there may be something to take.
	wake    chan struct{}
	stopped chan struct{}
}

// waiter is a caller with its op.
type waiter struct {
	ctx    context.Context
	op     op
	answer chan result
}

func newCommitter(commit func(context.Context, []op) []result) *committer {
	return &committer{commit: commit, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
}

// submit hands an op over and waits for its answer. If the context ends first the outcome is unknown.
func (c *committer) submit(ctx context.Context, o op) (_ int64, err error) {
	if c.span != nil {
		var span trace.Span
		ctx, span = c.span(ctx, writing)
		defer func() { endSpan(span, err) }()
	}
	if err := ctx.Err(); err != nil {
		return 0, unavailable(ctx, err)
	}
	w := &waiter{ctx: ctx, op: o, answer: make(chan result, 1)}
	if !c.enqueue(w) {
		return 0, unavailable(ctx, errClosed)
	}
	select {
	case r := <-w.answer:
		return r.revision, r.err
	case <-ctx.Done():
		return 0, unavailable(ctx, fmt.Errorf("gave up waiting, it may still be written: %w", ctx.Err()))
	}
}

func (c *committer) enqueue(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.waiting = append(c.waiting, w)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return true
}

// run commits batches until its context ends, and then refuses what waits.
func (c *committer) run(ctx context.Context) {
	defer close(c.stopped)
	defer c.refuseAll()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		}
		for ctx.Err() == nil {
			batch := c.take()
			if len(batch) == 0 {
				break
			}
			c.commitOne(ctx, batch)
		}
	}
}

func (c *committer) commitOne(ctx context.Context, batch []*waiter) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	ops := make([]op, len(batch))
	for i, w := range batch {
		ops[i] = w.op
	}
	for i, r := range c.commit(ctx, ops) {
		batch[i].answer <- r
	}
}

// take removes the next batch from the queue, without those whose callers gave up.
func (c *committer) take() []*waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	var batch []*waiter
	taken, size := 0, 0
	for _, w := range c.waiting {
		if len(batch) == maxBatchOps || size > maxBatchBytes {
			break
		}
		taken++
		if w.ctx.Err() == nil {
			batch = append(batch, w)
			size += len(w.op.put.Payload)
		}
	}
	rest := copy(c.waiting, c.waiting[taken:])
	clear(c.waiting[rest:])
	c.waiting = c.waiting[:rest]
	return batch
}

func (c *committer) refuseAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, w := range c.waiting {
		w.answer <- result{err: fmt.Errorf("%w: %w", store.ErrUnavailable, errClosed)}
	}
	c.waiting = nil
}

func (c *committer) waitStopped() { <-c.stopped }
