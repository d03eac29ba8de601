package engine

import (
	"math/bits"
	"sync"
)

// A block holds the counters of one scheme, mode and subject. Its words:
//
//	0  the scheme's id
//	1  the subject's key or app, 0 for neither
//	2  the subject's address, 0 for none
//	3  the layout's number, and the mode in the lowest byte
//	4  the steady moment at which the block was used last
//	5  the steady moment from which every counter in it is empty
//	6… the heads of the windows, then their bodies, where the layout places them
const (
	wordScheme = iota
	wordOf
	wordAddress
	wordLayout
	wordUsed
	wordOver
	blockHeader
)

// otherAddresses is the address of the block that all addresses without a block of their own share. It is no client's
// address, because the IPv6 network whose bits are all 1 is not assigned.
const otherAddresses = ^uint64(0)

// blockKey identifies a block.
type blockKey struct {
	scheme, of, address uint64
	mode                Mode
}

// hash spreads keys over shards and slots, for every seed. It mixes in the fields by multiplication, and multiplies the
// result again. Without the last multiplication, about one seed in 100 put several times a fair part of consecutive
// addresses into one shard.
func (k *blockKey) hash(seed uint64) uint64 {
	h := mix(k.scheme^seed, k.of^0x9e3779b97f4a7c15)
	h = mix(h^k.address, uint64(k.mode)^0xd6e8feb86659fd93^seed)
	return mix(h, 0x8bb84b93962eacc9)
}

func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a^0xa0761d6478bd642f, b^0xe7037ed1a0b428db)
	return high ^ low
}

// A shard holds a part of all blocks: their memory in arenas, and a table for each deployment that has blocks here.
type shard struct {
	sync.Mutex
	arenas []arena
	// tables are those of the deployments with blocks here. The sweep removes an empty table when it reaches it.
	tables []*table
	// active counts the tables with blocks, and addressed those with blocks of addresses.
	active, addressed int
	// bytes of all blocks, and of those of addresses.
	bytes, addressBytes int64
	// sweepAt is the table that the sweep goes on with, and victim the one that the last eviction took a block from.
	sweepAt, victim int
	uses            uint32

	evicted, shared uint64
	_               [64]byte
}

// A table finds the blocks of one deployment in one shard. It is open addressing with linear probing: a slot is the
// upper half of the block's hash and its reference plus one, 0 when it is free. A reference names an arena and a place
// in it.
type table struct {
	slots []uint64
	shift uint8
	// listed reports that the table is in its shard's list of tables. shared reports that addresses have shared a block
	// since it was added.
	listed, shared bool
	// blocks counts the blocks, and sweepAt is the slot that the sweep goes on with.
	blocks, sweepAt int32
	owner           *owner
	// bytes of the blocks, and of those of addresses.
	bytes, addressBytes int64
}

// An owner is a deployment whose schemes the engine knows. Every owner has an equal share of each shard's memory.
type owner struct {
	// tables are the owner's, by shard; the shard's lock guards each.
	tables [shardCount]table
	// schemes counts the owner's schemes; the engine's lock guards it.
	schemes int
}

// An arena keeps blocks of one size in chunks that never move.
type arena struct {
	words  int
	chunks [][]uint64
	made   uint32
	free   []uint32
}

const (
	chunkBits   = 4
	chunkBlocks = 1 << chunkBits
	// A reference has the index of the arena in its upper 8 bits, and the place in the arena in its lower 24 bits. That
	// is more places than the memory bound of a shard allows.
	placeBits = 24
)

// arenaOf is the arena for blocks of a length, and the length that its blocks have: the next multiple of 8 words up to
// 128, of 32 beyond.
func arenaOf(words int) (index, length int) {
	if words <= 128 {
		index = (words + 7) / 8
		return index, index * 8
	}
	more := (words - 128 + 31) / 32
	return 16 + more, 128 + more*32
}

func (s *shard) block(reference uint32) []uint64 {
	a := &s.arenas[reference>>placeBits]
	place := reference & (1<<placeBits - 1)
	from := int(place&(chunkBlocks-1)) * a.words
	return a.chunks[place>>chunkBits][from : from+a.words : from+a.words]
}

// tableOf returns the owner's table for this shard, whose index is at. It adds the table to the shard's list.
func (s *shard) tableOf(of *owner, at int32) *table {
	t := &of.tables[at]
	if !t.listed {
		t.listed, t.owner = true, of
		s.tables = append(s.tables, t)
	}
	return t
}

// find returns the block of a key, nil if there is none.
func (s *shard) find(t *table, key *blockKey, hash uint64) []uint64 {
	if t.slots == nil {
		return nil
	}
	_, reference, found := s.look(t, key, hash)
	if !found {
		return nil
	}
	return s.block(reference)
}

// look finds the slot of a key, or the free one where it belongs.
func (s *shard) look(t *table, key *blockKey, hash uint64) (at int, reference uint32, found bool) {
	mask := len(t.slots) - 1
	tag := hash >> 32
	for at = int(tag >> t.shift); ; at = (at + 1) & mask {
		slot := t.slots[at]
		if slot == 0 {
			return at, 0, false
		}
		if slot>>32 != tag {
			continue
		}
		reference = uint32(slot) - 1
		if b := s.block(reference); b[wordScheme] == key.scheme && b[wordOf] == key.of && b[wordAddress] == key.address &&
			Mode(b[wordLayout]) == key.mode {
			return at, reference, true
		}
	}
}

