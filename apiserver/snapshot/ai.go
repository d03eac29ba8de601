package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/claimtemplate"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/schemafield"
	"github.com/cardea-iam/cardea/store"
)

// secretValue is served in place of a header value that comes from a Secret.
const secretValue = "********"

// JWTTemplate is the content of a JWTTemplate.
type JWTTemplate struct {
	document.JWTTemplate
	once     sync.Once
	compiled *claimtemplate.Template
}

// Compiled returns the compiled claims, nil if they do not compile here: the operator of another version accepted them.
// They are compiled at the first use, so that the templates of a deployment do not delay the configuration of others.
func (t *JWTTemplate) Compiled() *claimtemplate.Template {
	t.once.Do(func() { t.compiled, _ = claimtemplate.Compile(t.JWTTemplate) })
	return t.compiled
}

// Tool is the content of an AITool with its served views.
type Tool struct {
	document.AITool
	view toolView
}

// AppendPlain appends the JSON object that GET /ai-tools and GET /ai-tools/{tool_id} serve of a tool.
func (t *Tool) AppendPlain(to []byte) []byte { return t.view.appendPlain(to) }

// AppendInAgent appends the JSON object that GET /ai/agents/{agent_id}/tools serves of a tool.
func (t *Tool) AppendInAgent(to []byte, deploymentID int64) []byte {
	return append(AppendObject(to, deploymentID, t.view.inAgent()), '}')
}

// AppendMerged appends the JSON object that GET /ai/tools/{tool_id} serves of a tool.
func (t *Tool) AppendMerged(to []byte, deploymentID int64) []byte {
	return AppendObject(to, deploymentID, t.view.merged)
}

func (t *Tool) render(e *Entry) (err error) {
	id := ids.Format(e.ID)
	config := backendapi.ToolConfig{Endpoint: t.Endpoint, Method: t.Method, Headers: map[string]string{}, Parameters: []backendapi.ToolParameter{}}
	for _, header := range t.Headers {
		config.Headers[header.Name] = header.Value
		if header.Secret {
			config.Headers[header.Name] = secretValue
		}
	}
	for _, p := range t.Parameters {
		config.Parameters = append(config.Parameters, backendapi.ToolParameter{Name: p.Name, Type: p.Type, Required: p.Required})
	}
	configuration := backendapi.ToolConfiguration{
		Type: t.Type, Endpoint: t.Endpoint, Method: t.Method, TimeoutSeconds: t.TimeoutSeconds,
		Authorization: backendapi.ToolAuthorization{
			AuthorizeAsUser: t.Authorization.AuthorizeAsUser, JwtTemplateId: t.Authorization.JWTTemplateID,
			CustomHeaders: fieldsOf(t.Authorization.CustomHeaders),
		},
		RequestBodySchema: fieldsOf(t.RequestBodySchema), UrlParamsSchema: fieldsOf(t.URLParamsSchema),
	}
	created, updated := e.Meta.CreatedAt.UTC(), e.Meta.UpdatedAt.UTC()
	t.view, err = newToolView(&backendapi.AIToolMerged{
		Id: id, CreatedAt: created, UpdatedAt: updated, Name: t.Name, Description: t.Description, ToolType: t.Type,
		RequiresUserApproval: t.RequiresUserApproval, Configuration: configuration, Type: t.Type, Config: config, IsActive: t.Active,
	})
	return err
}

func fieldsOf(fields []schemafield.Field) []schemafield.Field {
	if fields == nil {
		return []schemafield.Field{}
	}
	return fields
}

// Agent is the content of an AIAgent with its served view, without the ids of its tools, which depend on the existing
// tools. Its prompt, of up to 64 KiB, is only in the view.
type Agent struct {
	document.AIAgent
	before, after []byte
	// listed are the ids of the tools as last served.
	listed atomic.Pointer[listedTools]
	// resolved are the existing tools as last listed.
	resolved atomic.Pointer[resolvedTools]
}

