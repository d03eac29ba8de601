package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	backendapi "github.com/cardea-iam/cardea/client/backend"
)

// webhookServer has two endpoints with one name, and one with another.
type webhookServer struct {
	t  *testing.T
	mu sync.Mutex
	// asked are the requests, with their bodies.
	asked []string
	// answers replace the responses to "METHOD path": each is given once, and the last one again. A number is a status,
	// and "" cuts the connection.
	answers map[string][]any
	// then is called with each request, if it is set.
	then func()
}

var webhookTime = time.Date(2026, 5, 10, 11, 0, 0, 0, time.UTC)

// theEndpoints are the endpoints of webhookServer.
func theEndpoints() []backendapi.WebhookEndpoint {
	failing, gone := webhookTime.Add(-time.Hour), "Gone"
	return []backendapi.WebhookEndpoint{
		{Id: "71", Name: "crm\u001b[2J", Url: "https://crm.example/", IsActive: true, State: backendapi.WebhookEndpointDelivering, LastSequence: "9", LastSuccessAt: &webhookTime},
		{Id: "72", Name: "twin", Url: "https://one.example/", IsActive: true, State: backendapi.WebhookEndpointFailing, FailingSince: &failing, Position: ptr.To("8"), LastSequence: "9"},
		{Id: "73", Name: "twin", Url: "https://two.example/", State: backendapi.WebhookEndpointDisabled, DisabledAt: &webhookTime, DisabledReason: &gone, Position: ptr.To("5"), LastSequence: "9"},
		{Id: "74", Name: "Customer hub", Url: "https://hub.example/", IsActive: true, State: backendapi.WebhookEndpointDelivering, Position: ptr.To("9"), LastSequence: "9"},
	}
}

func startWebhooks(t *testing.T) (*webhookServer, map[string]string) {
	t.Helper()
	s := &webhookServer{t: t, answers: map[string][]any{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, map[string]string{envServer: server.URL, envAPIKey: "the-key"}
}

func (s *webhookServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.then != nil {
		defer s.then()
	}
	body, _ := io.ReadAll(r.Body)
	request := r.Method + " " + r.URL.Path
	s.asked = append(s.asked, strings.TrimSpace(strings.TrimSuffix(request+"?"+r.URL.RawQuery, "?")+" "+string(body)))
	var answer any = http.StatusNotFound
	if list := s.answers[request]; len(list) > 0 {
		if answer = list[0]; len(list) > 1 {
			s.answers[request] = list[1:]
		}
	} else if request == "GET /webhooks/endpoints" {
		answer = s.page(r.URL.Query().Get("offset"))
	}
	switch answer := answer.(type) {
	case int:
		w.WriteHeader(answer)
		if answer != http.StatusNoContent {
			fmt.Fprintf(w, `{"message":"refused with %d"}`, answer)
		}
	case string:
		panic(http.ErrAbortHandler)
	default:
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			s.t.Error(err)
		}
	}
}

// page returns the endpoints in pages of two.
func (s *webhookServer) page(offset string) backendapi.WebhookEndpointList {
	all := theEndpoints()
	if offset == "2" {
		return backendapi.WebhookEndpointList{Data: all[2:], Total: 4, Offset: 2, Limit: 100}
	}
	return backendapi.WebhookEndpointList{Data: all[:2], HasMore: true, Total: 4, Limit: 100}
}

// requests returns the requests other than those of the list of endpoints.
func (s *webhookServer) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.asked), func(one string) bool { return strings.HasPrefix(one, "GET /webhooks/endpoints?") })
}

