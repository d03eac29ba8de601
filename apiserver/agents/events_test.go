package agents_test

import (
	"fmt"
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
