// Package queries bounds the time that a server spends on the analytics of each deployment, so that endless queries of
// one deployment do not slow the sign-ins of others.
package queries

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/internal/pause"
	"github.com/cardea-iam/cardea/internal/shares"
	"github.com/cardea-iam/cardea/internal/turns"
)

const (
	// share is the time that the queries of a deployment take in the long run, in microseconds a second, and burst the
	// microseconds that they may take at once after a pause. It is the time that passes, whatever a query waits for.
	share, burst = 200_000, 1_500_000
	// patience is how long a query waits for its deployment's turn and time. It is longer than burst takes to come back.
	// A client that sends one query after another is therefore slowed and not refused, unless a query took longer than
	// burst.
	patience = 8 * time.Second
	// presentMost is how many queries of a deployment run or wait.
	presentMost = 16
)

// Busy is the error of a query whose deployment has too many, or used up its time. Wait is how long the deployment
// should wait before the next one.
type Busy struct{ Wait time.Duration }

// Error implements error.
func (b *Busy) Error() string {
	return fmt.Sprintf("the analytics queries of the deployment used up their time: wait %v", b.Wait.Round(time.Second))
}

// Queries admits queries: one of a deployment at a time, and at most half as many concurrently as there are processors,
// at least two. Deployments take turns. It is safe for concurrent use.
type Queries struct {
	own       turns.Turns
	all       *egress.Slots
	spent     *shares.Budget
	exhausted atomic.Uint64

	mu sync.Mutex
	// present counts the queries of each deployment that run or wait.
	present map[string]int
}

// New returns Queries without queries.
func New() *Queries {
	atOnce := max(2, runtime.GOMAXPROCS(0)/2)
	return &Queries{all: egress.NewSlots(egress.Bounds{AtOnce: atOnce}, time.Now), spent: shares.NewBudget(share, burst), present: map[string]int{}}
}

// Exhausted returns how many queries were refused because their deployment had exhausted its share.
func (q *Queries) Exhausted() uint64 { return q.exhausted.Load() }

// Run waits for the turn of a deployment, and runs a query. Errors: *Busy if the deployment has too many queries, or
// used up its time; ctx's error if it ended before the query began; those of the query.
func (q *Queries) Run(ctx context.Context, deployment string, query func() error) error {
	if !q.enter(deployment) {
		return q.busy(deployment)
	}
	defer q.leave(deployment)
	own, err := q.turn(ctx, deployment)
	if err != nil {
		return err
	}
	defer own()
	// Other deployments' queries may run for as long as ctx permits.
	slot, err := q.all.Begin(ctx, egress.Asker{Deployment: deployment})
	if err != nil {
		return err
	}
	began := time.Now()
	defer func() {
		now := time.Now()
		q.spent.Spend(deployment, int(now.Sub(began).Microseconds())+1, now)
		slot()
	}()
	return query()
}

// enter counts a query, unless its deployment has presentMost.
func (q *Queries) enter(deployment string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.present[deployment] >= presentMost {
		return false
	}
	q.present[deployment]++
	return true
}

func (q *Queries) leave(deployment string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.present[deployment]--; q.present[deployment] == 0 {
		delete(q.present, deployment)
	}
}

// busy counts a refused query.
func (q *Queries) busy(deployment string) error {
	q.exhausted.Add(1)
	return &Busy{Wait: max(q.spent.Delay(deployment, time.Now()), time.Second)}
}

// turn waits, at most for patience, until no other query of the deployment runs and its time is enough. The caller ends
// the turn with done.
func (q *Queries) turn(ctx context.Context, deployment string) (done func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	done, err = q.own.Take(waiting, deployment)
	if err == nil {
		if err = q.save(waiting, deployment); err != nil {
			done()
		}
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = q.busy(deployment)
	}
	return done, err
}

// save waits until the deployment has time again. It does not wait if ctx ends before.
func (q *Queries) save(ctx context.Context, deployment string) error {
	delay := q.spent.Delay(deployment, time.Now())
	if by, limited := ctx.Deadline(); limited && time.Until(by) < delay {
		return context.DeadlineExceeded
	}
	if delay == 0 {
		return ctx.Err()
	}
	return pause.For(ctx, delay)
}
