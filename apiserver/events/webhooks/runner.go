package webhooks

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
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
	// lingerFor is how long a runner without work keeps its lease.
	lingerFor = 2 * time.Second
	// drainWithin is how long open requests may last after the end of the server began.
	drainWithin = 5 * time.Second
	// retryWrite is the pause after a failed transaction.
	retryWrite = 500 * time.Millisecond
)

// runner sends to one endpoint while it has the lease. One goroutine uses its fields, but for wake.
type runner struct {
	d     *Dispatcher
	key   key
	state people.WebhookState
	*health
	queue queue
	// results are those of the requests, of which at most 64 are open.
	results chan result
	// ended are deliveries whose results are to be written, since a time.
	ended      []*pending
	endedSince time.Time
	// own are events about the endpoint itself, which are to be recorded with the results.
	own []people.LoggedEvent
	// caughtUp reports that there were no more events at the last read.
	caughtUp bool
	// busyAt is when there was work the last time. nextStart is when the next request may begin by the endpoint's rate.
	busyAt, nextStart time.Time
	// again is a due time in addition to those of the queue, zero for none: of deliveries that may be in the store alone.
	again time.Time
	// failedUntil is when a failed transaction is repeated.
	failedUntil time.Time
	wake        chan struct{}
}

type result struct {
	of *pending
	at time.Time
	outcome
}

func newRunner(d *Dispatcher, k key) *runner {
	return &runner{d: d, key: k, results: make(chan result, document.MaxWebhookConcurrent), wake: make(chan struct{}, 1)}
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
	err := r.serve(ctx, sending)
	if errors.Is(err, errFenced) {
		cancel() // the other server sends these again
	} else if err != nil && ctx.Err() == nil {
		r.d.Log.Error(err, "Deliveries of a webhook endpoint were not written; trying again", "deployment", r.key.deployment)
	}
	if ctx.Err() != nil {
		defer time.AfterFunc(drainWithin, cancel).Stop()
	}
	r.release(context.WithoutCancel(ctx), !errors.Is(err, errFenced))
}

// release collects the requests that are open, so that what they deliver is not sent again, and ends the lease if the
// runner still has it.
func (r *runner) release(ctx context.Context, held bool) {
	for r.queue.sending() > 0 {
		renew := time.NewTimer(time.Second)
		select {
		case done := <-r.results:
			r.collect(done)
		case <-renew.C:
			held = held && r.flush(ctx, false) == nil
		}
		renew.Stop()
	}
	if !held {
		return
	}
	ctx, end := context.WithTimeout(ctx, drainWithin)
	defer end()
	r.state.LeasedUntil = r.now()
	if err := r.write(ctx); err != nil {
		r.d.Log.V(1).Info("The lease of a webhook endpoint was not released; it ends by itself", "deployment", r.key.deployment, "error", err.Error())
	}
}

