package backend

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/approvals"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// approvalsOf returns a page of approvals.
func (s served) approvalsOf(t *testing.T, query string) backendapi.ToolApprovalList {
	t.Helper()
	w := s.people("GET", "/ai/tool-approvals?"+query, "")
	var list backendapi.ToolApprovalList
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", query, w.Code, w.Body)
	}
	if strings.Contains(w.Body.String(), "sealed") || strings.Contains(w.Body.String(), `"arguments"`) {
		t.Fatalf("arguments are served: %s", w.Body)
	}
	return list
}

func TestApprovalsAreListedByFilters(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	now := time.Now().UTC().Truncate(time.Microsecond)
	const more = 5
	err := s.rows.Change(t.Context(), "ns/acme", func(tx people.Tx) error {
		for i := range int64(approvals.MaxRead + more) {
			a := people.Approval{
				ID: i + 1, Agent: 1 + i%2, AgentName: "support", Tool: 3, ToolName: "cancel-order", Caller: people.ToolCaller{Kind: people.CallerKey, ID: "k", User: 7 + i%3},
				Key: ids.Format(i + 1), Content: "of an earlier declaration", Digest: "d", Arguments: "sealed", Status: people.ApprovalPending, RequestedAt: now, EndsAt: now.Add(time.Minute),
			}
			if i == 0 {
				a.Status, a.DecidedAt, a.DecidedBy = people.ApprovalDenied, now, 9
			}
			if _, err := tx.Approvals().InsertApproval(a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	page := s.approvalsOf(t, "limit=2")
	if len(page.Data) != 2 || page.Data[0].Id != ids.Format(approvals.MaxRead+more) || page.NextCursor == nil || *page.NextCursor != page.Data[1].Id || !page.HasMore {
		t.Errorf("the first page: %+v", page)
	}
	if next := s.approvalsOf(t, "limit=2&cursor="+*page.NextCursor); next.Data[0].Id != ids.Format(approvals.MaxRead+more-2) {
		t.Errorf("the next page: %+v", next)
	}
	if last := s.approvalsOf(t, "cursor=3"); len(last.Data) != 2 || last.HasMore || last.NextCursor != nil {
		t.Errorf("the last page: %+v", last)
	}
	for _, one := range s.approvalsOf(t, "agent_id=2&user_id=8&limit=50").Data {
		if one.Agent.Id != "2" || *one.UserId != "8" || one.Status != backendapi.ApprovalVoid || one.Client.Verified {
			t.Errorf("listed for agent 2 and user 8: %+v", one)
		}
	}
	denied := s.approvalsOf(t, "status=denied")
	if len(denied.Data) != 1 || *denied.Data[0].DecidedBy != "9" || denied.Data[0].DecidedAt == nil {
		t.Errorf("denied: %+v", denied)
	}
	// Their tool is gone, so none is pending, and a request reads only so many.
	none := s.approvalsOf(t, "status=pending")
	if len(none.Data) != 0 || !none.HasMore || *none.NextCursor != ids.Format(more+1) {
		t.Errorf("pending: %+v", none)
	}
	if rest := s.approvalsOf(t, "status=pending&cursor="+*none.NextCursor); len(rest.Data) != 0 || rest.HasMore {
		t.Errorf("the rest: %+v", rest)
	}
	for _, wrong := range []string{"status=open", "agent_id=x", "user_id=x", "cursor=x", "limit=0"} {
		if w := s.people("GET", "/ai/tool-approvals?"+wrong, ""); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", wrong, w.Code, w.Body)
		}
	}
}
