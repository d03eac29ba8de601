package webhooks

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// leaseFor is how long a lease lasts, and renewAfter after what part of it the lease is renewed.
	leaseFor, renewAfter = 15 * time.Second, 5 * time.Second
	// fillMost is how many events one transaction filters.
	fillMost = 250
	// settleMost and settleAfter bound the results that one transaction writes.
	settleMost, settleAfter = 100, 50 * time.Millisecond
	// writeAfter is how long a delivery without a result is not written.
	writeAfter = time.Second
	// lingerFor is how long a runner without work keeps its lease.
	lingerFor = 2 * time.Second
	// turnFor is how long a runner keeps its lease while other endpoints wait for a runner.
	turnFor = 15 * time.Second
	// drainWithin is how long open requests may last after the end of the server began.
	drainWithin = 5 * time.Second
	// retryWrite is the pause after a failed transaction, and repeatUnsent that before a request that did not count.
	retryWrite, repeatUnsent = 500 * time.Millisecond, time.Second
	// unsignedFor is the pause after a request that could not be signed.
	unsignedFor = 10 * time.Second
)

// runner sends to one endpoint while it has the lease. One goroutine uses its fields, but for the channels.
type runner struct {
	d     *Dispatcher
	key   key
	state people.WebhookState
	*health
	queue queue
	// results are those of the requests, of which at most 64 are open. slotted says that a request has its slot.
	results chan result
	slotted chan struct{}
	// waits reports that a request waits for its slot.
	waits bool
	// read is the number of the last event that was filtered, and unwritten has the deliveries of such events that the
	// store does not have yet, in the order of their events. They are among those of queue and of ended.
	read      int64
	unwritten []*pending
	// leasedUntil is the end of the lease that the store has.
	leasedUntil time.Time
	// ended are deliveries whose results are to be written, since a time.
	ended      []*pending
	endedSince time.Time
	// own are events about the endpoint itself, which are to be recorded with the results. gap is the position before
	// events that were deleted unsent, if own has an event about them.
	own []people.LoggedEvent
	gap *int64
	// notice is a mail about the endpoint that is to be written with them, nil for none.
	notice *notice
	// caughtUp reports that there were no more events at the last read, and blocked that none is read before a delivery is
	// due.
	caughtUp, blocked bool
	// busyAt is when there was work the last time. nextStart is when the next request may begin by the endpoint's rate,
	// and next when it is due, zero if that is not known.
	busyAt, nextStart, next time.Time
	// idleUntil is when there is work again, once the runner ends because it has none; zero if that is not known.
	idleUntil time.Time
	// again is a due time in addition to those of the queue, zero for none: of deliveries that may be in the store alone.
	again time.Time
	// replay is the replay of the endpoint, nil for none. followed reports that it was read since the last look.
	replay   *replaying
	followed bool
	// failedUntil is when a failed transaction is repeated.
	failedUntil time.Time
	// partial reports that the store may have more open deliveries than the queue: nothing is added to them.
	partial bool
	// more reports that the replay continues without a pause.
	more bool
	// lookedAt is when the runner last looked for events and for a replay.
	lookedAt time.Time
	wake     chan struct{}
	targets  targets
	// working reports that something runs beside the runner, and flushed that the last such thing wrote results. worked
	// gets what is to be done at its end.
	working, flushed bool
	worked           chan func() error
	// pause is the timer of await.
	pause *time.Timer
	// holds counts the events of the deliveries in memory.
	holds holder
	// leasedAt is when the runner took the lease.
	leasedAt time.Time
}

func newRunner(d *Dispatcher, k key) *runner {
	return &runner{
		d: d, key: k, results: make(chan result, document.MaxWebhookConcurrent), slotted: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		worked: make(chan func() error, 1), pause: time.NewTimer(0), holds: holder{deployment: k.deployment},
	}
}

// look lets the runner read events now.
func (r *runner) look() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *runner) now() time.Time { return r.d.Clock().UTC().Truncate(time.Microsecond) }

// run takes the lease and sends until there is nothing to send, the endpoint may not be sent to, or ctx ends.
func (r *runner) run(ctx context.Context) {
	if !r.begin(ctx) {
		return
	}
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(drainWithin, cancel) })()
	defer r.d.held.end(&r.holds)
	err := r.serve(ctx, sending)
	if err != nil && !errors.Is(err, errFenced) && ctx.Err() == nil {
		r.d.Log.Error(err, "Deliveries of a webhook endpoint were not written; trying again", "deployment", r.key.deployment)
	}
	r.release(context.WithoutCancel(ctx), cancel, !errors.Is(err, errFenced))
}

