package engine

// The head of a ring: the base tick; the position of the oldest time in the upper half and the number of times in the
// lower half of a word. Its body: the times as ticks since the base, two a word. A tick is 1<<shift microseconds. A
// request's time is rounded up and the present is rounded down, so that no request leaves the window early.

func (w *window) ringUsed(s state, now int64) int64 {
	tick := now >> w.shift
	head, count := ringEnds(s)
	length := ceil(w.length, 1<<w.shift)
	for count > 0 && tick-int64(s.head[0])-w.ringAt(s, head) >= length {
		head = w.ringNext(head)
		count--
	}
	ringSetEnds(s, head, count)
	return int64(count)
}

func (w *window) ringCharge(s state, now int64) {
	head, count := ringEnds(s)
	tick := ceil(now, 1<<w.shift)
	if count == 0 {
		s.head[0] = uint64(tick)
	}
	if count == w.capacity { // the ring is full: drop the oldest time, because the newest decide
		head = w.ringNext(head)
		count--
	}
	// Concurrent callers may charge in another order than that of their moments.
	at := tick - int64(s.head[0])
	if count > 0 {
		at = max(at, w.ringAt(s, w.ringPosition(head, count-1)))
	}
	if at >= 1<<32 {
		w.ringRebase(s, head, count)
		at = tick - int64(s.head[0])
	}
	w.ringSet(s, w.ringPosition(head, count), at)
	ringSetEnds(s, head, count+1)
}

// ringRebase makes the oldest time the base. Nothing in the window is older than 1<<31 ticks.
func (w *window) ringRebase(s state, head, count int32) {
	oldest := w.ringAt(s, head)
	s.head[0] += uint64(oldest)
	for i := range count {
		at := w.ringPosition(head, i)
		w.ringSet(s, at, w.ringAt(s, at)-oldest)
	}
}

func (w *window) ringWait(s state, now, limit int64) int64 {
	head, count := ringEnds(s)
	if int64(count) < limit {
		return 0
	}
	// When this request leaves the window, fewer than limit remain.
	at := w.ringAt(s, w.ringPosition(head, count-int32(limit)))
	return (int64(s.head[0])+at+ceil(w.length, 1<<w.shift))<<w.shift - now
}

// ringTimes calls do with the time of every request in the ring, in microseconds, the oldest first.
func (w *window) ringTimes(s state, do func(at int64)) {
	head, count := ringEnds(s)
	for i := range count {
		do((int64(s.head[0]) + w.ringAt(s, w.ringPosition(head, i))) << w.shift)
	}
}

func ringEnds(s state) (head, count int32) { return int32(s.head[1] >> 32), int32(uint32(s.head[1])) }

func ringSetEnds(s state, head, count int32) { s.head[1] = uint64(head)<<32 | uint64(uint32(count)) }

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

func (w *window) ringAt(s state, at int32) int64 {
	return int64(uint32(s.body[at/2] >> (32 * uint(at&1))))
}

func (w *window) ringSet(s state, at int32, tick int64) {
	shift := 32 * uint(at&1)
	word := &s.body[at/2]
	*word = *word&^(0xffffffff<<shift) | uint64(uint32(tick))<<shift
}
