package webhooks

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/pause"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// compareEvery is the pause between two comparisons of states with the declared endpoints. A new configuration
	// triggers one too, and so does one that left something, but not before betweenComparisons.
	compareEvery, betweenComparisons = time.Minute, 250 * time.Millisecond
	// changesMost bounds the endpoints of a deployment that a comparison changes.
	changesMost = 50
	// lookBack is how old the events since the creation of an endpoint are at most that it gets once a server sees it, and
	// lookBackMost how many.
	lookBack, lookBackMost = time.Hour, 1000
	// disorder is how much older an event may be than one with a smaller number: transactions last.
	disorder = 10 * time.Second
)

// compareAll compares until ctx ends. It logs failures and tries again.
func (d *Dispatcher) compareAll(ctx context.Context) {
	failing := false
	for {
		current := d.Snapshots.Current()
		left, err := d.compare(ctx, current)
		if err != nil && ctx.Err() == nil && !failing {
			d.Log.Error(err, "Webhook endpoints were not compared with the configuration; trying again until it succeeds")
		}
		failing = err != nil
		if pause.For(ctx, betweenComparisons) != nil {
			return
		}
		if left || failing {
			continue
		}
		timer := time.NewTimer(compareEvery)
		select {
		case <-ctx.Done():
		case <-current.Superseded():
		case <-d.again:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// compare compares the states with the declared endpoints: a new endpoint gets its state, an endpoint that was changed
// is paused or continued, and a deleted one loses its rows after an hour. It reports whether changes are left, which
// the next comparison finds.
func (d *Dispatcher) compare(ctx context.Context, current *snapshot.Snapshot) (left bool, failed error) {
	known := map[key]bool{}
	var ended endings
	of := "" // the deployment of ended
	todo := changes{of: map[string]*changesOf{}}
	var inTrouble []troubled
	for after := (people.WebhookRef{}); ; {
		all, err := d.Store.ListWebhooks(ctx, after, listed)
		if err != nil {
			return false, err
		}
		for _, ref := range all {
			if ref.Deployment != of {
				d.removals.hand(of, ended.removable(d.Clock()))
				of, ended = ref.Deployment, endings{}
			}
			k := key{ref.Deployment, ref.Endpoint}
			want := wantedOf(current, k)
			if want.declared {
				known[k] = true
			}
			if e, found := current.ByID(v1alpha1.KindWebhookEndpoint, ref.Deployment, ref.Endpoint); found && !ref.Paused && (ref.Disabled || !ref.FailingSince.IsZero()) {
				inTrouble = append(inTrouble, troubled{ref, e.Name})
			}
			if want.deployed && !want.declared && !ref.EndedAt.IsZero() {
				ended.add(ending{ref.Endpoint, ref.EndedAt})
			} else if !want.isMet(ref) {
				todo.add(k, d.follow)
			}
		}
		if len(all) < listed {
			break
		}
		after = all[len(all)-1]
	}
	d.removals.hand(of, ended.removable(d.Clock()))
	d.metrics.compared(inTrouble, current)
	current.ListAll(v1alpha1.KindWebhookEndpoint, func(e *snapshot.Entry) bool {
		if k := (key{e.Deployment, e.ID}); !known[k] {
			todo.add(k, d.begin)
		}
		return true
	})
	left, failed = todo.write(ctx)
	if len(todo.names) > 0 {
		d.Wake("") // a new endpoint may be due
	}
	return left, failed
}

// compareSoon triggers a comparison.
func (d *Dispatcher) compareSoon() {
	select {
	case d.again <- struct{}{}:
	default:
	}
}

// changes are the endpoints that a comparison changes, by their deployments.
type changes struct {
	of map[string]*changesOf
	// names are the deployments in the order of their turns.
	names []string
	left  bool
}

// changesOf are those of one deployment, at most changesMost, and how many were found.
type changesOf struct {
	chosen []change
	found  int
}

type change struct {
	key key
	do  func(context.Context, key) error
}

// add adds a change. Of more than changesMost of a deployment, any are chosen, and their order is any: two servers then
// write different ones, and one that fails does not stop the others.
func (c *changes) add(k key, do func(context.Context, key) error) {
	of := c.of[k.deployment]
	if of == nil {
		of = &changesOf{}
		c.of[k.deployment], c.names = of, append(c.names, k.deployment)
	}
	of.found++
	if len(of.chosen) < changesMost {
		of.chosen = append(of.chosen, change{k, do})
		return
	}
	c.left = true
	if i := rand.IntN(of.found); i < changesMost {
		of.chosen[i] = change{k, do}
	}
}

// write writes the changes, one of each deployment before the second one of any. After a failure, the others of its
// deployment wait for the next comparison, so that they do not fail one after another. It reports whether some are
// left, and returns the first error.
func (c *changes) write(ctx context.Context) (left bool, failed error) {
	for _, of := range c.of {
		rand.Shuffle(len(of.chosen), func(i, k int) { of.chosen[i], of.chosen[k] = of.chosen[k], of.chosen[i] })
	}
	left = c.left
	for names := c.names; len(names) > 0; {
		more := names[:0]
		for _, name := range names {
			if ctx.Err() != nil {
				return true, ctx.Err()
			}
			of := c.of[name]
			one := of.chosen[0]
			of.chosen = of.chosen[1:]
			err := one.do(ctx, one.key)
			if errors.Is(err, errFenced) {
				left = true // it changed meanwhile
			} else if err != nil {
				failed = cmp.Or(failed, err)
				continue
			}
			if len(of.chosen) > 0 {
				more = append(more, name)
			}
		}
		names = more
	}
	return left, failed
}

// wanted is what the configuration wants the state of an endpoint to be.
type wanted struct {
	// deployed and declared report that the deployment and the endpoint are declared.
	deployed, declared bool
	// paused reports that no events are sent, and inactive that the endpoint is declared like that.
	paused, inactive bool
	// target is that of an endpoint that is not paused.
	target string
}

func wantedOf(current *snapshot.Snapshot, k key) wanted {
	w := wanted{declared: current.Declares(v1alpha1.KindWebhookEndpoint, k.deployment, k.endpoint)}
	_, w.deployed = current.Deployment(k.deployment)
	_, content := servedIn(current, k)
	if w.paused = content == nil; !w.paused {
		w.target = targetOf(content)
	} else if e, found := current.ByID(v1alpha1.KindWebhookEndpoint, k.deployment, k.endpoint); found {
		w.inactive = !snapshot.ContentOf[document.WebhookEndpoint](e).Active
	}
	return w
}

// moved reports whether the endpoint has another URL than the one with a target.
func (w wanted) moved(target string) bool { return !w.paused && w.target != target }

// isMet reports whether the state of an endpoint is as it is wanted. The rows of a deployment that is not declared are
// erased or kept as a whole, and its endpoints are paused.
func (w wanted) isMet(ref people.WebhookRef) bool {
	if !w.deployed && ref.Paused {
		return true
	}
	return w.paused == ref.Paused && w.declared == ref.EndedAt.IsZero() && !w.moved(ref.Target) && !(w.inactive && ref.Disabled)
}

// begin writes the state of a new endpoint. It begins with what happens from its acceptance on. An endpoint that is no
// longer declared gets no state: the rows of its deployment may have been erased.
func (d *Dispatcher) begin(ctx context.Context, k key) error {
	position, known, err := d.beginning(ctx, k)
	if err != nil || known {
		return err
	}
	return d.Store.Change(ctx, k.deployment, func(tx people.Tx) error {
		current := d.Snapshots.Current()
		e, found := current.ByID(v1alpha1.KindWebhookEndpoint, k.deployment, k.endpoint)
		if !found {
			return nil
		}
		_, err := tx.Webhooks().InsertWebhookState(people.WebhookState{
			Endpoint: k.endpoint, Position: position, Target: targetOf(snapshot.ContentOf[document.WebhookEndpoint](e)), Paused: wantedOf(current, k).paused,
		})
		return err
	})
}

// beginning returns the number of the last event before those that a new endpoint gets. It reports whether the endpoint
// has a state already, and writes nothing, so that no other transaction waits.
func (d *Dispatcher) beginning(ctx context.Context, k key) (position int64, known bool, err error) {
	e, declared := d.Snapshots.Current().ByID(v1alpha1.KindWebhookEndpoint, k.deployment, k.endpoint)
	if !declared {
		return 0, true, nil
	}
	from := d.Clock().Add(-lookBack)
	if e.Meta.CreatedAt.After(from) {
		from = e.Meta.CreatedAt
	}
	err = d.Store.View(ctx, k.deployment, func(tx people.Tx) (err error) {
		if _, known, err = tx.Webhooks().WebhookState(k.endpoint); err != nil || known {
			return err
		}
		log := tx.EventLog()
		bounds, err := log.EventBounds()
		if err != nil {
			return err
		}
		bounds.First = max(bounds.First, bounds.Last-lookBackMost+1)
		first, err := events.FirstSince(log, bounds, from.Add(-disorder))
		for ; err == nil && first <= bounds.Last; first++ {
			var at time.Time
			if _, at, _, err = log.EventNumbered(first); !at.Before(from) {
				break
			}
		}
		position = first - 1
		return err
	})
	return position, known, err
}

// follow applies what is declared to the state of an endpoint, unless another server did so.
func (d *Dispatcher) follow(ctx context.Context, k key) error {
	return d.Store.Change(ctx, k.deployment, func(tx people.Tx) error {
		state, found, err := tx.Webhooks().LockWebhookState(k.endpoint)
		if err != nil || !found {
			return err
		}
		want, now := wantedOf(d.Snapshots.Current(), k), d.Clock().UTC().Truncate(time.Microsecond)
		if want.isMet(people.WebhookRef{Target: state.Target, Paused: state.Paused, Disabled: !state.DisabledAt.IsZero(), EndedAt: state.EndedAt}) {
			return nil
		}
		read, continued := state.Epoch, state.Paused && !want.paused
		state.Epoch, state.LeasedUntil, state.Paused = read+1, time.Time{}, want.paused
		if want.declared {
			state.EndedAt = time.Time{}
		} else if state.EndedAt.IsZero() {
			state.EndedAt = now
		}
		moved := want.moved(state.Target)
		// A changed URL enables the endpoint, and so does active: false and then true.
		if !state.DisabledAt.IsZero() && (moved || want.inactive) {
			if state, err = enable(tx, state, now); err != nil {
				return err
			}
			if err := logEnabled(tx, k.endpoint, now); err != nil {
				return err
			}
		}
		if moved {
			state.Target = want.target
		}
		if state.Blocked && (moved || continued) { // the pause was that of the former receiver, or before the change
			state.NextAt, state.Blocked = now, false
		}
		held, err := tx.Webhooks().UpdateWebhookState(state, read)
		if err == nil && !held {
			err = errFenced // it changed meanwhile; the next comparison repeats this
		}
		return err
	})
}

// logEnabled records that an endpoint is enabled again.
func logEnabled(tx people.Tx, endpoint int64, now time.Time) error {
	e, err := events.OfEndpoint(events.EndpointEnabled, endpoint, "", time.Time{}).Log(now, "system")
	if err != nil {
		return err
	}
	return tx.Records().LogEvents([]people.LoggedEvent{e})
}
