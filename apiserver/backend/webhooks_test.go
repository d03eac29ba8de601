package backend

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/events/webhooks"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

const erpPath = "/webhooks/endpoints/7306112409600000008"

// delivers adds n deliveries of the endpoint ERP: of six, two failed, one is pending, one skipped and two delivered.
func (s served) delivers(t *testing.T, n int) {
	t.Helper()
	var rows []people.WebhookDelivery
	for i := range n {
		at := exampleDay(9, 0).Add(time.Duration(i) * time.Second)
		d := people.WebhookDelivery{
			ID: exampleID(at, 1), Endpoint: erpEndpoint, Sequence: int64(i + 1), Event: 1, Type: "user.created", Status: people.DeliveryDelivered, CreatedAt: at, SettledAt: at, Attempts: 1, HTTPStatus: 200,
		}
		if i%3 == 0 {
			d.Status, d.HTTPStatus, d.Type = people.DeliveryFailed, 0, "user.deleted"
		}
		switch i % 6 {
		case 1:
			d.Status, d.SettledAt, d.NextAt = people.DeliveryPending, time.Time{}, exampleDay(12, 0)
		case 2:
			d.Status = people.DeliverySkipped
		}
		rows = append(rows, d)
	}
	if err := s.rows.Change(t.Context(), exampleTenant, func(tx people.Tx) error { return tx.Webhooks().InsertDeliveries(rows) }); err != nil {
		t.Fatal(err)
	}
}

func TestDeliveriesAreListedByTheirFilters(t *testing.T) {
	t.Parallel()
	s := exampleWorld(t)
	s.delivers(t, 300)
	for _, tc := range []struct {
		query string
		want  int
	}{
		{"", 300}, {"status=failed", 100}, {"status=delivered", 100}, {"status=pending", 50}, {"status=skipped", 50}, {"status=pending&limit=7", 50}, {"status=skipped&limit=7", 50},
		{"status=pending&since=2026-05-09T00:00:10Z&until=2026-05-09T00:00:22Z&limit=1", 2}, {"event_name=user.deleted", 100}, {"event_name=user.created&status=failed", 0},
		{"since=2026-05-09T00:00:10Z&until=2026-05-09T00:00:20Z", 10}, {"until=2026-05-09T00:00:00Z", 0}, {"limit=7&event_name=user.deleted", 100},
	} {
		seen, cursor, pages := map[string]bool{}, "", 0
		for {
			page := asks[backendapi.WebhookDeliveryList](t, s, erpPath+"/deliveries?"+tc.query+cursor)
			for _, d := range page.Data {
				if seen[d.DeliveryId] {
					t.Errorf("%s: %s is listed twice", tc.query, d.DeliveryId)
				}
				seen[d.DeliveryId] = true
			}
			if pages++; !page.HasMore {
				break
			}
			cursor = "&cursor=" + *page.NextCursor
		}
		if len(seen) != tc.want || pages > 20 {
			t.Errorf("%s: %d deliveries on %d pages, want %d", tc.query, len(seen), pages, tc.want)
		}
	}
	d := asks[backendapi.WebhookDeliveryList](t, s, erpPath+"/deliveries?status=failed&limit=1").Data[0]
	if d.HttpStatusCode != nil || d.ResponseTimeMs == nil || d.MaxAttempts != 12 || d.NextAttemptAt != nil {
		t.Errorf("%+v", d)
	}
}

