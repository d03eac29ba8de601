package agents

import (
	"errors"
	"net/http"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/agents/callrecord"
	"github.com/cardea-iam/cardea/apiserver/agents/toolcall"
	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// Served returns a function that reports whether a deployment has an agent and a tool, by their ids.
func Served(follower *snapshot.Follower) func(deployment string, agent, tool int64) bool {
	return func(deployment string, agent, tool int64) bool {
		current := follower.Current()
		_, hasAgent := current.ByID(v1alpha1.KindAIAgent, deployment, agent)
		_, hasTool := current.ByID(v1alpha1.KindAITool, deployment, tool)
		return hasAgent && hasTool
	}
}

// beginRecord begins the record of a call of a tool.
func beginRecord(c *call, t *toolset.Tool) (*callrecord.Call, error) {
	caller := people.ToolCaller{
		Kind: c.caller.Kind, ID: c.caller.ID, Client: c.caller.Client(), User: c.caller.User, Organization: c.caller.Organization, Workspace: c.caller.Workspace,
	}
	if address := c.Authenticator.Proxies.ClientAddress(c.r); address.IsValid() {
		caller.Address = address.String()
	}
	return c.Records.Begin(c.Received, callrecord.Tool{
		Deployment: c.agent.Deployment, Agent: c.agent.ID, AgentName: c.agent.Name, ID: t.Entry.ID, Name: t.Name, ReadOnly: t.Content.Hints().ReadOnly, Keep: t.Content.Record,
		Later: t.Content.Type == document.ToolTypeWebhook,
	}, caller, c.request.revision)
}

// recordRefused records a call of a tool that is refused without a result of its own.
func recordRefused(c *call, t *toolset.Tool, decision string) {
	if record, err := beginRecord(c, t); err == nil { // without a random number, the refusal is only answered
		record.Refuse(decision, decision)
	}
}

// recordRefusal records the call of a tool whose request was refused for lack of a permission or by a limit.
func recordRefusal(c *call, err error) {
	if c.caller != nil && c.request != nil && c.request.Method == "tools/call" && !c.request.notification() {
		recordRefusalOfTool(c, err)
	}
}

// recordRefusalOfTool is recordRefusal for a request of a known caller that calls a tool.
func recordRefusalOfTool(c *call, err error) {
	decision := map[int]string{http.StatusForbidden: people.CallPermissionDenied, http.StatusTooManyRequests: people.CallRateLimited}[apierror.Of(err).Status]
	if decision == "" {
		return
	}
	if one, found := c.Tools.Of(c.snapshot, c.agent).ByName[c.request.params.Name]; found {
		recordRefused(c, one, decision)
	}
}

// recorded is a call of a tool with its record.
type recorded struct {
	*call
	tool   *toolset.Tool
	record *callrecord.Call
}

// refused records that the call is not allowed, and returns its result.
func (r *recorded) refused(decision string, result toolcall.Result) called {
	r.record.Refuse(decision, result.Code)
	return r.result(r.record.ID(), result)
}

// failed records that the call is allowed, but nothing was sent, and returns its result.
func (r *recorded) failed(result toolcall.Result) called {
	r.record.Fail(result.Code)
	return r.result(r.record.ID(), result)
}

// broken records that nothing was sent because of an error, and returns it.
func (r *recorded) broken(err error) error {
	if wrong := (*fault)(nil); errors.As(err, &wrong) { // the request is at fault
		r.record.Refuse(people.CallInvalid, toolcall.CodeArguments)
		return err
	}
	r.record.Fail(callrecord.CodeInternal)
	return err
}

// perform sends the allowed call.
func (r *recorded) perform(allowed *toolcall.Call) (any, error) {
	timeout := time.Duration(r.tool.Content.TimeoutSeconds) * time.Second
	if err := r.AllowTime(timeout + respondWithin); err != nil {
		return nil, r.broken(err)
	}
	until := time.Now().Add(timeout)
	var broken error
	result, err := r.record.Run(r.r.Context(), func() toolcall.Result {
		refused, err := r.renew(allowed)
		if err != nil {
			broken = err
			return toolcall.Result{Code: callrecord.CodeInternal}
		}
		if refused != nil {
			return *refused
		}
		return r.await(r.r.Context(), r.client.Do(r.r.Context(), allowed), until)
	})
	if errors.Is(err, callrecord.ErrNotClaimed) {
		return r.refused(people.CallApprovalDenied, toolcall.Failed(codeApprovalExpired, "The approval was used by another call, or has expired. Call again only if it is still wanted: this asks again.")), nil
	}
	if err != nil {
		return nil, apierror.Unavailable(err, "the call was not sent, because it cannot be recorded now: try again")
	}
	if broken != nil {
		return nil, broken
	}
	return r.result(r.record.ID(), result), nil
}

// renew gives the call its new id, and a token and signature with it, if another call had the first one. It returns the
// result of the call if that is not possible.
func (r *recorded) renew(allowed *toolcall.Call) (refused *toolcall.Result, err error) {
	id := ids.Format(r.record.ID())
	if allowed.ID == id {
		return nil, nil
	}
	allowed.ID = id
	if allowed.Token, refused, err = r.token(r.tool, r.record.ID()); err != nil || refused != nil {
		return refused, err
	}
	return r.sign(allowed)
}
