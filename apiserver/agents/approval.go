package agents

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/agents/toolcall"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/approvals"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// waitForDecision is how long a retried call waits for the decision, and pollEvery how often it looks.
	waitForDecision, pollEvery = 20 * time.Second, 500 * time.Millisecond
	// The most calls that wait for a decision, of a deployment and of the server; others are answered at once.
	waitsOfDeployment, waitsOfServer = 32, 256
	// approvalKey is the key of the only input request of a call.
	approvalKey = "approval"
)

// Codes of calls without a usable approval.
const (
	codeApprovalRequired = "approval_required"
	codeApprovalDenied   = "approval_denied"
	codeApprovalExpired  = "approval_expired"
)

// approver returns what the approver of a tool's calls needs in the organization, "" if the user of the call approves.
func approver(t *snapshot.Tool) string {
	if t.Approval == nil {
		return ""
	}
	return t.Approval.Permission
}

// missingPerson says why a call of the caller has no user although the tool acts for one, or has no person who could
// approve it; "" if it lacks neither.
func (c *call) missingPerson(t *snapshot.Tool) string {
	switch byUser := t.RequiresUserApproval && approver(t) == ""; {
	case t.Authorization.AuthorizeAsUser && c.caller.User == 0:
		return "This tool acts for a user, and the credential has none. Ask the user to sign in, and call with the user's token."
	case byUser && c.caller.User == 0:
		return "The user of a call approves it, and the credential has no user. Ask the user to sign in, and call with the user's token."
	case t.RequiresUserApproval && !byUser && c.caller.Organization == 0:
		return "Members of an organization approve calls of this tool, and the credential is for none. Call with one that is for an organization."
	}
	return ""
}

// approve returns the approval that the call may use, nil if the tool needs none. Without one it returns the result of
// the call: it asks for an approval, or says why there is none.
func (r *recorded) approve() (usable *people.Approval, answer any, err error) {
	if !r.tool.Content.RequiresUserApproval {
		return nil, nil, nil
	}
	digest := r.record.Digest()
	if digest == "" || r.content.URL == "" { // without a root key nothing is sealed, and without a host there is no page
		return nil, r.failed(toolcall.Failed(codeNotConfigured, notConfigured)), nil
	}
	asked := r.newApproval(digest)
	a, refused, err := r.current(asked)
	if err != nil || refused != nil {
		return nil, refused, err
	}
	r.record.UseApproval(a.ID)
	switch approvals.Status(a, asked.Content, r.Clock()) {
	case people.ApprovalApproved:
		if still, err := r.stillDecides(a); err != nil || still {
			return a, nil, err
		}
	case people.ApprovalPending:
		return nil, r.ask(a), nil
	case people.ApprovalDenied:
		return nil, r.refused(people.CallApprovalDenied, toolcall.Failed(codeApprovalDenied, "The call was denied. Do not call it again; tell the user.")), nil
	}
	return nil, r.refused(people.CallApprovalDenied, toolcall.Failed(codeApprovalExpired, "The approval has expired. Call again only if it is still wanted: this asks again.")), nil
}

// newApproval returns the approval that the call would ask for.
func (r *recorded) newApproval(digest string) people.Approval {
	now, content := r.Clock().UTC().Truncate(time.Microsecond), approvals.ContentOf(r.agent, r.tool.Entry)
	who := people.ToolCaller{
		Kind: r.caller.Kind, ID: r.caller.ID, Client: r.caller.Client(), User: r.caller.User, Organization: r.caller.Organization, Workspace: r.caller.Workspace,
	}
	bound := sha256.Sum256([]byte(strings.Join([]string{
		who.Kind, who.ID, ids.Format(who.User), ids.Format(who.Organization), ids.Format(who.Workspace), ids.Format(r.agent.ID), ids.Format(r.tool.Entry.ID), content, digest,
	}, "\x00")))
	return people.Approval{
		Agent: r.agent.ID, AgentName: r.agent.Name, Tool: r.tool.Entry.ID, ToolName: r.tool.Name, Caller: who, Permission: approver(r.tool.Content),
		Key: hex.EncodeToString(bound[:]), Content: content, Digest: digest, Status: people.ApprovalPending, RequestedAt: now, EndsAt: now.Add(r.tool.Content.Approval.Lifetime()),
	}
}

