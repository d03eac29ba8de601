package engine

// A window is the way one rule counts. Its state is words in a block; the functions here read and write them and know
// nothing of rules and blocks. Words of zeros are an empty window.
//
// There are three kinds. The first two admit at most the limit in every interval of the window's length:
//   - a ring of exact times, for limits up to ringMost: no quota returns late;
//   - 64 cells, for larger limits. The oldest cell counts as a whole, so at most 1.6 % of the limit returns late, by up
//     to a 63rd of the window;
//   - one count of a calendar period.
type window struct {
	kind kind
	// length is the window's, in microseconds, at least 1,000; 0 for calendar periods.
	length int64
	// capacity is the most times a ring keeps.
	capacity int32
	// shift converts microseconds to the ticks of a ring: a tick has 1<<shift of them, so that a window has at most
	// 1<<31 ticks.
	shift uint8
	// cell is the length of one cell in microseconds.
	cell int64
}

type kind uint8

const (
	ring kind = iota + 1
	// cells16 and cells32 pack four and two cells into a word, for limits up to 65,535 and for larger ones.
	cells16
	cells32
	calendarDay
	calendarMonth
)

const (
	ringMost    = 32
	cells16Most = 1<<16 - 1
	cellCount   = 64
)

// state is the words of one window. A block has the heads of all its windows side by side, because most decisions need
// nothing else: they are in two lines of the processor's cache, and bodies take a line or more each.
type state struct {
	// head has headWords words, of which a calendar period uses one.
	head *[headWords]uint64
	// body has the times of a ring, or the cells; none for calendar periods.
	body []uint64
}

const headWords = 2

// rolling returns the window of a length in microseconds for limits up to most.
func rolling(length, most int64) window {
	w := window{length: length}
	switch {
	case most <= ringMost:
		w.kind, w.capacity = ring, int32(most)
		for length>>w.shift >= 1<<31 {
			w.shift++
		}
	case most <= cells16Most:
		w.kind, w.cell = cells16, ceil(length, cellCount-1)
	default:
		w.kind, w.cell = cells32, ceil(length, cellCount-1)
	}
	return w
}

func ceil(a, b int64) int64 { return (a + b - 1) / b }

// bodyWords is the length of the body of the window's state.
func (w *window) bodyWords() int {
	switch w.kind {
	case ring:
		return int(w.capacity+1) / 2
	case cells16:
		return cellCount / 4
	case cells32:
		return cellCount / 2
	}
	return 0
}

// used removes the requests that have left the window, and returns how many are in it.
func (w *window) used(s state, now Instant) int64 {
	switch w.kind {
	case ring:
		return w.ringUsed(s, now.Steady)
	case cells16, cells32:
		return w.cellsUsed(s, now.Steady)
	}
	return w.periodUsed(s, now.Wall)
}

// charge counts n requests at a moment. The caller has called used for the same moment.
func (w *window) charge(s state, now Instant, n int64) {
	switch w.kind {
	case ring:
		for range n {
			w.ringCharge(s, now.Steady)
		}
	case cells16, cells32:
		w.cellsCharge(s, n)
	default:
		s.head[0] += uint64(min(n, 1<<32-1-int64(uint32(s.head[0]))))
	}
}

// wait returns how long it takes from a moment until fewer than limit requests are in the window, if none is added. The
// result is never too short. The caller has called used for the same moment.
func (w *window) wait(s state, now Instant, limit int64) int64 {
	switch w.kind {
	case ring:
		return w.ringWait(s, now.Steady, limit)
	case cells16, cells32:
		return w.cellsWait(s, now.Steady, limit)
	}
	return w.periodWait(s, now.Wall, limit)
}

// over returns how long it takes from a moment until all requests that are charged at that moment have left the window.
func (w *window) over(now Instant) int64 {
	switch w.kind {
	case calendarDay, calendarMonth:
		// An extra hour, in case the wall clock is set back.
		return w.end(w.period(now.Wall)) - now.Wall + 3600e6
	case ring:
		return w.length + 2<<w.shift
	}
	return w.length + 2*w.cell
}
