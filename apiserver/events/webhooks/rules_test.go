package webhooks

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

var began = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func usual() *document.WebhookEndpoint {
	return &document.WebhookEndpoint{MaxConcurrent: 8, RetrySeconds: 259200, DisableAfterSeconds: 432000, TimeoutSeconds: 15, Ordering: document.WebhookByEntity}
}

func TestPausesFollowTheSchedule(t *testing.T) {
	var at time.Duration
	for attempt, want := range []time.Duration{
		5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 20 * time.Hour,
	} {
		if got := pauseBefore(int64(attempt+1), 0); got != want {
			t.Errorf("after %d requests: %v", attempt+1, got)
		}
		if low, high := pauseBefore(int64(attempt+1), -1), pauseBefore(int64(attempt+1), 1); low != want*8/10 || high != want*12/10 {
			t.Errorf("after %d requests: %v to %v", attempt+1, low, high)
		}
		at += want
	}
	if at < 71*time.Hour || at > 73*time.Hour {
		t.Errorf("the schedule ends after %v", at)
	}
	for attempts, want := range map[int64]bool{1: false, 11: false, 12: true} {
		p := &pending{WebhookDelivery: people.WebhookDelivery{CreatedAt: began, Attempts: attempts}}
		p.NextAt = began
		for n := int64(1); n <= attempts; n++ {
			p.NextAt = p.NextAt.Add(pauseBefore(n, 0))
		}
		if got := p.expired(time.Time{}, usual()); got != want {
			t.Errorf("after %d requests, the next one is at %v: %t", attempts, p.NextAt.Sub(began), got)
		}
		if attempts == 12 && p.expired(began.Add(24*time.Hour), usual()) {
			t.Error("an endpoint that was enabled later gives deliveries no more time")
		}
	}
}

func TestReceiverMayAskForALongerPause(t *testing.T) {
	p := &pending{WebhookDelivery: people.WebhookDelivery{Attempts: 1}}
	if p.retry(began, began.Add(time.Minute)); !p.NextAt.Equal(began.Add(time.Minute)) {
		t.Errorf("%v", p.NextAt)
	}
	if p.retry(began, began.Add(time.Second)); p.NextAt.Before(began.Add(4 * time.Second)) {
		t.Errorf("a shorter pause counts: %v", p.NextAt)
	}
	for text, want := range map[string]time.Duration{
		"120": 2 * time.Minute, "86400": time.Hour, began.Add(10 * time.Minute).Format(http.TimeFormat): 10 * time.Minute,
		"": 0, "-1": 0, "soon": 0, "0": 0, began.Add(-time.Minute).Format(http.TimeFormat): 0, "99999999999999999999": 0,
	} {
		for status, counts := range map[int]bool{429: true, 503: true, 500: false, 302: false} {
			got := retryAfter(&http.Response{StatusCode: status, Header: http.Header{"Retry-After": {text}}}, began)
			if expected := counts && want > 0; got.IsZero() == expected || expected && !got.Equal(began.Add(want)) {
				t.Errorf("%d %q: %v", status, text, got)
			}
		}
	}
}

// queued returns a delivery of a subject.
func queued(sequence int64, subject string, created time.Duration, next time.Duration) *pending {
	return &pending{WebhookDelivery: people.WebhookDelivery{
		Sequence: sequence, SubjectType: "user", SubjectID: subject, Status: people.DeliveryPending, CreatedAt: began.Add(created), NextAt: began.Add(next),
	}}
}

