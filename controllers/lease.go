package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// The times of the leader's lease. A replica takes over from a killed leader within leaseDuration and one retry, and
// from a leader that ended cleanly within one retry. A leader that cannot renew its lease for renewDeadline ends. The
// store fences off its late writes in any case, so the only risk of a short lease is a change of leaders.
const (
	leaseDuration = 7 * time.Second
	renewDeadline = 5 * time.Second
	retryPeriod   = time.Second
)

// ErrLeaseLost is returned by Run if another operator has the lease, or if this operator could not renew it. The
// process then exits and starts again as the standby.
var ErrLeaseLost = errors.New("the leader's lease was lost")

// renewedLock records when the lease was renewed last.
type renewedLock struct {
	*resourcelock.LeaseLock
	clock func() time.Time
	last  atomic.Int64 // nanoseconds since 1970, 0: never
}

// Create implements resourcelock.Interface.
func (l *renewedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.note(record, l.LeaseLock.Create(ctx, record))
}

// Update implements resourcelock.Interface.
func (l *renewedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.note(record, l.LeaseLock.Update(ctx, record))
}

func (l *renewedLock) note(record resourcelock.LeaderElectionRecord, err error) error {
	if err == nil && record.HolderIdentity == l.Identity() {
		l.last.Store(l.clock().UnixNano())
	}
	return err
}

// lost reports whether this operator had the lease and could not renew it in time.
func (l *renewedLock) lost() bool {
	last := l.last.Load()
	return last != 0 && l.clock().Sub(time.Unix(0, last)) >= renewDeadline
}

// lead turns on leader election, so that one of several managers leads.
func lead(opts *manager.Options, lock resourcelock.Interface) {
	opts.LeaderElection = true
	opts.LeaderElectionResourceLockInterface = lock
	opts.LeaderElectionReleaseOnCancel = true
	opts.LeaseDuration, opts.RenewDeadline, opts.RetryPeriod = ptr.To(leaseDuration), ptr.To(renewDeadline), ptr.To(retryPeriod)
}

// stillLeader asks the API server which replica holds the Lease. It uses a separate lock: a lock caches the lease that
// it read, and the elector writes the lease that its own lock has cached.
func stillLeader(lock *resourcelock.LeaseLock) func(context.Context) (bool, error) {
	if lock == nil {
		return func(context.Context) (bool, error) { return true, nil }
	}
	return func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		asking := &resourcelock.LeaseLock{LeaseMeta: lock.LeaseMeta, Client: lock.Client, LockConfig: lock.LockConfig}
		record, _, err := asking.Get(ctx)
		if err != nil {
			return false, fmt.Errorf("get the holder of the lease: %w", err)
		}
		return record.HolderIdentity == lock.Identity(), nil
	}
}
