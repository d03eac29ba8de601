package webhooks

import (
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// failingFrom is how many failures in a row make an endpoint failing: one request at a time probes it then.
	failingFrom = 5
	// probeFirst and probeMost are the pauses between two probes: the first one, doubled up to the second one.
	probeFirst, probeMost = time.Second, 10 * time.Second
	// leastTries is how many requests failed before an endpoint is disabled.
	leastTries = 20
	// reportsMost is how many reports of one failure programs get.
	reportsMost = 2
	// trialFor is how long an endpoint that was enabled again may fail without any success.
	trialFor = time.Hour
)

// The values of people.WebhookState.Reason.
const (
	reasonSustained = "SustainedFailure"
	reasonGone      = "Gone"
)

// health decides how many requests an endpoint gets at once, and when it is disabled. It is used by one goroutine.
type health struct {
	state *people.WebhookState
	// window is how many requests may be open at once. It grows by successes.
	window int64
	// nextProbe is when the next probe of a failing endpoint may begin.
	nextProbe time.Time
	// pausedUntil is when the next request may begin: after one that could not be signed, or as the receiver asked.
	pausedUntil time.Time
}

// newHealth returns the health of an endpoint. One that did not succeed yet begins with one request.
func newHealth(state *people.WebhookState, content *document.WebhookEndpoint) *health {
	h := &health{state: state, window: 1}
	if !state.SucceededAt.IsZero() && state.Failures == 0 {
		h.window = content.MaxConcurrent
	}
	return h
}

// failing reports whether the endpoint is probed.
func (h *health) failing() bool { return h.state.Failures >= failingFrom }

// unproven reports whether the endpoint shares the slots of those that may not respond.
func (h *health) unproven() bool { return h.failing() || h.state.SucceededAt.IsZero() }

// pausedTo returns until when no request may begin. It is in the past, or zero, without a pause.
func (h *health) pausedTo() time.Time {
	if h.failing() && h.nextProbe.After(h.pausedUntil) {
		return h.nextProbe
	}
	return h.pausedUntil
}

// permits reports whether another request may begin while others are open.
func (h *health) permits(open int, now time.Time, content *document.WebhookEndpoint) bool {
	if h.failing() {
		return open == 0 && !now.Before(h.nextProbe)
	}
	return int64(open) < min(h.window, content.MaxConcurrent)
}

// succeeded notes a success.
func (h *health) succeeded(status int, now time.Time, content *document.WebhookEndpoint) {
	s := h.state
	if !h.failing() {
		h.window = min(h.window*2, content.MaxConcurrent)
	} else {
		h.window = min(2, content.MaxConcurrent)
	}
	s.Failures, s.FailingSince, s.Reported, s.Status, s.Error, s.SucceededAt = 0, time.Time{}, 0, int64(status), "", now
	h.nextProbe = time.Time{}
}

// failed notes a failure, and disables the endpoint if it failed long enough.
func (h *health) failed(status int, text string, now time.Time, content *document.WebhookEndpoint) {
	s := h.state
	s.Failures++
	if s.FailingSince.IsZero() {
		s.FailingSince = now
	}
	s.Status, s.Error = int64(status), text
	if h.failing() {
		h.window = 1
		h.nextProbe = now.Add(min(probeFirst<<min(s.Failures-failingFrom, 10), probeMost))
	}
	after, least := time.Duration(content.DisableAfterSeconds)*time.Second, int64(leastTries)
	if !s.EnabledAt.IsZero() && s.SucceededAt.Before(s.EnabledAt) {
		after, least = min(after, trialFor), 1
	}
	if s.Failures >= least && now.Sub(s.FailingSince) >= after {
		h.disable(reasonSustained, now)
	}
}

// disable disables the endpoint, unless it is disabled already.
func (h *health) disable(reason string, now time.Time) {
	if h.state.DisabledAt.IsZero() {
		h.state.DisabledAt, h.state.Reason = now, reason
	}
}

// due returns how many reports of the present failure programs should have by now: one once the endpoint counts as
// failing, and another one at half of the time after which it is disabled.
func (h *health) due(now time.Time, content *document.WebhookEndpoint) int64 {
	s := h.state
	half := time.Duration(content.DisableAfterSeconds) * time.Second / 2
	switch {
	case !s.Fails(now):
		return 0
	case now.Sub(s.FailingSince) >= half:
		return reportsMost
	}
	return 1
}

// enabled returns the state of an endpoint that is enabled again at a time: it continues where it was disabled.
func enabled(s people.WebhookState, now time.Time) people.WebhookState {
	s.DisabledAt, s.Reason, s.EnabledAt = time.Time{}, "", now
	s.Failures, s.FailingSince, s.Reported = 0, time.Time{}, 0
	return s
}

// enable is enabled, and lets the open deliveries of the endpoint be due.
func enable(tx people.Tx, s people.WebhookState, now time.Time) (people.WebhookState, error) {
	s = enabled(s, now)
	hastened, err := tx.Webhooks().HastenDeliveries(s.Endpoint, now)
	if s.NextAt, s.Blocked = now, false; hastened == 0 {
		s.NextAt = time.Time{}
	}
	return s, err
}
