package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	backendapi "github.com/cardea-iam/cardea/client/backend"
)

// replayAt is a replay of 40 events of which some were processed.
func replayAt(status backendapi.WebhookReplayStatus, processed, failed int64) backendapi.WebhookReplay {
	r := backendapi.WebhookReplay{TaskId: "91", Status: status, TotalCount: 40, Processed: processed, ReplayedCount: processed - failed, FailedCount: failed, CreatedAt: webhookTime, StartedAt: &webhookTime}
	if status == backendapi.WebhookReplayCompleted || status == backendapi.WebhookReplayCancelled {
		r.CompletedAt = &webhookTime
	}
	return r
}

var begunReplay = backendapi.WebhookReplayStarted{Status: backendapi.WebhookReplayStartedPending, Message: "40 events are sent again", TaskId: "91"}

const (
	replayOf74 = "POST /webhooks/endpoints/74/replay"
	task91     = "GET /webhooks/endpoints/74/replays/91"
)

func TestReplaySendsWhatItsFlagsSelect(t *testing.T) {
	for _, tc := range []struct {
		args []string
		body string
	}{
		{[]string{"--failed", "--since", "2026-05-01T02:00:00+02:00"}, `{"start_date":"2026-05-01T00:00:00Z","status":"failed"}`},
		{
			[]string{"--all", "--since", "2026-05-01T00:00:00Z", "--until", "2026-05-02T00:00:00Z", "--type", "user.created", "--idempotency-key", "k"},
			`{"start_date":"2026-05-01T00:00:00Z","end_date":"2026-05-02T00:00:00Z","status":"all","event_name":"user.created","idempotency_key":"k"}`,
		},
		{[]string{"--event", "evt_1,evt_2", "--event", "evt_3"}, `{"event_ids":["evt_1","evt_2","evt_3"]}`},
		{[]string{"--delivery", "60", "--delivery", "61", "--idempotency-key", "k"}, `{"delivery_ids":["60","61"],"idempotency_key":"k"}`},
	} {
		s, env := startWebhooks(t)
		s.answers[replayOf74] = []any{begunReplay}
		out, problems, code := run(t, env, append([]string{"webhooks", "replay", "Customer hub"}, tc.args...)...)
		if code != 0 || out != "Replay 91 of Customer hub: 40 events are sent again. kubectl cardea webhooks replays shows how it goes.\n" {
			t.Errorf("%v: %d %q %q", tc.args, code, problems, out)
		}
		if got := s.requests(); !slices.Equal(got, []string{replayOf74 + " " + tc.body}) {
			t.Errorf("%v: asked %q", tc.args, got)
		}
	}
	s, env := startWebhooks(t)
	s.answers[replayOf74] = []any{begunReplay}
	before := time.Now().Add(-time.Hour)
	out, problems, code := run(t, env, "webhooks", "replay", "74", "--failed", "--since", "1h", "-o", "json")
	var begun backendapi.WebhookReplayStarted
	if err := json.Unmarshal([]byte(out), &begun); err != nil || code != 0 || begun != begunReplay {
		t.Errorf("%d %q %q", code, problems, out)
	}
	var sent backendapi.WebhookReplayCreate
	_, body, _ := strings.Cut(s.requests()[0], "{")
	if err := json.Unmarshal([]byte("{"+body), &sent); err != nil || sent.StartDate.Before(before) || sent.StartDate.After(time.Now().Add(-time.Hour)) {
		t.Errorf("asked %q", s.requests())
	}
}

// TestReplayIsFollowedToItsEnd: also through a cut connection and an unavailable server. The exit code says whether all
// was delivered.
func TestReplayIsFollowedToItsEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		answers []any
		code    int
		says    []string
		row     string
	}{
		"delivered": {
			[]any{replayAt("pending", 0, 0), "", http.StatusServiceUnavailable, replayAt("running", 21, 0), replayAt("completed", 40, 0)}, 0,
			[]string{"Replay 91 of 74: 40 events are sent again.\n", "0 of 40: 0 delivered, 0 failed\n", "trying again\n", "21 of 40: 21 delivered, 0 failed\n"},
			"91 completed 40 40 40 0 2026-05-10 11:00 2026-05-10 11:00",
		},
		"failed":     {[]any{replayAt("completed", 40, 2)}, exitFault, nil, "91 completed 40 40 38 2 2026-05-10 11:00 2026-05-10 11:00"},
		"cancelled":  {[]any{replayAt("running", 3, 0), replayAt("cancelled", 3, 0)}, exitFault, nil, "91 cancelled 40 3 3 0 2026-05-10 11:00 2026-05-10 11:00"},
		"not served": {[]any{replayAt("running", 3, 0), http.StatusNotFound}, exitFault, []string{"refused with 404", "kubectl cardea webhooks replays 74 shows", "webhooks cancel 74 91 ends it"}, ""},
		"forbidden":  {[]any{http.StatusForbidden}, exitNoAccess, []string{"refused with 403"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, env := startWebhooks(t)
			s.answers[replayOf74], s.answers[task91] = []any{begunReplay}, tc.answers
			out, problems, code := run(t, env, "webhooks", "replay", "74", "--event", "evt_1", "--wait")
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if code != tc.code || strings.Join(strings.Fields(lines[len(lines)-1]), " ") != tc.row || strings.Count(problems, "trying again") > 1 {
				t.Errorf("%d %q %s", code, problems, out)
			}
			for _, part := range tc.says {
				before, after, found := strings.Cut(problems, part)
				if !found {
					t.Errorf("%q is not in its place in %q", part, before+after)
				}
				problems = after
			}
		})
	}
}