// begin takes the lease and reads the open deliveries. It logs a failure.
func (r *runner) begin(ctx context.Context) (leased bool) {
	_, content := r.d.served(r.key)
	if content == nil {
		return false // the next comparison pauses it
	}
	now := r.now()
	err := r.d.Store.Change(ctx, r.key.deployment, func(tx people.Tx) (err error) {
		r.state, leased, err = tx.Webhooks().LeaseWebhook(r.key.endpoint, r.d.Server, now, now.Add(leaseFor))
		if err != nil || !leased {
			return err
		}
		open, err := tx.Webhooks().OpenDeliveries(r.key.endpoint, openMost)
		r.queue = nil
		for _, d := range open {
			r.queue = append(r.queue, &pending{WebhookDelivery: d})
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		r.d.Log.Error(err, "A webhook endpoint was not leased; trying again", "deployment", r.key.deployment)
	}
	r.health, r.busyAt = newHealth(&r.state, content), now
	return leased && err == nil
}

// serve sends until there is no work. sending is the context of requests.
func (r *runner) serve(ctx, sending context.Context) error {
	for {
		entry, content := r.d.served(r.key)
		if content == nil || !r.state.DisabledAt.IsZero() || ctx.Err() != nil {
			return r.flush(ctx, true)
		}
		if err := r.fill(ctx, content); err != nil {
			return err
		}
		next := r.start(sending, entry.Deployment, content)
		if err := r.flush(ctx, false); err != nil {
			return err
		}
		now := r.now()
		if len(r.queue) > 0 && (r.queue.sending() > 0 || !r.queue.earliest().After(now.Add(lingerFor))) || !r.caughtUp {
			r.busyAt = now
		}
		if now.Sub(r.busyAt) >= lingerFor && len(r.ended) == 0 {
			return nil
		}
		r.await(ctx, next)
	}
}

// await waits for a result, for events, or for the time of what is due next; at most lookEvery.
func (r *runner) await(ctx context.Context, next time.Time) {
	pause := lookEvery
	if len(r.ended) > 0 {
		pause = min(pause, settleAfter)
	}
	if !next.IsZero() {
		pause = max(min(pause, next.Sub(r.now())), time.Millisecond)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case done := <-r.results:
		r.collect(done)
		for more := true; more; {
			select {
			case done := <-r.results:
				r.collect(done)
			default:
				more = false
			}
		}
	case <-r.wake:
		r.caughtUp = false
	case <-timer.C:
		r.caughtUp = false
	case <-ctx.Done():
	}
}

// fill reads and filters events after the position, and writes their deliveries. A failing endpoint reads no further.
func (r *runner) fill(ctx context.Context, content *document.WebhookEndpoint) error {
	now := r.now()
	if r.caughtUp || now.Before(r.failedUntil) || r.failing() && len(r.queue) > 0 || len(r.queue) > openMost-fillMost {
		return nil
	}
	var list []people.LoggedEvent
	err := r.d.Store.View(ctx, r.key.deployment, func(tx people.Tx) (err error) {
		list, err = tx.EventLog().EventsAfter(r.state.Position, fillMost)
		return err
	})
	if err != nil {
		return r.failedWrite(err)
	}
	r.caughtUp = len(list) < fillMost
	if len(list) == 0 {
		return nil
	}
	added, rows := r.deliveriesOf(list, content, now)
	before := r.state.Position
	r.again = now
	r.state.Position = list[len(list)-1].Sequence
	if len(rows) == 0 {
		r.again = time.Time{}
		return nil
	}
	err = r.change(ctx, func(tx people.Tx) error { return tx.Webhooks().InsertDeliveries(rows) })
	if err != nil {
		r.state.Position = before
		return errors.Join(errUncertain, err)
	}
	r.queue, r.again = append(r.queue, added...), time.Time{}
	return nil
}

// deliveriesOf returns the deliveries of those events that the endpoint's filter takes.
func (r *runner) deliveriesOf(list []people.LoggedEvent, content *document.WebhookEndpoint, now time.Time) (added []*pending, rows []people.WebhookDelivery) {
	types, err := events.ParseTypes(content.Types)
	if err != nil { // declared with another version of Cardea: types that are not known select nothing
		types = events.KnownTypes(content.Types)
	}
	// Ids ascend in the order of the events. Two batches of one millisecond collide rarely, and are then written again.
	id := ids.From(now) | int64(rand.IntN(1<<20))
	for i := range list {
		e := &list[i]
		if !types[events.Type(e.Type)] || e.SubjectType == events.SubjectWebhookEndpoint && e.SubjectID == ids.Format(r.key.endpoint) {
			continue
		}
		id++
		p := &pending{event: e, WebhookDelivery: people.WebhookDelivery{
			ID: id, Endpoint: r.key.endpoint, Sequence: e.Sequence, Event: e.ID, Type: e.Type, SubjectType: e.SubjectType, SubjectID: e.SubjectID,
			Status: people.DeliveryPending, CreatedAt: now, NextAt: now,
		}}
		added, rows = append(added, p), append(rows, p.WebhookDelivery)
	}
	return added, rows
}

// start begins the requests that are due, and returns when the next one is.
func (r *runner) start(ctx context.Context, deployment string, content *document.WebhookEndpoint) (next time.Time) {
	for {
		now := r.now()
		if now.Before(r.failedUntil) {
			return r.failedUntil
		}
		if !r.permits(r.queue.sending(), now, content) {
			return r.nextProbe
		}
		if content.MaxPerSecond > 0 && now.Before(r.nextStart) {
			return r.nextStart
		}
		due, at := r.queue.next(now, content.Ordering == document.WebhookByEntity)
		if due == nil {
			return at
		}
		if content.MaxPerSecond > 0 {
			pause := time.Second / time.Duration(content.MaxPerSecond)
			r.nextStart = now.Add(pause)
		}
		t, err := r.d.target(r.key, content)
		if err != nil {
			r.d.Log.Error(err, "A webhook cannot be signed; trying again", "deployment", deployment)
			r.failedUntil = now.Add(probeMost)
			return r.failedUntil
		}
		due.sending = true
		due.Attempts++
		go r.send(ctx, due, t, due.Attempts, r.unproven())
	}
}

// send sends one request in its turn, and reports the result.
func (r *runner) send(ctx context.Context, p *pending, t *target, attempt int64, unproven bool) {
	done := result{of: p}
	defer func() {
		done.at = r.now()
		r.results <- done
	}()
	of := egress.Asker{Deployment: r.key.deployment, Source: ids.Format(r.key.endpoint)}
	if unproven {
		leave, err := r.d.unproven.Begin(ctx, of)
		if err != nil {
			done.failure = failedOtherwis
			return
		}
		defer leave()
	}
	leave, err := r.d.slots.Begin(ctx, of)
	if err != nil {
		done.failure = failedOtherwis
		return
	}
	defer leave()
	event := p.event
	if event == nil {
		if event, err = r.event(ctx, p.Event); err != nil {
			done.failure = "the event could not be read"
			return
		}
		if event == nil {
			done.failure = forgotten
			return
		}
	}
	if t.content.Personal {
		if event, err = r.withPersonalData(ctx, event); err != nil {
			done.failure = "personal data could not be read"
			return
		}
	}
	done.outcome = r.d.client.send(ctx, t, event, events.IDPrefix+ids.Format(p.Event), http.Header{"Cardea-Attempt": {strconv.FormatInt(attempt, 10)}}, r.d.Clock)
}

// withPersonalData returns a copy of an event with the personal data that the store has now.
func (r *runner) withPersonalData(ctx context.Context, e *people.LoggedEvent) (*people.LoggedEvent, error) {
	list := []people.LoggedEvent{*e}
	err := r.d.Store.View(ctx, r.key.deployment, func(tx people.Tx) error { return events.AddPersonal(tx.EventLog(), list) })
	return &list[0], err
}

// forgotten is the failure of a delivery whose event was deleted because of its age.
const forgotten = "the event was deleted because of its age"

// event reads an event, nil if it was deleted.
func (r *runner) event(ctx context.Context, id int64) (event *people.LoggedEvent, err error) {
	err = r.d.Store.View(ctx, r.key.deployment, func(tx people.Tx) error {
		e, found, err := tx.EventLog().LoggedEvent(id)
		if found {
			event = &e
		}
		return err
	})
	return event, err
}