// listedTools are the ids of an agent's tools in its view, for one state of the tools.
type listedTools struct {
	tools *generation
	ids   []byte
}

// resolvedTools are an agent's tools for one state of the tools.
type resolvedTools struct {
	tools   *generation
	entries []*Entry
}

// generation identifies one state of all entries of a kind. Snapshots share it until an entry of the kind changes.
type generation struct{ _ byte }

func (a *Agent) render(e *Entry) error {
	agent := backendapi.AIAgent{
		Id: ids.Format(e.ID), Name: a.Name, Description: a.Description, Model: a.Model, SystemPrompt: a.SystemPrompt,
		MaxTokens: a.MaxTokens, Tools: []string{}, KnowledgeBases: a.KnowledgeBases, IsActive: a.Active,
		CreatedAt: e.Meta.CreatedAt.UTC(), UpdatedAt: e.Meta.UpdatedAt.UTC(),
	}
	if agent.KnowledgeBases == nil {
		agent.KnowledgeBases = []string{}
	}
	if a.Temperature != "" {
		temperature, err := strconv.ParseFloat(a.Temperature, 64)
		if err != nil {
			return fmt.Errorf("temperature %q: %w", a.Temperature, err)
		}
		agent.Temperature = &temperature
	}
	whole, err := json.Marshal(agent)
	if err != nil {
		return err
	}
	// The last match is the member: only texts of the agent, which may contain anything, come before it.
	const empty = `"tools":[],"knowledge_bases":`
	at := bytes.LastIndex(whole, []byte(empty))
	if at < 0 {
		return errors.New("the generated type no longer has tools before knowledge_bases: restore x-order in backend.yaml")
	}
	at += len(`"tools":[`)
	a.before, a.after = whole[:at:at], whole[at:]
	a.SystemPrompt = ""
	return nil
}

// AppendAgent appends the served JSON object of an agent.
func (s *Snapshot) AppendAgent(to []byte, e *Entry) []byte {
	agent := ContentOf[Agent](e)
	listed := agent.listed.Load()
	if listed == nil || listed.tools != s.tools {
		listed = &listedTools{tools: s.tools, ids: s.appendTools(nil, e)}
		agent.listed.Store(listed)
	}
	to = append(to, agent.before...)
	to = append(to, listed.ids...)
	return append(to, agent.after...)
}

// appendTools appends the ids of an agent's tools, as JSON strings with commas between them.
func (s *Snapshot) appendTools(to []byte, e *Entry) []byte {
	for i, tool := range s.Tools(e) {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(to, '"')
		to = strconv.AppendInt(to, tool.ID, 10)
		to = append(to, '"')
	}
	return to
}

// Tools returns the existing tools of an agent in declared order. They are looked up once for each state of the tools.
// Callers must not change them.
func (s *Snapshot) Tools(e *Entry) []*Entry {
	agent := ContentOf[Agent](e)
	if known := agent.resolved.Load(); known != nil && known.tools == s.tools {
		return known.entries
	}
	entries := make([]*Entry, 0, len(agent.Tools))
	for _, name := range agent.Tools {
		tool, found := s.Get(store.Identity{Kind: v1alpha1.KindAITool, Namespace: e.Namespace, Name: name})
		if found && tool.Deployment == e.Deployment {
			entries = append(entries, tool)
		}
	}
	agent.resolved.Store(&resolvedTools{tools: s.tools, entries: entries})
	return entries
}

// AgentAt returns the active agent of an entry's deployment that is served at a URL, and reports whether there is one.
func (s *Snapshot) AgentAt(of *Entry, url string) (*Entry, bool) {
	name := url[strings.LastIndexByte(url, '/')+1:]
	agent, found := s.Get(store.Identity{Kind: v1alpha1.KindAIAgent, Namespace: of.Namespace, Name: name})
	if !found || url == "" || agent.Deployment != of.Deployment {
		return nil, false
	}
	content := ContentOf[Agent](agent)
	return agent, content.Active && content.URL == url
}
