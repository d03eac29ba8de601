package backend

import (
	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
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
