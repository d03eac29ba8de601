package engine

// A ring's row: the base tick; the position of the oldest time in the upper half and the number of times in the lower
// half of a word; then the times as ticks since the base, two a word. A tick is 1<<shift microseconds. A request's time
// is rounded up and the present is rounded down, so that no request leaves the window early.

func (w *window) ringUsed(row []uint64, now int64) int64 {
	tick := now >> w.shift
	head, count := ringEnds(row)
	length := ceil(w.length, 1<<w.shift)
	for count > 0 && tick-int64(row[0])-w.ringAt(row, head) >= length {
		head = w.ringNext(head)
		count--
	}
	ringSetEnds(row, head, count)
	return int64(count)
}

func (w *window) ringCharge(row []uint64, now int64) {
	head, count := ringEnds(row)
	tick := ceil(now, 1<<w.shift)
	if count == 0 {
		row[0] = uint64(tick)
	}
	if count == w.capacity { // the ring is full: drop the oldest time, because the newest decide
		head = w.ringNext(head)
		count--
	}
	// Concurrent callers may charge in another order than that of their moments.
	at := tick - int64(row[0])
	if count > 0 {
		at = max(at, w.ringAt(row, w.ringPosition(head, count-1)))
	}
	if at >= 1<<32 {
		w.ringRebase(row, head, count)
		at = tick - int64(row[0])
	}
	w.ringSet(row, w.ringPosition(head, count), at)
	ringSetEnds(row, head, count+1)
}

// ringRebase makes the oldest time the base. Nothing in the window is older than 1<<31 ticks.
func (w *window) ringRebase(row []uint64, head, count int32) {
	oldest := w.ringAt(row, head)
	row[0] += uint64(oldest)
	for i := range count {
		at := w.ringPosition(head, i)
		w.ringSet(row, at, w.ringAt(row, at)-oldest)
	}
}

func (w *window) ringWait(row []uint64, now, limit int64) int64 {
	head, count := ringEnds(row)
	if int64(count) < limit {
		return 0
	}
	// When this request leaves the window, fewer than limit remain.
	at := w.ringAt(row, w.ringPosition(head, count-int32(limit)))
	return (int64(row[0])+at+ceil(w.length, 1<<w.shift))<<w.shift - now
}

// ringTimes calls do with the time of every request in the ring, in microseconds, the oldest first.
func (w *window) ringTimes(row []uint64, do func(at int64)) {
	head, count := ringEnds(row)
	for i := range count {
		do((int64(row[0]) + w.ringAt(row, w.ringPosition(head, i))) << w.shift)
	}
}

func ringEnds(row []uint64) (head, count int32) { return int32(row[1] >> 32), int32(uint32(row[1])) }

func ringSetEnds(row []uint64, head, count int32) { row[1] = uint64(head)<<32 | uint64(uint32(count)) }

func (w *window) ringNext(at int32) int32 {
	if at++; at == w.capacity {
		return 0
	}
	return at
}

func (w *window) ringPosition(head, i int32) int32 {
	if head += i; head >= w.capacity {
		return head - w.capacity
	}
	return head
}

func (w *window) ringAt(row []uint64, at int32) int64 {
	return int64(uint32(row[ringHeader+at/2] >> (32 * uint(at&1))))
}

func (w *window) ringSet(row []uint64, at int32, tick int64) {
	shift := 32 * uint(at&1)
	word := &row[ringHeader+at/2]
	*word = *word&^(0xffffffff<<shift) | uint64(uint32(tick))<<shift
}
