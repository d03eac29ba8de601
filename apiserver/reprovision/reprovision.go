// Package reprovision applies changes of domains and group roles to the users of directories: users that waited become
// members after the organization got the domain of their address, and members get the roles by changed group roles.
// Identity providers send only their own changes, so they do not send these users again. Every server runs it.
package reprovision

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/apiserver/scim"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/provisioning"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// passEvery is the mean interval of passes.
	passEvery = 30 * time.Second
	// listed is how many directories one query lists, and batch how many users.
	listed, batch = 500, 100
)

// Shares bound what a pass does. Time counts because the changes of an identity provider lock its directory, too.
type Shares struct {
	// Deployment is the share of a deployment in a pass, and Directory that of a task of one directory.
	Deployment, Directory Share
}

// Share is a number of users, and a time.
type Share struct {
	Users int
	Time  time.Duration
}

// DefaultShares returns the shares of a server.
func DefaultShares() Shares {
	return Shares{Deployment: Share{1000, 10 * time.Second}, Directory: Share{500, 5 * time.Second}}
}

// Options configures a Worker.
type Options struct {
	Store     people.Store
	Snapshots *snapshot.Follower
	Keyring   *seal.Keyring
	// OnEnqueue is called after mails were put into the outbox.
	OnEnqueue func()
	// Shares are DefaultShares if they are zero.
	Shares Shares
	Clock  func() time.Time
	Log    logr.Logger
}

// Worker provisions users of directories again. It is used by one goroutine.
type Worker struct {
	Options
	// begun are the directories of which a pass left users.
	begun map[work]progress
}

// work is a task of a directory.
type work struct {
	*task
	deployment string
	id         int64
}

// progress is up to which user a task of a directory was done after a change.
type progress struct {
	key   string
	after int64
	// last is the last user that next read, 0 for none.
	last int64
}

// New returns a Worker.
func New(opts Options) *Worker {
	opts.Shares = cmp.Or(opts.Shares, DefaultShares())
	return &Worker{Options: opts, begun: map[work]progress{}}
}

// Run provisions users again until ctx ends.
func (w *Worker) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-w.Snapshots.Loaded():
	}
	for {
		timer := time.NewTimer(passEvery/2 + mathrand.N(passEvery))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		if err := w.Pass(ctx); err != nil && ctx.Err() == nil {
			w.Log.Error(err, "Changed domains and group roles were not applied to users of directories; trying again later")
		}
	}
}

// Pass does what is due of every directory, within the share of its deployment. An error about one directory does not
// end it. The directories are in random order, so that those of one organization do not keep others waiting.
func (w *Worker) Pass(ctx context.Context) error {
	due, failed := w.due(ctx)
	mathrand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	left := map[string]*Share{}
	for _, on := range due {
		of, known := left[on.deployment]
		if !known {
			share := w.Shares.Deployment
			of = &share
			left[on.deployment] = of
		}
		if of.Users > 0 && of.Time > 0 && ctx.Err() == nil {
			failed = errors.Join(failed, w.visit(ctx, on, of))
		}
	}
	return failed
}

// due lists the tasks that directories may need, and forgets the progress of others.
func (w *Worker) due(ctx context.Context) (due []work, err error) {
	begun := map[work]progress{}
	for after := (people.DirectoryRef{}); ; {
		all, err := w.Store.ListDirectories(ctx, after, listed)
		if err != nil {
			return nil, err
		}
		for _, ref := range all {
			t, served := w.tenant(ref.Deployment)
			if !served || ref.Deleted || !ref.EndedAt.IsZero() {
				continue
			}
			for _, one := range tasks {
				on := work{one, ref.Deployment, ref.ID}
				if !one.due(t, ref) {
					continue
				}
				due = append(due, on)
				if p, has := w.begun[on]; has {
					begun[on] = p
				}
			}
		}
		if len(all) < listed {
			w.begun = begun
			return due, nil
		}
		after = all[len(all)-1]
	}
}

// tenant returns a deployment with the present configuration, and reports whether it is served.
func (w *Worker) tenant(deployment string) (*account.Tenant, bool) {
	current := w.Snapshots.Current()
	entry, served := current.Deployment(deployment)
	if !served {
		return nil, false
	}
	return account.NewTenant(current, entry), true
}

// visit does a task of a directory within the share that its deployment has left.
func (w *Worker) visit(ctx context.Context, on work, left *Share) error {
	t, served := w.tenant(on.deployment)
	if !served {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, min(w.Shares.Directory.Time, left.Time))
	defer cancel()
	begun := time.Now()
	n, err := w.do(within, t, on, min(left.Users, w.Shares.Directory.Users))
	left.Users, left.Time = left.Users-n, left.Time-time.Since(begun)
	if within.Err() != nil && ctx.Err() == nil {
		return nil // the next pass continues
	}
	return err
}

