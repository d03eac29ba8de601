package backend

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/text"
)

// Paging by page and per_page.
const (
	defaultPerPage = 20
	maxPerPage     = 100
)

// getTool serves a tool in the view of its own path.
func getTool(c *call) (reply, error) {
	tool, err := findTool(c)
	if err != nil {
		return reply{}, err
	}
	return raw(snapshot.ContentOf[snapshot.Tool](tool).AppendPlain(nil)), nil
}

// getToolMerged serves a tool with the members of both views.
func getToolMerged(c *call) (reply, error) {
	tool, err := findTool(c)
	if err != nil {
		return reply{}, err
	}
	return raw(snapshot.ContentOf[snapshot.Tool](tool).AppendMerged(nil, c.principal.Deployment.ID)), nil
}

// findTool finds the tool of a path. A malformed id is a 400, because the contract documents its form.
func findTool(c *call) (*snapshot.Entry, error) {
	id, err := ids.Parse(c.r.PathValue("tool_id"))
	if err != nil {
		return nil, apierror.Invalid(apierror.Fault{Pointer: ":tool_id", Message: "must be a decimal integer from 1 to 9223372036854775807"})
	}
	tool, found := c.snapshot.ByID(v1alpha1.KindAITool, c.tenant(), id)
	if !found {
		return nil, &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{
			Pointer: ":tool_id", Message: "is the id of no tool of the deployment: list them to see which there are"}}}
	}
	return tool, nil
}

// listTools serves a page of the deployment's tools.
func listTools(c *call) (reply, error) {
	q := c.query()
	limit, offset := q.page()
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	l := listing{limit: limit, offset: offset}
	l.begin(`{"data":[`)
	c.snapshot.List(v1alpha1.KindAITool, c.tenant(), func(e *snapshot.Entry) bool {
		return l.add(snapshot.ContentOf[snapshot.Tool](e).AppendPlain)
	})
	return l.endByOffset(c.snapshot.Count(v1alpha1.KindAITool, c.tenant())), nil
}

// listAgents serves a page of the deployment's agents by page and per_page.
func listAgents(c *call) (reply, error) {
	q := c.query()
	number := q.Integer("page", 1, 1)
	size := min(q.Integer("per_page", 1, defaultPerPage), maxPerPage)
	active := q.Flag("is_active")
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	l := listing{limit: int(size)}
	total := countAgents(c, active)
	l.begin("{")
	l.integer(`"total":`, int64(total))
	l.integer(`,"page":`, number)
	l.integer(`,"per_page":`, size)
	l.integer(`,"total_pages":`, (int64(total)+size-1)/size)
	*l.out = append(*l.out, `,"data":[`...)
	if number-1 <= int64(total)/size { // a page after the last one is empty, and the product could overflow
		l.offset = int((number - 1) * size)
		addAgents(c, active, "", &l)
	}
	return l.end(`]}`), nil
}

// listAgentsByOffset serves a page of the deployment's agents by limit and offset, with a search in their texts.
func listAgentsByOffset(c *call) (reply, error) {
	q := c.query()
	limit, offset := q.page()
	active := q.Flag("is_active")
	search, _ := q.Text("search")
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	search = strings.ToLower(text.Normal(search))
	// A search counts its matches; without one the total is known.
	l := listing{limit: limit, offset: offset, whole: search != ""}
	l.begin(`{"data":[`)
	addAgents(c, active, search, &l)
	total := l.seen
	if search == "" {
		total = countAgents(c, active)
	}
	return l.endByOffset(total), nil
}

// findAgent finds the agent of a path.
func findAgent(c *call) (*snapshot.Entry, error) {
	id, err := ids.Parse(c.r.PathValue("agent_id"))
	agent, found := c.snapshot.ByID(v1alpha1.KindAIAgent, c.tenant(), id)
	if err != nil || !found {
		return nil, &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{
			Pointer: ":agent_id", Message: "is the id of no agent of the deployment: list them to see which there are"}}}
	}
	return agent, nil
}

// listToolDefinitions serves the definitions of an agent's tools in the form of an API of models. An agent's tools have
// at most 2 MiB of JSON.
func listToolDefinitions(c *call) (reply, error) {
	q := c.query()
	format := q.OneOf("format", toolset.FormatMCP, toolset.Formats()...)
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	agent, err := findAgent(c)
	if err != nil {
		return reply{}, err
	}
	answer := backendapi.ToolDefinitions{Tools: []json.RawMessage{}}
	for _, tool := range c.api.Tools.Of(c.snapshot, agent).Defined {
		definition, err := tool.Definition(format)
		if err != nil {
			return reply{}, err
		}
		answer.Tools = append(answer.Tools, definition)
	}
	return object(answer), nil
}

// listToolsOfAgent serves the tools of an agent.
func listToolsOfAgent(c *call) (reply, error) {
	q := c.query()
	limit, offset := q.page()
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	agent, err := findAgent(c)
	if err != nil {
		return reply{}, err
	}
	var size, skip *int
	l := listing{limit: len(snapshot.ContentOf[snapshot.Agent](agent).Tools), whole: true}
	if q.Has("limit") || q.Has("offset") { // without both, the response lists all tools
		l.limit, l.offset = limit, offset
		size, skip = &limit, &offset
	}
	l.begin(`{"data":[`)
	for _, tool := range c.snapshot.Tools(agent) {
		l.add(func(to []byte) []byte {
			return snapshot.ContentOf[snapshot.Tool](tool).AppendInAgent(to, c.principal.Deployment.ID)
		})
	}
	l.more(l.seen)
	*l.out = appendNullable(append(*l.out, `,"limit":`...), size)
	*l.out = appendNullable(append(*l.out, `,"offset":`...), skip)
	return l.end("}"), nil
}

func appendNullable(to []byte, n *int) []byte {
	if n == nil {
		return append(to, "null"...)
	}
	return strconv.AppendInt(to, int64(*n), 10)
}

func countAgents(c *call, active *bool) int {
	all := c.snapshot.Count(v1alpha1.KindAIAgent, c.tenant())
	switch {
	case active == nil:
		return all
	case *active:
		return c.snapshot.CountActiveAgents(c.tenant())
	}
	return all - c.snapshot.CountActiveAgents(c.tenant())
}

// addAgents adds agents to a page until it is full.
func addAgents(c *call, active *bool, search string, l *listing) {
	eachAgent(c, active, search, func(e *snapshot.Entry) bool {
		return l.add(func(to []byte) []byte { return c.snapshot.AppendAgent(to, e) })
	})
}

// eachAgent calls a function with the deployment's agents, newest first, until it returns false. search is in lower
// case.
func eachAgent(c *call, active *bool, search string, yield func(*snapshot.Entry) bool) {
	c.snapshot.List(v1alpha1.KindAIAgent, c.tenant(), func(e *snapshot.Entry) bool {
		agent := snapshot.ContentOf[snapshot.Agent](e)
		if active != nil && agent.Active != *active {
			return true
		}
		if search != "" && !strings.Contains(strings.ToLower(agent.Name), search) && !strings.Contains(strings.ToLower(agent.Description), search) {
			return true
		}
		return yield(e)
	})
}
