// Package endedconnections ends what belongs to declared connections that were deleted: their sign-ins at once, and
// their identities after people.IdentitiesKeptFor, so that a Connection with the same namespace and name finds its
// users again. Every server runs it. Each step locks the record of a connection's end, so that servers take turns.
package endedconnections

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// followEvery is the interval at which changes of the configuration are followed.
	followEvery = 250 * time.Millisecond
	// walkEvery is the mean interval of walks over the connections with sign-ins or identities; firstWalkWithin bounds the
	// random delay of the first.
	walkEvery, firstWalkWithin = time.Minute, 10 * time.Second
	// connectionsOfWalk bounds the connections of one walk. The next walk continues after the last of them.
	connectionsOfWalk = 2000
	// batch bounds the sign-ins or identities that one transaction ends, and batchesOfWalk the transactions of a walk for
	// one deployment.
	batch, batchesOfWalk = 500, 10
	// settledAfter is how long a connection that a walk found without a declaration must have been so before anything of
	// it ends: the configuration of a server that walks may be older than the rows that it reads.
	settledAfter = time.Minute
	// retryAfter is when a deployment is tried again after a failure.
	retryAfter = 2 * time.Second
)

// Options configures a Worker.
type Options struct {
	Store     people.Store
	Snapshots *snapshot.Follower
	Keyring   *seal.Keyring
	Clock     func() time.Time
	Log       logr.Logger
}

// target is a declared connection.
type target struct {
	deployment string
	id         int64
}

// Worker ends what belongs to deleted connections. It is used by one goroutine.
type Worker struct {
	Options
	// followed is the newest snapshot that was compared, and declared has the slugs of its connections.
	followed *snapshot.Snapshot
	declared map[target]string
	// left are connections that were deleted while this server ran and whose sign-ins may not all have ended, and
	// retryAt is when a deployment that failed is tried again.
	left    map[target]string
	retryAt map[string]time.Time
	// after is where the next walk continues, and spent counts the transactions of the present one by deployment.
	after people.UpstreamConnection
	spent map[string]int
}

// New returns a Worker.
func New(opts Options) *Worker {
	return &Worker{Options: opts, declared: map[target]string{}, left: map[target]string{}, retryAt: map[string]time.Time{}}
}

// Run ends what belongs to deleted connections until ctx ends.
func (w *Worker) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-w.Snapshots.Loaded():
	}
	timer := time.NewTicker(followEvery)
	defer timer.Stop()
	walkAt := time.Now().Add(rand.N(firstWalkWithin))
	for {
		w.follow()
		for w.endLeft(ctx) && ctx.Err() == nil { // deletions in the meantime take their turn
			w.follow()
		}
		if time.Now().After(walkAt) {
			if err := w.walk(ctx); err != nil && ctx.Err() == nil {
				w.Log.Error(err, "Finding sign-ins and identities of deleted connections failed; trying again later")
			}
			walkAt = time.Now().Add(walkEvery/2 + rand.N(walkEvery))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
	}
}

// follow compares the current configuration with the one before. A deployment that was deleted as a whole is left out:
// its rows are erased.
func (w *Worker) follow() {
	current := w.Snapshots.Current()
	if current == w.followed {
		return
	}
	w.followed = current
	declared := map[target]string{}
	current.ListAll(v1alpha1.KindConnection, func(e *snapshot.Entry) bool {
		declared[target{e.Deployment, e.ID}] = e.Key
		return true
	})
	for of, slug := range w.declared {
		if !current.Declares(v1alpha1.KindConnection, of.deployment, of.id) {
			w.left[of] = slug
		}
	}
	for of := range w.left {
		_, served := current.Deployment(of.deployment)
		if !served || current.Declares(v1alpha1.KindConnection, of.deployment, of.id) {
			delete(w.left, of)
		}
	}
	if len(w.left) == 0 {
		clear(w.retryAt)
	}
	w.declared = declared
}

// endLeft ends a batch of sign-ins for each deployment with connections that were deleted while this server ran, and
// reports whether there are more.
func (w *Worker) endLeft(ctx context.Context) (more bool) {
	next := map[string]target{}
	for of := range w.left {
		if now, found := next[of.deployment]; !found || of.id < now.id {
			next[of.deployment] = of
		}
	}
	for _, deployment := range slices.Sorted(maps.Keys(next)) {
		if w.Clock().Before(w.retryAt[deployment]) || ctx.Err() != nil {
			continue
		}
		of := next[deployment]
		done, err := w.endSignIns(ctx, of, w.left[of], false)
		if err != nil {
			w.failed(ctx, of, err)
			continue
		}
		delete(w.retryAt, deployment)
		if done {
			delete(w.left, of)
		}
		more = true
	}
	return more && len(w.left) > 0
}

func (w *Worker) failed(ctx context.Context, of target, err error) {
	if ctx.Err() == nil {
		w.retryAt[of.deployment] = w.Clock().Add(retryAfter)
		w.Log.Error(err, "Sign-ins by a deleted connection were not ended; trying again", "deployment", of.deployment, "connection", of.id)
	}
}
