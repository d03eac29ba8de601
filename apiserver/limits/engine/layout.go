package engine

import "slices"

// layout is how the counters of a scheme lie in blocks, one block for each mode and subject. Successive programs whose
// rows are equal share one layout, for example if only their limits differ.
type layout struct {
	// number increases with every new layout of the engine. A block with a larger number than that of a program was
	// migrated by a newer program.
	number uint32
	modes  [modeCount]modeLayout
}

type modeLayout struct {
	// words is the length of a block of this mode, 0 if no rule has the mode.
	words int
	rows  []row
}

// row is where one identity's counter lies in a block.
type row struct {
	identity [2]uint64
	window   window
	place
}

// place is where the head and the body of a window's state begin in a block.
type place struct{ head, body int }

// of returns the state of a window in a block.
func (p place) of(block []uint64, w *window) state {
	return state{(*[headWords]uint64)(block[p.head:]), block[p.body : p.body+w.bodyWords()]}
}

// lay gives every rule's window its place in the blocks of its mode: first the heads of all windows, then their bodies.
func (p *program) lay() {
	take := func(m *modeLayout, words int) int {
		m.words = max(m.words, blockHeader)
		m.words += words
		return m.words - words
	}
	for i := range p.rules {
		p.rules[i].head = take(&p.layout.modes[p.rules[i].Mode], headWords)
	}
	for i := range p.rules {
		rule := &p.rules[i]
		m := &p.layout.modes[rule.Mode]
		rule.body = take(m, rule.window.bodyWords())
		m.rows = append(m.rows, row{rule.Identity, rule.window, rule.place})
	}
}

func (l *layout) equal(other *layout) bool {
	for mode := range l.modes {
		if !slices.Equal(l.modes[mode].rows, other.modes[mode].rows) {
			return false
		}
	}
	return true
}
