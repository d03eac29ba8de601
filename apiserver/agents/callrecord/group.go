package callrecord

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/cardea-iam/cardea/store/people"
)

const (
	// groupMost and groupBytes bound the writes of one transaction.
	groupMost, groupBytes = 256, 4 << 20
	// groupWriters bounds the concurrent transactions of a deployment, and groupShare is their share of all that the
	// store can have: others write too, and more transactions would be smaller ones.
	groupWriters, groupShare = 4, 5
)

// group lets concurrent writes of a deployment share a transaction. While as many commit as may at once, the writes
// that arrive form the next one; no write is delayed to make it larger. Deployments share none, so that locks of one do
// not hold up another. Slots of calls bound how many wait. It is safe for concurrent use.
type group struct {
	store Store
	mu    sync.Mutex
	// most is how many transactions of a deployment commit concurrently, 0 before the first.
	most int
	// queues has an entry for each deployment of which a goroutine writes.
	queues map[string]*queue
}

// queue has the writes of a deployment that wait.
type queue struct {
	waiting []*write
	// writers is how many goroutines write.
	writers int
}

// write is the beginning or the end of a call. It is not written after its context ended: then the call is not sent,
// or its result waits elsewhere.
type write struct {
	ctx  context.Context
	call people.ToolCall
	ends bool
	done chan error
}

func newGroup(of Store) *group { return &group{store: of, queues: map[string]*queue{}} }

// commit writes the beginning or the end of a call, and waits for the commit. If the context ends before, the write may
// still be committed. Errors: people.ErrDuplicate if another call has the id.
func (g *group) commit(ctx context.Context, deployment string, call people.ToolCall, ends bool) error {
	w := &write{ctx: ctx, call: call, ends: ends, done: make(chan error, 1)}
	if g.add(deployment, w) {
		go g.drain(context.WithoutCancel(ctx), deployment)
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// add has a write wait, and reports whether another goroutine is to write.
func (g *group) add(deployment string, w *write) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.most == 0 {
		g.most = max(1, min(groupWriters, g.store.Writers()/groupShare))
	}
	q := g.queues[deployment]
	if q == nil {
		q = &queue{}
		g.queues[deployment] = q
	}
	q.waiting = append(q.waiting, w)
	if q.writers >= g.most {
		return false
	}
	q.writers++
	return true
}

// take returns the writes of the next transaction, none if nothing waits: then the goroutine that asked has ended.
func (g *group) take(deployment string) []*write {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.queues[deployment]
	part := q.waiting[:fitting(q.waiting)]
	q.waiting = q.waiting[len(part):]
	if len(part) == 0 {
		if q.writers--; q.writers == 0 {
			delete(g.queues, deployment)
		}
	}
	return part
}

// drain writes what waits for a deployment, until nothing does.
func (g *group) drain(ctx context.Context, deployment string) {
	for {
		part := g.take(deployment)
		if len(part) == 0 {
			return
		}
		part = slices.DeleteFunc(part, func(w *write) bool { return w.ctx.Err() != nil })
		if len(part) > 0 {
			g.write(ctx, deployment, part)
		}
	}
}

// fitting returns how many of the waiting writes make one transaction.
func fitting(all []*write) (n int) {
	size := 0
	for n < min(groupMost, len(all)) && (n == 0 || size < groupBytes) {
		size += len(all[n].call.Arguments) + len(all[n].call.Result)
		n++
	}
	return n
}

// write writes a part in one transaction, or each write in its own if an id is taken, or a result is there already.
func (g *group) write(ctx context.Context, deployment string, part []*write) {
	if len(part) == 1 {
		part[0].done <- g.alone(ctx, deployment, part[0])
		return
	}
	err := g.together(ctx, deployment, part)
	for _, w := range part {
		if errors.Is(err, errPartly) {
			w.done <- g.alone(ctx, deployment, w)
			continue
		}
		w.done <- err
	}
}

func (g *group) together(ctx context.Context, deployment string, part []*write) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	var begins, ends []people.ToolCall
	for _, w := range part {
		if w.ends {
			ends = append(ends, w.call)
		} else {
			begins = append(begins, w.call)
		}
	}
	return g.store.Change(ctx, deployment, func(tx people.Tx) error {
		if len(begins) > 0 {
			stored, err := tx.Records().RecordToolCalls(begins)
			if err != nil {
				return err
			}
			if stored < int64(len(begins)) {
				return errPartly
			}
		}
		return settleAll(tx, ends, false)
	})
}

// alone writes in a transaction of its own. That is one statement for the beginning of a call without a user that must
// not be deleted before the commit, and for a result without an event.
func (g *group) alone(ctx context.Context, deployment string, w *write) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	change := g.store.Change
	if w.ends && !completes(&w.call) || !w.ends && w.call.Caller.User == 0 {
		change = g.store.Single
	}
	return change(ctx, deployment, func(tx people.Tx) error {
		if !w.ends {
			return tx.Records().InsertToolCall(w.call)
		}
		return settleAll(tx, []people.ToolCall{w.call}, true)
	})
}
