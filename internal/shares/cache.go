package shares

import (
	"sync"
	"time"
)

// Cache maps keys to values within the bounds of a Set. It is safe for concurrent use, and evicts unused entries.
type Cache[K comparable, V any] struct {
	mu  sync.Mutex
	set *Set[K, *cached[K, V]]
}

type cached[K comparable, V any] struct {
	Item[K]
	value V
	used  time.Time
}

// NewCache returns a Cache within bounds.
func NewCache[K comparable, V any](bounds Bounds) *Cache[K, V] {
	return &Cache[K, V]{set: New[K, *cached[K, V]](bounds)}
}

// Get returns the value of a key and marks it as used at a time.
func (c *Cache[K, V]) Get(key K, now time.Time) (value V, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	thing, found := c.set.Get(key)
	if !found {
		return value, false
	}
	thing.used = now
	return thing.value, true
}

// Put stores a deployment's value. bytes is its size.
func (c *Cache[K, V]) Put(deployment string, key K, value V, bytes int64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set.Put(key, &cached[K, V]{value: value, used: now}, deployment, bytes)
}

// DropUnused removes the values that were last used before a time.
func (c *Cache[K, V]) DropUnused(before time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, thing := range c.set.things {
		if thing.used.Before(before) {
			c.set.Delete(key)
		}
	}
}

// Size returns the number of values and their bytes.
func (c *Cache[K, V]) Size() (values int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set.Len(), c.set.Bytes()
}

// Evicted returns how many values were dropped to make room.
func (c *Cache[K, V]) Evicted() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set.Evicted()
}
