package keycache

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/cardea-iam/cardea/store"
)

// maxWaiting bounds the reads that wait for their turn.
const maxWaiting = 256

// ErrBusy means that too many keys are being read.
var ErrBusy = fmt.Errorf("%w: too many API keys are being read", store.ErrUnavailable)

type askerKey struct{}

// ForAsker returns a context for reads of an asker, such as a client's address. Askers take turns.
func ForAsker(ctx context.Context, asker uint64) context.Context {
	return context.WithValue(ctx, askerKey{}, asker)
}

func askerOf(ctx context.Context) uint64 {
	asker, _ := ctx.Value(askerKey{}).(uint64)
	return asker
}

// queue runs at most maxReads reads at the same time, and lets maxWaiting wait. Askers take turns, independent of the
// number of their reads. If the queue is full, the asker with the most reads loses its last one.
type queue struct {
	mu               sync.Mutex
	running, waiting int
	lines            map[uint64]*line
	// turns are the askers with waiting reads; next is the index of the next one.
	turns []*line
	next  int
}

type line struct {
	asker uint64
	reads []read
}

// read is a waiting read of a key.
type read struct {
	// do makes the read if a caller still waits for it; drop ends it without reading.
	do   func()
	drop func(error)
}

// add runs a read in its turn. If the queue is full, it drops r or another waiting read.
func (q *queue) add(asker uint64, r read) {
	if dropped := q.put(asker, r); dropped != nil {
		dropped(ErrBusy)
	}
}

func (q *queue) put(asker uint64, r read) (dropped func(error)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running < maxReads {
		q.running++
		go q.work(r)
		return nil
	}
	own := q.lines[asker]
	if q.waiting >= maxWaiting {
		longest := slices.MaxFunc(q.turns, func(a, b *line) int { return len(a.reads) - len(b.reads) })
		if own != nil && len(longest.reads) <= len(own.reads)+1 || len(longest.reads) <= 1 {
			return r.drop
		}
		last := len(longest.reads) - 1
		dropped = longest.reads[last].drop
		longest.reads = longest.reads[:last]
		q.waiting--
	}
	if own == nil {
		own = &line{asker: asker}
		if q.lines == nil {
			q.lines = map[uint64]*line{}
		}
		q.lines[asker] = own
		q.turns = append(q.turns, own)
	}
	own.reads = append(own.reads, r)
	q.waiting++
	return dropped
}

// work makes reads until none is waiting.
func (q *queue) work(r read) {
	for {
		r.do()
		var more bool
		if r, more = q.take(); !more {
			return
		}
	}
}

// take returns the next read. It returns false if none is waiting; the caller's place is then free for another read.
func (q *queue) take() (read, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == 0 {
		q.running--
		return read{}, false
	}
	if q.next >= len(q.turns) {
		q.next = 0
	}
	of := q.turns[q.next]
	r := of.reads[0]
	of.reads[0] = read{}
	of.reads = of.reads[1:]
	q.waiting--
	if len(of.reads) > 0 {
		q.next++
		return r, true
	}
	delete(q.lines, of.asker)
	q.turns = slices.Delete(q.turns, q.next, q.next+1)
	return r, true
}

func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}