// release collects the requests that are open, so that what they deliver is not sent again, and ends the lease if the
// runner still has it. Without the lease, it ends the requests by cancel: the next server sends these again.
func (r *runner) release(ctx context.Context, cancel func(), held bool) {
	renew := time.NewTicker(time.Second)
	defer renew.Stop()
	for r.queue.sending() > 0 || r.working {
		if !held {
			cancel()
		}
		select {
		case done := <-r.results:
			r.collectAll(done)
		case <-r.slotted:
		case apply := <-r.worked:
			held = !errors.Is(apply(), errFenced) && held
		case <-renew.C:
			held = held && r.flush(ctx) == nil
		}
	}
	if !held {
		return
	}
	ctx, end := context.WithTimeout(ctx, drainWithin)
	defer end()
	r.write(ctx, r.now(), func(err error) error {
		if err != nil {
			r.d.Log.V(1).Info("The lease of a webhook endpoint was not released; it ends by itself", "deployment", r.key.deployment, "error", err.Error())
		}
		return nil
	})
	_ = (<-r.worked)() // it was logged
}

// begin takes the lease and reads the open deliveries. It logs a failure.
func (r *runner) begin(ctx context.Context) (leased bool) {
	_, content := r.d.served(r.key)
	if content == nil {
		return false // the next comparison pauses it
	}
	now := r.now()
	until := now.Add(leaseFor)
	err := r.d.Store.Change(ctx, r.key.deployment, func(tx people.Tx) (err error) {
		r.queue, r.replay, r.unwritten = nil, nil, nil
		r.state, leased, err = tx.Webhooks().LeaseWebhook(r.key.endpoint, r.d.Server, now, until)
		if err != nil || !leased {
			return err
		}
		open, err := tx.Webhooks().OpenDeliveries(r.key.endpoint, loadedMost)
		r.read, r.partial = r.state.Position, len(open) == loadedMost
		for _, d := range open {
			r.queue = append(r.queue, &pending{WebhookDelivery: d})
		}
		if err == nil {
			r.replay, err = readReplay(tx, r.key.endpoint)
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		r.d.Log.Error(err, "A webhook endpoint was not leased; trying again", "deployment", r.key.deployment)
	}
	r.health, r.busyAt, r.leasedAt, r.leasedUntil = newHealth(&r.state, content), now, now, until
	return leased && err == nil
}

// serve sends until there is no work. sending is the context of requests and transactions.
func (r *runner) serve(ctx, sending context.Context) error {
	for {
		_, content := r.d.served(r.key)
		if content == nil || !r.state.DisabledAt.IsZero() || ctx.Err() != nil {
			return nil
		}
		if time.Since(r.lookedAt) >= lookEvery {
			r.caughtUp, r.followed = false, false
		}
		if err := r.follow(ctx); err != nil {
			return err
		}
		if r.partial && len(r.queue) == 0 && len(r.ended) == 0 && !r.working || r.now().Sub(r.leasedAt) >= turnFor && r.d.waited(r.key.deployment) {
			r.again = r.now()
			return nil // the next lease reads the rest, or another endpoint has its turn
		}
		if err := r.work(sending, content); err != nil {
			return err
		}
		r.next = r.start(sending, content)
		now := r.now()
		soon := !r.next.IsZero() && r.next.Before(now.Add(lingerFor)) || r.more
		if r.queue.sending() > 0 || len(r.ended) > 0 || soon || !r.caughtUp && !r.blocked {
			r.busyAt = now
		}
		if !r.working && now.Sub(r.busyAt) >= lingerFor {
			if r.idleUntil = r.next; r.partial {
				r.again = now // deliveries that were not loaded may be due
			}
			return nil
		}
		if err := r.await(ctx); err != nil {
			return err
		}
	}
}

// work begins what is to be written or read. Results and new deliveries take turns, so that neither waits for the end
// of the other.
func (r *runner) work(ctx context.Context, content *document.WebhookEndpoint) error {
	if !r.flushed {
		if err := r.flush(ctx); err != nil {
			return err
		}
	}
	if err := r.fill(ctx, content); err != nil {
		return err
	}
	if err := r.refill(ctx, content); err != nil {
		return err
	}
	return r.flush(ctx)
}

// await waits for a result, for a slot, for events, for the end of a transaction, or for the time of what is due next;
// at most lookEvery.
func (r *runner) await(ctx context.Context) error {
	pause := lookEvery
	if len(r.ended) > 0 {
		pause = min(pause, settleAfter)
	}
	if !r.next.IsZero() {
		pause = max(min(pause, r.next.Sub(r.now())), time.Millisecond)
	}
	if r.more && !r.working {
		pause = time.Millisecond
	}
	r.pause.Reset(pause)
	defer r.pause.Stop()
	select {
	case done := <-r.results:
		r.collectAll(done)
	case <-r.slotted:
		r.waits = false
	case <-r.wake:
		r.caughtUp, r.followed = false, false
	case apply := <-r.worked:
		return apply()
	case <-r.pause.C:
	case <-ctx.Done():
	}
	return nil
}

// fill begins to read and filter the next events. Their deliveries are written with their results. It reads no further
// while a failing endpoint has a delivery to be probed with, and while there are many open deliveries.
func (r *runner) fill(ctx context.Context, content *document.WebhookEndpoint) error {
	now := r.now()
	if r.caughtUp || r.working || r.lost(now) || now.Before(r.failedUntil) {
		return nil
	}
	if r.blocked = r.partial || r.queue.full(len(r.ended)) || r.failing() && r.queue.probes(now, content.Ordering == document.WebhookByEntity); r.blocked {
		return nil
	}
	r.caughtUp = true // unless there are more, also such that are recorded meanwhile
	before := r.read
	r.beside(func() func() error {
		var list []people.LoggedEvent
		err := r.d.Store.View(ctx, r.key.deployment, func(tx people.Tx) (err error) {
			list, err = tx.EventLog().EventsAfter(before, fillMost)
			return err
		})
		if err == nil && len(list) == 0 {
			return func() error { return nil }
		}
		var gap []people.LoggedEvent
		if err == nil {
			gap, err = gapOf(r.key.endpoint, before, list[0].Sequence, now)
		}
		if err != nil {
			return func() error { r.caughtUp = false; return r.failedWrite(err) }
		}
		added := r.deliveriesOf(list, content, now)
		return func() error {
			if r.read, r.own = list[len(list)-1].Sequence, append(r.own, gap...); len(gap) > 0 && r.gap == nil {
				r.gap = &before
			}
			r.queue, r.unwritten = append(r.queue, added...), append(r.unwritten, added...)
			r.caughtUp, r.busyAt = r.caughtUp && len(list) < fillMost, r.now()
			return nil
		}
	})
	return nil
}

// gapOf returns the event about events that were deleted because of their age before an endpoint got them: numbers are
// dense.
func gapOf(endpoint, position, first int64, now time.Time) ([]people.LoggedEvent, error) {
	if first == position+1 {
		return nil, nil
	}
	logged, err := events.OfExpiredBacklog(endpoint, position+1, first-1).Log(now, "system")
	return []people.LoggedEvent{logged}, err
}

// deliveriesOf returns the deliveries of those events that the endpoint's filter takes.
func (r *runner) deliveriesOf(list []people.LoggedEvent, content *document.WebhookEndpoint, now time.Time) (added []*pending) {
	id, readAt := firstID(now), time.Now()
	for i := range list {
		if e := &list[i]; sends(content.Types, r.key.endpoint, e) {
			id++
			p := r.delivery(id, e, now)
			p.readAt = readAt
			added = append(added, p)
		}
	}
	return added
}

// firstID returns an id before those of a batch of deliveries. Ids ascend in the order of the events. Two batches of
// one millisecond rarely collide, and get other ids then.
func firstID(now time.Time) int64 { return ids.From(now) | int64(rand.IntN(1<<20)) }

// delivery returns a delivery of an event that begins at a time.
func (r *runner) delivery(id int64, e *people.LoggedEvent, now time.Time) *pending {
	p := &pending{WebhookDelivery: people.WebhookDelivery{
		ID: id, Endpoint: r.key.endpoint, Sequence: e.Sequence, Event: e.ID, Type: e.Type, SubjectType: e.SubjectType, SubjectID: e.SubjectID,
		Status: people.DeliveryPending, CreatedAt: now, NextAt: now,
	}}
	p.hold(e, r.d.held, &r.holds)
	return p
}
