package webhooks

import "sync/atomic"

// idleMost bounds the goroutines of a server that wait for their next work.
const idleMost = 16

// workers run functions in goroutines, and use some of these again: the stack of a new goroutine has to grow for each
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

// end ends the goroutines that wait for work. Others end after their work.
func (w *workers) end() { close(w.ended) }
