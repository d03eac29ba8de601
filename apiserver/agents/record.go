package agents

import (
	"net/http"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/agents/callrecord"
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
	}, c.caller(), c.request.revision)
}

// caller returns the caller as records name it.
func (c *call) caller() people.ToolCaller {
	caller := people.ToolCaller{Kind: people.CallerAPIKey, ID: c.principal.KeyID}
	if key := c.principal.Runtime; key != nil {
		caller.User, caller.Organization, caller.Workspace = key.OwnerUserID, key.OrganizationID, key.WorkspaceID
	}
	if address := c.Authenticator.Proxies.ClientAddress(c.r); address.IsValid() {
		caller.Address = address.String()
	}
	return caller
}

// recordRefusal records the call of a tool whose request was refused for lack of a permission or by a limit.
func (c *call) recordRefusal(err error) {
	decision := map[int]string{http.StatusForbidden: people.CallPermissionDenied, http.StatusTooManyRequests: people.CallRateLimited}[apierror.Of(err).Status]
	if decision == "" || c.principal == nil || c.request == nil || c.request.Method != "tools/call" || c.request.notification() {
		return
	}
	one, found := c.Tools.Of(c.snapshot, c.agent).ByName[c.request.params.Name]
	if !found {
		return
	}
	if record, err := c.record(one); err == nil { // without a random number, the refusal alone is answered
		record.Refuse(decision, decision)
	}
}