// do does a task for up to limit users of a directory, and returns for how many. A batch of users that need nothing
// counts as one.
func (w *Worker) do(ctx context.Context, t *account.Tenant, on work, limit int) (looked int, err error) {
	for looked < limit && ctx.Err() == nil {
		p, users, err := w.next(ctx, t, on, min(batch, limit-looked))
		if err != nil {
			return looked, err
		}
		if p.key == "" {
			delete(w.begun, on)
			return looked, nil
		}
		for len(users) > 0 {
			these := users[:min(on.atOnce, len(users))]
			if usable, err := w.apply(ctx, t, on, these); err != nil || !usable {
				return looked, err
			}
			users, looked, p.after = users[len(these):], looked+len(these), these[len(these)-1]
			w.begun[on] = p
		}
		if p.last > 0 {
			p.after, looked = p.last, looked+1
			w.begun[on] = p
			continue
		}
		done, err := w.record(ctx, t, on, p)
		if done {
			delete(w.begun, on)
		}
		if err != nil || done {
			return looked, err
		}
	}
	return looked, ctx.Err()
}

// next returns the next users of a directory, with up to which user the task is done. The progress has no key if there
// is nothing to do. After another change, it begins at the first user.
func (w *Worker) next(ctx context.Context, t *account.Tenant, on work, limit int) (p progress, users []int64, err error) {
	err = w.request(t).View(ctx, func(u *account.Unit) error {
		p, users = progress{}, nil
		d, err := account.FindDirectory(u, on.id)
		if err != nil {
			return unlessUnusable(err)
		}
		state, _, err := u.Directories().Directory(on.id)
		if err != nil {
			return err
		}
		key, err := on.key(u, d, state)
		if err != nil || key == "" {
			return err
		}
		if p = w.begun[on]; p.key != key {
			p = progress{key: key}
		}
		p.last = 0
		filter := on.filter
		filter.After = p.after
		rows, err := u.SCIM().FindSCIMUsers(on.id, filter, 0, limit)
		if err != nil || len(rows) == 0 {
			return err
		}
		p.last = rows[len(rows)-1].ID
		for _, row := range rows {
			needed, err := on.needs(u, d, row)
			if err != nil {
				return err
			}
			if needed {
				users = append(users, row.ID)
			}
		}
		return nil
	})
	return p, users, err
}

// apply applies a task to users in one transaction. It reports false if the directory cannot be used now. Users that
// are refused, such as one whose account another user of the organization's directories has, stay as they are.
func (w *Worker) apply(ctx context.Context, t *account.Tenant, on work, users []int64) (usable bool, err error) {
	err = w.request(t).Change(ctx, func(u *account.Unit) error {
		c, err := provisioning.Begin(u, on.id)
		if err != nil {
			return err
		}
		u.Actor = c.Directory.Actor()
		return on.apply(c, users)
	})
	if err == nil || errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
		return true, err
	}
	if unlessUnusable(err) == nil {
		return false, nil
	}
	log := w.Log.WithValues("deployment", on.deployment, "directory", on.id, "user", users[0])
	if refused := (*scim.Error)(nil); errors.As(err, &refused) {
		log.V(1).Info("A user of a directory was not provisioned again", "reason", err.Error())
		return true, nil
	}
	log.Error(err, "Users of a directory were not provisioned again")
	return true, nil
}

// record records that a task of a directory is done. It reports false if there are users that the worker did
// not process: they may have been added meanwhile.
func (w *Worker) record(ctx context.Context, t *account.Tenant, on work, p progress) (done bool, err error) {
	err = w.request(t).Change(ctx, func(u *account.Unit) error {
		state, err := u.Directories().LockDirectory(on.id)
		if err != nil {
			return err
		}
		d, err := account.FindDirectory(u, on.id)
		if err != nil {
			done = true
			return unlessUnusable(err)
		}
		key, err := on.key(u, d, state)
		filter := on.filter
		filter.After = p.after
		more, failed := u.SCIM().FindSCIMUsers(on.id, filter, 0, 1)
		if err = errors.Join(err, failed); err != nil || len(more) > 0 || key != p.key {
			done = false
			return err
		}
		done = true
		on.task.record(&state, d, key)
		return u.Directories().UpdateDirectory(state)
	})
	return done, err
}

func (w *Worker) request(t *account.Tenant) *account.Request {
	return &account.Request{
		Tenant: t, Store: w.Store, Keyring: w.Keyring, Random: rand.Reader, Now: w.Clock().UTC().Truncate(time.Microsecond), OnEnqueue: w.OnEnqueue,
	}
}

// unlessUnusable returns nil for an error that says that a directory cannot be used now.
func unlessUnusable(err error) error {
	for _, one := range []error{account.ErrDirectoryUnknown, account.ErrDirectoryInactive, account.ErrOrganizationsDisabled, account.ErrNoOrganization} {
		if errors.Is(err, one) {
			return nil
		}
	}
	return err
}
