package webhooks

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// forgotten is the failure of a delivery whose event was deleted because of its age.
const forgotten = "the event was deleted because of its age"

// result is what became of a request of a delivery.
type result struct {
	of *pending
	at time.Time
	outcome
	// unsent reports that the receiver is not the reason: the request does not count, and is repeated. unsigned is why the
	// request could not be signed.
	unsent   bool
	unsigned error
}

// start begins the requests that are due, and returns when the next one is; zero: when a request gets its slot or ends,
// or when there are events. One request at a time waits for a slot, so that endpoints take turns.
func (r *runner) start(ctx context.Context, content *document.WebhookEndpoint) (next time.Time) {
	for {
		now, sending := r.now(), r.queue.sending()
		permits := r.permits(sending, now, content)
		if !permits && sending > 0 {
			return time.Time{}
		}
		due, at := r.nextDue(now, content)
		switch {
		case due == nil:
			return at
		case r.waits || r.lost(now):
			return time.Time{}
		case now.Before(r.pausedUntil):
			return r.pausedUntil
		case !permits:
			return r.nextProbe
		case content.MaxPerSecond > 0 && now.Before(r.nextStart):
			return r.nextStart
		}
		if content.MaxPerSecond > 0 {
			r.nextStart = now.Add(time.Second / time.Duration(content.MaxPerSecond))
		}
		due.sending = true
		due.Attempts++
		attempt, unproven := due.Attempts, r.unproven()
		if leave, has := r.d.slotNow(r.key, unproven); has {
			r.d.workers.run(func() { r.send(ctx, due, attempt, leave) })
			continue
		}
		r.waits = true
		r.d.workers.run(func() { r.sendInTurn(ctx, due, attempt, unproven) })
	}
}

// nextDue returns the delivery whose request is to begin, as queue.next does. Deliveries of a replay come after the
// others, and get half of the requests that may be open.
func (r *runner) nextDue(now time.Time, content *document.WebhookEndpoint) (*pending, time.Time) {
	ordered := content.Ordering == document.WebhookByEntity
	live, at := r.queue.next(now, ordered, false)
	if live != nil || r.replay == nil || int64(r.queue.replaysSending()) >= max(min(r.window, content.MaxConcurrent)/2, 1) {
		return live, at
	}
	replayed, replayedAt := r.queue.next(now, ordered, true)
	if replayed == nil && !replayedAt.IsZero() && (at.IsZero() || replayedAt.Before(at)) {
		at = replayedAt
	}
	return replayed, at
}

// sendInTurn sends one request once it has its slots.
func (r *runner) sendInTurn(ctx context.Context, p *pending, attempt int64, unproven bool) {
	leave, err := r.d.turn(ctx, r.key, unproven)
	r.slotted <- struct{}{}
	if err != nil {
		r.results <- result{of: p, unsent: true, at: r.now()}
		return
	}
	r.send(ctx, p, attempt, leave)
}

// send sends one request, gives its slots back, and reports the result.
func (r *runner) send(ctx context.Context, p *pending, attempt int64, leave func()) {
	done := result{of: p, unsent: true}
	defer func() {
		leave()
		done.at = r.now()
		r.results <- done
	}()
	// The endpoint may have changed while the request waited.
	_, content := r.d.served(r.key)
	if content == nil {
		return
	}
	t, err := r.targets.of(r.d, r.key, content)
	if err != nil {
		done.unsigned = err
		return
	}
	event := p.event
	if event == nil {
		if event, err = r.d.event(ctx, r.key, p.Event); err != nil {
			return
		}
	}
	if event == nil {
		done.unsent, done.failure = false, forgotten
		return
	}
	if content.Personal {
		if event, err = r.d.withPersonalData(ctx, r.key, event); err != nil {
			return
		}
	}
	more := http.Header{"Cardea-Attempt": {strconv.FormatInt(attempt, 10)}}
	if p.Replay != 0 {
		more["Cardea-Replay"] = []string{ids.Format(p.Replay)}
	}
	done.outcome = r.d.client.send(ctx, t, event, events.IDPrefix, more, r.d.Clock)
	done.unsent = !done.success() && ctx.Err() != nil // the server ends
}

// askerOf is an endpoint among those that need slots.
func askerOf(k key) egress.Asker {
	return egress.Asker{Deployment: k.deployment, Source: ids.Format(k.endpoint)}
}

// slotNow takes the slot of a request if one is free. The requests of an endpoint that may not respond wait in turn.
func (d *Dispatcher) slotNow(k key, unproven bool) (leave func(), has bool) {
	if unproven {
		return nil, false
	}
	return d.slots.TryBegin(askerOf(k))
}

// turn waits for the slots of a request.
func (d *Dispatcher) turn(ctx context.Context, k key, unproven bool) (leave func(), err error) {
	of, first := askerOf(k), func() {}
	if unproven {
		if first, err = d.unproven.Begin(ctx, of); err != nil {
			return nil, err
		}
	}
	second, err := d.slots.Begin(ctx, of)
	if err != nil {
		first()
		return nil, err
	}
	return func() { second(); first() }, nil
}

// event reads an event, nil if it was deleted.
func (d *Dispatcher) event(ctx context.Context, k key, id int64) (event *people.LoggedEvent, err error) {
	err = d.Store.View(ctx, k.deployment, func(tx people.Tx) error {
		e, found, err := tx.EventLog().LoggedEvent(id)
		if found {
			event = &e
		}
		return err
	})
	return event, err
}

// withPersonalData returns a copy of an event with the personal data that the store has now.
func (d *Dispatcher) withPersonalData(ctx context.Context, k key, e *people.LoggedEvent) (*people.LoggedEvent, error) {
	list := []people.LoggedEvent{*e}
	err := d.Store.View(ctx, k.deployment, func(tx people.Tx) error { return events.AddPersonal(tx.EventLog(), list) })
	return &list[0], err
}
