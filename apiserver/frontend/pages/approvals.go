package pages

import (
	"net/http"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// approvalsPath is the path of the page that lists approvals. The page of one is at approvalsPath/{id}.
const approvalsPath = "/approvals"

// shownApproval is an approval as a page shows it.
type shownApproval struct {
	enduserapi.ToolApproval
	// State is the state in words.
	State string
	// Organization is the name of the call's organization, "" if there is none or the user is no longer a member.
	Organization string
	// Arguments are the arguments, and Erased reports that they are no longer kept.
	Arguments []argument
	Erased    bool
}

// Pending reports whether the approval waits for a decision.
func (a shownApproval) Pending() bool { return a.Status == enduserapi.ApprovalPending }

func showApprovals(v *visit) error {
	listed, err := v.api.ListToolApprovals(v.r.Context(), enduserapi.EndUserListToolApprovalsParams{})
	if err != nil {
		return err
	}
	var asked []*string
	for _, a := range listed.Data {
		asked = append(asked, a.OrganizationId)
	}
	names, err := organizationNames(v, asked)
	if err != nil {
		return err
	}
	own := []shownApproval{}
	for _, a := range listed.Data {
		own = append(own, newShownApproval(v, a, names))
	}
	return v.render("approvals", v.text.Text("approvals.title"), own)
}

func showApproval(v *visit) error {
	found, err := v.api.GetToolApproval(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return err
	}
	names, err := organizationNames(v, []*string{found.Data.OrganizationId})
	if err != nil {
		return err
	}
	own := newShownApproval(v, found.Data, names)
	if own.Erased = found.Data.Arguments == nil; !own.Erased {
		if own.Arguments, err = argumentsOf(*found.Data.Arguments); err != nil {
			return err
		}
	}
	return v.render("approval", v.text.Text("approval.title", "agent", own.Agent.Name), own)
}

func newShownApproval(v *visit, a enduserapi.ToolApproval, names map[string]string) shownApproval {
	own := shownApproval{ToolApproval: a, State: approvalState(v, a.Status)}
	if a.OrganizationId != nil {
		own.Organization = names[*a.OrganizationId]
	}
	return own
}

// approvalState returns the state of an approval in words.
func approvalState(v *visit, status enduserapi.ToolApprovalStatus) string {
	switch status {
	case enduserapi.ApprovalApproved:
		return v.text.Text("approval.approved")
	case enduserapi.ApprovalDenied:
		return v.text.Text("approval.denied")
	case enduserapi.ApprovalUsed:
		return v.text.Text("approval.used")
	case enduserapi.ApprovalExpired:
		return v.text.Text("approval.expired")
	case enduserapi.ApprovalVoid:
		return v.text.Text("approval.void")
	}
	return v.text.Text("approval.pending")
}

func takeApproval(v *visit) error {
	sent, id := v.form, v.r.PathValue("id")
	var err error
	notice := "call_approved"
	switch sent.Action {
	case "approve":
		_, err = v.api.ApproveToolCall(v.r.Context(), id, enduserapi.ToolApprovalSeen{ArgumentsDigest: sent.value("arguments_digest")})
	case "deny":
		notice = "call_denied"
		_, err = v.api.DenyToolCall(v.r.Context(), id, enduserapi.Empty{})
	default:
		return nothingThere()
	}
	if refused := refusal(err); refused != nil && refused.Status == http.StatusNotFound {
		return err // the page would be of nothing
	}
	if err != nil {
		return v.again(sent, err)
	}
	return v.redirect(notice, at(approvalsPath+"/{id}", id))
}