// TestReplayOfAnEndpointThatGetsNothingIsNotAwaited: the replay waits until the endpoint is enabled.
func TestReplayOfAnEndpointThatGetsNothingIsNotAwaited(t *testing.T) {
	inactive := theEndpoints()[3]
	inactive.IsActive = false
	for says, endpoint := range map[string]backendapi.WebhookEndpoint{
		"the endpoint was disabled, so the replay waits: correct the receiver, then run kubectl cardea webhooks reactivate 74": theEndpoints()[2],
		"the endpoint is inactive, so the replay waits: set spec.active of the WebhookEndpoint to true":                        inactive,
	} {
		s, env := startWebhooks(t)
		s.answers[replayOf74], s.answers[task91] = []any{begunReplay}, []any{replayAt("running", 3, 1)}
		s.answers["GET /webhooks/endpoints/74"] = []any{theEndpoints()[3], endpoint}
		if _, problems, code := run(t, env, "webhooks", "replay", "Customer hub", "--event", "evt_1", "--wait"); code != exitFault || !strings.Contains(problems, says) {
			t.Errorf("%d %q", code, problems)
		}
	}
}

func TestInterruptedWaitSaysThatTheReplayGoesOn(t *testing.T) {
	s, env := startWebhooks(t)
	s.answers[task91] = []any{replayAt("running", 3, 0)}
	base, err := url.Parse(env[envServer])
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	var problems strings.Builder
	wait := &replayWait{server: &api{base: base, http: http.DefaultClient}, around: surroundings{err: &problems}, endpoint: backendapi.WebhookEndpoint{Id: "74"}, task: "91"}
	s.then = interrupt
	_, err = wait.run(ctx)
	if err == nil || exitCode(&runError{err}) != exitFault || !strings.Contains(err.Error(), "the replay has not ended: kubectl cardea webhooks replays 74") {
		t.Errorf("%v %q", err, problems.String())
	}
}

func TestReplaysAreListedAndCancelled(t *testing.T) {
	s, env := startWebhooks(t)
	s.answers["GET /webhooks/endpoints/74/replays"] = []any{backendapi.WebhookReplayList{Data: []backendapi.WebhookReplay{replayAt("running", 21, 1)}}}
	s.answers["DELETE /webhooks/endpoints/74/replays/91"] = []any{http.StatusNoContent}
	out, problems, code := run(t, env, "webhooks", "replays", "74")
	if code != 0 || !strings.HasPrefix(out, "TASK   STATUS    SELECTED   PROCESSED   DELIVERED   FAILED") || !strings.Contains(out, "\n91     running   40         21          20          1        2026-05-10 11:00   -\n") {
		t.Errorf("%d %q %s", code, problems, out)
	}
	if out, problems, code = run(t, env, "webhooks", "cancel", "Customer hub", "91"); code != 0 || out != "Replay 91 of Customer hub has ended.\n" {
		t.Errorf("%d %q %s", code, problems, out)
	}
	if _, problems, code = run(t, env, "webhooks", "cancel", "74", "90"); code != exitFault || !strings.Contains(problems, "responded 404") {
		t.Errorf("%d %q", code, problems)
	}
}

func TestWrongSelectionsOfWebhooksAreRefused(t *testing.T) {
	s, env := startWebhooks(t)
	for says, args := range map[string][]string{
		"set --failed or --all, or --event": {"replay", "74"},
		"if any flags in the group":         {"replay", "74", "--failed", "--all", "--since", "1h"},
		"need --since":                      {"replay", "74", "--failed"},
		"only with --failed or --all":       {"replay", "74", "--event", "evt_1", "--since", "1h"},
		"with ids":                          {"replay", "74", "--failed=false"},
		"--until must be a time":            {"replay", "74", "--all", "--since", "2h", "--until", "soon"},
		"is another time in each request":   {"replay", "74", "--all", "--since", "24h", "--idempotency-key", "k"},
		"accepts 1 arg":                     {"replay", "--failed", "--since", "1h"},
		"--status must be one of":           {"deliveries", "74", "--status", "lost"},
		"--limit must be 1 to 10000":        {"deliveries", "74", "--limit", "0"},
		"--since must be a time":            {"deliveries", "74", "--since", "yesterday"},
		"ID must be the id of a delivery":   {"delivery", "../endpoints"},
		"TASK must be the id of a replay":   {"cancel", "74", "x"},
		"accepts 2 arg":                     {"cancel", "74"},
		`required flag(s) "type" not set`:   {"test", "74"},
		"--output must be one of":           {"list", "-o", "xml"},
		`unknown command "extra" for`:       {"list", "extra"},
		"unknown flag: --everything":        {"reactivate", "74", "--everything"},
	} {
		if _, problems, code := run(t, env, append([]string{"webhooks"}, args...)...); code != exitUsage || !strings.Contains(problems, says) {
			t.Errorf("%v: %d %q", args, code, problems)
		}
	}
	if got := s.requests(); len(got) != 0 {
		t.Errorf("asked %q", got)
	}
}
