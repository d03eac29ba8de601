package keycache

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/store"
)

// blocked returns a world whose reads wait until release is closed. The reads of one asker take all places.
func blocked(t *testing.T) (w *world, release chan struct{}, asking *sync.WaitGroup) {
	w, release, asking = newWorld(t, Options{}), make(chan struct{}), &sync.WaitGroup{}
	entered := make(chan struct{}, 10*maxWaiting)
	w.rows.during = func() { entered <- struct{}{}; <-release }
	for range maxReads {
		asking.Go(func() { _, _ = w.find(mint(t)) })
	}
	for range maxReads {
		<-entered
	}
	return w, release, asking
}

// waits requests a key for an asker until ctx ends, and returns once its read is waiting.
func (w *world) waits(ctx context.Context, asking *sync.WaitGroup, asker uint64, key apikey.Key) {
	before := w.cache.reads.length()
	asking.Go(func() { _, _ = w.cache.Find(ForAsker(ctx, asker), key) })
	for w.cache.reads.length() == before && w.Context().Err() == nil {
		runtime.Gosched()
	}
}

// Above the bound, the asker with the most reads is refused, and other askers get a place.
func TestWaitingReadsAreBounded(t *testing.T) {
	t.Parallel()
	w, release, asking := blocked(t)
	for range maxWaiting {
		w.waits(t.Context(), asking, 1, mint(t))
	}
	if _, err := w.cache.Find(ForAsker(t.Context(), 1), mint(t)); !errors.Is(err, ErrBusy) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("one more read: %v", err)
	}
	honest := mint(t)
	w.rows.add(honest)
	found := make(chan error, 1)
	go func() {
		_, err := w.cache.Find(ForAsker(t.Context(), 2), honest)
		found <- err
	}()
	close(release)
	if err := <-found; err != nil {
		t.Errorf("another asker's key: %v", err)
	}
	asking.Wait()
	if n := w.cache.reads.length(); n != 0 {
		t.Errorf("%d reads wait", n)
	}
}

// Askers that have left cause no reads of the store.
func TestAbandonedReadIsNotMade(t *testing.T) {
	t.Parallel()
	w, release, asking := blocked(t)
	left, leave := context.WithCancel(t.Context())
	var gone sync.WaitGroup
	for range maxWaiting {
		w.waits(left, &gone, 1, mint(t))
	}
	stays := mint(t)
	w.rows.add(stays)
	leave()
	gone.Wait()
	asking.Go(func() {
		if _, err := w.cache.Find(ForAsker(t.Context(), 2), stays); err != nil {
			t.Errorf("a key that is waited for: %v", err)
		}
	})
	close(release)
	asking.Wait()
	w.reads(maxReads + 1)
}

// An asker with one read does not wait for all reads of another asker.
func TestAskersTakeTurns(t *testing.T) {
	t.Parallel()
	q := &queue{running: maxReads} // no place is free
	var order []uint64
	for _, asker := range []uint64{1, 1, 1, 1, 2, 3, 3} {
		q.add(asker, read{do: func() { order = append(order, asker) }, drop: func(error) { t.Error("dropped") }})
	}
	q.work(read{do: func() {}})
	if want := []uint64{1, 2, 3, 1, 3, 1, 1}; !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
	if q.running != maxReads-1 || len(q.lines) != 0 || len(q.turns) != 0 {
		t.Errorf("%d run, %d lines are left", q.running, len(q.lines))
	}
}
