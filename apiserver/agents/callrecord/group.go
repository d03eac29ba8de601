package callrecord

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/cardea-iam/cardea/store/people"
)

// groupMost and groupBytes bound the writes of one transaction.
const groupMost, groupBytes = 256, 4 << 20

// errTaken: another call has an id of the transaction.
var errTaken = errors.New("an id is taken")

// group lets concurrent writes of a deployment share a transaction. While one commits, the writes that arrive form the
// next one; no write is delayed to make it larger. Deployments share none, so that locks of one do not hold up another.
// Slots of calls bound how many wait. It is safe for concurrent use.
type group struct {
	store Store
	mu    sync.Mutex
	// waiting are the writes that wait, by deployment; a deployment has an entry while a goroutine writes.
	waiting map[string][]*write
}

// write is the beginning or the end of a call. It is not written after its context ended: then the call is not sent,
// or its result waits elsewhere.
type write struct {
	ctx  context.Context
	call people.ToolCall
	ends bool
	done chan error
}

func newGroup(of Store) *group { return &group{store: of, waiting: map[string][]*write{}} }

// commit writes the beginning or the end of a call, and waits for the commit. If the context ends before, the write may
// still be committed. Errors: people.ErrDuplicate if another call has the id.
func (g *group) commit(ctx context.Context, deployment string, call people.ToolCall, ends bool) error {
	w := &write{ctx: ctx, call: call, ends: ends, done: make(chan error, 1)}
	g.mu.Lock()
	waiting, writing := g.waiting[deployment]
	g.waiting[deployment] = append(waiting, w)
	g.mu.Unlock()
	if !writing {
		go g.drain(context.WithoutCancel(ctx), deployment)
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drain writes what waits for a deployment, until nothing does.
func (g *group) drain(ctx context.Context, deployment string) {
	for {
		g.mu.Lock()
		all := g.waiting[deployment]
		if len(all) == 0 {
			delete(g.waiting, deployment)
			g.mu.Unlock()
			return
		}
		part := all[:fitting(all)]
		g.waiting[deployment] = all[len(part):]
		g.mu.Unlock()
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

// write writes a part in one transaction, or each write in its own if an id is taken.
func (g *group) write(ctx context.Context, deployment string, part []*write) {
	err := g.together(ctx, deployment, part)
	for _, w := range part {
		if errors.Is(err, errTaken) {
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
				return errTaken
			}
		}
		if len(ends) == 0 {
			return nil
		}
		_, err := tx.Records().SettleToolCalls(ends)
		return err
	})
}

func (g *group) alone(ctx context.Context, deployment string, w *write) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	return g.store.Change(ctx, deployment, func(tx people.Tx) error {
		if !w.ends {
			return tx.Records().InsertToolCall(w.call)
		}
		_, err := tx.Records().SettleToolCalls([]people.ToolCall{w.call})
		return err
	})
}
