package management

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/openapi"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/ids"
)

// Paging of the agents' first spelling.
const (
	defaultPerPage = 20
	maxPerPage     = 100
)

// GetAITool serves a tool in the view of operation 4.3.
func (a *API) GetAITool(w http.ResponseWriter, r *http.Request, id string) {
	if tool, found := a.tool(w, r, id); found {
		answer(w, tool.Content.(*snapshot.Tool).Plain)
	}
}

// GetAIToolNested serves a tool with the members of both views.
func (a *API) GetAIToolNested(w http.ResponseWriter, r *http.Request, id string) {
	if tool, found := a.tool(w, r, id); found {
		answer(w, snapshot.AppendObject(nil, callOf(r).principal.Deployment.ID, tool.Content.(*snapshot.Tool).Merged))
	}
}

// tool finds a tool by its id, or answers: an id that is none is a 400, for operation 4.3 says what form it has.
func (a *API) tool(w http.ResponseWriter, r *http.Request, text string) (*snapshot.Entry, bool) {
	id, err := ids.Parse(text)
	if err != nil {
		a.refuse(w, r, apierror.Invalid(apierror.Fault{Pointer: ":tool_id", Message: "must be a decimal integer from 1 to 9223372036854775807"}))
		return nil, false
	}
	c := callOf(r)
	tool, found := c.snapshot.ByID(v1alpha1.KindAITool, c.principal.Deployment.Deployment, id)
	if !found {
		a.refuse(w, r, &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{
			Pointer: ":tool_id", Message: "is the id of no tool of the deployment: list them to see which there are"}}})
	}
	return tool, found
}

// ListAITools serves a page of the deployment's tools.
func (a *API) ListAITools(w http.ResponseWriter, r *http.Request, params openapi.ListAIToolsParams) {
	limit, offset, err := page(params.Limit, params.Offset)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	c := callOf(r)
	deployment := c.principal.Deployment.Deployment
	l := listing{limit: limit, offset: offset}
	l.begin(`{"data":[`)
	c.snapshot.List(v1alpha1.KindAITool, deployment, func(e *snapshot.Entry) bool {
		return l.add(func(to []byte) []byte { return append(to, e.Content.(*snapshot.Tool).Plain...) })
	})
	l.endByOffset(w, c.snapshot.Count(v1alpha1.KindAITool, deployment))
}

// ListAIToolsNested is ListAITools under its second spelling.
func (a *API) ListAIToolsNested(w http.ResponseWriter, r *http.Request, params openapi.ListAIToolsNestedParams) {
	a.ListAITools(w, r, openapi.ListAIToolsParams(params))
}

// ListAIAgents serves a page of the deployment's agents in the form of operation 4.4.
func (a *API) ListAIAgents(w http.ResponseWriter, r *http.Request, params openapi.ListAIAgentsParams) {
	number, size := int64(1), int64(defaultPerPage)
	var faults []apierror.Fault
	if params.Page != nil {
		if number = *params.Page; number < 1 {
			faults = append(faults, apierror.Fault{Pointer: "?page", Message: "must be at least 1"})
		}
	}
	if params.PerPage != nil {
		if size = min(*params.PerPage, maxPerPage); size < 1 {
			faults = append(faults, apierror.Fault{Pointer: "?per_page", Message: "must be at least 1"})
		}
	}
	active, fault := activeFilter((*string)(params.IsActive))
	if faults = append(faults, fault...); len(faults) > 0 {
		a.refuse(w, r, apierror.Invalid(faults...))
		return
	}
	c := callOf(r)
	l := listing{limit: int(size)}
	total := countAgents(c, active)
	l.begin("{")
	l.integer(`"total":`, int64(total))
	l.integer(`,"page":`, number)
	l.integer(`,"per_page":`, size)
	l.integer(`,"total_pages":`, (int64(total)+size-1)/size)
	*l.out = append(*l.out, `,"data":[`...)
	if number-1 <= int64(total)/size { // beyond the end the page is empty, and the product might not fit
		l.offset = int((number - 1) * size)
		listAgents(c, active, "", &l)
	}
	l.end(w, `]}`)
}

