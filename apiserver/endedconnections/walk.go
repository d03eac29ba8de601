package endedconnections

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/store/people"
)

// walk visits the next connections that have sign-ins, identities or a recorded end. It finds those that were deleted
// while no server ran, and those whose identities were kept long enough. An error in one deployment does not end it.
func (w *Worker) walk(ctx context.Context) (failed error) {
	w.spent = map[string]int{}
	for range connectionsOfWalk {
		next, found, err := w.Store.NextUpstreamConnection(ctx, w.after)
		if err != nil {
			return errors.Join(failed, err)
		}
		if !found {
			w.after = people.UpstreamConnection{}
			return failed
		}
		w.after = next
		if _, served := w.Snapshots.Current().Deployment(next.Deployment); !served {
			w.after.ID = math.MaxInt64 // the next one is of another deployment
			continue
		}
		if err := w.visit(ctx, next); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			failed, w.after.ID = errors.Join(failed, err), math.MaxInt64
		}
	}
	return failed
}

// step is what is due for a connection.
type step int

const (
	nothing step = iota
	// forget: the connection is declared again, or is a row.
	forget
	// record: it is not declared, and no end is recorded.
	record
	// endSignIns and endAll: it ended long enough ago.
	endSignIns
	endAll
)

// due returns what is due for a connection.
func due(c people.UpstreamConnection, declared bool, now time.Time) step {
	ended := now.Sub(c.EndedAt)
	switch {
	case (declared || c.Runtime) && c.EndedAt.IsZero():
		return nothing
	case declared || c.Runtime:
		return forget
	case c.EndedAt.IsZero():
		return record
	case ended >= people.IdentitiesKeptFor:
		return endAll
	case ended >= settledAfter:
		return endSignIns
	}
	return nothing
}

// visit does what is due for a connection.
func (w *Worker) visit(ctx context.Context, c people.UpstreamConnection) error {
	of := target{c.Deployment, c.ID}
	switch due(c, w.declares(of), w.Clock()) {
	case forget:
		return w.change(ctx, of, func(u *account.Unit) error { return u.Connections().ForgetConnectionEnd(of.id) })
	case record:
		return w.change(ctx, of, func(u *account.Unit) error {
			if _, found, err := u.Connections().LockConnectionEnd(of.id); err != nil || found {
				return err
			}
			return u.Connections().RecordConnectionEnd(of.id, u.Now)
		})
	case endSignIns:
		return w.inBatches(ctx, of, func() (bool, error) { return w.endSignIns(ctx, of, strconv.FormatInt(of.id, 10), true) })
	case endAll:
		if err := w.inBatches(ctx, of, func() (bool, error) { return w.endSignIns(ctx, of, strconv.FormatInt(of.id, 10), true) }); err != nil {
			return err
		}
		return w.inBatches(ctx, of, func() (bool, error) { return w.deleteIdentities(ctx, of) })
	}
	return nil
}

// inBatches works until everything is done or the deployment's share of the walk is used up.
func (w *Worker) inBatches(ctx context.Context, of target, work func() (done bool, err error)) error {
	for w.spent[of.deployment] < batchesOfWalk {
		w.spent[of.deployment]++
		if done, err := work(); err != nil || done || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

func (w *Worker) declares(of target) bool {
	return w.Snapshots.Current().Declares(v1alpha1.KindConnection, of.deployment, of.id)
}

// change runs do in a transaction of a deployment, unless it is no longer served.
func (w *Worker) change(ctx context.Context, of target, do func(*account.Unit) error) error {
	current := w.Snapshots.Current()
	entry, found := current.Deployment(of.deployment)
	if !found {
		return nil
	}
	request := &account.Request{
		Tenant: account.NewTenant(current, entry), Store: w.Store, Keyring: w.Keyring, Random: rand.Reader,
		Now: w.Clock().UTC().Truncate(time.Microsecond), Actor: "system",
	}
	return request.Change(ctx, do)
}

// endSignIns ends a batch of the sign-ins by a deleted connection, and reports whether there are no more. name is the
// connection's slug, or its id if the slug is unknown. With recorded, the end must have been recorded settledAfter ago;
// otherwise it is recorded now.
func (w *Worker) endSignIns(ctx context.Context, of target, name string, recorded bool) (done bool, err error) {
	err = w.change(ctx, of, func(u *account.Unit) error {
		done = true
		at, found, err := u.Connections().LockConnectionEnd(of.id)
		if err != nil || w.declares(of) || recorded && (!found || u.Now.Sub(at) < settledAfter) {
			return err
		}
		if _, runtime, err := u.Connections().Connection(of.id); err != nil || runtime {
			return err
		}
		if !recorded {
			if err := u.Connections().RecordConnectionEnd(of.id, u.Now); err != nil {
				return err
			}
		}
		ended, err := u.Sessions().EndSignInsBy(people.UpstreamFilter{Connection: of.id}, batch)
		if err != nil {
			return err
		}
		account.LogEnds(u, ended, "connection:"+name, events.ByConnection)
		for _, g := range ended {
			if err := u.AuditAs("connection:"+name, "session.ended_upstream", "signin:"+strconv.FormatInt(g.ID, 10), g.Session); err != nil {
				return err
			}
		}
		if done = len(ended) < batch; !done {
			return nil
		}
		return forgetIfEmpty(u, of.id)
	})
	return done && err == nil, err
}

// deleteIdentities deletes a batch of the identities of a connection whose end is people.IdentitiesKeptFor ago, and
// reports whether there are no more.
func (w *Worker) deleteIdentities(ctx context.Context, of target) (done bool, err error) {
	deleted := int64(0)
	err = w.change(ctx, of, func(u *account.Unit) error {
		done, deleted = true, 0
		at, found, err := u.Connections().LockConnectionEnd(of.id)
		if err != nil || !found || u.Now.Sub(at) < people.IdentitiesKeptFor || w.declares(of) {
			return err
		}
		if _, runtime, err := u.Connections().Connection(of.id); err != nil || runtime {
			return err
		}
		if deleted, err = u.Identities().DeleteIdentitiesOf(of.id, batch); err != nil {
			return err
		}
		if done = deleted < batch; !done {
			return nil
		}
		return forgetIfEmpty(u, of.id)
	})
	if err == nil && deleted > 0 {
		w.Log.Info("Deleted identities of a connection that was deleted", "deployment", of.deployment, "connection", of.id, "identities", deleted)
	}
	return done && err == nil, err
}

// forgetIfEmpty forgets the end of a connection without identities.
func forgetIfEmpty(u *account.Unit, connection int64) error {
	left, err := u.Identities().ListIdentities(connection, 0, 1)
	if err != nil || len(left) > 0 {
		return err
	}
	return u.Connections().ForgetConnectionEnd(connection)
}
