package callrecord

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/cardea-iam/cardea/internal/shares"
)

const (
	// keptRate is how many bytes of bodies a server keeps of a deployment per second, 10 GiB a day, and keptBurst how many
	// at once.
	keptRate, keptBurst = 10 << 30 / (24 * 60 * 60), 512 << 20
	// refusedRate is how many records of refused calls a server stores of a deployment per second, and refusedCount how
	// many at once.
	refusedRate = 10
	// budgetBytes bounds the memory of a budget, and budgetSize is what a deployment takes of it.
	budgetBytes, budgetSize = 1 << 20, 256
)

// budget bounds what the records of a deployment add to the store over time. It is safe for concurrent use.
type budget struct {
	rate  rate.Limit
	burst int
	of    *shares.Cache[string, *rate.Limiter]
}

func newBudget(perSecond rate.Limit, burst int) *budget {
	return &budget{rate: perSecond, burst: burst, of: shares.NewCache[string, *rate.Limiter](shares.Bounds{Bytes: budgetBytes})}
}

// take takes n of what a deployment may add, and reports whether there was so much. Two first uses at the same time may
// both be of a full budget.
func (b *budget) take(deployment string, n int, now time.Time) bool {
	limiter, found := b.of.Get(deployment, now)
	if !found {
		limiter = rate.NewLimiter(b.rate, b.burst)
		b.of.Put(deployment, deployment, limiter, budgetSize, now)
	}
	return limiter.AllowN(now, n)
}