func TestQueueKeepsTheOrderOfEachSubject(t *testing.T) {
	const due, later = -time.Second, time.Minute
	sending := queued(1, "a", 0, due)
	sending.sending = true
	sendingLater := queued(2, "a", 0, due)
	sendingLater.sending = true
	old := queued(1, "a", -2*time.Hour, due)
	old.sending = true
	for name, tc := range map[string]struct {
		q       queue
		ordered bool
		want    int64
		at      time.Duration
	}{
		"nothing":                               {nil, true, 0, 0},
		"the first":                             {queue{queued(1, "a", 0, due), queued(2, "a", 0, due)}, true, 1, 0},
		"one that waits for its predecessor":    {queue{queued(1, "a", 0, later), queued(2, "a", 0, due)}, true, 0, later},
		"without order":                         {queue{queued(1, "a", 0, later), queued(2, "a", 0, due)}, false, 2, 0},
		"another subject":                       {queue{queued(1, "a", 0, later), queued(2, "b", 0, due)}, true, 2, 0},
		"another type with the same id":         {queue{queued(1, "a", 0, later), {WebhookDelivery: people.WebhookDelivery{Sequence: 2, SubjectType: "organization", SubjectID: "a", NextAt: began}}}, true, 2, 0},
		"a predecessor that is sent":            {queue{sending, queued(2, "a", 0, due)}, true, 0, 0},
		"one that passes its predecessor later": {queue{queued(1, "a", -50*time.Minute, 2*time.Hour), queued(2, "a", 0, due)}, true, 0, 10 * time.Minute},
		"a predecessor that is passed now":      {queue{queued(1, "a", -2*time.Hour, due), sendingLater}, true, 0, 0},
		"a predecessor of more than an hour":    {queue{queued(1, "a", -time.Hour, later), queued(2, "a", 0, due)}, true, 2, 0},
		"an old predecessor that is sent":       {queue{old, queued(2, "a", 0, due)}, true, 0, 0},
		"one sent without order":                {queue{sending, queued(2, "a", 0, due)}, false, 2, 0},
		"the earliest time of those that wait":  {queue{queued(1, "a", 0, 2*later), queued(2, "b", 0, later)}, true, 0, later},
		"only the first of a subject has times": {queue{queued(1, "a", 0, 2*later), queued(2, "a", 0, later)}, true, 0, 2 * later},
	} {
		p, at := tc.q.next(began, tc.ordered, false)
		switch {
		case (p == nil) != (tc.want == 0), p != nil && p.Sequence != tc.want:
			t.Errorf("%s: %+v", name, p)
		case p == nil && tc.at == 0 && !at.IsZero(), p == nil && tc.at != 0 && !at.Equal(began.Add(tc.at)):
			t.Errorf("%s: at %v", name, at)
		}
	}
}

func TestFailingEndpointIsProbedByOneRequest(t *testing.T) {
	content := usual()
	state := &people.WebhookState{SucceededAt: began}
	h := newHealth(state, content)
	if !h.permits(7, began, content) || h.permits(8, began, content) || h.unproven() {
		t.Fatalf("a good endpoint has a window of %d", h.window)
	}
	for range failingFrom {
		h.failed(500, "HTTP status 500", began, content)
	}
	if !h.failing() || h.permits(0, began, content) || !h.permits(0, began.Add(probeFirst), content) || h.permits(1, began.Add(time.Hour), content) || !h.unproven() {
		t.Errorf("a failing endpoint: %+v", h)
	}
	for range 10 {
		h.failed(500, "HTTP status 500", began, content)
	}
	if pause := h.nextProbe.Sub(began); pause != probeMost {
		t.Errorf("the pause grows to %v", pause)
	}
	for _, want := range []int64{2, 4, 8, 8} {
		if h.succeeded(200, began, content); h.window != want || h.failing() {
			t.Errorf("the window is %d, want %d", h.window, want)
		}
	}
	if first := newHealth(&people.WebhookState{}, content); first.window != 1 || !first.unproven() {
		t.Errorf("a new endpoint: %+v", first)
	}
	content.MaxConcurrent = 1
	if h.permits(1, began, content) {
		t.Error("a smaller bound does not count at once")
	}
}

func TestEndpointIsDisabledByTimeAndTries(t *testing.T) {
	content := usual()
	fail := func(state *people.WebhookState, times int, last time.Time) {
		h := newHealth(state, content)
		for range times - 1 {
			h.failed(0, failedTimeout, began, content)
		}
		h.failed(0, failedTimeout, last, content)
	}
	enough := began.Add(5 * 24 * time.Hour)
	for name, tc := range map[string]struct {
		state people.WebhookState
		times int
		last  time.Time
		want  bool
	}{
		"long and often":                         {people.WebhookState{}, leastTries, enough, true},
		"long and rarely":                        {people.WebhookState{}, leastTries - 1, enough, false},
		"often and briefly":                      {people.WebhookState{}, 1000, enough.Add(-time.Second), false},
		"enabled again, without a success":       {people.WebhookState{EnabledAt: began}, 2, began.Add(trialFor), true},
		"enabled again, not for an hour":         {people.WebhookState{EnabledAt: began}, 1000, began.Add(trialFor - time.Second), false},
		"enabled again, with a success since":    {people.WebhookState{EnabledAt: began.Add(-time.Hour), SucceededAt: began}, 1000, began.Add(trialFor), false},
		"enabled again, with an earlier success": {people.WebhookState{EnabledAt: began, SucceededAt: began.Add(-time.Hour)}, 2, began.Add(trialFor), true},
	} {
		if fail(&tc.state, tc.times, tc.last); tc.state.DisabledAt.IsZero() == tc.want || tc.want && tc.state.Reason != reasonSustained {
			t.Errorf("%s: %+v", name, tc.state)
		}
	}
	disabled := people.WebhookState{Position: 7, DisabledAt: began, Reason: reasonGone, Failures: 30, FailingSince: began, Reported: 2}
	if s := enabled(disabled, enough); s.Position != 7 || !s.DisabledAt.IsZero() || s.Reason != "" || s.Failures != 0 || !s.EnabledAt.Equal(enough) || s.Reported != 0 {
		t.Errorf("enabled again: %+v", s)
	}
}

