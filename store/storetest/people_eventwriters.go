package storetest

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/pause"
	"github.com/cardea-iam/cardea/store/people"
)

// eventWriters record events at once, each in eventChanges transactions. One writer in slowEvery has slow transactions
// with two events, the others record one event in each.
const eventWriters, eventChanges, slowEvery = 100, 4, 5

// eventsWritten is how many events all writers record.
const eventsWritten = (eventWriters + eventWriters/slowEvery) * eventChanges

// busyLog is an event log with many writers, and a reader that follows it by a cursor.
type busyLog struct {
	*env
	// position is the number of the last event that the reader has, and seen are the subjects of all of them.
	position atomic.Int64
	seen     []int64
	// quick is how many writers without slow transactions have not ended. They begin once begun is closed: when the first
	// slow transaction has recorded an event.
	quick atomic.Int64
	begun chan struct{}
	begin sync.Once
	// open bounds the slow transactions that are open at once, so that other writers and the numbering find connections.
	open chan struct{}
	// passed counts the slow transactions during which the reader got a later event.
	passed atomic.Int64
	// turn is the last of the turns in which quick transactions begin, and read the last one of which the reader has the
	// event.
	turn, read atomic.Int64

	mu sync.Mutex
	// before is the reader's position before the commit of each event, and turns the turn of each quick transaction, both
	// by the event's subject.
	before, turns map[int64]int64
}

func newBusyLog(e *env) *busyLog {
	b := &busyLog{env: e, begun: make(chan struct{}), open: make(chan struct{}, max(e.store.Writers()/2, 1)), before: map[int64]int64{}, turns: map[int64]int64{}}
	b.quick.Store(eventWriters - eventWriters/slowEvery)
	return b
}

// writes records the events of a writer.
func (b *busyLog) writes(writer int64) {
	if writer%slowEvery == 0 {
		for n := range int64(eventChanges) {
			b.open <- struct{}{}
			b.recordsSlowly(1 + writer*100 + n*2)
			<-b.open
		}
		return
	}
	defer b.quick.Add(-1)
	<-b.begun
	for n := range int64(eventChanges) {
		subject := 1 + writer*100 + n*2
		b.mu.Lock()
		b.turns[subject] = b.turn.Add(1)
		b.mu.Unlock()
		b.commits(func(tx people.Tx) error { return logEvents(subject)(tx) }, subject)
	}
}

// recordsSlowly records two events in one transaction. Where the engine lets other transactions commit meanwhile, the
// transaction stays open until the reader has an event of a transaction that began after the first event was recorded.
func (b *busyLog) recordsSlowly(subject int64) {
	b.commits(func(tx people.Tx) error {
		if err := logEvents(subject)(tx); err != nil {
			return err
		}
		turn := b.turn.Load()
		b.begin.Do(func() { close(b.begun) })
		if b.store.Writers() > 1 {
			passed := func() bool { return b.read.Load() > turn }
			b.Eventually(func() bool { return passed() || b.quick.Load() == 0 }).WithPolling(time.Millisecond).Should(gomega.BeTrue())
			if passed() {
				b.passed.Add(1)
			}
		}
		_, err := tx.EventLog().EventsAfter(0, 100)
		return errors.Join(err, logEvents(subject+1)(tx))
	}, subject, subject+1)
}

// commits runs a transaction that records events of subjects, and notes the reader's position before its commit.
func (b *busyLog) commits(do func(tx people.Tx) error, subjects ...int64) {
	var before int64
	b.change(home, func(tx people.Tx) error {
		err := do(tx)
		before = b.position.Load()
		return err
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, subject := range subjects {
		b.before[subject] = before
	}
}

// reads follows the log until it has all events.
func (b *busyLog) reads() {
	for len(b.seen) < eventsWritten {
		at := b.position.Load()
		list := all(b.env, func(tx people.Tx) ([]people.LoggedEvent, error) { return tx.EventLog().EventsAfter(at, 7) })
		for _, one := range list {
			at++
			b.Expect(one.Sequence).To(gomega.Equal(at), "the reader misses a number")
			subject, err := ids.Parse(one.SubjectID)
			b.ok(err)
			b.seen = append(b.seen, subject)
			b.mu.Lock()
			b.read.Store(max(b.read.Load(), b.turns[subject]))
			b.mu.Unlock()
		}
		b.position.Store(at)
		if len(list) == 0 {
			b.ok(pause.For(b.ctx, time.Millisecond))
		}
	}
}

// numbers numbers events in small batches until the reader has all.
func (b *busyLog) numbers() {
	for b.position.Load() < eventsWritten {
		var numbered []people.NumberedEvent
		b.change(home, func(tx people.Tx) (err error) { numbered, err = tx.EventLog().NumberEvents(5); return err })
		if len(numbered) == 0 {
			b.ok(pause.For(b.ctx, time.Millisecond))
		}
	}
}

// A hundred writers record events, some of them in transactions that are open for long. Two servers number the events,
// and a reader follows them by a cursor: it gets each event once, although transactions commit late.
var eventWriterStories = []story{{name: "a reader by cursor gets each event of a hundred writers with slow transactions once", run: func(e *env) {
	e.begin()
	b := newBusyLog(e)
	var group sync.WaitGroup
	group.Go(b.reads)
	group.Go(b.numbers)
	group.Go(b.numbers)
	together(eventWriters, func(writer int) { b.writes(int64(writer)) })
	group.Wait()
	e.Expect(e.numbersOf(home)).To(gomega.Equal(b.seen), "the numbers are dense")
	for i, subject := range b.seen {
		e.Expect(int64(i+1)).To(gomega.BeNumerically(">", b.before[subject]), "an event got a number that the reader had passed")
	}
	if e.store.Writers() > 1 {
		e.Expect(b.passed.Load()).To(gomega.BeNumerically(">", 0), "no transaction was slow")
	}
	slices.Sort(b.seen)
	e.Expect(slices.Compact(b.seen)).To(gomega.HaveLen(eventsWritten), "each event is there once")
}}}
