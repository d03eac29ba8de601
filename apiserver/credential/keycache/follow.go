package keycache

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cardea-iam/cardea/apiserver/snapshot/feed"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// poll is the interval of polls of the feed without a signal.
	poll = 250 * time.Millisecond
	// lookPatience bounds one poll.
	lookPatience = 2 * time.Second
)

// Run follows the feed of changed keys and writes the uses of keys until ctx ends. It then writes the remaining uses.
func (c *Cache) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.follow(ctx) })
	group.Go(func() error { return c.flushUses(ctx) })
	return group.Wait()
}

// follow evicts changed keys. While the store is unavailable it keeps the cached keys and tries again.
func (c *Cache) follow(ctx context.Context) error {
	var at *people.KeyPosition
	feed.Follow(ctx, feed.Reader{
		Signals: c.opts.Store.KeySignals(ctx), Poll: poll,
		Read: func(ctx context.Context) error { return c.pollFeed(ctx, &at) },
		Failed: func(err error) {
			c.opts.Log.Error(err, "Reading the feed of API keys failed; the cached keys remain in use")
		},
		Recovered: func() { c.opts.Log.Info("The feed of API keys can be read again") },
	})
	return nil
}

// pollFeed evicts the keys that changed since the last poll. The first poll evicts all keys, because they were read
// before the position in the feed was known. A poll that has lost its position also evicts all keys.
func (c *Cache) pollFeed(ctx context.Context, at **people.KeyPosition) error {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	began := c.now()
	err := c.apply(ctx, at)
	if err != nil {
		c.unavailable.Store(true)
		return err
	}
	c.contact.Store(began)
	c.unavailable.Store(false)
	return nil
}

func (c *Cache) apply(ctx context.Context, at **people.KeyPosition) error {
	if *at == nil {
		position, err := c.opts.Store.KeyPosition(ctx)
		if err != nil {
			return err
		}
		c.clear()
		*at = &position
	}
	changes, err := c.opts.Store.KeyChanges(ctx, **at)
	if errors.Is(err, people.ErrKeyFeedLost) {
		c.opts.Log.Info("The feed of API keys does not reach back; evicting all cached keys")
		*at = nil
		return c.apply(ctx, at)
	}
	if err != nil {
		return err
	}
	c.imported.Store(changes.Imported)
	if changes.All {
		c.clear()
	}
	for i := range changes.Digests {
		c.shard(&changes.Digests[i]).invalidate(changes.Digests[i])
	}
	*at = &changes.Position
	return nil
}

func (c *Cache) clear() {
	for _, s := range c.shards {
		s.clear()
	}
}