func TestProgramsLearnTwiceOfAFailure(t *testing.T) {
	content := usual()
	for lasts, want := range map[time.Duration]int64{0: 0, 10*time.Minute - 1: 0, 10 * time.Minute: 1, 59 * time.Hour: 1, 60 * time.Hour: 2, 200 * time.Hour: 2} {
		h := newHealth(&people.WebhookState{FailingSince: began}, content)
		if got := h.due(began.Add(lasts), content); got != want {
			t.Errorf("after %v: %d", lasts, got)
		}
	}
	if got := newHealth(&people.WebhookState{}, content).due(began, content); got != 0 {
		t.Errorf("without a failure: %d", got)
	}
}

func TestCountsOfEndpointsThatAreNotDeclaredAreForgotten(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(registry, time.Now)
	for _, name := range []string{"crm", ""} {
		m.ended(counted{"acme/main", name}, outcomeDelivered, time.Second)
		m.ended(counted{"acme/main", name}, outcomeFailed, time.Second)
	}
	if n := testutil.CollectAndCount(m.requests); n != 4 {
		t.Errorf("%d counts", n)
	}
	m.compared(nil, snapshot.NewFollower(nil, time.Second, time.Now, logr.Discard()).Current())
	if n := testutil.CollectAndCount(m.requests); n != 0 || len(m.counted) != 0 {
		t.Errorf("%d counts are left", n)
	}
}

func TestExcerptHasNeitherSecretsNorControlCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "",
		"all good":                       "all good",
		"a\x00b\r\nc\u202ed":             "a b  c d",
		"you sent Bearer hush-1 to me":   "you sent " + redacted + " to me",
		strings.Repeat("ä", 600):         strings.Repeat("ä", excerptMost),
		"\x1f\x8b\x08 no text\xff":       "",
		strings.Repeat("\xff", bodyMost): "",
		strings.Repeat("ä", bodyMost/2-1) + "a\xc3": strings.Repeat("ä", excerptMost),
		strings.Repeat("x", 510) + "Bearer hush-1":  strings.Repeat("x", 510) + redacted[:2],
	} {
		if got := excerpt([]byte(text), []string{"Bearer hush-1"}); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestExcerptHasNoFormOfASecret(t *testing.T) {
	forms := formsOf("Bearer a+b/c=\"d<")
	for _, text := range []string{
		`you sent Bearer a+b/c="d<`, `a+b/c="d< is no token`, `{"token":"a+b/c=\"d\u003c"}`, `/hooks?token=a%2Bb%2Fc%3D%22d%3C`, `/hooks/a+b%2Fc=%22d%3C/x`,
	} {
		if got := excerpt([]byte(text), forms); strings.Contains(got, "b/c") || strings.Contains(got, "b%2Fc") || !strings.Contains(got, redacted) {
			t.Errorf("%s: %s", text, got)
		}
	}
	for _, form := range formsOf("key: ab") {
		if len(form) < formLeast {
			t.Errorf("%q is too short", form)
		}
	}
}

func TestRecordKeepsTheFirstAndTheLastRequests(t *testing.T) {
	text := ""
	for i := range 20 {
		text = withTries(text, []Try{{At: began, Status: 100 + 2*i, Excerpt: strings.Repeat("€", excerptMost)}, {At: began, Status: 101 + 2*i, Excerpt: strings.Repeat("<", excerptMost)}})
	}
	tries := TriesOf(text)
	if len(tries) != triesMost || tries[0].Status != 100 || tries[1].Status != 129 || tries[triesMost-1].Status != 139 || !json.Valid([]byte(text)) || len(text) > 8<<10 {
		t.Errorf("%d requests in %d bytes: %+v", len(tries), len(text), tries)
	}
	if tries[0].Excerpt == "" || tries[1].Excerpt != "" || tries[triesMost-1].Excerpt == "" {
		t.Error("the first and the last response are kept, the others are not")
	}
}

func TestEventOfAFailingEndpointSaysHowItsLastRequestEnded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status        int64
		failure, want string
	}{
		{503, "HTTP status 503", events.CauseStatus},
		{0, failedTimeout, events.CauseTimeout},
		{0, failedTLS, events.CauseTLS},
		{0, failedNoTLS, events.CauseTLS},
		{0, failedRefused, events.CauseNotPermitted},
		{0, failedOtherwis, events.CauseUnreachable},
	} {
		if got := causeOf(test.status, test.failure); got != test.want {
			t.Errorf("%d, %q: %s, want %s", test.status, test.failure, got, test.want)
		}
	}
}

