package shares

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// sweepAt is at how many deployments a Budget drops those that have saved the whole burst, which need no memory.
const sweepAt = 4096

// Budget bounds what each deployment uses over time, in any unit. A deployment that uses nothing saves up to the burst.
// It holds some hundred bytes for each deployment that has less than the burst. It is safe for concurrent use.
type Budget struct {
	rate  rate.Limit
	burst int

	mu    sync.Mutex
	of    map[string]*rate.Limiter
	sweep int
}

// NewBudget returns a Budget of a number of units a second for each deployment, and of burst units at once. Both are
// positive.
func NewBudget(perSecond float64, burst int) *Budget {
	return &Budget{rate: rate.Limit(perSecond), burst: max(burst, 1), of: map[string]*rate.Limiter{}, sweep: sweepAt}
}

// Take takes n of what a deployment may use, and reports whether enough was left.
func (b *Budget) Take(deployment string, n int, now time.Time) bool {
	return b.limiter(deployment, now).AllowN(now, n)
}

// Spend takes n of what a deployment may use. If there is less, the deployment has to save the rest before its next
// use.
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

// limiter returns the limiter of a deployment.
func (b *Budget) limiter(deployment string, now time.Time) *rate.Limiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	limiter, found := b.of[deployment]
	if found {
		return limiter
	}
	if len(b.of) >= b.sweep {
		b.drop(now)
	}
	limiter = rate.NewLimiter(b.rate, b.burst)
	b.of[deployment] = limiter
	return limiter
}

// drop drops the deployments that have saved the whole burst: a new limiter is the same.
func (b *Budget) drop(now time.Time) {
	for deployment, limiter := range b.of {
		if limiter.TokensAt(now) >= float64(b.burst) {
			delete(b.of, deployment)
		}
	}
	b.sweep = max(sweepAt, 2*len(b.of))
}
