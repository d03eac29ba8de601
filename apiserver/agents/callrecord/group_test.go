package callrecord

import (
	"context"
	"errors"
	"testing"

	"github.com/cardea-iam/cardea/store/people"
)

// heldStore lets each transaction begin and go on when the test says so, and fails it.
type heldStore struct{ begun, goOn chan struct{} }

var errHeld = errors.New("held")

func (s heldStore) Change(context.Context, string, func(people.Tx) error) error {
	s.begun <- struct{}{}
	<-s.goOn
	return errHeld
}

func TestWriteWhoseCallerIsGoneIsNotWritten(t *testing.T) {
	s := heldStore{make(chan struct{}), make(chan struct{})}
	g := newGroup(s)
	results := make(chan error)
	commit := func(ctx context.Context, id int64) {
		go func() { results <- g.commit(ctx, "acme/staging", people.ToolCall{ID: id}, false) }()
	}
	commit(t.Context(), 1)
	<-s.begun
	gone, cancel := context.WithCancel(t.Context())
	commit(gone, 2)
	cancel()
	if err := <-results; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	s.goOn <- struct{}{}
	if err := <-results; !errors.Is(err, errHeld) {
		t.Fatal(err)
	}
	// The next transaction is that of the next write: that of the caller that is gone has none.
	commit(t.Context(), 3)
	<-s.begun
	g.mu.Lock()
	if waiting := g.waiting["acme/staging"]; len(waiting) != 0 {
		t.Errorf("%d writes wait", len(waiting))
	}
	g.mu.Unlock()
	s.goOn <- struct{}{}
	if err := <-results; !errors.Is(err, errHeld) {
		t.Error(err)
	}
}