// ListAIAgentsNested serves a page of the deployment's agents by limit and offset, with a search in their texts.
func (a *API) ListAIAgentsNested(w http.ResponseWriter, r *http.Request, params openapi.ListAIAgentsNestedParams) {
	limit, offset, err := page(params.Limit, params.Offset)
	active, fault := activeFilter((*string)(params.IsActive))
	if err == nil && fault != nil {
		err = apierror.Invalid(fault...)
	}
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	c := callOf(r)
	search := ""
	if params.Search != nil {
		search = strings.ToLower(strings.TrimSpace(*params.Search))
	}
	// A search counts what it finds; else the number is known.
	l := listing{limit: limit, offset: offset, whole: search != ""}
	l.begin(`{"data":[`)
	listAgents(c, active, search, &l)
	total := l.seen
	if search == "" {
		total = countAgents(c, active)
	}
	l.endByOffset(w, total)
}

// ListAgentTools serves the tools of an agent, operation 4.5.
func (a *API) ListAgentTools(w http.ResponseWriter, r *http.Request, agentID string, params openapi.ListAgentToolsParams) {
	var size, skip *int64
	if params.Limit != nil || params.Offset != nil {
		limit, offset, err := page(params.Limit, params.Offset)
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		size, skip = new(int64), new(int64)
		*size, *skip = int64(limit), int64(offset)
	}
	c := callOf(r)
	id, err := ids.Parse(agentID)
	agent, found := c.snapshot.ByID(v1alpha1.KindAIAgent, c.principal.Deployment.Deployment, id)
	if err != nil || !found {
		a.refuse(w, r, &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{
			Pointer: ":agent_id", Message: "is the id of no agent of the deployment: list them to see which there are"}}})
		return
	}
	l := listing{limit: len(agent.Content.(*snapshot.Agent).Tools), whole: true}
	if size != nil {
		l.limit, l.offset = int(*size), int(*skip)
	}
	l.begin(`{"data":[`)
	c.snapshot.Tools(agent, func(tool *snapshot.Entry) bool {
		return l.add(func(to []byte) []byte {
			return snapshot.AppendObject(to, c.principal.Deployment.ID, tool.Content.(*snapshot.Tool).InAgent)
		})
	})
	l.more(l.seen)
	*l.out = appendNullable(append(*l.out, `,"limit":`...), size)
	*l.out = appendNullable(append(*l.out, `,"offset":`...), skip)
	l.end(w, "}")
}

func appendNullable(to []byte, n *int64) []byte {
	if n == nil {
		return append(to, "null"...)
	}
	return strconv.AppendInt(to, *n, 10)
}

// activeFilter reads the parameter is_active.
func activeFilter(sent *string) (*bool, []apierror.Fault) {
	if sent == nil {
		return nil, nil
	}
	if *sent != "true" && *sent != "false" {
		return nil, []apierror.Fault{{Pointer: "?is_active", Message: "must be true or false"}}
	}
	active := *sent == "true"
	return &active, nil
}

func countAgents(c *call, active *bool) int {
	deployment := c.principal.Deployment.Deployment
	all := c.snapshot.Count(v1alpha1.KindAIAgent, deployment)
	switch {
	case active == nil:
		return all
	case *active:
		return c.snapshot.CountActiveAgents(deployment)
	}
	return all - c.snapshot.CountActiveAgents(deployment)
}

// listAgents adds the agents that fit to a listing.
func listAgents(c *call, active *bool, search string, l *listing) {
	c.snapshot.List(v1alpha1.KindAIAgent, c.principal.Deployment.Deployment, func(e *snapshot.Entry) bool {
		agent := e.Content.(*snapshot.Agent)
		if active != nil && agent.Active != *active {
			return true
		}
		if search != "" && !strings.Contains(strings.ToLower(agent.Name), search) && !strings.Contains(strings.ToLower(agent.Description), search) {
			return true
		}
		return l.add(func(to []byte) []byte { return c.snapshot.AppendAgent(to, e) })
	})
}
