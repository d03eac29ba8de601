package main

import (
	"runtime"
	"testing"
	"time"
)

func TestGrowth(t *testing.T) {
	for inUse, want := range map[uint64]int{0: 800, 8 << 20: 800, 16 << 20: 400, 64 << 20: 100, 1 << 30: 100} {
		if got := growth(inUse); got != want {
			t.Errorf("%d bytes in use: %d percent, want %d", inUse, got, want)
		}
	}
}

// TestAfterCollections: the callback runs after every collection, not only after the first.
func TestAfterCollections(t *testing.T) {
	told := make(chan struct{}, 64)
	afterCollections(func() { told <- struct{}{} })
	deadline := time.After(20 * time.Second)
	for n := 0; n < 3; {
		runtime.GC()
		select {
		case <-told:
			n++
		case <-deadline:
			t.Fatalf("%d callbacks, want 3", n)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
