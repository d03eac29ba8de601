package agents

import (
	"net/http"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/agents/callrecord"
	"github.com/cardea-iam/cardea/apiserver/agents/toolcall"
	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
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

// record begins the record of a call of a tool.
func (c *call) record(t *toolset.Tool) (*callrecord.Call, error) {
	return c.Records.Begin(c.Received, callrecord.Tool{
		Deployment: c.agent.Deployment, Agent: c.agent.ID, AgentName: c.agent.Name, ID: t.Entry.ID, Name: t.Name, ReadOnly: t.Content.Hints().ReadOnly, Keep: t.Content.Record,
	}, c.recordedCaller(), c.request.revision)
}

// recordedCaller returns the caller as records name it.
func (c *call) recordedCaller() people.ToolCaller {
	of := people.ToolCaller{
		Kind: c.caller.Kind, ID: c.caller.ID, Client: c.caller.Client(), User: c.caller.User, Organization: c.caller.Organization, Workspace: c.caller.Workspace,
	}
	if address := c.Authenticator.Proxies.ClientAddress(c.r); address.IsValid() {
		of.Address = address.String()
	}
	return of
}

// refused records a call that is not allowed, and returns its result.
func (c *call) refused(record *callrecord.Call, decision string, result toolcall.Result) called {
	record.Refuse(decision, result.Code)
	return c.result(record.ID(), result)
}

// recordDenied records the call of a tool for which the caller lacks a permission.
func (c *call) recordDenied(t *toolset.Tool) { c.recordRefused(t, people.CallPermissionDenied) }

// recordRefused records a call of a tool that is refused without a result of its own.
func (c *call) recordRefused(t *toolset.Tool, decision string) {
	if record, err := c.record(t); err == nil { // without a random number, the refusal is only answered
		record.Refuse(decision, decision)
	}
}

// recordRefusal records the call of a tool whose request was refused for lack of a permission or by a limit.
func (c *call) recordRefusal(err error) {
	decision := map[int]string{http.StatusForbidden: people.CallPermissionDenied, http.StatusTooManyRequests: people.CallRateLimited}[apierror.Of(err).Status]
	if decision == "" || c.caller == nil || c.request == nil || c.request.Method != "tools/call" || c.request.notification() {
		return
	}
	if one, found := c.Tools.Of(c.snapshot, c.agent).ByName[c.request.params.Name]; found {
		c.recordRefused(one, decision)
	}
}
