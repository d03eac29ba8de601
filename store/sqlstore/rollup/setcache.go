package rollup

import (
	linked "container/list"
	"sync"

	"github.com/cardea-iam/cardea/internal/daylog"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// maxCachedSets bounds the memory of cached sets of users, in bytes. The sets of ten million users for the months of a
// year and the days of a quarter fit into it.
const maxCachedSets = 96 << 20

// setCache caches the sets of users that summaries read last. Its key includes the row's version and checksum, which
// change whenever the set does. The zero value is ready.
type setCache struct {
	mu sync.Mutex
	// sets are elements of order, whose values are *cachedSet. The last used one is in front.
	sets  map[setKey]*linked.Element
	order linked.List
	bytes uint64
}

type setKey struct {
	deployment string
	month      bool
	// number is the day or the month.
	number, version, sum int64
}

type cachedSet struct {
	key   setKey
	users *daylog.Users
	bytes uint64
}

// day returns the users of a rolled-up day, which must not be changed.
func (c *setCache) day(tx *db.Tx, d dayRow) (*daylog.Users, error) {
	return c.get(setKey{tx.Deployment, false, d.day, d.version, d.usersSum}, func() (*daylog.Users, error) { return ReadDaySet(tx, d) })
}

// month returns the users of a rolled-up month, which must not be changed.
func (c *setCache) month(tx *db.Tx, m MonthRow) (*daylog.Users, error) {
	return c.get(setKey{tx.Deployment, true, m.Month, m.Version, m.usersSum}, func() (*daylog.Users, error) { return readMonthSet(tx, m) })
}

// get returns a cached set, or reads it. Two concurrent callers may both read the same set.
func (c *setCache) get(key setKey, read func() (*daylog.Users, error)) (*daylog.Users, error) {
	c.mu.Lock()
	if element, held := c.sets[key]; held {
		c.order.MoveToFront(element)
		c.mu.Unlock()
		return element.Value.(*cachedSet).users, nil
	}
	c.mu.Unlock()
	users, err := read()
	if err == nil {
		c.put(&cachedSet{key, users, users.GetSizeInBytes()})
	}
	return users, err
}

func (c *setCache) put(set *cachedSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, held := c.sets[set.key]; held || set.bytes > maxCachedSets {
		return
	}
	if c.sets == nil {
		c.sets = map[setKey]*linked.Element{}
	}
	c.sets[set.key] = c.order.PushFront(set)
	c.bytes += set.bytes
	for c.bytes > maxCachedSets {
		last := c.order.Remove(c.order.Back()).(*cachedSet)
		delete(c.sets, last.key)
		c.bytes -= last.bytes
	}
}
