// Package shares holds things in a bounded number of bytes, of which every deployment has an equal share. A deployment
// that exceeds its share loses its own things first.
package shares

import "sync/atomic"

// Item is embedded in the things that a Set holds. The zero Item belongs to no set.
type Item[K comparable] struct {
	// hit is 1 if Get returned the thing since an eviction last passed over it.
	hit        uint32
	owner      *owner[K]
	size       int64
	prev, next *Item[K]
	key        K
}

func (i *Item[K]) item() *Item[K] { return i }

// Held is a pointer to a type that embeds an Item.
type Held[K comparable] interface {
	comparable
	item() *Item[K]
}

// owner is a deployment's part of a set: a list that begins with the thing to evict next.
type owner[K comparable] struct {
	name        string
	at          int
	first, last *Item[K]
	count       int
	bytes       int64
}

// passesMost bounds the number of recently used things that one eviction passes over.
const passesMost = 64

// Bounds limit a Set.
type Bounds struct {
	// Bytes is the maximum size of the whole set. Every deployment has an equal share of it, and may also use the space
	// that others do not use.
	Bytes int64
	// DeploymentBytes and DeploymentCount bound what one deployment holds, even while others use nothing; 0: no such
	// bound.
	DeploymentBytes int64
	DeploymentCount int
}

// largest returns the size of the largest thing that the set accepts, in bytes.
func (b Bounds) largest() int64 {
	if b.DeploymentBytes > 0 {
		return min(b.DeploymentBytes, b.Bytes)
	}
	return b.Bytes / 2
}

// Set holds things by their keys. The caller locks: Get needs a shared lock, all other methods an exclusive one.
type Set[K comparable, V Held[K]] struct {
	bounds Bounds
	things map[K]V
	owners map[string]*owner[K]
	// order lists the owners. victim is the position of the owner from which the last eviction took a thing.
	order   []*owner[K]
	victim  int
	bytes   int64
	evicted uint64
}

// New returns a set within bounds.
func New[K comparable, V Held[K]](bounds Bounds) *Set[K, V] {
	return &Set[K, V]{bounds: bounds, things: map[K]V{}, owners: map[string]*owner[K]{}}
}

// Get returns the thing of a key, and marks it as used.
func (s *Set[K, V]) Get(key K) (V, bool) {
	thing, found := s.things[key]
	if found {
		if i := thing.item(); atomic.LoadUint32(&i.hit) == 0 {
			atomic.StoreUint32(&i.hit, 1)
		}
	}
	return thing, found
}

// Put stores a deployment's thing in place of the previous thing of the key. size is in bytes. A thing is not stored if
// it exceeds DeploymentBytes or, if there is no such bound, half of the set.
func (s *Set[K, V]) Put(key K, thing V, deployment string, size int64) {
	s.Delete(key)
	if size > s.bounds.largest() {
		return
	}
	of := s.owners[deployment]
	if of == nil {
		of = &owner[K]{name: deployment, at: len(s.order)}
		s.owners[deployment] = of
		s.order = append(s.order, of)
	}
	i := thing.item()
	i.key, i.owner, i.size = key, of, size
	of.push(i)
	of.count++
	of.bytes += size
	s.bytes += size
	s.things[key] = thing
	for s.bounds.DeploymentCount > 0 && of.count > s.bounds.DeploymentCount || s.bounds.DeploymentBytes > 0 && of.bytes > s.bounds.DeploymentBytes {
		s.evict(of)
	}
	for s.bytes > s.bounds.Bytes {
		s.evict(s.exceeding(of))
	}
}

// exceeding returns an owner that exceeds its share, preferably first. There is such an owner if the set exceeds its
// bound.
func (s *Set[K, V]) exceeding(first *owner[K]) *owner[K] {
	share := s.bounds.Bytes / int64(len(s.order))
	if first.bytes > share {
		return first
	}
	for s.order[s.victim%len(s.order)].bytes <= share {
		s.victim++
	}
	s.victim %= len(s.order)
	return s.order[s.victim]
}

// evict drops an owner's oldest thing that was not used recently.
func (s *Set[K, V]) evict(of *owner[K]) {
	for range passesMost {
		i := of.first
		if !atomic.CompareAndSwapUint32(&i.hit, 1, 0) {
			break
		}
		of.unlink(i)
		of.push(i)
	}
	s.evicted++
	s.Delete(of.first.key)
}

// Delete drops the thing of a key, if there is one.
func (s *Set[K, V]) Delete(key K) {
	thing, found := s.things[key]
	if !found {
		return
	}
	delete(s.things, key)
	i := thing.item()
	of := i.owner
	of.unlink(i)
	i.owner = nil
	of.count--
	of.bytes -= i.size
	s.bytes -= i.size
	if of.count > 0 {
		return
	}
	delete(s.owners, of.name)
	last := s.order[len(s.order)-1]
	s.order[of.at], last.at = last, of.at
	s.order[len(s.order)-1] = nil
	s.order = s.order[:len(s.order)-1]
}

// Clear drops everything.
func (s *Set[K, V]) Clear() {
	clear(s.things)
	clear(s.owners)
	clear(s.order)
	s.order, s.bytes = s.order[:0], 0
}

// Drain removes everything, and returns it by deployment, the oldest first.
func (s *Set[K, V]) Drain() map[string][]V {
	all := make(map[string][]V, len(s.order))
	for _, of := range s.order {
		things := make([]V, 0, of.count)
		for i := of.first; i != nil; {
			thing, next := s.things[i.key], i.next
			*thing.item() = Item[K]{}
			things, i = append(things, thing), next
		}
		all[of.name] = things
	}
	s.Clear()
	return all
}

// Len returns how many things are held.
func (s *Set[K, V]) Len() int { return len(s.things) }

// Bytes returns the size of all that is held.
func (s *Set[K, V]) Bytes() int64 { return s.bytes }

// Evicted returns how many things were dropped to make room.
func (s *Set[K, V]) Evicted() uint64 { return s.evicted }

func (o *owner[K]) push(i *Item[K]) {
	i.prev, i.next = o.last, nil
	if o.last == nil {
		o.first = i
	} else {
		o.last.next = i
	}
	o.last = i
}

func (o *owner[K]) unlink(i *Item[K]) {
	if i.prev == nil {
		o.first = i.next
	} else {
		i.prev.next = i.next
	}
	if i.next == nil {
		o.last = i.prev
	} else {
		i.next.prev = i.prev
	}
	i.prev, i.next = nil, nil
}
