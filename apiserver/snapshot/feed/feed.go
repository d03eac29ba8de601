// Package feed follows a feed of changes of the store.
package feed

import (
	"context"
	"time"
)

// Reader reads a feed.
type Reader struct {
	// Signals wakes the reader when the feed may have changed. Poll is the interval of reads without a signal. After
	// Signals is closed, only Poll wakes the reader.
	Signals <-chan struct{}
	Poll    time.Duration
	// Read brings the reader up to date.
	Read func(context.Context) error
	// Failed is called with the first error of an outage, and Recovered when the outage ends.
	Failed    func(error)
	Recovered func()
}

// Follow reads a feed at once, and then on each signal and poll, until ctx ends.
func Follow(ctx context.Context, r Reader) {
	ticker := time.NewTicker(r.Poll)
	defer ticker.Stop()
	failing := false
	for {
		err := r.Read(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			r.Failed(err)
		case err == nil && failing:
			r.Recovered()
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case _, open := <-r.Signals:
			if !open { // the store was closed
				r.Signals = nil
			}
		case <-ticker.C:
		}
	}
}
