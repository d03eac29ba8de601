package engine

// The head of a window of cells:
//   - 0: the index of the current cell, counted from time 0 of the steady clock, times 256; in the lowest byte, how
//     many cells before it the oldest cell is that counts anything;
//   - 1: in the lower half, the total of all cells; in the upper half, the count of the current cell.
//
// Its body: the cells before the current one, each at its index modulo 64. The current cell is 0 in the body until
// another cell becomes the current one, so a request that meets its cell again needs the head only.
//
// A request counts while its cell is among the 64 newest. Measured from the end of its cell, that is at least the
// window's length.

func (w *window) cellsUsed(s state, now int64) int64 {
	w.cellsRoll(s, now/w.cell)
	return cellsTotal(s)
}

func cellsTotal(s state) int64   { return int64(uint32(s.head[1])) }
func cellsCurrent(s state) int64 { return int64(s.head[1] >> 32) }
func cellsIndex(s state) int64   { return int64(s.head[0] >> 8) }

// cellsOldest returns the index of the oldest cell that counts anything. The total must not be 0.
func cellsOldest(s state) int64 { return int64(s.head[0]>>8) - int64(uint8(s.head[0])) }

// cellsRoll makes the cell at an index the current one, and clears the cells that leave the window. An index before the
// current cell changes nothing: a request that is then charged leaves the window late, never early.
func (w *window) cellsRoll(s state, index int64) {
	before := cellsIndex(s)
	if index <= before {
		return
	}
	total := cellsTotal(s)
	if total == 0 {
		s.head[0] = uint64(index) << 8
		return
	}
	oldest, current := cellsOldest(s), cellsCurrent(s)
	if index-oldest >= cellCount {
		if index-before >= cellCount { // the current cell leaves too
			total -= current
			current = 0
		}
		for inBody := total - current; oldest <= index-cellCount && inBody > 0; oldest++ {
			if n := w.cellAt(s, oldest); n > 0 {
				inBody -= n
				total -= n
				w.cellSet(s, oldest, 0)
			}
		}
		if total == 0 {
			s.head[0], s.head[1] = uint64(index)<<8, 0
			return
		}
		if total == current {
			oldest = before
		}
		for oldest < before && w.cellAt(s, oldest) == 0 {
			oldest++
		}
	}
	if current > 0 {
		w.cellSet(s, before, current)
	}
	s.head[0], s.head[1] = uint64(index)<<8|uint64(index-oldest), uint64(total)
}

// cellsCharge counts n requests in the current cell, or fewer if the total would overflow. It does not overflow below
// the largest limit of its kind.
func (w *window) cellsCharge(s state, n int64) {
	most := int64(1<<32 - 1)
	if w.kind == cells16 {
		most = cells16Most
	}
	total := cellsTotal(s)
	if total == 0 {
		s.head[0] &^= 0xff // the current cell is the oldest
	}
	n = min(n, most-total)
	s.head[1] += uint64(n)<<32 | uint64(n)
}

func (w *window) cellsWait(s state, now, limit int64) int64 {
	used, current := cellsTotal(s), cellsIndex(s)
	if used < limit {
		return 0
	}
	index := cellsOldest(s)
	if used == limit { // when the oldest cell leaves, its requests leave: no cell need be read
		return (index+cellCount)*w.cell - now
	}
	for ; index < current; index++ {
		if used -= w.cellAt(s, index); used < limit {
			break
		}
	}
	return (index+cellCount)*w.cell - now
}

// cellsEach calls do with every cell that counts anything, the oldest first.
func (w *window) cellsEach(s state, do func(index, n int64)) {
	if cellsTotal(s) == 0 {
		return
	}
	for index := cellsOldest(s); index < cellsIndex(s); index++ {
		if n := w.cellAt(s, index); n > 0 {
			do(index, n)
		}
	}
	if n := cellsCurrent(s); n > 0 {
		do(cellsIndex(s), n)
	}
}

// cellAt returns the count of a cell before the current one.
func (w *window) cellAt(s state, index int64) int64 {
	at := int(index & (cellCount - 1))
	if w.kind == cells16 {
		return int64(uint16(s.body[at/4] >> (16 * uint(at&3))))
	}
	return int64(uint32(s.body[at/2] >> (32 * uint(at&1))))
}

func (w *window) cellSet(s state, index, n int64) {
	at := int(index & (cellCount - 1))
	if w.kind == cells16 {
		word, shift := &s.body[at/4], 16*uint(at&3)
		*word = *word&^(0xffff<<shift) | uint64(n)<<shift
		return
	}
	word, shift := &s.body[at/2], 32*uint(at&1)
	*word = *word&^(0xffffffff<<shift) | uint64(n)<<shift
}
