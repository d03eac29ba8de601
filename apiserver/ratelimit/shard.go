package ratelimit

import (
	"math/bits"
	"sync"
)

// A block holds the counters of one scheme, mode and subject. Its words:
//
//	0  the scheme's id
//	1  the subject: key or app, 0 for neither
//	2  the subject: address, 0 for none
//	3  the layout's number, and the mode in the lowest byte
//	4  the steady moment at which the block was used last
//	5  the steady moment from which every counter in it is empty
//	6… the counters, where the layout says
const (
	wordScheme = iota
	wordOf
	wordAddress
	wordLayout
	wordUsed
	wordOver
	blockHeader
)

// otherAddresses is the address that stands for all that no longer get a block of their own. An IPv6 network of ones is
// nobody's.
const otherAddresses = ^uint64(0)

// blockKey tells a block from every other.
type blockKey struct {
	scheme, of, address uint64
	mode                Mode
}

func (k *blockKey) hash(seed uint64) uint64 {
	h := mix(k.scheme^seed, k.of^0x9e3779b97f4a7c15)
	return mix(h^k.address, uint64(k.mode)^0xd6e8feb86659fd93^seed)
}

func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a^0xa0761d6478bd642f, b^0xe7037ed1a0b428db)
	return high ^ low
}

// A shard holds a part of all blocks. Its table is open addressing with linear probing: a slot is the upper half of the
// block's hash and its reference plus one, 0 when it is free. A reference names an arena and a place in it.
type shard struct {
	sync.Mutex
	slots  []uint64
	shift  uint8
	blocks int
	arenas []arena
	// bytes of all blocks, and of those of addresses.
	bytes, addressBytes int64
	// sweepAt is the slot that the sweep goes on with.
	sweepAt int
	uses    uint32

	evicted, shared uint64
	_               [64]byte
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
	// A reference has the arena in its upper 8 bits, and one of 16 million places of it in the lower ones: more than any bound of
	// memory lets a shard hold.
	placeBits = 24
)

// arenaOf is the arena for blocks of a length, and the length that its blocks have: the next multiple of 8 words up to 128,
// of 32 beyond.
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

// find returns the block of a key, nil if there is none.
func (s *shard) find(key *blockKey, hash uint64) []uint64 {
	if s.slots == nil {
		return nil
	}
	_, reference, found := s.look(key, hash)
	if !found {
		return nil
	}
	return s.block(reference)
}

// look finds the slot of a key, or the free one where it belongs.
func (s *shard) look(key *blockKey, hash uint64) (at int, reference uint32, found bool) {
	mask := len(s.slots) - 1
	tag := hash >> 32
	for at = int(tag >> s.shift); ; at = (at + 1) & mask {
		slot := s.slots[at]
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
func (s *shard) insert(key *blockKey, hash uint64, words int, layout uint32) []uint64 {
	if (s.blocks+1)*4 > len(s.slots)*3 {
		s.grow()
	}
	reference := s.allocate(words)
	at, _, _ := s.look(key, hash)
	s.slots[at] = hash>>32<<32 | uint64(reference+1)
	s.blocks++
	b := s.block(reference)
	s.bytes += int64(len(b) * 8)
	if key.address != 0 {
		s.addressBytes += int64(len(b) * 8)
	}
	b[wordScheme], b[wordOf], b[wordAddress] = key.scheme, key.of, key.address
	b[wordLayout] = uint64(layout)<<8 | uint64(key.mode)
	return b
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

func (s *shard) grow() {
	old := s.slots
	size := max(8, 2*len(old))
	s.slots = make([]uint64, size)
	s.shift = uint8(32 - bits.TrailingZeros(uint(size)))
	for _, slot := range old {
		if slot == 0 {
			continue
		}
		at := int(slot >> 32 >> s.shift)
		for s.slots[at] != 0 {
			at = (at + 1) & (size - 1)
		}
		s.slots[at] = slot
	}
	s.sweepAt = 0
}

// remove frees the block of a slot and closes the gap in its row of probes.
func (s *shard) remove(at int) {
	reference := uint32(s.slots[at]) - 1
	b := s.block(reference)
	s.bytes -= int64(len(b) * 8)
	if b[wordAddress] != 0 {
		s.addressBytes -= int64(len(b) * 8)
	}
	clear(b)
	a := &s.arenas[reference>>placeBits]
	a.free = append(a.free, reference&(1<<placeBits-1))
	if len(a.free) == int(a.made) { // nothing is left in it
		a.chunks, a.free, a.made = nil, nil, 0
	}
	s.blocks--
	mask := len(s.slots) - 1
	for next := (at + 1) & mask; s.slots[next] != 0; next = (next + 1) & mask {
		home := int(s.slots[next] >> 32 >> s.shift)
		if (next-home)&mask >= (next-at)&mask { // it may stand at the gap
			s.slots[at] = s.slots[next]
			at = next
		}
	}
	s.slots[at] = 0
}

// sweep looks at some slots, one after another over the calls, and frees the blocks whose counters are all empty.
func (s *shard) sweep(now int64, slots int) {
	for range min(slots, len(s.slots)) {
		if s.sweepAt >= len(s.slots) {
			s.sweepAt = 0
		}
		slot := s.slots[s.sweepAt]
		if slot == 0 {
			s.sweepAt++
			continue
		}
		if b := s.block(uint32(slot) - 1); int64(b[wordOver]) <= now && int64(b[wordUsed]) < now {
			s.remove(s.sweepAt) // another block may have moved here: look again
			continue
		}
		s.sweepAt++
	}
}

// evict frees the block that was idle for longest among some, none that is in use at this moment. It tells whether it could.
func (s *shard) evict(now int64) bool {
	const sample = 16
	oldest, oldestUse, seen := -1, now, 0
	for i := 0; i < len(s.slots) && seen < sample; i++ {
		at := (s.sweepAt + i) & (len(s.slots) - 1)
		if s.slots[at] == 0 {
			continue
		}
		seen++
		if used := int64(s.block(uint32(s.slots[at]) - 1)[wordUsed]); used < oldestUse {
			oldest, oldestUse = at, used
		}
	}
	if oldest < 0 {
		return false
	}
	if int64(s.block(uint32(s.slots[oldest]) - 1)[wordOver]) > now {
		s.evicted++
	}
	s.remove(oldest)
	s.sweepAt = (oldest + 1) & (len(s.slots) - 1)
	return true
}
