package sqlstore

import (
	"context"
	"sync"
)

// notifier tells every subscriber that the feed may have changed. Notices that nobody took yet are one.
type notifier struct {
	// source runs in a goroutine from the first subscription on, until the store is closed; nil for none.
	source func()

	mu          sync.Mutex
	subscribers map[chan struct{}]struct{}
	started     bool
	closed      bool
	running     sync.WaitGroup
}

func newNotifier() *notifier { return &notifier{subscribers: map[chan struct{}]struct{}{}} }

// Signals returns a channel that receives after commits that changed the feed; see store.Feed.
func (s *Store) Signals(ctx context.Context) <-chan struct{} { return s.notifier.subscribe(ctx) }

// heard is what another process may have changed.
type heard struct{ documents, keys bool }

// hear tells the subscribers of what was heard.
func hear(s *Store, what heard) {
	if what.documents {
		s.notifier.notify()
	}
	if what.keys {
		s.keyNotifier.notify()
	}
}

// subscribe returns a channel that is closed when the context ends or the notifier is closed.
func (b *notifier) subscribe(ctx context.Context) <-chan struct{} {
	ch := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		close(ch)
		return ch
	}
	b.subscribers[ch] = struct{}{}
	context.AfterFunc(ctx, func() { b.unsubscribe(ch) })
	if b.source != nil && !b.started {
		b.started = true
		b.running.Go(b.source)
	}
	return ch
}

func (b *notifier) unsubscribe(ch chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, subscribed := b.subscribers[ch]; subscribed {
		delete(b.subscribers, ch)
		close(ch)
	}
}

func (b *notifier) notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ch := range b.subscribers {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// close ends every subscription and waits for the source, whose context must have ended.
func (b *notifier) close() {
	b.mu.Lock()
	b.closed = true
	for ch := range b.subscribers {
		delete(b.subscribers, ch)
		close(ch)
	}
	b.mu.Unlock()
	b.running.Wait()
}
