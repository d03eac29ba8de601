package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/eventtype"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// replayBatch is how many deliveries of a replay one transaction writes, once fewer than replayLow are open.
	replayBatch, replayLow = 100, 50
	// partsMost is how many batches of events that need no request are read at once.
	partsMost = 10
	// ReplayAttempts bounds the requests of a delivery of a replay.
	ReplayAttempts = 5
)

// errCancelled means that a request ended the replay.
var errCancelled = errors.New("the replay was cancelled")

// selection says which events a replay sends, as its row has it.
type selection struct {
	// Deliveries and Events are ids.
	Deliveries []int64 `json:"deliveries,omitempty"`
	Events     []int64 `json:"events,omitempty"`
	// Status and Type select a range of failed deliveries or of all events. From is exclusive. From and To are ids of
	// deliveries or numbers of events.
	Status string `json:"status,omitempty"`
	Type   string `json:"type,omitempty"`
	From   int64  `json:"from,omitempty"`
	To     int64  `json:"to,omitempty"`
	// Digest is that of the request, to compare requests with one idempotency key.
	Digest string `json:"digest,omitempty"`
}

// end is the place at which all was read.
func (s *selection) end() int64 {
	switch {
	case len(s.Deliveries) > 0:
		return int64(len(s.Deliveries))
	case len(s.Events) > 0:
		return int64(len(s.Events))
	}
	return s.To
}

// picked is an event that a replay sends, and the delivery that it repeats, 0 for none.
type picked struct {
	event  people.LoggedEvent
	source int64
}

// pick reads the next part of a selection. It returns the place after it, and how many entries need no request: events
// that were deleted, or that the endpoint does not select.
func (s *selection) pick(tx people.Tx, endpoint, place int64, types []string) (batch []picked, next, skipped int64, err error) {
	switch {
	case len(s.Deliveries) > 0:
		next = min(place+replayBatch, s.end())
		rows, err := tx.Webhooks().DeliveriesAmong(endpoint, s.Deliveries[place:next])
		if err != nil {
			return nil, 0, 0, err
		}
		batch, err = sources(tx, rows)
		return batch, next, next - place - int64(len(batch)), err
	case len(s.Events) > 0:
		next = min(place+replayBatch, s.end())
		list, err := tx.EventLog().LoggedEvents(s.Events[place:next])
		batch = s.among(list, endpoint, types)
		return batch, next, next - place - int64(len(batch)), err
	case s.Status == ReplayAll:
		list, err := tx.EventLog().EventsAfter(place, replayBatch)
		for len(list) > 0 && list[len(list)-1].Sequence > s.To {
			list = list[:len(list)-1]
		}
		if next = s.To; len(list) == replayBatch {
			next = list[len(list)-1].Sequence
		}
		batch = s.among(list, endpoint, types)
		return batch, next, next - place - int64(len(batch)), err
	}
	rows, err := tx.Webhooks().Deliveries(endpoint, s.dead(place), replayBatch)
	if err != nil {
		return nil, 0, 0, err
	}
	if next = s.To; len(rows) == replayBatch {
		next = rows[len(rows)-1].ID
	}
	batch, err = sources(tx, rows)
	batch = slices.DeleteFunc(batch, func(p picked) bool { return !sends(types, endpoint, &p.event) })
	return batch, next, int64(len(rows) - len(batch)), err
}

// dead selects the failed deliveries of the range after a place.
func (s *selection) dead(place int64) people.DeliveryFilter {
	return people.DeliveryFilter{Dead: true, Type: s.Type, After: place, Before: s.To, OldestFirst: true, Brief: true}
}

// among returns those events that the endpoint may get.
func (s *selection) among(list []people.LoggedEvent, endpoint int64, types []string) (batch []picked) {
	for _, e := range list {
		if (s.Type == "" || s.Type == e.Type) && sends(types, endpoint, &e) {
			batch = append(batch, picked{event: e})
		}
	}
	return batch
}

// sends reports whether an endpoint gets an event: if its types select it, and if it is not about the endpoint.
func sends(types []string, endpoint int64, e *people.LoggedEvent) bool {
	return eventtype.Matches(types, e.Type, e.Version) && (e.SubjectType != events.SubjectWebhookEndpoint || e.SubjectID != ids.Format(endpoint))
}

// sources returns the events of deliveries, without those that were deleted.
func sources(tx people.Tx, rows []people.WebhookDelivery) (batch []picked, err error) {
	var wanted []int64
	for _, d := range rows {
		wanted = append(wanted, d.Event)
	}
	list, err := tx.EventLog().LoggedEvents(wanted)
	found := map[int64]people.LoggedEvent{}
	for _, e := range list {
		found[e.ID] = e
	}
	for _, d := range rows {
		if e, has := found[d.Event]; has {
			// A delivery of a replay stands for the one that it repeats.
			source := d.ID
			if d.Source != 0 {
				source = d.Source
			}
			batch = append(batch, picked{e, source})
		}
	}
	return batch, err
}

// replaying is the replay that a runner has.
type replaying struct {
	people.WebhookReplay
	chosen selection
}

// readReplay reads the replay of the endpoint that has not ended, nil if there is none.
func readReplay(tx people.Tx, endpoint int64) (*replaying, error) {
	row, found, err := tx.Webhooks().OpenReplay(endpoint)
	if err != nil || !found {
		return nil, err
	}
	read := &replaying{WebhookReplay: row}
	return read, json.Unmarshal([]byte(row.Selection), &read.chosen)
}

// exhausted reports whether all of the selection was read.
func (p *replaying) exhausted() bool { return p.Place >= p.chosen.end() }

