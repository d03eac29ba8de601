package agents_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/schemafield"
	"github.com/cardea-iam/cardea/store/people"
)

// accepts has the tools answer 202.
func (w *world) accepts() {
	w.answering(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusAccepted) })
}

// sendResult sends a result that comes later.
func (w *world) sendResult(call, token, body string) (status int, raw string) {
	w.T.Helper()
	r, err := http.NewRequestWithContext(w.T.Context(), "POST", w.Server.URL+"/tool-results/"+call, strings.NewReader(body))
	w.Must(err)
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	w.Must(err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	w.Must(err)
	return resp.StatusCode, string(text)
}

// ship calls the webhook, which accepts the call, and returns the answer and what the tool got.
func (w *world) ship(number string) (answer, envelope) {
	w.T.Helper()
	a := w.post("support", w.key, callBody("ship", `{"number":"`+number+`"}`))
	got, _ := w.up.last()
	return a, w.envelope(got)
}

// record returns the record of a call.
func (w *world) record(call string) (one people.ToolCall) {
	w.T.Helper()
	id, err := ids.Parse(call)
	w.Must(err)
	for _, record := range w.records(w.Store) {
		if record.ID == id {
			one = record
		}
	}
	return one
}

func TestResultThatComesLaterIsRecordedOnce(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newSignedWorld(t, url)
		w.accepts()
		a, e := w.ship("1")
		if !strings.Contains(a.raw, `"dev.cardea.iam/accepted":{"call_id":"`+e.Data.CallID+`"}`) || strings.Contains(a.raw, "isError") || !strings.Contains(a.raw, "accepted the call") {
			t.Errorf("got %s", a.raw)
		}
		if e.Data.ResultURL != "http://localhost/tool-results/"+e.Data.CallID || e.Data.ResultToken == "" {
			t.Errorf("%+v", e.Data)
		}
		if got := w.record(e.Data.CallID); got.Outcome != people.CallAccepted || got.Status != 202 {
			t.Errorf("%+v", got)
		}
		var statuses [20]int
		var group sync.WaitGroup
		for i := range statuses {
			group.Go(func() {
				statuses[i], _ = w.sendResult(e.Data.CallID, e.Data.ResultToken, `{"result":{"shipped":true}}`)
			})
		}
		group.Wait()
		count := map[int]int{}
		for _, status := range statuses {
			count[status]++
		}
		if count[204] != 1 || count[409]+count[429] != 19 { // one of a call at a time
			t.Errorf("the statuses of 20 results are %v", count)
		}
		if status, raw := w.sendResult(e.Data.CallID, e.Data.ResultToken, `{"result":1}`); status != 409 {
			t.Errorf("a second result: %d %s", status, raw)
		}
		if got := w.record(e.Data.CallID); got.Outcome != people.CallSucceeded || got.Code != "" || got.Status != 202 || got.BytesIn == 0 {
			t.Errorf("%+v", got)
		}
		auditor := w.declareKey("auditor", frontendtest.Deployment, "audit:read")
		if _, text := w.backendText(auditor, "/ai/tool-calls/"+e.Data.CallID); !strings.Contains(text, `"result":[{"text":"{\"shipped\":true}","type":"text"}]`) {
			t.Error(text)
		}
	})
}