// current returns the approval of the call as it is now: a new one if there is none. It returns the result of the call
// if too many wait, and an error if the request does not continue its own call.
func (r *recorded) current(asked people.Approval) (a *people.Approval, refused any, err error) {
	if state := r.request.params.RequestState; state != "" {
		id, err := r.openState(state, &asked)
		if err != nil {
			return nil, nil, err
		}
		a, err = r.decided(id)
		return a, nil, storeFault(err)
	}
	err = r.changes(func(u *account.Unit) error {
		found, live, err := u.Approvals().LiveApproval(asked.Key)
		if err != nil {
			return err
		}
		if live && u.Now.Before(found.EndsAt) {
			a = &found
			return nil
		}
		if live {
			freed, err := u.Approvals().FreeApproval(found.ID, u.Now)
			if err != nil {
				return err
			}
			if freed && found.Status != people.ApprovalDenied {
				account.LogAs(u, "system", events.OfApproval(events.ApprovalExpired, found))
			}
		}
		// Concurrent calls wait here, because each would count before the others insert.
		if err := u.Limits().Lock(pendingOf(asked)); err != nil {
			return err
		}
		waiting, err := u.Approvals().PendingApprovals(asked.Agent, asked.Caller.User, asked.Caller.ID, u.Now)
		if err != nil || waiting >= approvals.MaxPending {
			return err
		}
		return r.insert(u, asked, &a)
	})
	if err == nil && a == nil {
		result := toolcall.Failed(codeRateLimited, "%d approvals of this agent wait for a decision. Ask the user to decide them before you call again.", approvals.MaxPending)
		result.RetryAfter = 60
		return nil, r.refused(people.CallRateLimited, result), nil
	}
	return a, nil, storeFault(err)
}

// pendingOf names the approvals that are counted together: those of an agent for a user, or for a caller without one.
func pendingOf(a people.Approval) string {
	who := a.Caller.ID
	if a.Caller.User != 0 {
		who = ids.Format(a.Caller.User)
	}
	return "approvals:" + ids.Format(a.Agent) + ":" + who
}

// insert inserts an approval, or finds the one that another request inserted meanwhile.
func (r *recorded) insert(u *account.Unit, asked people.Approval, to **people.Approval) (err error) {
	if asked.ID, err = ids.New(asked.RequestedAt, rand.Reader); err != nil {
		return err
	}
	asked.Arguments = approvals.Seal(r.Keyring, r.agent.Deployment, asked.ID, r.record.Canonical())
	inserted, err := u.Approvals().InsertApproval(asked)
	if err != nil {
		return err
	}
	if inserted {
		u.Log(events.OfApproval(events.ApprovalRequested, asked))
		*to = &asked
		return nil
	}
	found, live, err := u.Approvals().LiveApproval(asked.Key)
	if live {
		*to = &found
	}
	return err
}

// decided returns an approval after its decision, or after waitForDecision. The client may decline for its user.
func (r *recorded) decided(id int64) (a *people.Approval, err error) {
	var response struct {
		Action string `json:"action"`
	}
	if raw, sent := r.request.params.InputResponses[approvalKey]; sent && json.Unmarshal(raw, &response) == nil && response.Action == "decline" {
		err := r.changes(func(u *account.Unit) error {
			declined, exists, err := u.Approvals().Approval(id)
			if err != nil || !exists {
				return err
			}
			decided, err := u.Approvals().DecideApproval(id, people.ApprovalDenied, 0, u.Now, u.Now.Add(approvals.RefusedFor))
			if err != nil || !decided {
				return err
			}
			u.Log(events.OfApproval(events.ApprovalDenied, declined))
			return u.Audit("tool_approval.denied", "tool_approval:"+ids.Format(id))
		})
		if err != nil {
			return nil, err
		}
	}
	until := time.Now()
	if bounds := []slot{{name: "approvals of " + r.agent.Deployment, most: waitsOfDeployment}, {name: "approvals", most: waitsOfServer}}; r.slots.try(bounds) == nil {
		defer r.slots.giveBack(bounds)
		if err := r.AllowTime(waitForDecision + respondWithin); err != nil {
			return nil, err
		}
		until = until.Add(waitForDecision)
	}
	for {
		if err := r.views(func(u *account.Unit) error {
			found, exists, err := u.Approvals().Approval(id)
			if exists {
				a = &found
			}
			return err
		}); err != nil {
			return nil, err
		}
		if a == nil {
			return nil, faulty(codeParams, "requestState continues no call: call without it")
		}
		if a.Status != people.ApprovalPending || !r.Clock().Before(a.EndsAt) || time.Now().After(until) {
			return a, nil
		}
		select {
		case <-time.After(pollEvery):
		case <-r.r.Context().Done():
			return a, nil
		}
	}
}

// stillDecides reports whether the approver of a given approval still has the permission.
func (r *recorded) stillDecides(a *people.Approval) (still bool, err error) {
	if a.Permission == "" {
		return true, nil
	}
	err = r.views(func(u *account.Unit) (err error) {
		still, err = approvals.Decides(u, a, a.DecidedBy)
		return err
	})
	return still, storeFault(err)
}

