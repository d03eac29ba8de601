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

func (s heldStore) Single(ctx context.Context, deployment string, do func(people.Tx) error) error {
	return s.Change(ctx, deployment, do)
}

func (heldStore) Writers() int { return 1 }

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
	if n := len(g.queues["acme/staging"].waiting); n != 0 {
		t.Errorf("%d writes wait", n)
	}
	g.mu.Unlock()
	s.goOn <- struct{}{}
	if err := <-results; !errors.Is(err, errHeld) {
		t.Error(err)
	}
}

// widerStore is a heldStore that commits several transactions concurrently.
type widerStore struct {
	heldStore
	writers int
}

func (s widerStore) Writers() int { return s.writers }

func TestConcurrentTransactionsOfADeploymentAreAFifthOfThePossible(t *testing.T) {
	for writers, want := range map[int]int{1: 1, 4: 1, 10: 2, 20: groupWriters, 100: groupWriters} {
		s := widerStore{heldStore{make(chan struct{}), make(chan struct{})}, writers}
		g, results := newGroup(s), make(chan error)
		for i := range want {
			go func() { results <- g.commit(t.Context(), "acme/staging", people.ToolCall{ID: int64(i)}, false) }()
			<-s.begun
		}
		if g.add("acme/staging", &write{ctx: t.Context(), done: make(chan error, 1)}) {
			t.Errorf("of %d, more than %d transactions are in progress", writers, want)
		}
		close(s.goOn)
		for range want {
			if err := <-results; !errors.Is(err, errHeld) {
				t.Error(err)
			}
		}
		<-s.begun // the first that ends writes what waited
	}
}
