// Package waitingusers gives users of directories an account and a membership soon after the organization got the
// domain of their address: an identity provider sends only what changes, so it does not send them again. Every server
// runs it.
package waitingusers

import (
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
	// listed is how many directories one query lists, and batch how many waiting users.
	listed, batch = 500, 100
	// usersOfPass bounds the users of a deployment that one pass looks at.
	usersOfPass = 1000
)

// Options configures a Worker.
type Options struct {
	Store     people.Store
	Snapshots *snapshot.Follower
	Keyring   *seal.Keyring
	// OnEnqueue is called after mails were put into the outbox.
	OnEnqueue func()
	Clock     func() time.Time
	Log       logr.Logger
}

// Worker settles directories with waiting users. It is used by one goroutine.
type Worker struct {
	Options
	// begun are the directories of which a pass left users.
	begun map[directory]progress
}

type directory struct {
	deployment string
	id         int64
}

// progress is up to which user a directory was settled for some domains of its organization.
type progress struct {
	domains string
	after   int64
}

// New returns a Worker.
func New(opts Options) *Worker { return &Worker{Options: opts, begun: map[directory]progress{}} }

// Run settles directories until ctx ends.
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
			w.Log.Error(err, "Users of directories that waited for a domain were not added; trying again later")
		}
	}
}

// Pass settles every directory with waiting users whose organization has other domains than when it was settled last,
// within the bound of its deployment. An error about one directory does not end it.
func (w *Worker) Pass(ctx context.Context) (failed error) {
	current := w.Snapshots.Current()
	left := map[string]int{}
	for after := (people.DirectoryRef{}); ; {
		all, err := w.Store.ListDirectories(ctx, after, listed)
		if err != nil {
			return errors.Join(failed, err)
		}
		for _, ref := range all {
			entry, served := current.Deployment(ref.Deployment)
			if !served || !ref.Waiting || ref.Deleted || !ref.EndedAt.IsZero() {
				delete(w.begun, directory{ref.Deployment, ref.ID})
				continue
			}
			if _, known := left[ref.Deployment]; !known {
				left[ref.Deployment] = usersOfPass
			}
			n, err := w.settle(ctx, account.NewTenant(current, entry), ref, left[ref.Deployment])
			left[ref.Deployment] -= n
			failed = errors.Join(failed, err)
		}
		if len(all) < listed || ctx.Err() != nil {
			return failed
		}
		after = all[len(all)-1]
	}
}

// settle looks at up to limit waiting users of a directory, and returns at how many it looked.
func (w *Worker) settle(ctx context.Context, t *account.Tenant, ref people.DirectoryRef, limit int) (looked int, err error) {
	key := directory{ref.Deployment, ref.ID}
	for looked < limit && ctx.Err() == nil {
		p, users, err := w.next(ctx, t, ref.ID, w.begun[key], min(batch, limit-looked))
		if err != nil || p.domains == "" {
			delete(w.begun, key)
			return looked, err
		}
		looked += len(users)
		for _, user := range users {
			if err := w.add(ctx, t, ref.ID, user); err != nil {
				return looked, err
			}
			p.after = user
		}
		w.begun[key] = p
		if len(users) > 0 {
			continue
		}
		done, err := w.record(ctx, t, ref.ID, p)
		if err != nil || done {
			delete(w.begun, key)
			return looked, err
		}
	}
	return looked, ctx.Err()
}

// next returns the next waiting users of a directory, with up to which user it is settled. The progress has no domains
// if there is nothing to settle. With other domains, it begins at the first user.
func (w *Worker) next(ctx context.Context, t *account.Tenant, id int64, now progress, limit int) (p progress, users []int64, err error) {
	err = w.request(t).View(ctx, func(u *account.Unit) error {
		p, users = now, nil
		d, err := account.FindDirectory(u, id)
		if err != nil {
			p = progress{}
			return unlessUnusable(err)
		}
		domains, err := account.DomainsKey(u, d.Of)
		if err != nil {
			return err
		}
		if p.domains != domains {
			p = progress{domains: domains}
		}
		state, _, err := u.Directories().Directory(id)
		if err != nil || state.Settled == domains {
			p = progress{}
			return err
		}
		rows, err := u.SCIM().FindSCIMUsers(id, people.SCIMFilter{Waiting: true, After: p.after}, 0, limit)
		for _, row := range rows {
			users = append(users, row.ID)
		}
		return err
	})
	return p, users, err
}

// add gives a waiting user an account, if the address is in a domain of the organization. A user that is refused, such
// as one whose account another user of the organization's directories has, stays waiting.
func (w *Worker) add(ctx context.Context, t *account.Tenant, id, user int64) error {
	err := w.request(t).Change(ctx, func(u *account.Unit) error {
		c, err := provisioning.Begin(u, id)
		if err != nil {
			return err
		}
		u.Actor = c.Directory.Actor()
		return c.Settle(user)
	})
	if err == nil || errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	if refused := (*scim.Error)(nil); errors.As(err, &refused) || unlessUnusable(err) == nil {
		w.Log.V(1).Info("A user of a directory stays waiting", "deployment", t.Key(), "directory", id, "user", user, "reason", err.Error())
		return nil
	}
	w.Log.Error(err, "A user of a directory that waited for a domain was not added", "deployment", t.Key(), "directory", id, "user", user)
	return nil
}

// record records that a directory is settled for some domains. It reports false if a user waits that the worker did not
// look at: it was added meanwhile.
func (w *Worker) record(ctx context.Context, t *account.Tenant, id int64, p progress) (done bool, err error) {
	err = w.request(t).Change(ctx, func(u *account.Unit) error {
		state, err := u.Directories().LockDirectory(id)
		if err != nil {
			return err
		}
		more, err := u.SCIM().FindSCIMUsers(id, people.SCIMFilter{Waiting: true, After: p.after}, 0, 1)
		if done = err == nil && len(more) == 0; !done {
			return err
		}
		state.Settled = p.domains
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
