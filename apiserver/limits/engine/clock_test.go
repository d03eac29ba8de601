package engine

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestClockOfTheSystem: the steady time of concurrent readers is never before the time when they asked, and never after
// the time when they had it; the wall time is that of time.Now.
func TestClockOfTheSystem(t *testing.T) {
	c := NewClock(nil)
	// A step of the system clock while the test runs is noticed after a millisecond at most: the readings of such a
	// millisecond differ. A clock that does not follow the system's differs in all readings from then on.
	const readings, adjusted = 4 * 200_000, 16_000
	var differing atomic.Int64
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range readings / 4 {
				before := time.Now()
				got := c.Now()
				after := time.Now()
				if got.Steady < c.steady(before) || got.Steady > c.steady(after) {
					t.Errorf("steady time %d is not from %d to %d", got.Steady, c.steady(before), c.steady(after))
					return
				}
				if got.Wall < before.UnixMicro()-100 || got.Wall > after.UnixMicro()+100 { // both are rounded
					differing.Add(1)
				}
			}
		})
	}
	group.Wait()
	if n := differing.Load(); n > adjusted {
		t.Errorf("the wall time of %d of %d readings is not that of time.Now", n, readings)
	}
}

// TestClockOfASourceFollowsBothReadings: a step of the wall clock moves the wall time at once, and not the steady time.
func TestClockOfASourceFollowsBothReadings(t *testing.T) {
	now := time.Now()
	c := NewClock(func() time.Time { return now })
	first := c.Now()
	now = now.Add(1500 * time.Microsecond)
	if second := c.Now(); second.Steady-first.Steady != 1500 || second.Wall-first.Wall < 1499 || second.Wall-first.Wall > 1501 {
		t.Errorf("%+v, then %+v", first, second)
	}
}
