package webhooks

import (
	"context"
	"errors"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

var (
	// errFenced means that another server has the endpoint.
	errFenced = errors.New("another server has the endpoint")
	// errUncertain means that a transaction failed that may have been committed.
	errUncertain = errors.New("it is not known whether deliveries were written")
)

// beside runs work while the runner begins requests and collects their results. work uses no field of the runner that
// changes. What it returns runs in the runner's goroutine. There is one at a time, so that transactions have an order.
func (r *runner) beside(work func() (apply func() error)) {
	r.working, r.flushed = true, false
	r.d.workers.run(func() {
		apply := work()
		r.worked <- func() error { r.working = false; return apply() }
	})
}

// flush begins to write results once there are enough, or they are old enough, and renews the lease.
func (r *runner) flush(ctx context.Context) error {
	now := r.now()
	if r.working {
		return nil
	}
	if now.Before(r.failedUntil) {
		return r.fenced(now)
	}
	due := len(r.ended) >= settleMost || len(r.ended) > 0 && time.Since(r.endedSince) >= settleAfter || len(r.own) > 0 ||
		len(r.unwritten) > 0 && time.Since(r.unwritten[0].readAt) >= writeAfter
	if !due && r.leasedUntil.Sub(now) > leaseFor-renewAfter {
		return nil
	}
	until := now.Add(leaseFor)
	r.write(ctx, until, func(err error) error {
		if err != nil {
			return r.failedWrite(err)
		}
		r.leasedUntil = until
		return nil
	})
	r.flushed = true
	return nil
}

// written is what one transaction writes.
type written struct {
	ended []*pending
	since time.Time
	// deliveries are those of ended, each once, with their rows and the requests that are not recorded yet. before are the
	// ids of those that have recorded requests.
	deliveries []*pending
	rows       map[*pending]people.WebhookDelivery
	tries      map[*pending][]Try
	before     []int64
	// fresh are those of deliveries that the store does not have yet, unless unsure has their ids: it may have these, and
	// has those of had.
	fresh  []*pending
	unsure []int64
	had    map[int64]bool
	own    []people.LoggedEvent
	// gap is the position before events that were deleted unsent, about which own has an event; nil for none.
	gap    *int64
	notice *notice
	// replay is the replay before the results, and resent the events that replays delivered.
	replay *replaying
	resent []int64
}

// take takes what is to be written.
func (r *runner) take() *written {
	w := &written{ended: r.ended, since: r.endedSince, rows: make(map[*pending]people.WebhookDelivery, len(r.ended)), tries: make(map[*pending][]Try, len(r.ended)), own: r.own, notice: r.notice, replay: r.replay}
	r.replay, w.resent = r.counted()
	for _, p := range r.ended {
		if _, again := w.rows[p]; again {
			continue // a delivery may have two results
		}
		if p.Attempts > int64(len(p.tries)) {
			w.before = append(w.before, p.ID)
		}
		w.deliveries, w.rows[p], w.tries[p] = append(w.deliveries, p), p.recorded(), p.tries
		p.tries = nil
	}
	r.unwritten = w.add(r.unwritten)
	w.gap = r.gap
	r.ended, r.own, r.notice, r.gap = nil, nil, nil, nil
	return w
}

// add takes the deliveries that the store gets now from those that it does not have, and returns the others: up to the
// last one that has a result, or that waits for one for long. The position of the endpoint moves behind them, so that
// no event is between it and a written delivery.
func (w *written) add(unwritten []*pending) (rest []*pending) {
	until := 0
	for i, p := range unwritten {
		if _, ended := w.rows[p]; ended || time.Since(p.readAt) >= writeAfter {
			until = i + 1
		}
	}
	w.fresh = unwritten[:until:until]
	for _, p := range w.fresh {
		if p.unsure {
			w.unsure = append(w.unsure, p.ID)
		}
		if _, ended := w.rows[p]; ended {
			continue
		}
		w.deliveries, w.rows[p] = append(w.deliveries, p), p.recorded()
	}
	return unwritten[until:]
}

// find notes which deliveries to an endpoint the store has already.
func (w *written) find(tx people.Tx, endpoint int64) error {
	w.had = map[int64]bool{}
	if len(w.unsure) == 0 {
		return nil
	}
	events := map[int64]int64{}
	for _, p := range w.fresh {
		events[p.ID] = p.Event
	}
	list, err := tx.Webhooks().DeliveriesAmong(endpoint, w.unsure)
	for _, d := range list {
		if d.Replay == 0 && d.Event == events[d.ID] { // else another delivery has the id
			w.had[d.ID] = true
		}
	}
	return err
}

// renumber gives deliveries other ids, because another delivery has one of theirs. It is known which of them the store
// has: these keep theirs.
func (w *written) renumber(now time.Time) {
	id := firstID(now)
	for _, p := range w.fresh {
		if p.unsure = w.had[p.ID]; !p.unsure {
			id++
			p.ID = id
		}
	}
}

// giveBack lets what was not written be written again. unsure reports that it may have been.
func (r *runner) giveBack(w *written, unsure bool) {
	for p, tries := range w.tries {
		p.tries = append(tries, p.tries...)
	}
	for _, p := range w.fresh {
		p.unsure = p.unsure || unsure
	}
	r.unwritten = append(w.fresh, r.unwritten...)
	if len(w.ended) > 0 {
		r.ended, r.endedSince = append(w.ended, r.ended...), w.since
	}
	r.own, r.replay = append(w.own, r.own...), w.replay
	if r.notice == nil {
		r.notice = w.notice
	}
}

// behindGap ends the runner, which writes nothing more behind a gap, since it is not known whether the event about that
// was recorded. The next lease reads the position.
func (r *runner) behindGap(w *written, err error) error {
	r.read, r.unwritten, r.again = *w.gap, nil, r.now()
	return errors.Join(errUncertain, err)
}

// write begins to write the results and the state, with the end of the lease.
func (r *runner) write(ctx context.Context, leasedUntil time.Time, then func(error) error) {
	w := r.take()
	next, state := r.replay, r.stateNow()
	state.LeasedUntil = leasedUntil
	r.beside(func() func() error {
		posted := false
		_, err := r.d.change(ctx, r.key.deployment, state, next, func(tx people.Tx, _ bool) (err error) {
			posted, err = r.save(tx, w)
			return err
		})
		return func() error {
			switch {
			case err != nil && w.gap != nil && !errors.Is(err, errFenced):
				return r.behindGap(w, err)
			case err != nil:
				taken := errors.Is(err, people.ErrDuplicate) // nothing was written
				if taken {
					w.renumber(r.now())
				}
				r.giveBack(w, !taken)
				return then(err)
			case next != nil && !next.CompletedAt.IsZero():
				r.replay = nil
			}
			r.state.LeasedUntil = leasedUntil
			if posted && r.d.OnEnqueue != nil {
				r.d.OnEnqueue()
			}
			return then(nil)
		}
	})
}

// save writes results, and the events and the mail about the endpoint. It reports whether there is a mail.
func (r *runner) save(tx people.Tx, w *written) (posted bool, err error) {
	if err := tx.Webhooks().MarkResent(r.key.endpoint, w.resent); err != nil {
		return false, err
	}
	if posted, err = r.announce(tx, w.own, w.notice); err != nil {
		return false, err
	}
	recorded, err := tx.Webhooks().DeliveryTries(w.before)
	if err != nil {
		return false, err
	}
	if err := w.find(tx, r.key.endpoint); err != nil {
		return false, err
	}
	fresh := make(map[*pending]bool, len(w.fresh))
	for _, p := range w.fresh {
		fresh[p] = !w.had[p.ID]
	}
	inserted, updated := make([]people.WebhookDelivery, 0, len(w.deliveries)), []people.WebhookDelivery(nil)
	for _, p := range w.deliveries {
		row := w.rows[p]
		if row.Tries = withTries(recorded[row.ID], w.tries[p]); fresh[p] {
			inserted = append(inserted, row)
		} else {
			updated = append(updated, row)
		}
	}
	if err := tx.Webhooks().InsertDeliveries(inserted); err != nil {
		return false, err
	}
	return posted, tx.Webhooks().UpdateDeliveries(updated)
}

// stateNow returns the state as it is to be written now.
func (r *runner) stateNow() people.WebhookState {
	s := r.state
	if s.Position = r.read; len(r.unwritten) > 0 {
		s.Position = r.unwritten[0].Sequence - 1
	}
	s.NextAt = r.queue.earliest()
	if !r.idleUntil.IsZero() {
		s.NextAt = r.idleUntil
	}
	if !r.again.IsZero() {
		s.NextAt = r.again
	}
	s.Blocked = r.blocked && !s.NextAt.IsZero()
	// A pause outlasts the lease: the next runner begins after it, also if there are events before.
	if until := r.pausedTo(); until.After(r.now()) {
		if s.Blocked = true; s.NextAt.Before(until) {
			s.NextAt = until
		}
	}
	return s
}

// change runs a transaction that also writes the state of an endpoint and its replay, nil for none. It reports whether
// the replay had ended before. Errors: errFenced.
func (d *Dispatcher) change(ctx context.Context, deployment string, state people.WebhookState, replay *replaying, do func(tx people.Tx, cancelled bool) error) (cancelled bool, err error) {
	err = d.Store.Change(ctx, deployment, func(tx people.Tx) error {
		held, err := tx.Webhooks().UpdateWebhookState(state, state.Epoch)
		if err == nil && !held {
			err = errFenced
		}
		if cancelled = false; err == nil && replay != nil {
			row := replay.WebhookReplay
			if row.NextAt = state.NextAt; row.NextAt.IsZero() {
				row.NextAt = d.Clock()
			}
			var open bool
			open, err = tx.Webhooks().UpdateReplay(row)
			cancelled = !open
		}
		if err != nil {
			return err
		}
		return do(tx, cancelled)
	})
	return cancelled, err
}

// failedWrite lets a failed transaction be repeated later. It returns errFenced if the lease is lost.
func (r *runner) failedWrite(err error) error {
	if errors.Is(err, errFenced) {
		return err
	}
	now := r.now()
	if r.failedUntil.IsZero() || now.After(r.failedUntil.Add(leaseFor)) {
		r.d.Log.Error(err, "Deliveries of a webhook endpoint were not read or written; trying again", "deployment", r.key.deployment)
	}
	r.failedUntil = now.Add(retryWrite)
	return r.fenced(now)
}

// lost reports whether the lease that the store has is over.
func (r *runner) lost(now time.Time) bool { return now.After(r.leasedUntil) }

// fenced returns errFenced once the lease is over.
func (r *runner) fenced(now time.Time) error {
	if r.lost(now) {
		return errFenced
	}
	return nil
}