// transaction returns the common data of the transactions of a call.
func (c *call) transaction() (*account.Request, error) {
	deployment, found := c.snapshot.Deployment(c.agent.Deployment)
	if !found {
		return nil, apierror.Unavailable(nil, "the deployment is not known here yet: try again")
	}
	return c.transactionOf(deployment, c.caller.Kind+":"+c.caller.ID), nil
}

// transactionOf returns the common data of the transactions of an actor in a deployment.
func (c *call) transactionOf(deployment *snapshot.Entry, actor string) *account.Request {
	return &account.Request{
		Tenant: account.NewTenant(c.snapshot, deployment), Store: c.Callers.People, Keyring: c.Keyring, Random: rand.Reader,
		Now: c.Clock().UTC().Truncate(time.Microsecond), Actor: actor,
	}
}

func (c *call) changes(do func(*account.Unit) error) error {
	request, err := c.transaction()
	if err != nil {
		return err
	}
	return request.Change(context.WithoutCancel(c.r.Context()), do)
}

func (c *call) views(do func(*account.Unit) error) error {
	request, err := c.transaction()
	if err != nil {
		return err
	}
	return request.View(c.r.Context(), do)
}

// storeFault maps an unavailable store to a response that asks for a retry.
func storeFault(err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return apierror.Unavailable(err, "the store is unavailable: try again")
	}
	return err
}

// ask returns the result of a call that waits for an approval. A client that can open a URL gets it as an input
// request; it carries no data, and only a signed-in browser can give the approval.
func (r *recorded) ask(a *people.Approval) any {
	url := strings.TrimSuffix(r.content.URL, prefix+r.agent.Name) + "/approvals/" + ids.Format(a.ID)
	message := "Approve or deny this call of " + toolcall.Clean(r.tool.Content.Name) + " by " + toolcall.Clean(r.content.Name) + "."
	if r.request.revision == modern && opensURLs(r.request) {
		r.record.Refuse(people.CallApprovalRequired, codeApprovalRequired)
		return inputRequired{
			common: common{"input_required", map[string]any{metaServer: r.server()}}, State: r.sealState(a),
			Requests: map[string]any{approvalKey: map[string]any{"method": "elicitation/create", "params": map[string]any{"mode": "url", "message": message, "url": url}}},
		}
	}
	result := r.refused(people.CallApprovalRequired, toolcall.Failed(codeApprovalRequired,
		"This call needs an approval. Ask the user to open %s and to decide. After the approval, call again with the same arguments.", url))
	result.Meta[metaError] = failure{Code: codeApprovalRequired, CallID: ids.Format(r.record.ID()), Approval: &pendingApproval{ids.Format(a.ID), url, a.EndsAt}}
	return result
}

// inputRequired is the result of a call that continues after an input of the user.
type inputRequired struct {
	common
	Requests map[string]any `json:"inputRequests"`
	State    string         `json:"requestState"`
}

// pendingApproval says where an approval is decided.
type pendingApproval struct {
	ID        string    `json:"id"`
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

// opensURLs reports whether the client declares that it opens URLs for its user.
func opensURLs(r *request) bool {
	var capabilities struct {
		Elicitation struct {
			URL json.RawMessage `json:"url"`
		} `json:"elicitation"`
	}
	return json.Unmarshal(r.params.Meta[metaCapabilities], &capabilities) == nil && len(capabilities.Elicitation.URL) > 0 && string(capabilities.Elicitation.URL) != "null"
}

// callState is the content of requestState.
type callState struct {
	Approval int64     `json:"approval"`
	Ends     time.Time `json:"ends"`
}

// sealState returns the requestState of a call that waits for an approval. Only the same principal can continue the
// same call with it.
func (r *recorded) sealState(a *people.Approval) string {
	content, _ := json.Marshal(callState{a.ID, a.EndsAt.Add(approvals.UsableFor)}) // it can be encoded
	return r.Keyring.Seal(document.SealedCallState, r.agent.Deployment+"/"+a.Key, content)
}

// openState returns the approval with which a call continues.
func (r *recorded) openState(sealed string, asked *people.Approval) (int64, error) {
	content, err := r.Keyring.Open(document.SealedCallState, r.agent.Deployment+"/"+asked.Key, sealed)
	var state callState
	if err != nil || json.Unmarshal(content, &state) != nil || !r.Clock().Before(state.Ends) {
		return 0, faulty(codeParams, "requestState is not that of this call, or has expired: call without it")
	}
	return state.Approval, nil
}
