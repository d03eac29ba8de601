package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// triesMost bounds the recorded requests of a delivery: the first one and the last ones.
const triesMost = 12

// errFenced means that another server has the endpoint.
var errFenced = errors.New("another server has the endpoint")

// errUncertain means that a transaction failed that may have been committed.
var errUncertain = errors.New("it is not known whether deliveries were written")

// collect notes the result of a request.
func (r *runner) collect(done result) {
	p := done.of
	p.sending = false
	if done.unsent {
		r.uncounted(done)
		return
	}
	_, content := r.d.served(r.key)
	if content == nil {
		content = &document.WebhookEndpoint{MaxConcurrent: 1, RetrySeconds: 1 << 30, DisableAfterSeconds: 1 << 30}
	}
	reported, disabled := r.state.Reported, !r.state.DisabledAt.IsZero()
	p.HTTPStatus, p.Latency = int64(done.status), done.latency
	p.tries = append(p.tries, Try{At: done.at, Status: done.status, Milliseconds: done.latency.Milliseconds(), Error: done.failure, Excerpt: done.excerpt})
	outcome := outcomeRetried
	switch {
	case done.success():
		p.Status, p.SettledAt, p.NextAt, outcome = people.DeliveryDelivered, done.at, time.Time{}, outcomeDelivered
		r.succeeded(done.status, done.at, content)
	case done.failure == forgotten:
		p.Status, p.SettledAt, p.NextAt, outcome = people.DeliveryFailed, done.at, time.Time{}, outcomeFailed
	default:
		if r.failed(done.status, done.failure, done.at, content); done.status == http.StatusGone {
			r.disable(reasonGone, done.at)
		}
		if done.retryAfter.After(r.pausedUntil) {
			r.pausedUntil = done.retryAfter
		}
		p.event = nil // it is read again
		if p.retry(done.at, done.retryAfter); p.expired(r.state.EnabledAt, content) || p.Replay != 0 && p.Attempts >= ReplayAttempts {
			p.Status, p.SettledAt, p.NextAt, outcome = people.DeliveryFailed, done.at, time.Time{}, outcomeFailed
		}
	}
	r.report(reported, disabled, done.at, content)
	r.d.metrics.ended(r.key.deployment, outcome, done.latency)
	r.ends(p)
	r.queue = r.queue.without()
}

// ends keeps a result until the next transaction, which writes it.
func (r *runner) ends(p *pending) {
	if len(r.ended) == 0 {
		r.endedSince = time.Now()
	}
	r.ended = append(r.ended, p)
}

// uncounted lets a request be repeated that did not fail because of its receiver.
func (r *runner) uncounted(done result) {
	done.of.Attempts--
	done.of.NextAt = done.at.Add(repeatUnsent)
	if done.unsigned != nil {
		r.d.Log.Error(done.unsigned, "A webhook cannot be signed; trying again", "deployment", r.key.deployment)
		r.pausedUntil = done.at.Add(unsignedFor)
	}
}

// report notes the events about the endpoint itself after a result. reported is how many reports of a failure there
// were before it, and disabled reports whether the endpoint was disabled before it.
func (r *runner) report(reported int64, disabled bool, now time.Time, content *document.WebhookEndpoint) {
	s := &r.state
	switch due := r.due(now, content); {
	case s.FailingSince.IsZero() && reported > 0:
		r.happened(events.OfEndpoint(events.EndpointRecovered, r.key.endpoint, "", time.Time{}), now)
	case !s.DisabledAt.IsZero() && !disabled:
		cause := events.CauseSustained
		if s.Reason == reasonGone {
			cause = events.CauseGone
		}
		r.happened(events.OfEndpoint(events.EndpointDisabled, r.key.endpoint, cause, s.FailingSince), now)
		r.notice = &notice{at: now, since: s.FailingSince, name: content.Name, status: s.Status, gone: s.Reason == reasonGone}
	case due > s.Reported && s.DisabledAt.IsZero():
		s.Reported = due
		r.happened(events.OfEndpoint(events.EndpointFailing, r.key.endpoint, "", s.FailingSince), now)
	}
}

// happened keeps an event until the next transaction, which records it.
func (r *runner) happened(e events.Event, now time.Time) {
	logged, err := e.Log(now, "system")
	if err != nil {
		r.d.Log.Error(err, "An event of a webhook endpoint was not recorded")
		return
	}
	r.own = append(r.own, logged)
}