func TestCallGetsItsResultIfItComesInTime(t *testing.T) {
	t.Parallel()
	w := newSignedWorld(t, "")
	w.declareTool("ship", document.AITool{
		Name: "Ship", Type: "webhook", Method: "GET", Endpoint: w.up.URL, TimeoutSeconds: 30, RequestBodySchema: []schemafield.Field{{Name: "number", FieldType: "STRING"}},
		Response: &document.ToolResponse{Select: "/order", Schema: []schemafield.Field{{Name: "state", FieldType: "STRING", Required: true}}},
	})
	w.declareHosted("ship")
	for body, want := range map[string]string{
		`{"result":{"order":{"state":"shipped","secret":7}}}`: `"structuredContent":{"state":"shipped"}`,
		`{"result":{"order":{}}}`:                             `"code":"invalid_response"`,
		`{"error":"no stock\u202e"}`:                          `The tool reports an error: no stock"`,
	} {
		w.answering(func(rw http.ResponseWriter, r *http.Request) {
			got, _ := w.up.last()
			var e envelope
			if err := json.Unmarshal([]byte(got.body), &e); err != nil {
				t.Error(err)
			}
			rw.WriteHeader(http.StatusAccepted)
			rw.(http.Flusher).Flush()
			go func() {
				if status, raw := w.sendResult(e.Data.CallID, e.Data.ResultToken, body); status != 204 {
					t.Errorf("%d %s", status, raw)
				}
			}()
		})
		a, e := w.ship("1")
		if !strings.Contains(a.raw, want) || strings.Contains(a.raw, "secret") {
			t.Errorf("%s: got %s", body, a.raw)
		}
		w.Eventually("the result is erased, because the tool keeps none", func() bool {
			_, text := w.backendText(w.declareKey("auditor", frontendtest.Deployment, "audit:read"), "/ai/tool-calls/"+e.Data.CallID)
			return strings.Contains(text, `"result":null`)
		})
	}
}

func TestResultNeedsTheTokenOfItsCall(t *testing.T) {
	t.Parallel()
	w := newSignedWorld(t, "")
	w.accepts()
	_, first := w.ship("1")
	_, second := w.ship("2")
	const good = `{"result":1}`
	for name, tc := range map[string]struct {
		call, token, body string
		want              int
	}{
		"another call's token":  {first.Data.CallID, second.Data.ResultToken, good, 401},
		"no token":              {first.Data.CallID, "", good, 401},
		"an API key":            {first.Data.CallID, w.key, good, 401},
		"no call":               {"x", first.Data.ResultToken, good, 401},
		"no member":             {first.Data.CallID, first.Data.ResultToken, `{}`, 400},
		"both members":          {first.Data.CallID, first.Data.ResultToken, `{"result":1,"error":"x"}`, 400},
		"no JSON":               {first.Data.CallID, first.Data.ResultToken, `{"result":`, 400},
		"a list":                {first.Data.CallID, first.Data.ResultToken, `[]`, 400},
		"more than is declared": {first.Data.CallID, first.Data.ResultToken, `{"result":"` + strings.Repeat("x", 300<<10) + `"}`, 413},
	} {
		if status, raw := w.sendResult(tc.call, tc.token, tc.body); status != tc.want {
			t.Errorf("%s: %d %s", name, status, raw)
		}
	}
	if got := w.record(first.Data.CallID); got.Outcome != people.CallAccepted {
		t.Errorf("%+v", got)
	}
	w.Clock.Advance(11 * time.Minute)
	if status, raw := w.sendResult(first.Data.CallID, first.Data.ResultToken, good); status != 410 {
		t.Errorf("after its end: %d %s", status, raw)
	}
}

func TestResultRepeatsNoSecret(t *testing.T) {
	t.Parallel()
	w := newSignedWorld(t, "")
	w.accepts()
	_, e := w.ship("1")
	if status, raw := w.sendResult(e.Data.CallID, e.Data.ResultToken, `{"result":"`+e.Data.ResultToken+`"}`); status != 204 {
		t.Fatalf("%d %s", status, raw)
	}
	if _, text := w.backendText(w.declareKey("auditor", frontendtest.Deployment, "audit:read"), "/ai/tool-calls/"+e.Data.CallID); !strings.Contains(text, "[redacted]") || strings.Contains(text, e.Data.ResultToken) {
		t.Error(text)
	}
}

func TestResultOfAnUnansweredCallIsRecorded(t *testing.T) {
	t.Parallel()
	w := newSignedWorld(t, "")
	w.declareTool("ship", document.AITool{
		Name: "Ship", Type: "webhook", Method: "GET", Endpoint: w.up.URL, TimeoutSeconds: 3, RequestBodySchema: []schemafield.Field{{Name: "number", FieldType: "STRING"}},
	})
	w.declareHosted("ship")
	arrived := make(chan envelope, 1)
	w.answering(func(rw http.ResponseWriter, r *http.Request) {
		got, _ := w.up.last()
		var e envelope
		if err := json.Unmarshal([]byte(got.body), &e); err != nil {
			t.Error(err)
		}
		arrived <- e
		<-r.Context().Done()
	})
	if _, code := w.call("ship", `{"number":"1"}`); code != "timeout" {
		t.Fatal(code)
	}
	e := <-arrived
	if status, raw := w.sendResult(e.Data.CallID, e.Data.ResultToken, `{"result":"shipped"}`); status != 204 {
		t.Errorf("%d %s", status, raw)
	}
	if got := w.record(e.Data.CallID); got.Outcome != people.CallSucceeded {
		t.Errorf("%+v", got)
	}
}

