package snapshot

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/apiserver/snapshot/feed"
	"github.com/cardea-iam/cardea/store"
)

// Follower keeps the current snapshot equal to the store.
type Follower struct {
	feed    store.Feed
	poll    time.Duration
	clock   func() time.Time
	log     logr.Logger
	current atomic.Pointer[Snapshot]
	contact atomic.Pointer[time.Time] // of the last successful poll of the feed, with its monotonic reading; nil before the first
	loaded  chan struct{}
}

// NewFollower returns a Follower of a feed. The poll interval bounds how late a change is seen without a signal.
func NewFollower(feed store.Feed, poll time.Duration, clock func() time.Time, log logr.Logger) *Follower {
	f := &Follower{feed: feed, poll: poll, clock: clock, log: log, loaded: make(chan struct{})}
	f.current.Store(empty())
	return f
}

// Current returns the newest snapshot. It never blocks; before the first load it is empty.
func (f *Follower) Current() *Snapshot { return f.current.Load() }

// Loaded is closed once the first snapshot is loaded.
func (f *Follower) Loaded() <-chan struct{} { return f.loaded }

// Staleness returns the time since the snapshot was last known to be current.
func (f *Follower) Staleness() time.Duration {
	now := f.clock()
	if last := f.contact.Load(); last != nil {
		return now.Sub(*last) // monotonic, so setting the wall clock back does not reduce the staleness
	}
	return now.Sub(time.UnixMicro(0))
}

// Wait returns once a snapshot satisfies the condition, or with ctx's error.
func (f *Follower) Wait(ctx context.Context, condition func(*Snapshot) bool) error {
	for {
		s := f.Current()
		if condition(s) {
			return nil
		}
		select {
		case <-s.Superseded():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Run follows the feed until ctx ends. While the store is unavailable it keeps the snapshot and tries again.
func (f *Follower) Run(ctx context.Context) error {
	revision := func() int64 { return f.Current().Position().Revision }
	feed.Follow(ctx, feed.Reader{
		Signals: f.feed.Signals(ctx), Poll: f.poll, Read: f.update,
		Failed: func(err error) {
			f.log.Error(err, "The store does not answer; the server continues with its configuration in memory", "revision", revision())
		},
		Recovered: func() { f.log.Info("The store answers again", "revision", revision()) },
	})
	return nil
}

// pollTimeout bounds one read of the feed, so that a store whose host disappeared is noticed soon.
const pollTimeout = 2 * time.Second

// update brings the snapshot up to date: by the changes since its position, or completely if the feed does not reach
// back.
func (f *Follower) update(ctx context.Context) error {
	if f.contact.Load() == nil {
		return f.load(ctx)
	}
	have := f.Current()
	looking, cancel := context.WithTimeout(ctx, pollTimeout)
	changes, position, err := f.feed.Changes(looking, have.Position())
	cancel()
	if errors.Is(err, store.ErrFeedLost) {
		f.log.Info("The feed no longer has the changes since the loaded revision; loading the whole configuration", "revision", have.Position().Revision)
		return f.load(ctx)
	}
	if err != nil {
		return err
	}
	now := f.clock()
	f.contact.Store(&now)
	if position == have.Position() {
		return nil
	}
	next, faults := have.apply(changes, position)
	if faults != nil {
		f.log.Error(faults, "Some documents cannot be read")
	}
	f.replace(next)
	return nil
}

func (f *Follower) load(ctx context.Context) error {
	documents, position, err := f.feed.Load(ctx)
	if err != nil {
		return err
	}
	now := f.clock()
	first := f.contact.Swap(&now) == nil
	next, faults := build(documents, position)
	if faults != nil {
		f.log.Error(faults, "Some documents cannot be read")
	}
	f.replace(next)
	if first {
		close(f.loaded)
	}
	f.log.Info("Loaded the configuration", "documents", next.Len(), "revision", position.Revision)
	return nil
}

func (f *Follower) replace(next *Snapshot) {
	old := f.current.Swap(next)
	close(old.next)
}
