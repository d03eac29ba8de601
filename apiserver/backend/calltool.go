package backend

import (
	"github.com/cardea-iam/cardea/apiserver/agents/caller"
	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
)

// callTool performs a call of an agent's tool for a program without the Model Context Protocol.
func callTool(c *call) (reply, error) {
	agent, err := findAgent(c)
	if err != nil {
		return reply{}, err
	}
	o, err := body.Parse(c.body)
	if err != nil {
		return reply{}, err
	}
	asked := toolset.Call{Snapshot: c.snapshot, Caller: c.caller, Agent: agent, Tool: c.r.PathValue("tool")}
	if raw, sent := o.Raw("arguments"); sent {
		asked.Arguments = raw
	}
	asked.IdempotencyKey, _ = o.String("idempotency_key")
	o.Close()
	if err := o.Err(); err != nil {
		return reply{}, err
	}
	result, err := c.api.CallTool(&c.Exchange, c.r, asked)
	return object(result), err
}

// getAgentMCP serves what is needed to connect a client of the Model Context Protocol to an agent. The agent of a
// deployment without a frontend host has no URL.
func getAgentMCP(c *call) (reply, error) {
	agent, err := findAgent(c)
	if err != nil {
		return reply{}, err
	}
	content := snapshot.ContentOf[snapshot.Agent](agent)
	answer := backendapi.AgentMCP{AgentId: ids.Format(agent.ID), Name: agent.Name, Url: optional(content.URL), IsActive: content.Active, Sessions: content.Sessions && content.URL != ""}
	if app, accepted := caller.App(c.snapshot, agent); accepted {
		answer.Oauth = &backendapi.AgentMCPOAuth{
			Issuer: app.Content.Issuer, MetadataUrl: caller.MetadataURL(agent), Scopes: append([]string{}, caller.ScopesOf(app, content.Permissions)...),
		}
	}
	return object(answer), nil
}