func TestWebhookMayAnswerAtOnce(t *testing.T) {
	t.Parallel()
	w := newSignedWorld(t, "")
	text, code := w.call("ship", `{"number":"1"}`)
	got, _ := w.up.last()
	e := w.envelope(got)
	if text != `{"state":"open"}` || code != "" {
		t.Errorf("got %q, %q", text, code)
	}
	if status, _ := w.sendResult(e.Data.CallID, e.Data.ResultToken, `{"result":1}`); status != 409 {
		t.Errorf("a result after the response: %d", status)
	}
}

func TestResultOfADeletedUsersCallIsNotKept(t *testing.T) {
	t.Parallel()
	w := newSignedWorld(t, "")
	w.accepts()
	w.insertAda()
	if a := w.post("support", w.declareKeyOf(7).Plain(), callBody("ship", `{"number":"1"}`)); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	got, _ := w.up.last()
	e := w.envelope(got)
	if e.Data.UserID == nil || *e.Data.UserID != "7" {
		t.Errorf("%+v", e.Data)
	}
	w.Must(w.Store.Change(t.Context(), frontendtest.Deployment, func(tx people.Tx) error { return tx.Users().DeleteUser(7) }))
	if status, raw := w.sendResult(e.Data.CallID, e.Data.ResultToken, `{"result":"of Ada"}`); status != 204 {
		t.Errorf("%d %s", status, raw)
	}
	if got := w.record(e.Data.CallID); got.Outcome != people.CallSucceeded || got.Caller.User != 0 {
		t.Errorf("%+v", got)
	}
	if _, text := w.backendText(w.declareKey("auditor", frontendtest.Deployment, "audit:read"), "/ai/tool-calls/"+e.Data.CallID); !strings.Contains(text, `"result":null`) {
		t.Error(text)
	}
}

func TestWebhookThatSendsItsResultAndFailsHasThatResult(t *testing.T) {
	t.Parallel()
	w := newSignedWorld(t, "")
	w.answering(func(rw http.ResponseWriter, _ *http.Request) {
		got, _ := w.up.last()
		e := w.envelope(got)
		if status, raw := w.sendResult(e.Data.CallID, e.Data.ResultToken, `{"result":"shipped"}`); status != 204 {
			t.Errorf("%d %s", status, raw)
		}
		rw.WriteHeader(http.StatusInternalServerError)
	})
	if text, code := w.call("ship", `{"number":"1"}`); text != `"shipped"` || code != "" {
		t.Errorf("got %q, %q", text, code)
	}
}

func TestResultAtAnotherDeploymentsHostIsRefused(t *testing.T) {
	t.Parallel()
	w := newSignedWorld(t, "")
	w.Put(v1alpha1.KindIdentityDeployment, "rival", "rival/rival", "rival", document.Deployment{
		DisplayName: "Rival", Mode: "Production", ManagementWrites: "Enabled", FieldConflicts: "Reject", FrontendHosts: []string{"rival.example"},
	})
	w.accepts()
	_, e := w.ship("1")
	for host, want := range map[string]int{"rival.example": 401, "unknown.example": 404, "localhost": 204} {
		w.Eventually("the answer at "+host, func() bool {
			r, err := http.NewRequestWithContext(t.Context(), "POST", w.Server.URL+"/tool-results/"+e.Data.CallID, strings.NewReader(`{"result":1}`))
			w.Must(err)
			r.Host = host
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+e.Data.ResultToken)
			resp, err := http.DefaultClient.Do(r)
			w.Must(err)
			_ = resp.Body.Close()
			return resp.StatusCode == want || want == 204 && resp.StatusCode == 409
		})
	}
}
