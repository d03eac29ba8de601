package webhooks

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/pause"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// keptFor is how long the position of an endpoint is kept that is no longer declared, so that one that is declared
	// again soon continues there. Of each deployment, the keptMost endpoints are kept that ended last.
	keptFor, keptMost = time.Hour, 1000
	// removalsMost bounds the endpoints of a deployment in memory that wait for the deletion of their rows.
	removalsMost = 1000
	// removedAtOnce is from how many endpoints of a deployment one transaction deletes, and removed how many deliveries.
	removedAtOnce, removed = 20, 500
	// betweenRemovals is the pause between two such transactions.
	betweenRemovals = 20 * time.Millisecond
)

// ending is an endpoint that ended at a time.
type ending struct {
	endpoint int64
	at       time.Time
}

// endings are endpoints of one deployment that ended.
type endings struct {
	all []ending
	// cut reports that some were left out, which the next comparison finds.
	cut bool
}

// add adds an endpoint. If there are many, only those that ended last remain, and some of the others, which are not
// kept whatever else is added.
func (e *endings) add(one ending) {
	if e.all = append(e.all, one); len(e.all) >= 2*(keptMost+removalsMost) {
		e.sort()
		e.all, e.cut = e.all[:keptMost+removalsMost], true
	}
}

// sort sorts them from the one that ended last on.
func (e *endings) sort() {
	slices.SortFunc(e.all, func(a, b ending) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.endpoint, b.endpoint)) })
}

// removable returns those that are not kept at a time, at most removalsMost.
func (e *endings) removable(now time.Time) endings {
	e.sort()
	first := slices.IndexFunc(e.all, func(one ending) bool { return now.Sub(one.at) >= keptFor })
	if first < 0 {
		first = len(e.all)
	}
	list := e.all[min(first, keptMost, len(e.all)):]
	if len(list) > removalsMost {
		return endings{slices.Clone(list[len(list)-removalsMost:]), true}
	}
	return endings{slices.Clone(list), e.cut}
}

// removals are the endpoints whose rows are to be deleted, by their deployments.
type removals struct {
	wake chan struct{}
	mu   sync.Mutex
	of   map[string]endings
	// last is the deployment that had its turn.
	last string
}

func newRemovals() *removals {
	return &removals{wake: make(chan struct{}, 1), of: map[string]endings{}}
}

// hand hands over the endpoints of a deployment, unless earlier ones still wait: a later comparison finds these again.
func (r *removals) hand(deployment string, list endings) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, waits := r.of[deployment]; waits || len(list.all) == 0 {
		return
	}
	r.of[deployment] = list
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// next returns the first endpoints of the deployment after the one that had its turn, in the order of their ids. It
// reports false if there is none.
func (r *removals) next() (deployment string, batch []ending, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.of) == 0 {
		return "", nil, false
	}
	names := slices.Sorted(maps.Keys(r.of))
	at, _ := slices.BinarySearch(names, r.last+"\x00")
	r.last = names[at%len(names)]
	all := r.of[r.last].all
	batch = slices.Clone(all[:min(removedAtOnce, len(all))])
	slices.SortFunc(batch, func(a, b ending) int { return cmp.Compare(a.endpoint, b.endpoint) }) // servers do not deadlock
	return r.last, batch, true
}

// ended takes the first endpoints of a deployment away, but for those of which rows are left: they come last. It
// reports whether the next comparison finds more.
func (r *removals) ended(deployment string, taken int, left []ending) (more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.of[deployment]
	if list.all = append(list.all[taken:], left...); len(list.all) > 0 {
		r.of[deployment] = list
		return false
	}
	delete(r.of, deployment)
	return list.cut
}

// forget takes all endpoints of a deployment away: a later comparison hands them over again.
func (r *removals) forget(deployment string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, deployment)
}

// removeEnded deletes the rows of endpoints that ended, in batches, until ctx ends. A failure is repeated by a later
// comparison.
func (d *Dispatcher) removeEnded(ctx context.Context) {
	failing := map[string]bool{} // deployments
	for {
		deployment, batch, found := d.removals.next()
		if !found {
			select {
			case <-ctx.Done():
				return
			case <-d.removals.wake:
			}
			continue
		}
		left, err := d.remove(ctx, deployment, batch)
		if err != nil {
			if ctx.Err() == nil && !failing[deployment] {
				d.Log.Error(err, "Rows of deleted webhook endpoints were not removed; trying again until it succeeds", "deployment", deployment)
			}
			failing[deployment] = true
			d.removals.forget(deployment)
		} else if delete(failing, deployment); d.removals.ended(deployment, len(batch), left) {
			d.compareSoon()
		}
		if pause.For(ctx, betweenRemovals) != nil {
			return
		}
	}
}

// remove deletes rows of endpoints in one transaction, and returns those of which rows are left. The rows of an
// endpoint remain that is declared again, or ended later again, and those of a deployment that is not declared: they
// are erased or kept as a whole.
func (d *Dispatcher) remove(ctx context.Context, deployment string, batch []ending) (left []ending, err error) {
	err = d.Store.Change(ctx, deployment, func(tx people.Tx) error {
		left = nil
		current := d.Snapshots.Current()
		if _, found := current.Deployment(deployment); !found {
			return nil
		}
		for _, one := range batch {
			if current.Declares(v1alpha1.KindWebhookEndpoint, deployment, one.endpoint) {
				continue
			}
			done, err := tx.Webhooks().RemoveWebhook(one.endpoint, one.at.Add(time.Microsecond), removed/len(batch))
			if err != nil {
				return err
			}
			if !done {
				left = append(left, one)
			}
		}
		return nil
	})
	return left, err
}
