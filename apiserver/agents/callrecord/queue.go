package callrecord

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/shares"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// writeEvery is the interval of writes: the record of a call is stored within a second.
	writeEvery = 500 * time.Millisecond
	// writeBatch bounds the records of one transaction, and is how many wait until a write begins early.
	writeBatch = 500
	// writeWithin bounds one transaction.
	writeWithin = 5 * time.Second
	// failuresMost is how many transactions of a pass may fail: then the store is unavailable, and the pass ends.
	failuresMost = 2
	// waitingBytes bounds the records that wait, with an equal share for each deployment, and deploymentBytes those of
	// one deployment. They wait for long only while the store is unavailable.
	waitingBytes, deploymentBytes = 16 << 20, 4 << 20
	// refusedBytes bounds the records of refused calls, and refusedCount how many of them a deployment may have in one
	// interval: a refused call costs its caller nothing, so its record must not be dear.
	refusedBytes, refusedCount = 2 << 20, 256
	// recordBytes is about what a record takes without its sealed bodies.
	recordBytes = 800
)

// Store is where records are written.
type Store interface {
	Change(ctx context.Context, deployment string, do func(people.Tx) error) error
	Single(ctx context.Context, deployment string, do func(people.Tx) error) error
	Writers() int
}

// Options configures a Recorder.
type Options struct {
	Store Store
	// Keyring seals bodies and makes digests; it may be empty.
	Keyring *seal.Keyring
	// Served reports whether a deployment still has an agent and a tool. The series of others end.
	Served   func(deployment string, agent, tool int64) bool
	Log      logr.Logger
	Registry prometheus.Registerer
}

// Recorder records calls. It is safe for concurrent use.
type Recorder struct {
	Options
	digestKeys []seal.Subkey
	ids        *distinct
	counters   *counters
	seconds    prometheus.Histogram
	inFlight   prometheus.Gauge
	// duplicates counts records that were not stored because a call of another server has their id.
	duplicates atomic.Uint64

	group *group
	// kept bounds the sealed bodies of a deployment, in bytes, and rejected the records of its refused calls.
	kept, rejected *shares.Budget
	// notKept counts the bodies, and notRecorded the refused calls, that exceeded these bounds.
	notKept, notRecorded atomic.Uint64

	// wake holds a token while a write should begin early.
	wake    chan struct{}
	mu      sync.Mutex
	calls   *shares.Set[waitingKey, *waiting]
	refused *shares.Set[waitingKey, *waiting]
}

// waitingKey identifies a call among all deployments.
type waitingKey struct {
	deployment string
	id         int64
}

// waiting is a record that waits to be written.
type waiting struct {
	shares.Item[waitingKey]
	deployment string
	call       people.ToolCall
	// started reports that the call has a record, of which the result is to be written.
	started bool
	// tried reports that a write of it failed, which may have stored it.
	tried bool
}

func (w *waiting) size() int64 {
	return recordBytes + int64(len(w.call.Arguments)+len(w.call.Result))
}

// New returns a Recorder and registers its metrics.
func New(opts Options) *Recorder {
	r := &Recorder{
		Options: opts, digestKeys: opts.Keyring.Subkeys(digestPurpose), ids: newDistinct(rand.Reader), counters: newCounters(opts.Served), group: newGroup(opts.Store),
		kept: shares.NewBudget(keptRate, keptBurst), rejected: shares.NewBudget(refusedRate, refusedCount), wake: make(chan struct{}, 1),
		calls:   shares.New[waitingKey, *waiting](shares.Bounds{Bytes: waitingBytes, DeploymentBytes: deploymentBytes}),
		refused: shares.New[waitingKey, *waiting](shares.Bounds{Bytes: refusedBytes, DeploymentCount: refusedCount}),
	}
	r.register()
	return r
}

// add queues a record.
func (r *Recorder) add(w *waiting) {
	key := waitingKey{w.deployment, w.call.ID}
	r.mu.Lock()
	full := false
	if w.call.Decision == people.CallAllowed || w.started {
		r.calls.Put(key, w, w.deployment, w.size())
		full = r.calls.Len() >= writeBatch
	} else {
		r.refused.Put(key, w, w.deployment, w.size())
	}
	r.mu.Unlock()
	if full {
		select {
		case r.wake <- struct{}{}:
		default: // a write begins already
		}
	}
}

// Dropped returns how many records were dropped for lack of room.
func (r *Recorder) Dropped() uint64 {
	return r.evicted(r.calls) + r.evicted(r.refused) + r.notRecorded.Load()
}

// NotKept returns how many bodies were not kept because those of their deployment exceeded its budget.
func (r *Recorder) NotKept() uint64 { return r.notKept.Load() }

func (r *Recorder) evicted(from *shares.Set[waitingKey, *waiting]) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return from.Evicted()
}

// Waiting returns how many records wait.
func (r *Recorder) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls.Len() + r.refused.Len()
}

// take removes what waits, by deployment.
func (r *Recorder) take() map[string][]*waiting {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.calls.Drain()
	for deployment, refused := range r.refused.Drain() {
		all[deployment] = append(all[deployment], refused...)
	}
	return all
}

// Work writes what waits until ctx ends. Flush writes the rest.
func (r *Recorder) Work(ctx context.Context) error {
	ticker := time.NewTicker(writeEvery)
	defer ticker.Stop()
	failing := false
	for {
		early := r.wake
		if failing {
			early = nil // the next try is not before its time
		}
		select {
		case <-ctx.Done():
			return nil
		case <-early:
		case <-ticker.C:
		}
		err := r.Flush(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			r.Log.Error(err, "Records of calls of agents' tools were not written; trying again later")
		}
		failing = err != nil
	}
}

// Flush writes what waits now. Records that cannot be written wait again, as far as there is room.
func (r *Recorder) Flush(ctx context.Context) error {
	var failed error
	failures := 0
	for deployment, all := range r.take() { // in random order, so that no deployment is always the last
		for len(all) > 0 {
			part := all[:min(writeBatch, len(all))]
			if failures < failuresMost {
				err := r.write(ctx, deployment, part)
				if err == nil {
					all = all[len(part):]
					continue
				}
				failed = err
				failures++
			}
			for _, w := range all {
				r.add(w)
			}
			break
		}
	}
	return failed
}

// write writes records of a deployment in one transaction.
func (r *Recorder) write(ctx context.Context, deployment string, part []*waiting) error {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	var calls, results []people.ToolCall
	tried := false
	for _, w := range part {
		tried = tried || w.tried
		w.tried = true
		if w.started {
			results = append(results, w.call)
		} else {
			calls = append(calls, w.call)
		}
	}
	var stored int64
	err := errPartly
	for _, alone := range []bool{false, true} {
		if !errors.Is(err, errPartly) {
			break
		}
		err = r.Store.Change(ctx, deployment, func(tx people.Tx) (err error) {
			if stored, err = record(tx, calls, alone); err != nil {
				return err
			}
			return settleAll(tx, results, alone)
		})
	}
	if err == nil && !tried {
		r.duplicates.Add(uint64(int64(len(calls)) - stored))
	}
	return err
}