// flush writes results once there are enough, or they are old enough, and renews the lease.
func (r *runner) flush(ctx context.Context) error {
	now := r.now()
	if now.Before(r.failedUntil) {
		return r.fenced(now)
	}
	due := len(r.ended) >= settleMost || len(r.ended) > 0 && time.Since(r.endedSince) >= settleAfter
	if !due && r.leasedUntil.Sub(now) > leaseFor-renewAfter {
		return nil
	}
	r.state.LeasedUntil = now.Add(leaseFor)
	if err := r.write(ctx); err != nil {
		return r.failedWrite(err)
	}
	r.leasedUntil = r.state.LeasedUntil
	return nil
}

// write writes the results and the state.
func (r *runner) write(ctx context.Context) error {
	// A delivery may have two results before they are written.
	written := map[int64]*pending{}
	var before []int64 // the deliveries that have earlier requests
	for _, p := range r.ended {
		if written[p.ID] == nil && p.Attempts > int64(len(p.tries)) {
			before = append(before, p.ID)
		}
		written[p.ID] = p
	}
	own, mail, replay, posted := r.own, r.notice, r.replay, false
	next, resent := r.counted()
	r.replay = next
	err := r.change(ctx, func(tx people.Tx) error {
		if err := tx.Webhooks().MarkResent(r.key.endpoint, resent); err != nil {
			return err
		}
		var err error
		if posted, err = r.announce(tx, own, mail); err != nil {
			return err
		}
		recorded, err := tx.Webhooks().DeliveryTries(before)
		if err != nil {
			return err
		}
		rows := make([]people.WebhookDelivery, 0, len(written))
		for _, p := range written {
			row := p.WebhookDelivery
			row.Tries = withTries(recorded[p.ID], p.tries)
			rows = append(rows, row)
		}
		return tx.Webhooks().UpdateDeliveries(rows)
	})
	if err != nil {
		r.replay = replay
		return err
	}
	if next != nil && !next.CompletedAt.IsZero() {
		r.replay = nil
	}
	for _, p := range r.ended {
		p.tries = nil
	}
	if posted && r.d.OnEnqueue != nil {
		r.d.OnEnqueue()
	}
	r.ended, r.own, r.notice = r.ended[:0], nil, nil
	return nil
}

// change runs a transaction that also writes the state. Errors: errFenced.
func (r *runner) change(ctx context.Context, do func(people.Tx) error) error {
	r.state.NextAt = r.queue.earliest()
	if !r.idleUntil.IsZero() {
		r.state.NextAt = r.idleUntil
	}
	if !r.again.IsZero() {
		r.state.NextAt = r.again
	}
	r.state.Blocked = r.blocked && !r.state.NextAt.IsZero()
	return r.d.Store.Change(ctx, r.key.deployment, func(tx people.Tx) error {
		held, err := tx.Webhooks().UpdateWebhookState(r.state, r.state.Epoch)
		if err == nil && !held {
			err = errFenced
		}
		if err == nil {
			err = r.saveReplay(tx)
		}
		if err != nil {
			return err
		}
		return do(tx)
	})
}

// failedWrite lets a failed transaction be repeated later. It returns errFenced if the lease is lost.
func (r *runner) failedWrite(err error) error {
	if errors.Is(err, errFenced) {
		return err
	}
	now := r.now()
	if r.failedUntil.IsZero() || now.After(r.failedUntil.Add(leaseFor)) {
		r.d.Log.Error(err, "Deliveries of a webhook endpoint were not written; trying again", "deployment", r.key.deployment)
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

// Try is a request of a delivery, as its record has it.
type Try struct {
	At time.Time `json:"at"`
	// Status is the HTTP status, 0 without a response.
	Status       int    `json:"status,omitempty"`
	Milliseconds int64  `json:"ms"`
	Error        string `json:"error,omitempty"`
	// Excerpt is the beginning of the response's body.
	Excerpt string `json:"excerpt,omitempty"`
}

// TriesOf reads the requests of a delivery.
func TriesOf(text string) (tries []Try) {
	if text != "" {
		_ = json.Unmarshal([]byte(text), &tries) // the store has what withTries wrote
	}
	return tries
}

// withTries adds requests to the record of a delivery. It keeps the first and the last ones, and of their responses the
// first and the last one.
func withTries(text string, more []Try) string {
	tries := append(TriesOf(text), more...)
	if len(tries) > triesMost {
		tries = slices.Delete(tries, 1, len(tries)-triesMost+1)
	}
	for i := 1; i < len(tries)-1; i++ {
		tries[i].Excerpt = ""
	}
	if len(tries) == 0 {
		return ""
	}
	var written strings.Builder
	encoder := json.NewEncoder(&written)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(tries) // texts and numbers cannot fail
	return strings.TrimSuffix(written.String(), "\n")
}
