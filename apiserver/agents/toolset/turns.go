package toolset

import "sync"

// turns lets one goroutine of each deployment work at a time. The zero value is ready.
type turns struct {
	mu sync.Mutex
	of map[string]*turn
}

// turn is the turn of a deployment, which users wait for or have.
type turn struct {
	sync.Mutex
	users int
}

// take waits for the turn of a deployment, and returns a function that ends it.
func (t *turns) take(deployment string) (end func()) {
	t.mu.Lock()
	if t.of == nil {
		t.of = map[string]*turn{}
	}
	own := t.of[deployment]
	if own == nil {
		own = &turn{}
		t.of[deployment] = own
	}
	own.users++
	t.mu.Unlock()
	own.Lock()
	return func() {
		own.Unlock()
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(t.of, deployment)
		}
	}
}