func TestRunnerSleepsWhileItsProbeIsOpen(t *testing.T) {
	now := began
	open := queued(1, "a", 0, -time.Second)
	open.sending = true
	state := people.WebhookState{Failures: failingFrom, FailingSince: began}
	r := newRunner(&Dispatcher{Options: Options{Clock: func() time.Time { return now }}}, key{})
	r.health, r.queue, r.leasedUntil = newHealth(&state, usual()), queue{open, queued(2, "b", 0, -time.Second)}, began.Add(leaseFor)
	if next := r.start(t.Context(), usual()); !next.IsZero() {
		t.Errorf("the next request is due at %v, while a probe is open", next)
	}
	open.sending, open.NextAt = false, began.Add(time.Minute)
	r.queue, r.nextProbe = queue{open}, began.Add(10*time.Second)
	if next := r.start(t.Context(), usual()); !next.Equal(open.NextAt) {
		t.Errorf("the next request is due at %v, before the delivery", next)
	}
	open.NextAt = began
	if next := r.start(t.Context(), usual()); !next.Equal(r.nextProbe) {
		t.Errorf("the next request is due at %v, not with the next probe", next)
	}
	now = began.Add(leaseFor + time.Second)
	if next := r.start(t.Context(), usual()); !next.IsZero() || r.queue.sending() > 0 {
		t.Error("a request begins after the lease")
	}
}

// A delivery keeps a copy of its event, not the batch of which the event was one. The events of deliveries are bounded
// by deployment, and a deployment that holds much leaves the last quarter to others.
func TestHeldEventsAreBoundedByDeployment(t *testing.T) {
	h := newHoldings()
	h.most, h.ofDeployment, h.few = 8*eventBytes, 4*eventBytes, 2*eventBytes
	batch := make([]people.LoggedEvent, 10)
	held := func(by *holder) (all []*pending) {
		for i := range batch {
			p := &pending{}
			if p.hold(&batch[i], h, by); p.event == &batch[i] {
				t.Fatal("a delivery keeps the batch of its event")
			}
			if p.event != nil {
				all = append(all, p)
			}
		}
		return all
	}
	one, two, other := &holder{deployment: "acme/main"}, &holder{deployment: "acme/main"}, &holder{deployment: "acme/other"}
	first, none, rest := held(one), held(two), held(other)
	if len(first) != 4 || len(none) != 0 || len(rest) != 2 {
		t.Errorf("the endpoints hold %d, %d and %d events, want 4, 0 and 2", len(first), len(none), len(rest))
	}
	little := held(&holder{deployment: "acme/little"})
	if len(little) != 1 {
		t.Errorf("a deployment with few events holds %d, want 1", len(little))
	}
	first[0].drop(h, one)
	first[0].drop(h, one)
	if h.total != 6*eventBytes || h.of["acme/main"] != 3*eventBytes {
		t.Errorf("%d bytes are held, %d of the deployment", h.total, h.of["acme/main"])
	}
	h.end(one)
	h.end(other)
	if h.total != eventBytes || len(h.of) != 1 {
		t.Errorf("%d bytes are held of %d deployments after runners ended", h.total, len(h.of))
	}
}
