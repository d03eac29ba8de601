// Package welch tests whether two operations take different times, with Welch's t-test.
package welch

import (
	"math"
	"slices"
	"time"
)

// Limit is the value of t beyond which noise alone is an unlikely cause. It is customary in tests for timing leaks.
// With enough samples, every difference exceeds it, however small the difference is.
const Limit = 4.5

// T returns Welch's t of two samples of at least three durations each. It uses the fastest nine tenths of each sample,
// because interrupts and garbage collections cause the slowest.
func T(a, b []time.Duration) float64 {
	meanA, errorA := moments(fastest(a))
	meanB, errorB := moments(fastest(b))
	return (meanA - meanB) / math.Sqrt(errorA+errorB)
}

func fastest(sample []time.Duration) []time.Duration {
	sorted := slices.Sorted(slices.Values(sample))
	return sorted[:len(sorted)*9/10]
}

// moments returns the mean of a sample and the square of the mean's standard error.
func moments(sample []time.Duration) (mean, squaredError float64) {
	n := float64(len(sample))
	for _, d := range sample {
		mean += float64(d) / n
	}
	for _, d := range sample {
		squaredError += (float64(d) - mean) * (float64(d) - mean) / (n - 1) / n
	}
	return mean, squaredError
}
