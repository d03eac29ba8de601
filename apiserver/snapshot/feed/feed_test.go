package feed

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// A follower reads at once, on signals and by polling, and reports an outage and its end once each.
func TestFollowReportsEachOutageOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	unavailable := errors.New("unavailable")
	outcomes := []error{nil, unavailable, unavailable, nil, unavailable, nil}
	signals := make(chan struct{}, 1)
	signals <- struct{}{}
	close(signals)
	reads := 0
	var events []string
	Follow(ctx, Reader{
		Signals: signals, Poll: time.Millisecond,
		Read: func(context.Context) error {
			defer func() { reads++ }()
			if reads == len(outcomes) {
				cancel()
				return ctx.Err()
			}
			return outcomes[reads]
		},
		Failed:    func(err error) { events = append(events, err.Error()) },
		Recovered: func() { events = append(events, "recovered") },
	})
	if want := []string{"unavailable", "recovered", "unavailable", "recovered"}; !slices.Equal(events, want) {
		t.Errorf("got %v, want %v", events, want)
	}
}
