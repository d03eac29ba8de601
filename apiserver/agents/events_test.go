package agents_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/users/approvals"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

func TestApprovalsOfCallsLogEvents(t *testing.T) {
	w := newApprovalWorld(t, &document.ToolApproval{LifetimeSeconds: 60})
	happens := func(do func(), want ...events.Type) []people.LoggedEvent {
		t.Helper()
		return frontendtest.Happens(t, w.Store, do, want...)
	}
	var first int64
	requested := happens(func() { first = w.asks(w.token, 1) }, events.ApprovalRequested)[0]
	if requested.SubjectID != fmt.Sprint(first) || !strings.HasPrefix(requested.Actor, "client:") || !strings.Contains(requested.Data, `"client_id":`) || !strings.Contains(requested.Data, `"user_id":`) ||
		strings.Contains(requested.Data, "cents") {
		t.Errorf("%+v", requested)
	}
	happens(func() { w.asks(w.token, 1) })
	w.Clock.Advance(61 * time.Second)
	again := happens(func() { w.asks(w.token, 1) }, events.ApprovalExpired, events.ApprovalRequested)
	if again[0].SubjectID != fmt.Sprint(first) || again[0].Actor != "system" || again[1].SubjectID == again[0].SubjectID {
		t.Errorf("%+v", again)
	}
	w.decide(w.asks(w.token, 1), people.ApprovalApproved)
	w.Clock.Advance(approvals.UsableFor)
	happens(func() { w.asks(w.token, 1) }, events.ApprovalExpired, events.ApprovalRequested)
	w.decide(w.asks(w.token, 1), people.ApprovalApproved)
	happens(func() { w.post("support", w.token, pay(1)) })
	happens(func() { w.asks(w.token, 1) }, events.ApprovalRequested)
	w.decide(w.asks(w.token, 1), people.ApprovalDenied)
	w.Clock.Advance(approvals.RefusedFor)
	next := w.peopleWorld.token("orders:read")
	happens(func() { w.asks(next, 1) }, events.ApprovalRequested)
}

// TestCallsLogEvents: a call has an event when it has ended or was refused. The event has the ids of the call, and
// nothing of its arguments.
func TestCallsLogEvents(t *testing.T) {
	w := newApprovalWorld(t, nil)
	w.decide(w.asks(w.token, 1), people.ApprovalApproved)
	w.post("support", w.token, pay(1))
	w.post("support", w.key, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"find-order","arguments":{"number":"4711"}}}`)
	var list []people.LoggedEvent
	w.Eventually("three calls have events", func() bool {
		list = slices.DeleteFunc(frontendtest.Logged(t, w.Store, 0), func(e people.LoggedEvent) bool { return e.Type != string(events.ToolCallCompleted) })
		return len(list) >= 3
	})
	found := map[string]int{}
	for _, e := range list {
		var data map[string]any
		w.Must(json.Unmarshal([]byte(e.Data), &data))
		actor, _, _ := strings.Cut(e.Actor, ":")
		found[fmt.Sprint(actor, " ", data["decision"], " ", data["outcome"])]++
		if data["call_id"] != e.SubjectID || e.SubjectType != "agent_tool_call" || strings.Contains(e.Data, "4711") || strings.Contains(e.Data, "cents") {
			t.Errorf("%+v", e)
		}
	}
	if want := map[string]int{"client approval_required <nil>": 1, "client allowed succeeded": 1, "key allowed succeeded": 1}; !maps.Equal(found, want) {
		t.Errorf("the events are %v, want %v", found, want)
	}
}