func TestInvalidOperationsOnWebhooksAreRefused(t *testing.T) {
	t.Parallel()
	s := exampleWorld(t)
	crm := "/webhooks/endpoints/7306112409600000007"
	many := `"` + strings.Repeat(`1","`, 1000) + `2"`
	for _, tc := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/webhooks/endpoints/12", "", 404, ":endpoint_id"},
		{"GET", "/webhooks/endpoints/x", "", 404, ":endpoint_id"},
		{"GET", "/webhooks/deliveries/12", "", 404, ":delivery_id"},
		{"GET", erpPath + "/replays/420637940121600021", "", 404, ":task_id"}, // the other endpoint's
		{"GET", erpPath + "/deliveries?status=lost", "", 400, "?status"},
		{"GET", erpPath + "/deliveries?since=yesterday", "", 400, "?since"},
		{"POST", erpPath + "/replay", `{}`, 400, "/start_date"},
		{"POST", erpPath + "/replay", `{"event_ids":["evt_1"],"delivery_ids":["1"]}`, 400, "/start_date"},
		{"POST", erpPath + "/replay", `{"event_ids":[]}`, 400, "/event_ids"},
		{"POST", erpPath + "/replay", `{"event_ids":[` + many + `]}`, 400, "/event_ids"},
		{"POST", erpPath + "/replay", `{"event_ids":["1"]}`, 400, "/event_ids/0"},
		{"POST", erpPath + "/replay", `{"event_ids":["evt_12"]}`, 400, "/event_ids/0"},
		{"POST", erpPath + "/replay", `{"delivery_ids":["12","12"]}`, 400, "/delivery_ids/1"},
		{"POST", erpPath + "/replay", `{"delivery_ids":["420634165248000011"]}`, 400, "/delivery_ids/0"}, // the other endpoint's
		{"POST", erpPath + "/replay", `{"event_ids":["evt_12"],"status":"all"}`, 400, "/status"},
		{"POST", erpPath + "/replay", `{"start_date":"2026-05-01"}`, 400, "/start_date"},
		{"POST", erpPath + "/replay", `{"start_date":null}`, 400, "/start_date"},
		{"POST", erpPath + "/replay", `{"start_date":"2026-05-01T00:00:00Z","idempotency_key":"a\u0000b"}`, 400, "/idempotency_key"},
		{"POST", erpPath + "/replay", `{"start_date":"2026-05-02T00:00:00Z","end_date":"2026-05-01T00:00:00Z"}`, 400, "/end_date"},
		{"POST", erpPath + "/replay", `{"start_date":"2026-05-01T00:00:00Z","status":"delivered"}`, 400, "/status"},
		{"POST", erpPath + "/replay", `{"start_date":"2026-05-01T00:00:00Z","event_name":"user.create"}`, 400, "/event_name"},
		{"POST", erpPath + "/replay", `{"start_date":"2026-05-01T00:00:00Z","idempotency_key":"` + strings.Repeat("k", 129) + `"}`, 400, "/idempotency_key"},
		{"POST", crm + "/replay", `{"start_date":"2026-05-01T00:00:00Z"}`, 409, "reactivate it first"},
		{"POST", erpPath + "/test", `{}`, 400, "/event_name"},
		{"POST", erpPath + "/test", `{"event_name":"user.*"}`, 400, "/event_name"},
		{"POST", crm + "/reactivate", `{"skip_backlog":"yes"}`, 400, "/skip_backlog"},
	} {
		answer := s.send(tc.method, tc.path, tc.body)
		if answer.Code != tc.status || !strings.Contains(answer.Body.String(), tc.says) {
			t.Errorf("%s %s %.60s: %d %s", tc.method, tc.path, tc.body, answer.Code, answer.Body)
		}
	}
}

func TestReplayIsRequestedReadAndCancelled(t *testing.T) {
	t.Parallel()
	s := exampleWorld(t)
	const body = `{"start_date":"2026-05-01T00:00:00Z","status":"all","idempotency_key":"one"}`
	started := func(body string, want int) string {
		t.Helper()
		answer := s.send("POST", erpPath+"/replay", body)
		if answer.Code != want {
			t.Fatalf("%d %s", answer.Code, answer.Body)
		}
		_, id, _ := strings.Cut(answer.Body.String(), `"task_id":"`)
		id, _, _ = strings.Cut(id, `"`)
		return id
	}
	id := started(body, 200)
	if again := started(body, 200); again != id {
		t.Error("one key, two replays")
	}
	started(strings.Replace(body, "05-01", "05-02", 1), 409)
	started(`{"start_date":"2026-05-01T00:00:00Z","status":"all"}`, 409)
	if view := asks[backendapi.WebhookReplay](t, s, erpPath+"/replays/"+id); view.Status != backendapi.WebhookReplayPending || view.TotalCount != 2 || view.Processed != 0 {
		t.Errorf("%+v", view)
	}
	for range 2 {
		if answer := s.send("DELETE", erpPath+"/replays/"+id, ""); answer.Code != 204 {
			t.Errorf("%d %s", answer.Code, answer.Body)
		}
	}
	other := started(`{"event_ids":["evt_420634165248000002"]}`, 200)
	list := asks[backendapi.WebhookReplayList](t, s, erpPath+"/replays?limit=1")
	if len(list.Data) != 1 || list.Data[0].TaskId != other || !list.HasMore {
		t.Errorf("%+v", list)
	}
	list = asks[backendapi.WebhookReplayList](t, s, erpPath+"/replays?cursor="+*list.NextCursor)
	if len(list.Data) != 1 || list.Data[0].TaskId != id || list.Data[0].Status != backendapi.WebhookReplayCancelled || list.HasMore {
		t.Errorf("%+v", list)
	}
	for _, action := range []string{"webhook_endpoint.replay", "webhook_endpoint.replay_cancelled"} {
		if list := asks[backendapi.AuditList](t, s, "/audit?action="+action); len(list.Data) == 0 || list.Data[0].Object != "webhook_endpoint:7306112409600000008" {
			t.Errorf("%s: %+v", action, list)
		}
	}
}

