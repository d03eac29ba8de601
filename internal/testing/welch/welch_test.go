package welch

import (
	"math"
	"testing"
	"time"
)

func TestT(t *testing.T) {
	sample := func(from, step, n int) (times []time.Duration) {
		for i := range n {
			times = append(times, time.Duration(from+step*(i%10)))
		}
		return times
	}
	withOutlier := append(sample(100, 1, 99), time.Hour)
	for name, tc := range map[string]struct {
		a, b []time.Duration
		want float64
	}{
		"the same":                         {sample(100, 1, 100), sample(100, 1, 100), 0},
		"an interrupt":                     {withOutlier, sample(100, 1, 100), 0},
		"slower":                           {sample(101, 1, 100), sample(100, 1, 100), 2.58},
		"slower, detected by more samples": {sample(101, 1, 1000), sample(100, 1, 1000), 8.21},
		"faster":                           {sample(100, 1, 1000), sample(101, 1, 1000), -8.21},
		"slower, with more variance":       {sample(101, 100, 100), sample(100, 100, 100), 0.03},
	} {
		if got := T(tc.a, tc.b); math.Abs(got-tc.want) > 0.05 {
			t.Errorf("%s: %.2f, want %.2f", name, got, tc.want)
		}
	}
}
