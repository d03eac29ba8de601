package callrecord

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/agents/toolcall"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// logged numbers the events of a deployment, and returns those after a number.
func (w *world) logged(deployment string, after int64) (list []people.LoggedEvent) {
	w.T.Helper()
	w.Must(w.World.Store.Change(w.T.Context(), deployment, func(tx people.Tx) error {
		if _, err := tx.EventLog().NumberEvents(1000); err != nil {
			return err
		}
		var err error
		list, err = tx.EventLog().EventsAfter(after, 1000)
		return err
	}))
	return list
}

// begin begins a call of a tool by a user of a client.
func (w *world) begin(of Tool) *Call {
	w.T.Helper()
	c, err := w.Begin(w.Clock.Now(), of, people.ToolCaller{Kind: people.CallerClient, ID: "shop-client", Client: "shop-client", Organization: 5}, "")
	w.Must(err)
	return c
}

func TestEachEndedCallHasOneEventInTheTransactionOfItsRecord(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newWorld(t, url, withKeyring)
		writes := findOrder("acme/main")
		writes.ReadOnly = false
		expect := func(after int64, id int64, decision, outcome, code string) {
			t.Helper()
			list := w.logged("acme/main", after)
			if len(list) != 1 {
				t.Fatalf("%d events", len(list))
			}
			e := list[0]
			var data struct {
				Call     string `json:"call_id"`
				Agent    string `json:"agent_id"`
				Tool     string `json:"tool_id"`
				Client   string `json:"client_id"`
				Decision string
				Outcome  string
				Code     string
			}
			w.Must(json.Unmarshal([]byte(e.Data), &data))
			if e.Type != "agent.tool_call.completed" || e.SubjectType != "agent_tool_call" || e.SubjectID != ids.Format(id) || e.Actor != "client:shop-client" || e.Organization != 5 ||
				data.Call != e.SubjectID || data.Agent != "1" || data.Tool != "2" || data.Client != "shop-client" || data.Decision != decision || data.Outcome != outcome || data.Code != code {
				t.Errorf("%+v", e)
			}
		}
		c := w.begin(writes)
		_, err := c.Run(t.Context(), func() toolcall.Result {
			if list := w.logged("acme/main", 0); len(list) != 0 {
				t.Errorf("%d events before the end", len(list))
			}
			return toolcall.Result{Code: toolcall.CodeStatus, Status: 500}
		})
		w.Must(err)
		expect(0, c.ID(), people.CallAllowed, people.CallFailed, toolcall.CodeStatus)

		c = w.begin(findOrder("acme/main"))
		_, err = c.Run(t.Context(), succeeded)
		w.Must(err)
		w.Must(w.Flush(t.Context()))
		expect(1, c.ID(), people.CallAllowed, people.CallSucceeded, "")

		c = w.begin(findOrder("acme/main"))
		c.Refuse(people.CallPermissionDenied, "permission_denied")
		w.Must(w.Flush(t.Context()))
		expect(2, c.ID(), people.CallPermissionDenied, "", "permission_denied")

		// The result waits while the store is unavailable, and so does the event.
		c = w.begin(writes)
		_, err = c.Run(t.Context(), func() toolcall.Result { w.gate.set("*"); return succeeded() })
		w.Must(err)
		if err := w.Flush(t.Context()); !errors.Is(err, store.ErrUnavailable) || len(w.logged("acme/main", 3)) != 0 {
			t.Fatalf("%v", err)
		}
		w.gate.set("")
		w.Must(w.Flush(t.Context()))
		expect(3, c.ID(), people.CallAllowed, people.CallSucceeded, "")
	})
}

func TestRepeatedWritesLogEachCallOnce(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newWorld(t, url, withKeyring)
		writes := findOrder("acme/main")
		writes.ReadOnly = false
		var started *waiting
		c := w.begin(writes)
		_, err := c.Run(t.Context(), succeeded)
		w.Must(err)
		started = &waiting{deployment: "acme/main", call: c.record, started: true}
		w.run(findOrder("acme/main"))
		for _, one := range w.take()["acme/main"] {
			w.Must(w.write(t.Context(), "acme/main", []*waiting{one}))
			w.add(one) // as if the outcome of the commit were unknown
		}
		w.add(started)
		w.run(findOrder("acme/main"))
		w.run(findOrder("acme/main"))
		w.Must(w.Flush(t.Context()))
		list, calls := w.logged("acme/main", 0), w.stored("acme/main")
		seen := map[string]bool{}
		for _, e := range list {
			seen[e.SubjectID] = true
		}
		if len(list) != 4 || len(calls) != 4 || len(seen) != 4 {
			t.Errorf("%d events of %d calls, %d records", len(list), len(seen), len(calls))
		}
		again := []people.ToolCall{calls[0], {ID: 9, Agent: 1, Tool: 2, Decision: people.CallAllowed, CallResult: people.CallResult{Outcome: people.CallSucceeded}}}
		err = w.World.Store.Change(t.Context(), "acme/main", func(tx people.Tx) error { _, err := record(tx, again, false); return err })
		if !errors.Is(err, errPartly) || len(w.logged("acme/main", 4)) != 0 {
			t.Errorf("a batch with a record that was there: %v", err)
		}
	})
}

func TestAcceptedCallHasItsEventWithTheResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", withKeyring)
	of := findOrder("acme/main")
	of.Later = true
	c := w.begin(of)
	_, err := c.Run(t.Context(), func() toolcall.Result { return toolcall.Result{Later: true, Status: 202} })
	w.Must(err)
	w.Must(w.Flush(t.Context()))
	if list := w.logged("acme/main", 0); len(list) != 0 {
		t.Fatalf("%+v", list)
	}
	record := c.record
	if !w.Arrive("acme/main", &record, succeeded(), w.Clock.Now()) {
		t.Fatal("the result is not kept")
	}
	w.Must(w.World.Store.Change(t.Context(), "acme/main", func(tx people.Tx) error {
		if settled, err := tx.Records().ReceiveToolResult(record); err != nil || !settled {
			t.Errorf("%t, %v", settled, err)
		}
		return LogCompleted(tx, record)
	}))
	if list := w.logged("acme/main", 0); len(list) != 1 || !strings.Contains(list[0].Data, `"outcome":"succeeded"`) {
		t.Errorf("%+v", list)
	}
}
