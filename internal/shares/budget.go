package shares

import (
	"time"

	"golang.org/x/time/rate"
)

const (
	// budgetBytes bounds the memory of a Budget, and budgetSize is what a deployment takes of it.
	budgetBytes, budgetSize = 1 << 20, 256
)

// Budget bounds what each deployment uses over time, in any unit. A deployment that uses nothing saves up to the burst.
// It is safe for concurrent use. At about 4,000 deployments, the budget of one that used nothing for longest is full
// again.
type Budget struct {
	rate  rate.Limit
	burst int
	of    *Cache[string, *rate.Limiter]
}

// NewBudget returns a Budget of a number of units a second for each deployment, and of burst units at once.
func NewBudget(perSecond float64, burst int) *Budget {
	return &Budget{rate: rate.Limit(perSecond), burst: burst, of: NewCache[string, *rate.Limiter](Bounds{Bytes: budgetBytes})}
}

// Take takes n of what a deployment may use, and reports whether there was so much.
func (b *Budget) Take(deployment string, n int, now time.Time) bool {
	return b.limiter(deployment, now).AllowN(now, n)
}

// Spend takes n of what a deployment may use, and of what it saves in the future if there is less.
func (b *Budget) Spend(deployment string, n int, now time.Time) {
	for limiter := b.limiter(deployment, now); n > 0; n -= b.burst {
		limiter.ReserveN(now, min(n, b.burst))
	}
}

// Delay returns how long it takes until a deployment may use something again; 0 if it may now.
func (b *Budget) Delay(deployment string, now time.Time) time.Duration {
	missing := 1 - b.limiter(deployment, now).TokensAt(now)
	return time.Duration(max(missing, 0) / float64(b.rate) * float64(time.Second))
}

// limiter returns the limiter of a deployment. Two first uses at the same time may both be of a full budget.
func (b *Budget) limiter(deployment string, now time.Time) *rate.Limiter {
	limiter, found := b.of.Get(deployment, now)
	if !found {
		limiter = rate.NewLimiter(b.rate, b.burst)
		b.of.Put(deployment, deployment, limiter, budgetSize, now)
	}
	return limiter
}
