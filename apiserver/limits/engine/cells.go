package engine

// The words of a row of cells:
//   - 0: the index of the current cell, counted from time 0 of the steady clock;
//   - 1: in the lower half, the total of all cells; in the upper half, the lower 32 bits of the index of the oldest
//     cell that counts anything;
//   - from 2: the cells, each at its index modulo 64.
//
// A request counts while its cell is among the 64 newest. Measured from the end of its cell, that is at least the
// window's length.

func (w *window) cellsUsed(row []uint64, now int64) int64 {
	w.cellsRoll(row, now/w.cell)
	return cellsTotal(row)
}

func cellsTotal(row []uint64) int64 { return int64(uint32(row[1])) }

// cellsOldest returns the index of the oldest cell that counts anything. The total must not be 0.
func cellsOldest(row []uint64) int64 { return int64(row[0]) - int64(uint32(row[0])-uint32(row[1]>>32)) }

// cellsRoll makes the cell at an index the current one, and clears the cells that leave the window. An index before the
// current cell changes nothing: a request that is then charged leaves the window late, never early.
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

// cellsCharge counts n requests in the current cell, or fewer if the cell or the total would overflow. Neither
// overflows below the largest limit of its kind.
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
	if used == limit { // when the oldest cell leaves, its requests leave: no cell need be read
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
