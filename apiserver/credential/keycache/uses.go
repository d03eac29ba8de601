package keycache

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

const (
	// flushEvery is the interval of writes: the first use of a key is stored within 5 s.
	flushEvery = 2 * time.Second
	// flushBatch bounds one write.
	flushBatch = 500
	// flushPatience bounds the writes at the end.
	flushPatience = 3 * time.Second
	// maxUses bounds the uses that wait while the store is unavailable. Later uses are dropped.
	maxUses = 1_000_000
)

// uses are the uses that wait to be written, at most one per key and minute.
type uses struct {
	mu      sync.Mutex
	waiting []people.KeyUse
}

// Used records the use of a key. It does not block or fail. One use per minute is written.
func (c *Cache) Used(k *Key, at time.Time) {
	now, touched := at.UnixMicro(), k.touched.Load()
	if now-touched < people.KeyUseEvery.Microseconds() || !k.touched.CompareAndSwap(touched, now) {
		return
	}
	c.uses.add(people.KeyUse{Deployment: k.Deployment, ID: k.ID, At: at})
}

func (u *uses) add(more ...people.KeyUse) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.waiting = append(u.waiting, more[:min(len(more), maxUses-len(u.waiting))]...)
}

func (u *uses) take() []people.KeyUse {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := u.waiting
	u.waiting = nil
	return taken
}

// flushUses writes the waiting uses until ctx ends, and then a last time.
func (c *Cache) flushUses(ctx context.Context) error {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushPatience)
			defer cancel()
			if err := c.flush(last); err != nil {
				c.opts.Log.Error(err, "Writing the last uses of some API keys failed")
			}
			return nil
		case <-ticker.C:
		}
		err := c.flush(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			c.opts.Log.Error(err, "Writing the last uses of API keys failed; trying again later")
		}
		failing = err != nil
	}
}

// flush writes the waiting uses. Uses that could not be written wait again.
func (c *Cache) flush(ctx context.Context) error {
	waiting := c.uses.take()
	for done := 0; done < len(waiting); {
		batch := waiting[done:min(done+flushBatch, len(waiting))]
		if err := c.opts.Store.RecordKeyUses(ctx, latest(batch)); err != nil {
			c.uses.add(waiting[done:]...)
			return err
		}
		done += len(batch)
	}
	return nil
}

// latest keeps the latest use of each key: two may wait while the store is unavailable.
func latest(batch []people.KeyUse) []people.KeyUse {
	type row struct {
		deployment string
		id         int64
	}
	seen := make(map[row]int, len(batch))
	var kept []people.KeyUse
	for _, use := range batch {
		at, known := seen[row{use.Deployment, use.ID}]
		switch {
		case !known:
			seen[row{use.Deployment, use.ID}] = len(kept)
			kept = append(kept, use)
		case use.At.After(kept[at].At):
			kept[at] = use
		}
	}
	return slices.Clip(kept)
}
