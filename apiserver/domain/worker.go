package domain

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// pollEvery is the interval at which due domains are listed, and againAfter that after a failure of the store.
	pollEvery, againAfter = time.Second, 10 * time.Second
	// lookupsAtOnce and lookupsOfDeployment bound the lookups of a worker, in all and of one deployment. They are below
	// those of all lookups, so that a member's request finds a slot.
	lookupsAtOnce, lookupsOfDeployment = 32, 2
	// leasedFor is when a domain is due again whose lookup a server began and did not end.
	leasedFor = time.Minute
	// maxRound bounds the number of deployments that are passed over because they had their turn.
	maxRound = 200
)

// Options configures a Worker.
type Options struct {
	Store     people.Store
	Snapshots *snapshot.Follower
	Resolver  *Resolver
	// Keyring seals mails in the outbox.
	Keyring *seal.Keyring
	// OnEnqueue is called after mails were put into the outbox.
	OnEnqueue func()
	Clock     func() time.Time
	Log       logr.Logger
}

// Worker looks the records of domains up when they are due. Every server runs it: a claim in the store lets one of them
// look a domain up. It is used by one goroutine.
type Worker struct {
	Options
	running int
	// of counts the lookups in progress by deployment.
	of    map[string]int
	ended chan string
}

// NewWorker returns a Worker.
func NewWorker(opts Options) *Worker {
	return &Worker{Options: opts, of: map[string]int{}, ended: make(chan string, lookupsAtOnce)}
}

// Run looks domains up until ctx ends.
func (w *Worker) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-w.Snapshots.Loaded():
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			for w.running > 0 {
				w.end(<-w.ended)
			}
			return nil
		case deployment := <-w.ended:
			w.end(deployment)
		case <-timer.C:
			next := pollEvery
			if err := w.begin(ctx); err != nil && ctx.Err() == nil {
				w.Log.Error(err, "Listing domains to look up failed; trying again later")
				next = againAfter
			}
			timer.Reset(next)
		}
	}
}

func (w *Worker) end(deployment string) {
	w.running--
	if w.of[deployment]--; w.of[deployment] == 0 {
		delete(w.of, deployment)
	}
}

// begin begins lookups of due domains while there are slots. A deployment of the listed domains is passed over
// afterwards, so that deployments with many due domains do not keep those of others waiting.
func (w *Worker) begin(ctx context.Context) error {
	round := map[string]bool{}
	for deployment, n := range w.of {
		round[deployment] = n >= lookupsOfDeployment
	}
	maps.DeleteFunc(round, func(_ string, full bool) bool { return !full })
	for w.running < lookupsAtOnce && len(round) < maxRound {
		due, err := w.Store.DueDomains(ctx, w.Clock(), slices.Sorted(maps.Keys(round)), lookupsAtOnce-w.running)
		if err != nil || len(due) == 0 {
			return err
		}
		current := w.Snapshots.Current()
		for _, d := range due {
			round[d.Deployment] = true
			entry, served := current.Deployment(d.Deployment)
			if !served || w.of[d.Deployment] >= lookupsOfDeployment {
				continue // the rows of a deleted deployment are erased
			}
			w.running++
			w.of[d.Deployment]++
			tenant := account.NewTenant(current, entry)
			go func() {
				defer func() { w.ended <- d.Deployment }()
				if err := w.check(ctx, tenant, d); err != nil && ctx.Err() == nil {
					w.Log.Error(err, "Looking a domain up failed; trying again", "deployment", d.Deployment, "domain", d.ID)
				}
			}()
		}
	}
	return nil
}

// check claims a lookup, looks the domain up, and records the answer. No transaction is open during the lookup.
func (w *Worker) check(ctx context.Context, tenant *account.Tenant, due people.DueDomain) error {
	request := &account.Request{
		Tenant: tenant, Store: w.Store, Keyring: w.Keyring, Random: rand.Reader, Now: w.Clock().UTC().Truncate(time.Microsecond), Actor: "system", OnEnqueue: w.OnEnqueue,
	}
	var d people.Domain
	claimed := false
	err := request.Change(ctx, func(u *account.Unit) (err error) {
		if claimed, err = u.Domains().ClaimLookup(due.ID, due.Due, request.Now.Add(leasedFor)); err != nil || !claimed {
			return err
		}
		d, claimed, err = u.Domains().LockDomain(due.ID)
		return err
	})
	if err != nil || !claimed {
		return err
	}
	answer, err := w.Resolver.LookUp(ctx, egress.Asker{Deployment: due.Deployment}, d.Name)
	if err != nil {
		return nil // busy, or the server ends: the domain is due again when the claim ends
	}
	request.Now = answer.At
	var outcome Outcome
	err = request.Change(ctx, func(u *account.Unit) (err error) {
		_, outcome, err = Conclude(u, d, answer)
		return err
	})
	if err == nil {
		w.Resolver.Count(outcome)
	}
	if errors.Is(err, ErrUnknown) { // removed meanwhile
		return nil
	}
	return err
}
