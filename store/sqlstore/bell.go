package sqlstore

import (
	"context"
	"sync"
)

// bell tells every subscriber that the feed may have changed. Rings that nobody took yet are one.
type bell struct {
	// source runs in a goroutine from the first subscription on, until the store is closed; nil for none.
	source func()

	mu          sync.Mutex
	subscribers map[chan struct{}]struct{}
	started     bool
	closed      bool
	running     sync.WaitGroup
}

func newBell() *bell { return &bell{subscribers: map[chan struct{}]struct{}{}} }

// Signals returns a channel that receives after commits that changed the feed; see store.Feed.
func (s *Store) Signals(ctx context.Context) <-chan struct{} { return s.bell.subscribe(ctx) }

// subscribe returns a channel that is closed when the context ends or the bell is closed.
func (b *bell) subscribe(ctx context.Context) <-chan struct{} {
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

func (b *bell) unsubscribe(ch chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, subscribed := b.subscribers[ch]; subscribed {
		delete(b.subscribers, ch)
		close(ch)
	}
}

func (b *bell) ring() {
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
func (b *bell) close() {
	b.mu.Lock()
	b.closed = true
	for ch := range b.subscribers {
		delete(b.subscribers, ch)
		close(ch)
	}
	b.mu.Unlock()
	b.running.Wait()
}
