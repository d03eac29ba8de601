package keycache

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cardea-iam/cardea/store/people"
)

const (
	// poll is how often the feed is looked at without a signal.
	poll = 250 * time.Millisecond
	// lookPatience bounds one look.
	lookPatience = 2 * time.Second
)

// Run follows the feed of changed keys, and writes down when keys were used, until ctx ends; what was noted by then is written last.
func (c *Cache) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.follow(ctx) })
	group.Go(func() error { return c.flushUses(ctx) })
	return group.Wait()
}

// follow drops what changed. While the store is away it keeps what it has and tries again.
func (c *Cache) follow(ctx context.Context) error {
	signals := c.opts.Store.KeySignals(ctx)
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	var at *people.KeyPosition
	failing := false
	for {
		err := c.look(ctx, &at)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			c.opts.Log.Error(err, "The feed of API keys cannot be read; the keys that are held go on")
		case err == nil && failing:
			c.opts.Log.Info("The feed of API keys can be read again")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case _, open := <-signals:
			if !open {
				signals = nil
			}
		case <-ticker.C:
		}
	}
}

// look evicts the keys that changed since the last poll. The first poll evicts all keys, because they were read
// before it, and so does one whose position in the feed is lost.
func (c *Cache) look(ctx context.Context, at **people.KeyPosition) error {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	began := c.now()
	err := c.apply(ctx, at)
	if err != nil {
		c.away.Store(true)
		return err
	}
	c.contact.Store(began)
	c.away.Store(false)
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
		c.opts.Log.Info("The feed of API keys does not reach back; what is held of keys is dropped")
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
