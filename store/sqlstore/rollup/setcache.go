package rollup

import (
	linked "container/list"
	"sync"

	"github.com/cardea-iam/cardea/internal/daylog"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// maxCachedSets bounds the memory of cached sets of users, in bytes: a year of months and a quarter of days of ten million users.
const maxCachedSets = 96 << 20

// setCache keeps the sets of users that summaries read last. A set is known by all that its row's head tells, which changes whenever the
// set does. The zero value is ready.
type setCache struct {
	mu sync.Mutex
	// held are elements of order, whose values are *cachedSet, the one used last in front.
	held  map[setKey]*linked.Element
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

// day returns the users of a sealed day, to be read only.
func (c *setCache) day(tx *db.Tx, d sealedDay) (*daylog.Users, error) {
	return c.get(setKey{tx.Deployment, false, d.day, d.version, d.usersSum}, func() (*daylog.Users, error) { return ReadDaySet(tx, d) })
}

// month returns the users of a sealed month, to be read only.
func (c *setCache) month(tx *db.Tx, m SealedMonth) (*daylog.Users, error) {
	return c.get(setKey{tx.Deployment, true, m.Month, m.Version, m.usersSum}, func() (*daylog.Users, error) { return readMonthSet(tx, m) })
}

// get returns a held set, or reads it: two who want the same may both do.
func (c *setCache) get(key setKey, read func() (*daylog.Users, error)) (*daylog.Users, error) {
	c.mu.Lock()
	if element, held := c.held[key]; held {
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
	if _, held := c.held[set.key]; held || set.bytes > maxCachedSets {
		return
	}
	if c.held == nil {
		c.held = map[setKey]*linked.Element{}
	}
	c.held[set.key] = c.order.PushFront(set)
	c.bytes += set.bytes
	for c.bytes > maxCachedSets {
		last := c.order.Remove(c.order.Back()).(*cachedSet)
		delete(c.held, last.key)
		c.bytes -= last.bytes
	}
}
