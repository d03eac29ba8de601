package db

import (
	"context"
	"sync"
)

// Notifier wakes every subscriber when a feed may have changed. Notices that a subscriber has not received yet are
// merged into one.
type Notifier struct {
	// source runs in a goroutine from the first subscription until the store is closed; nil for none.
	source func()

	mu          sync.Mutex
	subscribers map[chan struct{}]struct{}
	started     bool
	closed      bool
	running     sync.WaitGroup
}

// NewNotifier returns a notifier whose source runs in a goroutine from the first subscription; nil: none.
func NewNotifier(source func()) *Notifier {
	return &Notifier{source: source, subscribers: map[chan struct{}]struct{}{}}
}

// Subscribe returns a channel that is closed when the context ends or the notifier is closed.
func (b *Notifier) Subscribe(ctx context.Context) <-chan struct{} {
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

func (b *Notifier) unsubscribe(ch chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, subscribed := b.subscribers[ch]; subscribed {
		delete(b.subscribers, ch)
		close(ch)
	}
}

// Notify wakes every subscriber.
func (b *Notifier) Notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ch := range b.subscribers {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// Close ends every subscription and waits for the source, whose context must have ended.
func (b *Notifier) Close() {
	b.mu.Lock()
	b.closed = true
	for ch := range b.subscribers {
		delete(b.subscribers, ch)
		close(ch)
	}
	b.mu.Unlock()
	b.running.Wait()
}