func TestWebhookEndpointsAreListedWithTheirStates(t *testing.T) {
	_, env := startWebhooks(t)
	out, problems, code := run(t, env, "webhooks", "list")
	if code != 0 || strings.Contains(out, "\x1b") {
		t.Errorf("%d %q %s", code, problems, out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, want := range []string{
		"NAME ID STATE SINCE (UTC) POSITION LAST SUCCESS (UTC) URL",
		`crm\u001b[2J 71 delivering - -/9 2026-05-10 11:00 https://crm.example/`,
		"twin 72 failing 2026-05-10 10:00 8/9 - https://one.example/",
		"twin 73 disabled (Gone) 2026-05-10 11:00 5/9 - https://two.example/",
		"Customer hub 74 delivering - 9/9 - https://hub.example/",
	} {
		if i >= len(lines) || strings.Join(strings.Fields(lines[i]), " ") != want {
			t.Errorf("line %d of %s", i, out)
		}
	}
	out, problems, code = run(t, env, "webhooks", "list", "-o", "json")
	var list backendapi.WebhookEndpointList
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || len(list.Data) != 4 || list.HasMore || list.Total != 4 {
		t.Errorf("%d %q %s", code, problems, out)
	}
}

func TestWebhookEndpointIsSelectedByIdOrUniqueName(t *testing.T) {
	for _, tc := range []struct {
		endpoint string
		code     int
		says     string
		asked    string
	}{
		{"Customer hub", 0, "", "GET /webhooks/endpoints/74/replays?limit=100"},
		{"73", 0, "", "GET /webhooks/endpoints/73/replays?limit=100"},
		{"79", exitFault, "responded 404", "GET /webhooks/endpoints/79/replays?limit=100"},
		{"twin", exitUsage, "2 webhook endpoints have the name twin: use the id instead: 72 (https://one.example/), 73 (https://two.example/)", ""},
		{"customer hub", exitFault, "no webhook endpoint of the deployment has the name customer hub: kubectl cardea webhooks list", ""},
		{"", exitFault, "no webhook endpoint", ""},
		{"../71", exitFault, "no webhook endpoint", ""},
	} {
		s, env := startWebhooks(t)
		for _, id := range []string{"73", "74"} {
			s.answers["GET /webhooks/endpoints/"+id+"/replays"] = []any{backendapi.WebhookReplayList{Data: []backendapi.WebhookReplay{}}}
		}
		_, problems, code := run(t, env, "webhooks", "replays", tc.endpoint)
		if code != tc.code || !strings.Contains(problems, tc.says) || strings.Join(s.requests(), "") != tc.asked {
			t.Errorf("%q: %d %q, asked %q", tc.endpoint, code, problems, s.requests())
		}
	}
}

func TestArgumentsOfWebhooksAreCompleted(t *testing.T) {
	s, env := startWebhooks(t)
	s.answers["GET /events/types"] = []any{backendapi.EventTypeList{Data: []backendapi.EventType{{Type: "user.created"}, {Type: "user.deleted"}}}}
	s.answers["GET /webhooks/endpoints/74/replays"] = []any{backendapi.WebhookReplayList{Data: []backendapi.WebhookReplay{{TaskId: "91"}, {TaskId: "90", CompletedAt: &webhookTime}}}}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"deliveries", ""}, "71\tcrm\\u001b[2J\n72\ttwin\n73\ttwin\nCustomer hub\thttps://hub.example/\n:4\n"},
		{[]string{"deliveries", "74", ""}, ":4\n"},
		{[]string{"cancel", "74", ""}, "91\n:4\n"},
		{[]string{"cancel", "74", "91", ""}, ":4\n"},
		{[]string{"test", "74", "--type", ""}, "user.created\nuser.deleted\n:4\n"},
		{[]string{"replay", "74", "--type", ""}, "user.created\nuser.deleted\n:4\n"},
		{[]string{"deliveries", "74", "--status", ""}, "pending\ndelivered\nfailed\nskipped\n:4\n"},
	} {
		if out, _, _ := run(t, env, append([]string{"__complete", "webhooks"}, tc.args...)...); out != tc.want {
			t.Errorf("%v: %q", tc.args, out)
		}
	}
	if out, _, _ := run(t, nil, "__complete", "webhooks", "deliveries", ""); out != ":4\n" {
		t.Errorf("without a server: %q", out)
	}
}

func TestDeliveriesAreListedBeyondShortPages(t *testing.T) {
	s, env := startWebhooks(t)
	delivery := func(id string) backendapi.WebhookDelivery {
		return backendapi.WebhookDelivery{
			DeliveryId: id, EventId: "evt_4" + id, EventName: "user.created", Sequence: "7", Status: backendapi.WebhookDeliveryFailed, HttpStatusCode: ptr.To(int64(500)),
			AttemptNumber: 12, MaxAttempts: 12, Timestamp: webhookTime,
		}
	}
	const path = "GET /webhooks/endpoints/74/deliveries"
	s.answers[path] = []any{
		backendapi.WebhookDeliveryList{HasMore: true, NextCursor: ptr.To("61")},
		backendapi.WebhookDeliveryList{Data: []backendapi.WebhookDelivery{delivery("60")}, HasMore: true, NextCursor: ptr.To("60")},
		backendapi.WebhookDeliveryList{Data: []backendapi.WebhookDelivery{delivery("59")}, HasMore: true, NextCursor: ptr.To("59")},
	}
	out, problems, code := run(t, env, "webhooks", "deliveries", "Customer hub", "--status", "failed", "--type", "user.created", "--since", "2026-05-01T00:00:00Z",
		"--until", "2026-05-11T02:00:00+02:00", "--cursor", "99", "--limit", "2")
	if code != 0 || !strings.Contains(out, "60   2026-05-10 11:00:00   7          user.created   evt_460   failed   500    12/12      -            -") ||
		!strings.HasSuffix(out, "\n2 deliveries; --cursor 59 shows the next.\n") {
		t.Errorf("%d %q %s", code, problems, out)
	}
	const filter = "&since=2026-05-01T00%3A00%3A00Z&status=failed&until=2026-05-11T00%3A00%3A00Z"
	want := []string{
		path + "?cursor=99&event_name=user.created&limit=2" + filter, path + "?cursor=61&event_name=user.created&limit=2" + filter, path + "?cursor=60&event_name=user.created&limit=1" + filter,
	}
	if got := s.requests(); !slices.Equal(got, want) {
		t.Errorf("asked %q", got)
	}
}

