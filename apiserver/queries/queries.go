// Package queries bounds the time that a server spends on the analytics of each deployment, so that endless queries of
// one deployment do not slow the sign-ins of others.
package queries

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/internal/pause"
	"github.com/cardea-iam/cardea/internal/shares"
	"github.com/cardea-iam/cardea/internal/turns"
)

const (
	// share is the time that the queries of a deployment take in the long run, in milliseconds a second, and burst the
	// milliseconds that they may take at once after a pause.
	share, burst = 200, 1_500
	// patience is how long a query waits for its turn. It is longer than burst takes to come back, so that a client that
	// sends one query after another is slowed and not refused, unless a query took longer than burst.
	patience = 8 * time.Second
)

// Busy is the error of a query that got no turn. Wait is how long the deployment should wait before the next one.
type Busy struct{ Wait time.Duration }

// Error implements error.
func (b *Busy) Error() string {
	return fmt.Sprintf("the analytics queries of the deployment used up their time: wait %v", b.Wait.Round(time.Second))
}

// Queries admits queries: one of a deployment at a time, concurrently at most half as many as there are processors, and
// at least one. Deployments take turns. It is safe for concurrent use.
type Queries struct {
	own       turns.Turns
	all       *egress.Slots
	spent     *shares.Budget
	exhausted atomic.Uint64
}

// New returns Queries without queries.
func New() *Queries {
	atOnce := max(1, runtime.GOMAXPROCS(0)/2)
	return &Queries{all: egress.NewSlots(egress.Bounds{AtOnce: atOnce}, time.Now), spent: shares.NewBudget(share, burst)}
}

// Exhausted returns how many queries got no turn.
func (q *Queries) Exhausted() uint64 { return q.exhausted.Load() }

// Run waits for the turn of a deployment, and runs a query. Errors: *Busy if there was no turn in time; ctx's error if
// it ended before; those of the query.
func (q *Queries) Run(ctx context.Context, deployment string, query func() error) error {
	done, err := q.begin(ctx, deployment)
	if err != nil {
		return err
	}
	began := time.Now()
	defer func() {
		now := time.Now()
		q.spent.Spend(deployment, int(now.Sub(began).Milliseconds()), now)
		done()
	}()
	return query()
}

// begin waits for a turn at most for patience. The caller ends the turn with done.
func (q *Queries) begin(ctx context.Context, deployment string) (done func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	done, err = q.turn(waiting, deployment)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		q.exhausted.Add(1)
		err = &Busy{Wait: max(q.spent.Delay(deployment, time.Now()), time.Second)}
	}
	return done, err
}

// turn waits until no other query of the deployment runs, its time is enough, and a slot is free.
func (q *Queries) turn(ctx context.Context, deployment string) (done func(), err error) {
	own, err := q.own.Take(ctx, deployment)
	if err != nil {
		return nil, err
	}
	delay := q.spent.Delay(deployment, time.Now())
	if by, limited := ctx.Deadline(); limited && time.Until(by) < delay {
		own()
		return nil, context.DeadlineExceeded
	}
	if delay > 0 {
		err = pause.For(ctx, delay)
	}
	slot := func() {}
	if err == nil {
		slot, err = q.all.Begin(ctx, egress.Asker{Deployment: deployment})
	}
	if err != nil {
		own()
		return nil, err
	}
	return func() { slot(); own() }, nil
}