// insert makes an empty block for a key that has none.
func (s *shard) insert(t *table, key *blockKey, hash uint64, words int, layout uint32) []uint64 {
	if int(t.blocks+1)*4 > len(t.slots)*3 {
		t.grow()
	}
	reference := s.allocate(words)
	at, _, _ := s.look(t, key, hash)
	t.slots[at] = hash>>32<<32 | uint64(reference+1)
	b := s.block(reference)
	b[wordScheme], b[wordOf], b[wordAddress] = key.scheme, key.of, key.address
	b[wordLayout] = uint64(layout)<<8 | uint64(key.mode)
	s.account(t, b, 1)
	return b
}

// account adds a block to the byte counts of the shard and the table (by = 1), or subtracts it (by = -1).
func (s *shard) account(t *table, b []uint64, by int) {
	size := int64(by * len(b) * 8)
	if t.blocks += int32(by); t.blocks == 0 || t.blocks == int32(by) {
		s.active += by
	}
	t.bytes += size
	s.bytes += size
	if b[wordAddress] == 0 {
		return
	}
	before := t.addressBytes
	t.addressBytes += size
	s.addressBytes += size
	if before == 0 || t.addressBytes == 0 {
		s.addressed += by
	}
}

// layoutNumber is the number of a block's layout.
func layoutNumber(b []uint64) uint32 { return uint32(b[wordLayout] >> 8) }

func (s *shard) allocate(words int) uint32 {
	index, length := arenaOf(words)
	for len(s.arenas) <= index {
		s.arenas = append(s.arenas, arena{})
	}
	a := &s.arenas[index]
	a.words = length
	if last := len(a.free) - 1; last >= 0 {
		place := a.free[last]
		a.free = a.free[:last]
		return uint32(index)<<placeBits | place
	}
	if int(a.made)>>chunkBits == len(a.chunks) {
		a.chunks = append(a.chunks, make([]uint64, chunkBlocks*length))
	}
	a.made++
	return uint32(index)<<placeBits | (a.made - 1)
}

func (t *table) grow() {
	old := t.slots
	size := max(8, 2*len(old))
	t.slots = make([]uint64, size)
	t.shift = uint8(32 - bits.TrailingZeros(uint(size)))
	for _, slot := range old {
		if slot == 0 {
			continue
		}
		at := int(slot >> 32 >> t.shift)
		for t.slots[at] != 0 {
			at = (at + 1) & (size - 1)
		}
		t.slots[at] = slot
	}
	t.sweepAt = 0
}

// remove frees the block of a slot and closes the gap in its row of probes.
func (s *shard) remove(t *table, at int) {
	reference := uint32(t.slots[at]) - 1
	b := s.block(reference)
	s.account(t, b, -1)
	clear(b)
	a := &s.arenas[reference>>placeBits]
	a.free = append(a.free, reference&(1<<placeBits-1))
	if len(a.free) == int(a.made) { // the arena has no blocks left
		a.chunks, a.free, a.made = nil, nil, 0
	}
	mask := len(t.slots) - 1
	for next := (at + 1) & mask; t.slots[next] != 0; next = (next + 1) & mask {
		home := int(t.slots[next] >> 32 >> t.shift)
		if (next-home)&mask >= (next-at)&mask { // its probes start at the gap or before: move it there
			t.slots[at] = t.slots[next]
			at = next
		}
	}
	t.slots[at] = 0
}

// sweep checks the next slots of the shard. Successive calls go through the tables one after another. It frees the
// blocks whose counters are all empty, and drops tables without blocks.
func (s *shard) sweep(now int64, slots int) {
	if len(s.tables) == 0 {
		return
	}
	if s.sweepAt >= len(s.tables) {
		s.sweepAt = 0
	}
	t := s.tables[s.sweepAt]
	if t.blocks == 0 {
		t.slots, t.shift, t.listed, t.shared, t.sweepAt = nil, 0, false, false, 0
		last := len(s.tables) - 1
		s.tables[s.sweepAt] = s.tables[last]
		s.tables[last] = nil
		s.tables = s.tables[:last]
		return
	}
	if s.sweepTable(t, now, slots); int(t.sweepAt) >= len(t.slots) {
		t.sweepAt = 0
		s.sweepAt++
	}
}

// sweepTable checks some slots of a table, and frees the blocks whose counters are all empty.
func (s *shard) sweepTable(t *table, now int64, slots int) {
	for range min(slots, len(t.slots)) {
		if int(t.sweepAt) >= len(t.slots) {
			t.sweepAt = 0
		}
		slot := t.slots[t.sweepAt]
		if slot == 0 {
			t.sweepAt++
			continue
		}
		if b := s.block(uint32(slot) - 1); int64(b[wordOver]) <= now && int64(b[wordUsed]) < now {
			s.remove(t, int(t.sweepAt)) // another block may have moved here: look again
			continue
		}
		t.sweepAt++
	}
}
