// Package pause waits.
package pause

import (
	"context"
	"time"
)

// For waits for a delay, or until the context ends, whose error it returns.
func For(ctx context.Context, delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
