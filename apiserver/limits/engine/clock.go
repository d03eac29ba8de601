package engine

import (
	"sync/atomic"
	"time"
)

// Instant is one moment on two clocks, in microseconds. Rolling windows follow the steady one, which no change of the
// wall clock moves; calendar windows follow the wall clock.
type Instant struct {
	// Steady never jumps: microseconds since an arbitrary moment.
	Steady int64
	// Wall is Unix time in microseconds. It may jump either way.
	Wall int64
}

// Clock returns Instants. Its steady time begins at the wall clock's time of its creation. It is safe for concurrent
// use.
type Clock struct {
	start  time.Time
	origin int64
	// now is the source, nil for the system's clocks.
	now func() time.Time
	// ahead is by how much the system's wall clock was ahead of the steady one at the steady moment compared.
	ahead, compared atomic.Int64
}

// compareEvery is the age in microseconds at which a comparison of the system's two clocks is repeated. Reading both
// takes twice as long as reading one. A change of the wall clock takes effect so much later at most.
const compareEvery = 1000

// NewClock returns a clock over a source like time.Now, whose times carry a monotonic reading; nil for the system's
// clocks.
func NewClock(now func() time.Time) *Clock {
	c := &Clock{start: time.Now(), now: now}
	if now != nil {
		c.start = now()
	}
	c.origin = c.start.UnixMicro()
	c.compared.Store(c.origin)
	return c
}

// Now returns the current Instant.
func (c *Clock) Now() Instant {
	if c.now != nil {
		now := c.now()
		return Instant{Steady: c.steady(now), Wall: now.UnixMicro()}
	}
	steady := c.origin + time.Since(c.start).Microseconds()
	if steady-c.compared.Load() >= compareEvery {
		return c.compare()
	}
	return Instant{Steady: steady, Wall: steady + c.ahead.Load()}
}

func (c *Clock) compare() Instant {
	now := time.Now()
	steady, wall := c.steady(now), now.UnixMicro()
	c.ahead.Store(wall - steady)
	c.compared.Store(steady)
	return Instant{Steady: steady, Wall: wall}
}

func (c *Clock) steady(now time.Time) int64 { return c.origin + now.Sub(c.start).Microseconds() }
