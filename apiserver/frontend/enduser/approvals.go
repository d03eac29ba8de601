package enduser

import (
	"crypto/subtle"
	"slices"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/approvals"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// maxListedApprovals bounds a list of approvals.
const maxListedApprovals = 100

// listApprovals lists the approvals of the user's calls, and those that the user decides for an organization.
func listApprovals(c *call) (reply, error) {
	q := c.query()
	status := q.OneOf("status", "", approvals.States...)
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	out := []enduserapi.ToolApproval{}
	err := c.view(func(u *account.Unit) error {
		l := &approvalList{Unit: u, user: c.signedIn().User, status: status, decides: map[string]bool{}}
		if err := l.read(c.signedIn()); err != nil {
			return err
		}
		for i := range l.found {
			view, err := viewApproval(u, &l.found[i], l.decides[l.decisionOf(&l.found[i])])
			if err != nil {
				return err
			}
			out = append(out, view)
		}
		return nil
	})
	return reply{data: out}, err
}

// approvalList collects the approvals that a user sees.
type approvalList struct {
	*account.Unit
	user   int64
	status string
	found  []people.Approval
	// decides are the results of approvals.Decides by decisionOf.
	decides map[string]bool
}

// decisionOf names what approvals.Decides depends on.
func (l *approvalList) decisionOf(a *people.Approval) string {
	if a.Permission == "" {
		return "user " + format(a.Caller.User)
	}
	return "organization " + format(a.Caller.Organization) + " " + a.Permission
}

// mayDecide is approvals.Decides, asked once for each permission and organization.
func (l *approvalList) mayDecide(a *people.Approval) (bool, error) {
	name := l.decisionOf(a)
	if decides, known := l.decides[name]; known {
		return decides, nil
	}
	decides, err := approvals.Decides(l.Unit, a, l.user)
	l.decides[name] = decides
	return decides, err
}

// read finds the newest approvals. Organizations that require more of the sign-in are left out.
func (l *approvalList) read(g *people.SignIn) error {
	if err := l.add(people.ApprovalFilter{User: l.user}, func(*people.Approval) (bool, error) { return true, nil }); err != nil {
		return err
	}
	if l.B2B.Enabled {
		memberships, err := l.Organizations().MembershipsOf(l.user)
		if err != nil {
			return err
		}
		for _, m := range memberships {
			if l.CheckIn(g, m) != nil {
				continue
			}
			if err := l.add(people.ApprovalFilter{Organization: m.Organization.ID}, l.mayDecide); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(l.found, func(a, b people.Approval) int { return int(min(1, max(-1, b.ID-a.ID))) })
	l.found = slices.CompactFunc(l.found, func(a, b people.Approval) bool { return a.ID == b.ID })
	l.found = l.found[:min(len(l.found), maxListedApprovals)]
	for i := range l.found {
		if _, err := l.mayDecide(&l.found[i]); err != nil {
			return err
		}
	}
	return nil
}

// add adds the newest approvals of a filter that are in the wanted state and that sees accepts.
func (l *approvalList) add(filter people.ApprovalFilter, sees func(*people.Approval) (bool, error)) error {
	filter.Status = l.status
	found, _, err := approvals.List(l.Unit, filter, maxListedApprovals, sees)
	l.found = append(l.found, found...)
	return err
}

// getApproval returns an approval with its arguments.
func getApproval(c *call) (reply, error) {
	var out enduserapi.ToolApproval
	err := c.view(func(u *account.Unit) error {
		a, decides, err := findApproval(c, u, c.signedIn())
		if err != nil {
			return err
		}
		if out, err = viewApproval(u, &a, decides); err != nil {
			return err
		}
		return openArguments(c, &out, &a)
	})
	return reply{data: out}, err
}

// findApproval returns the approval of the path, and reports whether the user decides it. Approvals that the user does
// not see are unknown.
func findApproval(c *call, u *account.Unit, g *people.SignIn) (a people.Approval, decides bool, err error) {
	id, err := ids.Parse(c.r.PathValue("id"))
	if err != nil {
		return a, false, errApprovalUnknown
	}
	a, found, err := u.Approvals().Approval(id)
	if err != nil {
		return a, false, err
	}
	if !found {
		return a, false, errApprovalUnknown
	}
	if decides, err = approvals.Decides(u, &a, g.User); err != nil {
		return a, false, err
	}
	if own := a.Caller.User == g.User; !own && !decides {
		return a, false, errApprovalUnknown
	}
	if decides && a.Permission != "" {
		_, err = memberOf(u, a.Caller.Organization, g) // the organization may require more of the sign-in
	}
	return a, decides, err
}

// approveCall approves a call, for the arguments that the user saw.
func approveCall(c *call) (reply, error) {
	var digest string
	err := c.parse(func(o *body.Object) {
		digest = required(o, "arguments_digest", func(o *body.Object, member string) string { text, _ := o.String(member); return text })
	})
	if err != nil {
		return reply{}, err
	}
	return decideApproval(c, func(u *unit, a *people.Approval, shown approvals.Shown) error {
		if subtle.ConstantTimeCompare([]byte(digest), []byte(a.Digest)) != 1 {
			return apierror.Bad("VALIDATION_ERROR", "arguments_digest is not that of the approval's arguments: read them again, and send what was shown")
		}
		if shown.Fresh {
			if err := account.RequireFreshWithin(u.Unit, u.signedIn(), approvals.FreshFor); err != nil {
				return err
			}
		}
		return u.decide(a, people.ApprovalApproved)
	})
}

// denyCall refuses a call.
func denyCall(c *call) (reply, error) {
	if err := c.parse(func(*body.Object) {}); err != nil {
		return reply{}, err
	}
	return decideApproval(c, func(u *unit, a *people.Approval, _ approvals.Shown) error { return u.decide(a, people.ApprovalDenied) })
}

// decideApproval runs decide for the approval of the path, if it can still be decided.
func decideApproval(c *call, decide func(*unit, *people.Approval, approvals.Shown) error) (reply, error) {
	return transact(c, func(u *unit) (reply, error) {
		a, decides, err := findApproval(c, u.Unit, u.signedIn())
		if err != nil {
			return reply{}, err
		}
		if !decides {
			return reply{}, &account.PermissionError{Permission: a.Permission}
		}
		shown, err := approvals.Show(u.Unit, &a)
		if err != nil {
			return reply{}, err
		}
		switch shown.Status {
		case people.ApprovalPending:
		case approvals.Expired, approvals.Void:
			return reply{}, errApprovalExpired
		default:
			return reply{}, errApprovalDecided
		}
		if err := decide(u, &a, shown); err != nil {
			return reply{}, err
		}
		view, err := viewApproval(u.Unit, &a, decides)
		if err == nil {
			err = openArguments(c, &view, &a)
		}
		return reply{data: view}, err
	})
}

// decide writes a decision, and changes a to it.
func (u *unit) decide(a *people.Approval, status string) error {
	ends, action := u.Now.Add(approvals.UsableFor), "tool_approval.approved"
	if status == people.ApprovalDenied {
		ends, action = u.Now.Add(approvals.RefusedFor), "tool_approval.denied"
	}
	by := u.signedIn().User
	decided, err := u.Approvals().DecideApproval(a.ID, status, by, u.Now, ends)
	if err != nil {
		return err
	}
	if !decided { // another approver, or the clock, was faster
		return errApprovalDecided
	}
	kind := events.ApprovalApproved
	if status == people.ApprovalDenied {
		kind = events.ApprovalDenied
	}
	u.Log(events.OfApproval(kind, *a))
	a.Status, a.DecidedAt, a.DecidedBy, a.EndsAt = status, u.Now, by, ends
	return u.Audit(action, "tool_approval:"+format(a.ID))
}

// openArguments sets the arguments of a view. They stay null after they were erased.
func openArguments(c *call, view *enduserapi.ToolApproval, a *people.Approval) error {
	if a.Arguments == "" {
		return nil
	}
	arguments, err := approvals.Open(c.Keyring, c.request.Key(), a)
	if err == nil {
		view.Arguments = &arguments
	}
	return err
}

func viewApproval(u *account.Unit, a *people.Approval, decides bool) (enduserapi.ToolApproval, error) {
	shown, err := approvals.Show(u, a)
	view := enduserapi.ToolApproval{
		Id: format(a.ID), Status: enduserapi.ToolApprovalStatus(shown.Status), CanDecide: decides && shown.Status == people.ApprovalPending,
		Agent:           enduserapi.ApprovalAgent{Id: format(a.Agent), Name: a.AgentName},
		Tool:            enduserapi.ApprovalTool{Id: format(a.Tool), Name: a.ToolName, Title: shown.Title, Method: shown.Method, Host: shown.Host},
		ArgumentsDigest: a.Digest, RequestedAt: a.RequestedAt, ExpiresAt: a.EndsAt,
	}
	if shown.Client != nil {
		view.Client = &enduserapi.ApprovalClient{Name: shown.Client.Name, Verified: shown.Client.Verified}
	}
	if a.Caller.Organization != 0 {
		id := format(a.Caller.Organization)
		view.OrganizationId = &id
	}
	if !a.DecidedAt.IsZero() {
		view.DecidedAt = &a.DecidedAt
	}
	return view, err
}
