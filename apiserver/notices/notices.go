// Package notices mails members of what their organization requires. The change of a requirement mails the first
// members; this package mails the others, so that a request does not write a mail for each of thousands. Every server
// runs it; concurrent servers mail no member twice.
package notices

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"time"

	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// mailsOfPass bounds the mails of a deployment that one pass puts into the outbox; the batch that reaches it is
	// completed. batchesOfPass bounds its batches, also those without a mail.
	mailsOfPass, batchesOfPass = 500, 50
	// pendingAtOnce is how many organizations with pending notices one statement reads.
	pendingAtOnce = 100
)

// Options configures a Worker.
type Options struct {
	Store     people.Store
	Snapshots *snapshot.Follower
	Keyring   *seal.Keyring
	Clock     func() time.Time
	// OnEnqueue is called after mails were put into the outbox.
	OnEnqueue func()
}

// Worker mails members who wait for notices. It is used by one goroutine.
type Worker struct{ Options }

// New returns a Worker.
func New(opts Options) *Worker { return &Worker{opts} }

// Pass mails the next members of every organization with pending notices, within the bounds of their deployment. An
// error in one deployment leaves its notices to the next pass, and does not end this one.
func (w *Worker) Pass(ctx context.Context) error {
	var after people.PendingNotice
	var failed error
	mails, batches := 0, 0 // in the deployment of after
	for {
		pending, err := w.Store.PendingNotices(ctx, after, pendingAtOnce)
		if err != nil || len(pending) == 0 {
			return errors.Join(failed, err)
		}
		for _, p := range pending {
			if p.Deployment != after.Deployment {
				mails, batches = 0, 0
			}
			sent, err := w.notify(ctx, p)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			mails, batches, after = mails+sent, batches+1, p
			if failed = errors.Join(failed, err); err != nil || mails >= mailsOfPass || batches >= batchesOfPass {
				after.Organization = math.MaxInt64 // the next page begins with the next deployment
				break
			}
		}
	}
}

// notify mails the next members of an organization. A deployment that is not in the snapshot keeps its notices: its
// rows are erased if it was deleted.
func (w *Worker) notify(ctx context.Context, pending people.PendingNotice) (sent int, err error) {
	current := w.Snapshots.Current()
	entry, found := current.Deployment(pending.Deployment)
	if !found {
		return 0, nil
	}
	request := &account.Request{
		Tenant: account.NewTenant(current, entry), Store: w.Store, Keyring: w.Keyring, Random: rand.Reader,
		Now: w.Clock().UTC().Truncate(time.Microsecond), Actor: "system", OnEnqueue: w.OnEnqueue,
	}
	err = request.Change(ctx, func(u *account.Unit) (err error) {
		sent, err = account.ContinueNotices(u, pending)
		return err
	})
	return sent, err
}
