package db

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
	// maxBatchOps and maxBatchBytes bound a shared transaction, and so the wait of the ops behind it.
	maxBatchOps   = 256
	maxBatchBytes = 16 << 20
	// batchTimeout bounds a shared transaction with its retries, above the statement and lock timeouts of the engine.
	batchTimeout = 15 * time.Second
)

// errClosed is the cause if a store is used after Close.
var errClosed = errors.New("the store was closed")

// Committer lets concurrent writes share a transaction. While one batch commits, writes that arrive form the next
// batch. A write is never delayed to make its batch larger.
type Committer[O, R any] struct {
	commit func(ctx context.Context, ops []O) []Result[R]
	// span starts the span of an op: from its caller's call to the shared commit.
	span func(ctx context.Context, kind transaction) (context.Context, trace.Span)
	// size returns how many bytes an op writes.
	size func(O) int

	mu      sync.Mutex
	waiting []*waiter[O, R]
	closed  bool

	// wake holds a token while the queue may have an op.
	wake    chan struct{}
	stopped chan struct{}
}

// Result is the result of an op.
type Result[R any] struct {
	Value R
	Err   error
}

// waiter is a caller waiting for the result of its op.
type waiter[O, R any] struct {
	ctx    context.Context
	op     O
	answer chan Result[R]
}

// NewCommitter returns the committer of ops for a database. commit returns a result for each op of a batch; size
// returns how many bytes an op writes.
func NewCommitter[O, R any](db *DB, commit func(context.Context, []O) []Result[R], size func(O) int) *Committer[O, R] {
	return &Committer[O, R]{commit: commit, size: size, span: db.Dialect.span, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
}

// Submit queues an op and waits for its result. If the context ends first, the outcome is unknown.
func (c *Committer[O, R]) Submit(ctx context.Context, o O) (answer R, err error) {
	ctx, span := c.span(ctx, writing)
	defer func() { endSpan(span, err) }()
	if err := ctx.Err(); err != nil {
		return answer, Unavailable(ctx, err)
	}
	w := &waiter[O, R]{ctx: ctx, op: o, answer: make(chan Result[R], 1)}
	if !c.enqueue(w) {
		return answer, Unavailable(ctx, errClosed)
	}
	select {
	case r := <-w.answer:
		return r.Value, r.Err
	case <-ctx.Done():
		return answer, Unavailable(ctx, fmt.Errorf("the wait ended, and the write may still be committed: %w", ctx.Err()))
	}
}

func (c *Committer[O, R]) enqueue(w *waiter[O, R]) bool {
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

// Run commits batches until its context ends, and then refuses the waiting ops.
func (c *Committer[O, R]) Run(ctx context.Context) {
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

func (c *Committer[O, R]) commitOne(ctx context.Context, batch []*waiter[O, R]) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	ops := make([]O, len(batch))
	for i, w := range batch {
		ops[i] = w.op
	}
	for i, r := range c.commit(ctx, ops) {
		batch[i].answer <- r
	}
}

// take removes the next batch from the queue, without ops whose callers' contexts ended.
func (c *Committer[O, R]) take() []*waiter[O, R] {
	c.mu.Lock()
	defer c.mu.Unlock()
	var batch []*waiter[O, R]
	taken, size := 0, 0
	for _, w := range c.waiting {
		if len(batch) == maxBatchOps || size > maxBatchBytes {
			break
		}
		taken++
		if w.ctx.Err() == nil {
			batch = append(batch, w)
			size += c.size(w.op)
		}
	}
	rest := copy(c.waiting, c.waiting[taken:])
	clear(c.waiting[rest:])
	c.waiting = c.waiting[:rest]
	return batch
}

func (c *Committer[O, R]) refuseAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, w := range c.waiting {
		w.answer <- Result[R]{Err: fmt.Errorf("%w: %w", store.ErrUnavailable, errClosed)}
	}
	c.waiting = nil
}

// WaitStopped waits until the committer has answered every caller and ended.
func (c *Committer[O, R]) WaitStopped() { <-c.stopped }
