package engine

import (
	"sync"
	"testing"
	"time"
)

// TestClockOfTheSystem: the steady time of concurrent readers is never before the time when they asked, and never after
// the time when they had it; the wall time is that of time.Now.
func TestClockOfTheSystem(t *testing.T) {
	c := NewClock(nil)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 200_000 {
				before := time.Now()
				got := c.Now()
				after := time.Now()
				if got.Steady < c.steady(before) || got.Steady > c.steady(after) {
					t.Errorf("steady time %d is not from %d to %d", got.Steady, c.steady(before), c.steady(after))
					return
				}
				// The wall clock of a machine is adjusted by parts of a thousandth at most, and rounded twice.
				if got.Wall < before.UnixMicro()-100 || got.Wall > after.UnixMicro()+100 {
					t.Errorf("wall time %d is not from %d to %d", got.Wall, before.UnixMicro(), after.UnixMicro())
					return
				}
			}
		})
	}
	group.Wait()
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
