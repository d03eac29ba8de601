package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
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
	if len(r.ended) == 0 {
		r.endedSince = time.Now()
	}
	_, content := r.d.served(r.key)
	if content == nil {
		content = &document.WebhookEndpoint{MaxConcurrent: 1, RetrySeconds: 1 << 30, DisableAfterSeconds: 1 << 30}
	}
	reported := r.state.Reported
	p.HTTPStatus, p.Latency = int64(done.status), done.latency
	p.Tries = withTry(p.Tries, Try{At: done.at, Status: done.status, Milliseconds: done.latency.Milliseconds(), Error: done.failure, Excerpt: done.excerpt})
	switch {
	case done.success():
		p.Status, p.SettledAt, p.NextAt = people.DeliveryDelivered, done.at, time.Time{}
		r.succeeded(done.status, done.at, content)
	case done.failure == forgotten:
		p.Status, p.SettledAt, p.NextAt = people.DeliveryFailed, done.at, time.Time{}
	default:
		if r.failed(done.status, done.failure, done.at, content); done.status == http.StatusGone {
			r.gone(done.at)
		}
		if p.retry(done.at, done.retryAfter); p.expired(done.at, content) {
			p.Status, p.SettledAt, p.NextAt = people.DeliveryFailed, done.at, time.Time{}
		}
	}
	r.report(reported, done.at, content)
	outcome := outcomeRetried
	switch p.Status {
	case people.DeliveryDelivered:
		outcome = outcomeDelivered
	case people.DeliveryFailed:
		outcome = outcomeFailed
	}
	r.d.metrics.ended(r.key.deployment, outcome, done.latency)
	r.ended = append(r.ended, p)
	r.queue = r.queue.without()
}

// report notes the events about the endpoint itself after a result. reported is how many reports of a failure there
// were before it.
func (r *runner) report(reported int64, now time.Time, content *document.WebhookEndpoint) {
	s := &r.state
	switch due := r.due(now, content); {
	case s.FailingSince.IsZero() && reported > 0:
		r.happened(events.OfEndpoint(events.EndpointRecovered, r.key.endpoint, "", time.Time{}), now)
	case !s.DisabledAt.IsZero() && s.DisabledAt.Equal(now):
		cause := events.CauseSustained
		if s.Reason == reasonGone {
			cause = events.CauseGone
		}
		r.happened(events.OfEndpoint(events.EndpointDisabled, r.key.endpoint, cause, s.FailingSince), now)
	case due > s.Reported:
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

// flush writes results once there are enough, or they are old enough, or all is to be written, and renews the lease.
func (r *runner) flush(ctx context.Context, all bool) error {
	now := r.now()
	if now.Before(r.failedUntil) {
		return r.lost(now)
	}
	due := len(r.ended) > 0 && (all || len(r.ended) >= settleMost || time.Since(r.endedSince) >= settleAfter)
	if !due && r.state.LeasedUntil.Sub(now) > leaseFor-renewAfter {
		return nil
	}
	r.state.LeasedUntil = now.Add(leaseFor)
	if err := r.write(ctx); err != nil {
		return r.failedWrite(err)
	}
	return nil
}

// write writes the results and the state.
func (r *runner) write(ctx context.Context) error {
	rows := make([]people.WebhookDelivery, 0, len(r.ended))
	for _, p := range r.ended {
		rows = append(rows, p.WebhookDelivery)
	}
	own := r.own
	err := r.change(ctx, func(tx people.Tx) error {
		if len(own) > 0 {
			if err := tx.Records().LogEvents(own); err != nil {
				return err
			}
		}
		return tx.Webhooks().UpdateDeliveries(unique(rows))
	})
	if err == nil {
		r.ended, r.own = r.ended[:0], nil
	}
	return err
}

// unique returns the last row of each id: a delivery may have two results before they are written.
func unique(rows []people.WebhookDelivery) []people.WebhookDelivery {
	seen := map[int64]bool{}
	var kept []people.WebhookDelivery
	for _, row := range slices.Backward(rows) {
		if !seen[row.ID] {
			seen[row.ID] = true
			kept = append(kept, row)
		}
	}
	return kept
}

// change runs a transaction that also writes the state. Errors: errFenced.
func (r *runner) change(ctx context.Context, do func(people.Tx) error) error {
	r.state.NextAt = r.queue.earliest()
	if !r.again.IsZero() {
		r.state.NextAt = r.again
	}
	return r.d.Store.Change(ctx, r.key.deployment, func(tx people.Tx) error {
		held, err := tx.Webhooks().UpdateWebhookState(r.state, r.state.Epoch)
		if err == nil && !held {
			err = errFenced
		}
		if err != nil {
			return err
		}
		return do(tx)
	})
}

// failedWrite lets a failed transaction be repeated later. It returns the error if the lease is lost.
func (r *runner) failedWrite(err error) error {
	if errors.Is(err, errFenced) {
		return err
	}
	now := r.now()
	if r.failedUntil.IsZero() || now.After(r.failedUntil.Add(leaseFor)) {
		r.d.Log.Error(err, "Deliveries of a webhook endpoint were not written; trying again", "deployment", r.key.deployment)
	}
	r.failedUntil = now.Add(retryWrite)
	return r.lost(now)
}

// lost returns an error once the lease has ended.
func (r *runner) lost(now time.Time) error {
	if now.After(r.state.LeasedUntil) {
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
		_ = json.Unmarshal([]byte(text), &tries) // the store has what withTry wrote
	}
	return tries
}

// withTry adds a request to the record of a delivery, which keeps the first and the last ones.
func withTry(text string, try Try) string {
	tries := append(TriesOf(text), try)
	if len(tries) > triesMost {
		tries = slices.Delete(tries, 1, len(tries)-triesMost+1)
	}
	written, _ := json.Marshal(tries) // texts and numbers cannot fail
	return string(written)
}
