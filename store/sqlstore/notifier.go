package sqlstore

import (
	"context"
	"sync"
)

// notifier wakes every subscriber when a feed may have changed. Notices that a subscriber has not received yet are one.
type notifier struct {
	// source runs in a goroutine from the first subscription on, until the store is closed; nil for none.
	source func()

	mu          sync.Mutex
	subscribers map[chan struct{}]struct{}
	started     bool
	closed      bool
	running     sync.WaitGroup
}

// newNotifier returns a notifier whose source is called in a goroutine from the first subscription on; nil: none.
func newNotifier(source func()) *notifier {
	return &notifier{source: source, subscribers: map[chan struct{}]struct{}{}}
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

// notify wakes every subscriber.
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
