// Package turns lets one caller of a name work at a time, such as one request of a deployment.
package turns

import (
	"context"
	"sync"
)

// Turns serializes callers by name. It holds the names that callers use. The zero value is ready, and it is safe for
// concurrent use.
type Turns struct {
	mu     sync.Mutex
	byName map[string]*turn
}

// turn is the turn of a name, which callers wait for or have.
type turn struct {
	taken chan struct{}
	users int
}

// Take waits for the name's turn. The caller ends the turn with done. The error is that of the context.
func (t *Turns) Take(ctx context.Context, name string) (done func(), err error) {
	t.mu.Lock()
	own := t.byName[name]
	if own == nil {
		if t.byName == nil {
			t.byName = map[string]*turn{}
		}
		own = &turn{taken: make(chan struct{}, 1)}
		t.byName[name] = own
	}
	own.users++
	t.mu.Unlock()
	select {
	case own.taken <- struct{}{}:
		return func() {
			<-own.taken
			t.leave(name, own)
		}, nil
	case <-ctx.Done():
		t.leave(name, own)
		return nil, ctx.Err()
	}
}

func (t *Turns) leave(name string, own *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(t.byName, name)
	}
}
