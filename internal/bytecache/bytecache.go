// Package bytecache is a cache that is bounded in bytes and divided into shares: an entry that overflows its share evicts entries of the same
// share only, so one tenant cannot evict another tenant's entries.
package bytecache

import (
	"container/list"
	"sync"
	"time"
)

// Cache maps keys to values. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	total, share int64

	mu     sync.Mutex
	held   map[K]*list.Element // of entry[K, V]
	shares map[string]*part
	bytes  int64
}

// part is one share: its entries, the most recently used first.
type part struct {
	order list.List
	bytes int64
}

type entry[K comparable, V any] struct {
	key   K
	share string
	value V
	bytes int64
	used  time.Time
}

// New returns a Cache of at most total bytes, of which one share holds at most share bytes.
func New[K comparable, V any](total, share int64) *Cache[K, V] {
	return &Cache[K, V]{total: total, share: share, held: map[K]*list.Element{}, shares: map[string]*part{}}
}

// Get returns the value of a key and marks it as used at a time.
func (c *Cache[K, V]) Get(key K, now time.Time) (value V, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, found := c.held[key]
	if !found {
		return value, false
	}
	e := element.Value.(*entry[K, V])
	e.used = now
	c.shares[e.share].order.MoveToFront(element)
	return e.value, true
}

// Put stores a value of a number of bytes in a share. Entries that were used longest ago are evicted until the bounds hold: first of the same
// share, then of the largest share. A value larger than a share is not stored.
func (c *Cache[K, V]) Put(share string, key K, value V, bytes int64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, found := c.held[key]; found {
		c.remove(element)
	}
	if bytes > c.share || bytes > c.total {
		return
	}
	p := c.shares[share]
	if p == nil {
		p = &part{}
		c.shares[share] = p
	}
	c.held[key] = p.order.PushFront(&entry[K, V]{key: key, share: share, value: value, bytes: bytes, used: now})
	p.bytes += bytes
	c.bytes += bytes
	for p.bytes > c.share {
		c.remove(p.order.Back())
	}
	for c.bytes > c.total {
		c.remove(c.largest().order.Back())
	}
}

func (c *Cache[K, V]) largest() (found *part) {
	for _, p := range c.shares {
		if found == nil || p.bytes > found.bytes {
			found = p
		}
	}
	return found
}

func (c *Cache[K, V]) remove(element *list.Element) {
	e := element.Value.(*entry[K, V])
	p := c.shares[e.share]
	p.order.Remove(element)
	p.bytes -= e.bytes
	c.bytes -= e.bytes
	delete(c.held, e.key)
	if p.order.Len() == 0 {
		delete(c.shares, e.share)
	}
}

// DropUnused removes the entries that were last used before a time.
func (c *Cache[K, V]) DropUnused(before time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.shares {
		for last := p.order.Back(); last != nil && last.Value.(*entry[K, V]).used.Before(before); last = p.order.Back() {
			c.remove(last)
		}
	}
}

// Size returns the number of entries and their bytes.
func (c *Cache[K, V]) Size() (entries int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.held), c.bytes
}