// pick reads parts of the selection after the place of the replay before, until one has events to send, and at most
// partsMost.
func (p *replaying) pick(tx people.Tx, before *replaying, types []string) (batch []picked, err error) {
	p.Place, p.Skipped = before.Place, before.Skipped
	for n := 0; n < partsMost && len(batch) == 0 && !p.exhausted() && err == nil; n++ {
		var skipped int64
		batch, p.Place, skipped, err = p.chosen.pick(tx, p.Endpoint, p.Place, types)
		p.Skipped += skipped
	}
	return batch, err
}

// follow looks for a new replay, and for the end of the present one.
func (r *runner) follow(ctx context.Context) error {
	if r.followed || r.working || r.now().Before(r.failedUntil) {
		return nil
	}
	open := r.replay
	err := r.d.Store.View(ctx, r.key.deployment, func(tx people.Tx) error {
		id, found, err := tx.Webhooks().OpenReplayID(r.key.endpoint)
		if err != nil || found && r.replay != nil && r.replay.ID == id { // the counts in memory are newer
			return err
		}
		if open = nil; found {
			open, err = readReplay(tx, r.key.endpoint)
		}
		return err
	})
	if err != nil {
		return r.failedWrite(err)
	}
	r.followed, r.lookedAt, r.replay = true, time.Now(), open
	r.dropCancelled()
	return nil
}

// dropCancelled ends the deliveries of replays that are no longer open. One whose request is open follows later.
func (r *runner) dropCancelled() {
	now := r.now()
	r.queue = slices.DeleteFunc(r.queue, func(p *pending) bool {
		if p.Replay == 0 || p.sending || r.replay != nil && r.replay.ID == p.Replay {
			return false
		}
		p.Status, p.SettledAt, p.NextAt = people.DeliverySkipped, now, time.Time{}
		p.drop(r.d.held, &r.holds)
		r.ends(p)
		return true
	})
}

// refill begins to write the next deliveries of the replay, once few are open.
func (r *runner) refill(ctx context.Context, content *document.WebhookEndpoint) error {
	now := r.now()
	if r.working {
		return nil
	}
	// The state is not stored without the events about it.
	if r.more = false; r.replay == nil || r.partial || len(r.own) > 0 || r.notice != nil || now.Before(r.failedUntil) {
		return nil
	}
	next := *r.replay
	open := r.queue.replayed()
	if next.exhausted() && (open > 0 || r.endsReplay()) || open >= replayLow || open > 0 && r.failing() {
		return nil
	}
	if next.Status == people.ReplayPending {
		next.Status, next.StartedAt = people.ReplayRunning, now
	}
	before, ends := r.replay, open == 0 && !r.endsReplay()
	state := r.stateNow()
	state.NextAt, state.Blocked = now, r.blocked
	r.beside(func() func() error {
		var batch []picked
		if !next.exhausted() {
			err := r.d.Store.View(ctx, r.key.deployment, func(tx people.Tx) (err error) {
				batch, err = next.pick(tx, before, content.Types)
				return err
			})
			if err != nil {
				return func() error { return r.failedWrite(err) }
			}
		}
		added, rows := r.repeats(batch, next.ID, now)
		if len(rows) == 0 && ends && next.exhausted() {
			next.Status, next.CompletedAt = people.ReplayCompleted, now
		}
		cancelled, err := r.d.change(ctx, r.key.deployment, state, &next, func(tx people.Tx, cancelled bool) error {
			if cancelled {
				return errCancelled
			}
			return tx.Webhooks().InsertDeliveries(rows)
		})
		return func() error {
			switch {
			case cancelled && errors.Is(err, errCancelled): // nothing was written
				r.followed = false
				return dropAll(added, r.d.held, &r.holds)
			case err != nil:
				r.again = now
				return errors.Join(errUncertain, err)
			}
			r.queue, r.replay = append(r.queue, added...), &next
			r.more = len(added) == 0 && next.CompletedAt.IsZero()
			if !next.CompletedAt.IsZero() {
				r.replay = nil
			}
			return nil
		}
	})
	return nil
}

// endsReplay reports whether results of the replay are not written yet.
func (r *runner) endsReplay() bool {
	for _, p := range r.ended {
		if p.Replay == r.replay.ID {
			return true
		}
	}
	return false
}

// repeats returns the deliveries of events of a replay.
func (r *runner) repeats(batch []picked, replay int64, now time.Time) (added []*pending, rows []people.WebhookDelivery) {
	id := firstID(now)
	for i := range batch {
		id++
		p := r.delivery(id, &batch[i].event, now)
		p.Replay, p.Source = replay, batch[i].source
		added, rows = append(added, p), append(rows, p.WebhookDelivery)
	}
	return added, rows
}

// counted returns the replay with the results that are to be written, nil if there is none, and the events that
// replays delivered. The numbers are absolute, so that they can be written again.
func (r *runner) counted() (next *replaying, resent []int64) {
	if r.replay != nil {
		next = &replaying{r.replay.WebhookReplay, r.replay.chosen}
	}
	settled := map[int64]bool{}
	for _, p := range r.ended {
		if p.Replay == 0 || settled[p.ID] || p.Status != people.DeliveryDelivered && p.Status != people.DeliveryFailed {
			continue
		}
		settled[p.ID] = true
		delivered := p.Status == people.DeliveryDelivered
		if delivered {
			resent = append(resent, p.Event)
		}
		switch {
		case next == nil || next.ID != p.Replay: // it was cancelled
		case delivered:
			next.Replayed++
		default:
			next.Failed++
		}
	}
	if next != nil && next.exhausted() && r.queue.replayed() == 0 && !r.partial {
		next.Status, next.CompletedAt = people.ReplayCompleted, r.now()
	}
	return next, resent
}
