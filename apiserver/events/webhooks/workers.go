package webhooks

import "sync/atomic"

// idleMost bounds the goroutines of a server that wait for their next work.
const idleMost = 16

// workers run functions in goroutines, and keep some of these: the stack of a new goroutine grows again for each
// request.
type workers struct {
	work  chan func()
	idle  atomic.Int64
	ended chan struct{}
}

func newWorkers() *workers { return &workers{work: make(chan func()), ended: make(chan struct{})} }

// run begins to call do, in another goroutine.
func (w *workers) run(do func()) {
	select {
	case w.work <- do:
	default:
		go w.serve(do)
	}
}

func (w *workers) serve(do func()) {
	for {
		do()
		do = nil // it refers to a delivery
		if w.idle.Add(1) > idleMost {
			w.idle.Add(-1)
			return
		}
		select {
		case do = <-w.work:
			w.idle.Add(-1)
		case <-w.ended:
			return
		}
	}
}

// end lets the goroutines end that wait, and those of later work after it.
func (w *workers) end() { close(w.ended) }
