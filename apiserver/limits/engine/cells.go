package engine

// The row of cells: the index of the current cell since the clock's beginning; the total of all cells in the lower half
// of a word, and the index of the oldest cell that counts anything, as far as 32 bits hold it, in the upper half; then
// the cells, each at its index modulo 64. A request counts while its cell is among the 64 newest: from the end of its
// cell that is at least the window's length.

func (w *window) cellsUsed(row []uint64, now int64) int64 {
	w.cellsRoll(row, now/w.cell)
	return cellsTotal(row)
}

func cellsTotal(row []uint64) int64 { return int64(uint32(row[1])) }

// cellsOldest is the index of the oldest cell that counts anything. There is one.
func cellsOldest(row []uint64) int64 { return int64(row[0]) - int64(uint32(row[0])-uint32(row[1]>>32)) }

// cellsRoll makes a cell the current one and forgets those that it pushes out. A moment before the current cell is
// taken for the current cell's: what is charged then leaves late, never early.
func (w *window) cellsRoll(row []uint64, index int64) {
	if index <= int64(row[0]) {
		return
	}
	total := cellsTotal(row)
	if total == 0 {
		row[0] = uint64(index)
		return
	}
	oldest := cellsOldest(row)
	row[0] = uint64(index)
	if index-oldest < cellCount {
		return
	}
	for ; oldest <= index-cellCount && total > 0; oldest++ {
		at := int(oldest & (cellCount - 1))
		if n := w.cellAt(row, at); n > 0 {
			total -= n
			w.cellSet(row, at, 0)
		}
	}
	for total > 0 && w.cellAt(row, int(oldest&(cellCount-1))) == 0 {
		oldest++
	}
	row[1] = uint64(uint32(oldest))<<32 | uint64(total)
}

// cellsCharge counts n requests in the current cell, or as many as it holds: a full cell holds the largest limit.
func (w *window) cellsCharge(row []uint64, n int64) {
	at := int(row[0] & (cellCount - 1))
	before := w.cellAt(row, at)
	most := int64(1<<32 - 1)
	if w.kind == cells16 {
		most = cells16Most
	}
	after := min(before+n, most, most-cellsTotal(row)+before)
	w.cellSet(row, at, after)
	if row[1] == 0 || cellsTotal(row) == 0 {
		row[1] = row[0] << 32
	}
	row[1] += uint64(after - before)
}

func (w *window) cellsWait(row []uint64, now, limit int64) int64 {
	used, current := cellsTotal(row), int64(row[0])
	if used < limit {
		return 0
	}
	index := cellsOldest(row)
	if used == limit { // the oldest cell alone decides, and counts something: it need not be read
		return (index+cellCount)*w.cell - now
	}
	for ; index < current; index++ {
		if used -= w.cellAt(row, int(index&(cellCount-1))); used < limit {
			break
		}
	}
	return (index+cellCount)*w.cell - now
}

func (w *window) cellAt(row []uint64, at int) int64 {
	if w.kind == cells16 {
		return int64(uint16(row[cellHeader+at/4] >> (16 * uint(at&3))))
	}
	return int64(uint32(row[cellHeader+at/2] >> (32 * uint(at&1))))
}

func (w *window) cellSet(row []uint64, at int, n int64) {
	if w.kind == cells16 {
		word, shift := &row[cellHeader+at/4], 16*uint(at&3)
		*word = *word&^(0xffff<<shift) | uint64(n)<<shift
		return
	}
	word, shift := &row[cellHeader+at/2], 32*uint(at&1)
	*word = *word&^(0xffffffff<<shift) | uint64(n)<<shift
}
