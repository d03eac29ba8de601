// Package endeddirectories deletes the users, groups and suspended memberships of directories that were deleted. Those
// of a Directory resource are kept for people.DirectoryKeptFor: until then, a Directory with the same namespace and
// name has them again. Every server runs it.
package endeddirectories

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// listed is how many directories one query lists.
	listed = 500
	// batch bounds the rows that one transaction deletes, and batchesOfPass the transactions of a pass for one
	// directory.
	batch, batchesOfPass = 500, 20
)

// Options configures a Worker.
type Options struct {
	Store     people.Store
	Snapshots *snapshot.Follower
	Clock     func() time.Time
	Log       logr.Logger
}

// Worker clears deleted directories. It is used by one goroutine.
type Worker struct{ Options }

// New returns a Worker.
func New(opts Options) *Worker { return &Worker{opts} }

// Pass visits every directory that has a state. It records the end of one that is no longer declared, forgets that of
// one that is declared again, and clears one that ended long enough ago, or that an organization or a backend deleted.
// It continues with the next pass where a directory has too many rows. An error about one directory does not end it. A
// deployment that is not declared is left out: its rows are erased or retained as a whole.
func (w *Worker) Pass(ctx context.Context) (failed error) {
	current := w.Snapshots.Current()
	for after := (people.DirectoryRef{}); ; {
		all, err := w.Store.ListDirectories(ctx, after, listed)
		if err != nil {
			return errors.Join(failed, err)
		}
		for _, ref := range all {
			if _, served := current.Deployment(ref.Deployment); !served {
				continue
			}
			failed = errors.Join(failed, w.visit(ctx, ref, ref.Runtime || current.Declares(v1alpha1.KindDirectory, ref.Deployment, ref.ID)))
		}
		if len(all) < listed || ctx.Err() != nil {
			return failed
		}
		after = all[len(all)-1]
	}
}

func (w *Worker) visit(ctx context.Context, ref people.DirectoryRef, exists bool) error {
	ended := w.Clock().UTC().Truncate(time.Microsecond)
	switch {
	case ref.Deleted:
		return w.clear(ctx, ref)
	case exists == ref.EndedAt.IsZero():
		if exists || ended.Sub(ref.EndedAt) < people.DirectoryKeptFor {
			return nil
		}
		return w.clear(ctx, ref)
	case exists:
		ended = time.Time{}
	}
	return w.Store.Change(ctx, ref.Deployment, func(tx people.Tx) error {
		d, err := tx.Directories().LockDirectory(ref.ID)
		if err != nil {
			return err
		}
		d.EndedAt = ended
		return tx.Directories().UpdateDirectory(d)
	})
}

// clear deletes the rows of a directory in batches.
func (w *Worker) clear(ctx context.Context, ref people.DirectoryRef) error {
	for range batchesOfPass {
		err := w.Store.Change(ctx, ref.Deployment, func(tx people.Tx) (err error) {
			if _, err := tx.Directories().LockDirectory(ref.ID); err != nil {
				return err
			}
			_, err = tx.Directories().ClearDirectory(ref.ID, batch)
			return err
		})
		if err != nil {
			return err
		}
		if _, left, err := w.state(ctx, ref); err != nil || !left {
			return err
		}
	}
	w.Log.V(1).Info("A deleted directory has more rows", "deployment", ref.Deployment, "directory", ref.ID)
	return nil
}

func (w *Worker) state(ctx context.Context, ref people.DirectoryRef) (d people.Directory, found bool, err error) {
	err = w.Store.View(ctx, ref.Deployment, func(tx people.Tx) (err error) {
		d, found, err = tx.Directories().Directory(ref.ID)
		return err
	})
	return d, found, err
}
