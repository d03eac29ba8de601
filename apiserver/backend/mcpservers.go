package backend

import (
	"strings"

	"github.com/cardea-iam/cardea/apiserver/agents/caller"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/text"
)

// listMCPServers serves a page of the deployment's agents as MCP clients see them, with a search in their texts.
func listMCPServers(c *call) (reply, error) {
	q := c.query()
	limit, offset := q.page()
	active := q.Flag("is_active")
	search, _ := q.Text("search")
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	search = strings.ToLower(text.Normal(search))
	list := backendapi.MCPServerList{Data: []backendapi.MCPServer{}, Limit: int64(limit), Offset: int64(offset)}
	seen := 0
	eachAgent(c, active, search, func(e *snapshot.Entry) bool {
		if seen++; seen > offset && len(list.Data) < limit {
			list.Data = append(list.Data, mcpServerView(c, e))
		}
		return search != "" || len(list.Data) < limit // a search counts its matches; without one the total is known
	})
	if search == "" {
		seen = countAgents(c, active)
	}
	list.Total, list.HasMore = int64(seen), offset+len(list.Data) < seen
	return object(list), nil
}

// getMCPServer serves an agent as MCP clients see it. The agent of a deployment without a frontend host has no URL.
func getMCPServer(c *call) (reply, error) {
	agent, err := findAgent(c)
	if err != nil {
		return reply{}, err
	}
	of := mcpServerView(c, agent)
	answer := backendapi.MCPServerDetail{
		Id: of.Id, Name: of.Name, Title: of.Title, Description: of.Description, IsActive: of.IsActive, Url: of.Url, ToolCount: of.ToolCount,
		Permissions: listed(snapshot.ContentOf[snapshot.Agent](agent).Permissions), Tools: []backendapi.MCPTool{},
	}
	content := snapshot.ContentOf[snapshot.Agent](agent)
	answer.Sessions = content.Sessions && content.URL != ""
	if app, accepted := caller.App(c.snapshot, agent); accepted {
		answer.Oauth = &backendapi.MCPServerOAuth{
			Issuer: app.Content.Issuer, MetadataUrl: caller.MetadataURL(agent), Scopes: append([]string{}, caller.ScopesOf(app, content.Permissions)...),
		}
	}
	callable := map[int64]bool{}
	for _, tool := range c.api.Tools.Of(c.snapshot, agent).Tools {
		callable[tool.Entry.ID] = true
	}
	for _, e := range c.snapshot.Tools(agent) {
		answer.Tools = append(answer.Tools, mcpToolView(e, callable[e.ID]))
	}
	return object(answer), nil
}

func mcpServerView(c *call, e *snapshot.Entry) backendapi.MCPServer {
	agent := snapshot.ContentOf[snapshot.Agent](e)
	return backendapi.MCPServer{
		Id: ids.Format(e.ID), Name: e.Name, Title: agent.Name, Description: agent.Description, IsActive: agent.Active, Url: optional(agent.URL),
		ToolCount: int64(len(c.snapshot.Tools(e))),
	}
}

func mcpToolView(e *snapshot.Entry, callable bool) backendapi.MCPTool {
	tool := snapshot.ContentOf[snapshot.Tool](e)
	view := backendapi.MCPTool{
		Id: ids.Format(e.ID), Name: tool.NameFor(e.Name), Title: tool.Name, Type: backendapi.MCPToolType(tool.Type), Host: tool.Host(),
		RequiresUserApproval: tool.RequiresUserApproval, ReadOnly: tool.Hints().ReadOnly, Permissions: listed(tool.Permissions),
		IsActive: tool.Active, Callable: callable,
	}
	if tool.Endpoint != "" {
		view.Method = tool.RequestMethod()
	}
	return view
}
