package webhooks

import (
	"encoding/json"
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

// collectAll notes the result of a request, and those that are there with it.
func (r *runner) collectAll(done result) {
	for more := true; more; {
		r.collect(done)
		r.queue = r.queue.without(done.of)
		select {
		case done = <-r.results:
		default:
			more = false
		}
	}
}

// collect notes the result of a request. The queue keeps the delivery.
func (r *runner) collect(done result) {
	p := done.of
	p.sending = false
	if done.unsent {
		r.uncounted(done)
		return
	}
	entry, content := r.d.served(r.key)
	to := counted{deployment: r.key.deployment}
	if content != nil {
		to.endpoint = entry.Name
	} else {
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
		if p.retry(done.at, done.retryAfter); p.expired(r.state.EnabledAt, content) || p.Replay != 0 && p.Attempts >= ReplayAttempts {
			p.Status, p.SettledAt, p.NextAt, outcome = people.DeliveryFailed, done.at, time.Time{}, outcomeFailed
		}
	}
	p.drop(r.d.held, &r.holds)
	r.report(reported, disabled, done.at, content)
	r.d.metrics.ended(to, outcome, done.latency)
	r.ends(p)
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
		if due == reportsMost {
			ends := s.FailingSince.Add(time.Duration(content.DisableAfterSeconds) * time.Second)
			r.notice = &notice{at: now, since: s.FailingSince, ends: ends, name: content.Name, status: s.Status}
		}
		r.happened(events.OfEndpoint(events.EndpointFailing, r.key.endpoint, causeOf(s.Status, s.Error), s.FailingSince), now)
	}
}

// causeOf returns what programs learn of a request that failed, by its status and its failure.
func causeOf(status int64, failure string) string {
	switch {
	case status != 0:
		return events.CauseStatus
	case failure == failedTimeout:
		return events.CauseTimeout
	case failure == failedTLS, failure == failedNoTLS:
		return events.CauseTLS
	case failure == failedRefused:
		return events.CauseNotPermitted
	}
	return events.CauseUnreachable
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