func TestReactivationIsRecordedAndBounded(t *testing.T) {
	t.Parallel()
	s := exampleWorld(t)
	path := "/webhooks/endpoints/7306112409600000007/reactivate"
	logged := s.happens(t, func() {
		if answer := s.send("POST", path, ""); answer.Code != 200 || !strings.Contains(answer.Body.String(), `"state":"delivering"`) {
			t.Fatalf("%d %s", answer.Code, answer.Body)
		}
	}, events.EndpointEnabled)[0]
	if logged.SubjectID != ids.Format(crmEndpoint) || !strings.HasPrefix(logged.Actor, "key:") {
		t.Errorf("%+v", logged)
	}
	s.happens(t, func() {
		if answer := s.send("POST", path, `{"skip_backlog":true}`); answer.Code != 200 { // it is not disabled
			t.Fatalf("%d %s", answer.Code, answer.Body)
		}
	})
	if list := asks[backendapi.AuditList](t, s, "/audit?action=webhook_endpoint.enabled"); len(list.Data) != 1 {
		t.Errorf("%+v", list)
	}
	err := s.rows.Change(t.Context(), exampleTenant, func(tx people.Tx) error {
		state, _, err := tx.Webhooks().LockWebhookState(crmEndpoint)
		if err != nil {
			return err
		}
		state.DisabledAt, state.Reason = exampleNow, "Gone"
		_, err = tx.Webhooks().UpdateWebhookState(state, state.Epoch)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	answer := s.send("POST", path, "")
	if retry := answer.Header().Get("Retry-After"); answer.Code != 429 || retry == "" {
		t.Errorf("%d %s, Retry-After %q", answer.Code, answer.Body, retry)
	}
}

func TestTestsOfWebhooksReportFailures(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		done   webhooks.Tested
		failed error
		status int
		says   string
	}{
		{webhooks.Tested{Status: 500, Failure: "HTTP status 500", Latency: time.Second}, nil, 200, `{"success":false,"status_code":500,"response_time_ms":1000,"error":"HTTP status 500"}`},
		{webhooks.Tested{Failure: "the receiver could not be reached"}, nil, 200, `"status_code":null`},
		{webhooks.Tested{}, egress.ErrTooManyFetches, 429, "too many webhooks"},
		{webhooks.Tested{}, webhooks.ErrIncomplete, 409, "CredentialsReady"},
		{webhooks.Tested{}, fmt.Errorf("no key: canary"), 503, "cannot be signed"},
	} {
		s := exampleWorldWith(t, func(o *Options) {
			o.TestWebhook = func(_ context.Context, tenant string, endpoint int64, entry events.Entry) (webhooks.Tested, error) {
				if tenant != exampleTenant || endpoint != erpEndpoint || entry.Type != events.UserCreated {
					t.Errorf("%s %d %s", tenant, endpoint, entry.Type)
				}
				return tc.done, tc.failed
			}
		})
		answer := s.send(http.MethodPost, erpPath+"/test", `{"event_name":"user.created"}`)
		if answer.Code != tc.status || !strings.Contains(answer.Body.String(), tc.says) || strings.Contains(answer.Body.String(), "canary") {
			t.Errorf("%d %s", answer.Code, answer.Body)
		}
	}
}
