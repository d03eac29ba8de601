package backend

import (
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/approvals"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// listToolApprovals serves a page of the approvals of calls of tools.
func listToolApprovals(c *call) (reply, error) {
	q := c.query()
	limit := q.Limit(defaultLimit, maxLimit)
	filter := people.ApprovalFilter{Agent: q.ID("agent_id"), User: q.ID("user_id"), Before: q.ID("cursor"), Status: q.OneOf("status", "", approvals.States...)}
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	list := backendapi.ToolApprovalList{}
	err := c.people().view(func(u *account.Unit) error {
		list = backendapi.ToolApprovalList{Data: []backendapi.ToolApproval{}}
		found, next, err := approvals.List(u, filter, limit, func(*people.Approval) (bool, error) { return true, nil })
		if err != nil {
			return err
		}
		list.HasMore, list.NextCursor = next != 0, optionalID(next)
		for i := range found {
			view, err := toolApprovalView(u, &found[i])
			if err != nil {
				return err
			}
			list.Data = append(list.Data, view)
		}
		return nil
	})
	return object(list), err
}

func toolApprovalView(u *account.Unit, a *people.Approval) (backendapi.ToolApproval, error) {
	shown, err := approvals.Show(u, a)
	view := backendapi.ToolApproval{
		Id: ids.Format(a.ID), Status: backendapi.ToolApprovalStatus(shown.Status),
		Agent:           backendapi.CalledResource{Id: ids.Format(a.Agent), Name: a.AgentName},
		Tool:            backendapi.ApprovalTool{Id: ids.Format(a.Tool), Name: a.ToolName, Title: shown.Title, Method: shown.Method, Host: shown.Host},
		ArgumentsDigest: a.Digest, UserId: optionalID(a.Caller.User), OrganizationId: optionalID(a.Caller.Organization), RequestedAt: a.RequestedAt, ExpiresAt: a.EndsAt,
		DecidedBy: optionalID(a.DecidedBy),
	}
	if shown.Client != nil {
		view.Client = &backendapi.ApprovalClient{Name: shown.Client.Name, Verified: shown.Client.Verified}
	}
	if !a.DecidedAt.IsZero() {
		view.DecidedAt = &a.DecidedAt
	}
	return view, err
}