func TestDeliveryIsShownWithItsRequestsAndItsEvent(t *testing.T) {
	s, env := startWebhooks(t)
	d := backendapi.WebhookDeliveryDetail{
		DeliveryId: "60", EndpointId: "74", EventId: "evt_460", EventName: "user.created", Sequence: "7", Status: backendapi.WebhookDeliveryDetailPending, AttemptNumber: 2, MaxAttempts: 12,
		NextAttemptAt: &webhookTime, Timestamp: webhookTime,
		Attempts: []backendapi.WebhookAttempt{
			{At: webhookTime, ResponseTimeMs: 15000, Error: "timeout"}, {At: webhookTime, HttpStatusCode: ptr.To(int64(500)), ResponseTimeMs: 12, Error: "status 500", ResponseExcerpt: "oops\x1b[2J\nagain"},
		},
		Payload: &backendapi.Event{Id: "evt_460", Type: "user.created", Data: json.RawMessage(`{}`)},
	}
	gone := d
	gone.Payload = nil
	s.answers["GET /webhooks/deliveries/60"] = []any{d, gone, d}
	out, problems, code := run(t, env, "webhooks", "delivery", "60")
	if code != 0 || strings.Contains(out, "\x1b") {
		t.Errorf("%d %q %s", code, problems, out)
	}
	for _, part := range []string{
		"event         evt_460  user.created, number 7\n", "status        pending, 2 of at most 12 requests\n", "next request  2026-05-10 11:00:00 UTC\n",
		"2026-05-10 11:00:00   -      15000   timeout      \n", "2026-05-10 11:00:00   500    12      status 500   oops\\u001b[2J again\n", "\n  \"id\": \"evt_460\",\n",
	} {
		if !strings.Contains(out, strings.ReplaceAll(part, "      \n", "\n")) {
			t.Errorf("%q is not in %s", part, out)
		}
	}
	if out, _, _ = run(t, env, "webhooks", "delivery", "60"); !strings.HasSuffix(out, "\nThe event was deleted because of its age.\n") {
		t.Errorf("%s", out)
	}
	if out, _, code = run(t, env, "webhooks", "delivery", "60", "-o", "json"); code != 0 || !json.Valid([]byte(out)) || !strings.Contains(out, `"attempts"`) {
		t.Errorf("%d %s", code, out)
	}
}

func TestTestOfAWebhookEndpointHasItsExitCode(t *testing.T) {
	s, env := startWebhooks(t)
	s.answers["POST /webhooks/endpoints/74/test"] = []any{
		backendapi.WebhookTest{Success: true, StatusCode: ptr.To(int64(204)), ResponseTimeMs: 12},
		backendapi.WebhookTest{StatusCode: ptr.To(int64(500)), ResponseTimeMs: 3, Error: ptr.To("status 500")},
		backendapi.WebhookTest{ResponseTimeMs: 9, Error: ptr.To("no connection")}, http.StatusTooManyRequests, http.StatusForbidden,
	}
	for _, want := range []struct {
		code      int
		out, says string
	}{
		{0, "The receiver of Customer hub accepted the example of user.created: status 204, 12 ms\n", ""},
		{exitFault, "The receiver of Customer hub did not accept the example of user.created: status 500, 3 ms: status 500\n", ""},
		{exitFault, "The receiver of Customer hub did not accept the example of user.created: 9 ms: no connection\n", ""},
		{exitFault, "", "refused with 429"}, {exitNoAccess, "", "refuses this for the credential"},
	} {
		out, problems, code := run(t, env, "webhooks", "test", "Customer hub", "--type", "user.created")
		if code != want.code || out != want.out || !strings.Contains(problems, want.says) {
			t.Errorf("%d %q %q", code, problems, out)
		}
	}
	if got := s.requests()[0]; got != `POST /webhooks/endpoints/74/test {"event_name":"user.created"}` {
		t.Errorf("asked %q", got)
	}
}

func TestDisabledEndpointIsReactivated(t *testing.T) {
	s, env := startWebhooks(t)
	inactive := theEndpoints()[2]
	inactive.State = backendapi.WebhookEndpointDelivering
	s.answers["POST /webhooks/endpoints/73/reactivate"] = []any{inactive, http.StatusTooManyRequests}
	out, problems, code := run(t, env, "webhooks", "reactivate", "73", "--skip-backlog")
	if code != 0 || out != "WebhookEndpoint twin is enabled, and continues after event 5 of 9. Events are sent once spec.active is true.\n" {
		t.Errorf("%d %q %q", code, problems, out)
	}
	if _, problems, code = run(t, env, "webhooks", "reactivate", "73"); code != exitFault || !strings.Contains(problems, "429") {
		t.Errorf("%d %q", code, problems)
	}
	want := []string{`POST /webhooks/endpoints/73/reactivate {"skip_backlog":true}`, `POST /webhooks/endpoints/73/reactivate {"skip_backlog":false}`}
	if got := s.requests(); !slices.Equal(got, want) {
		t.Errorf("asked %q", got)
	}
}
