// Package toolset prepares the tools of AIAgents: their names, their definitions as clients see them, and the
// validators of their arguments. The Model Context Protocol and the backend API serve the same sets.
package toolset

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/apiserver/agents/toolcall"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/shares"
	"github.com/cardea-iam/cardea/internal/toolform"
	"github.com/cardea-iam/cardea/internal/toolschema"
	"github.com/cardea-iam/cardea/internal/turns"
)

// Tool is a tool of an agent as clients see it.
type Tool struct {
	Entry   *snapshot.Entry
	Content *snapshot.Tool
	Name    string
	// Listed is its JSON object in lists, and Older that for revisions in which results are objects.
	Listed, Older json.RawMessage
	// Arguments is nil for a function of the application, which is not called.
	Arguments *toolschema.Validator
	// Output checks what agents get of a response, nil if the tool declares no schema of it.
	Output    *toolschema.Validator
	described described
}

// described is the JSON object of a tool in lists.
type described struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	// OutputSchema is absent if the tool declares none.
	OutputSchema *toolschema.Schema `json:"outputSchema,omitempty"`
	Annotations  annotations        `json:"annotations"`
}

// annotations are hints about a tool.
type annotations struct {
	ReadOnly    bool `json:"readOnlyHint"`
	Destructive bool `json:"destructiveHint"`
	Idempotent  bool `json:"idempotentHint"`
	OpenWorld   bool `json:"openWorldHint"`
}

// callable reports whether calls of a tool can be performed: an active tool that needs no template of the application,
// no value of a Secret that the operator did not seal, no signature without a key, and no token for the deployment
// itself.
func callable(t *snapshot.Tool, of *document.Deployment) bool {
	if !t.Active || ofApplication(t.Authorization.JWTTemplateID) || toolform.OwnAudience(t.Authorization.Audience, of.FrontendHosts) {
		return false
	}
	if t.Signed() && (t.SigningSecret && t.SealedSigningSecret == "" || !t.SigningSecret && len(of.WebhookKeys) == 0) {
		return false
	}
	for _, header := range t.Headers {
		if header.Secret && header.Sealed == "" {
			return false
		}
	}
	return t.Endpoint != "" && toolform.Check(&t.AITool) == nil
}

// ofApplication reports whether the id of a template is none of Cardea's: earlier versions accepted every text.
func ofApplication(template string) bool {
	_, err := ids.Parse(template)
	return template != "" && err != nil
}

// exported reports whether a tool is a function of the application itself, which has no endpoint: programs that run
// models get its definition and perform it.
func exported(t *snapshot.Tool) bool {
	return t.Active && t.Type == document.ToolTypeFunction && t.Endpoint == ""
}

// errTooLarge: the tools of the agent before this one leave no room for it.
var errTooLarge = errors.New("the agent's tools have more than 2 MiB of JSON: shorten their schemas and descriptions, or list fewer")

// newTool prepares a tool, whose JSON must have at most room bytes: the size is checked before the schema is compiled.
func newTool(e *snapshot.Entry, room int) (*Tool, error) {
	content := snapshot.ContentOf[snapshot.Tool](e)
	schema := toolschema.Object(toolform.Fields(&content.AITool))
	input, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	d := described{content.NameFor(e.Name), content.Name, content.Description, input, outputSchema(content), annotations(content.Hints())}
	if d.Description == "" {
		d.Description = content.Name // some clients drop tools without a description
	}
	t := &Tool{Entry: e, Content: content, Name: d.Name, described: d}
	if t.Listed, err = json.Marshal(d); err != nil {
		return nil, err
	}
	if len(t.Listed) > room {
		return nil, errTooLarge
	}
	if t.Older = t.Listed; content.Response != nil && content.Response.Array && d.OutputSchema != nil {
		d.OutputSchema = nil
		if t.Older, err = json.Marshal(d); err != nil {
			return nil, err
		}
	}
	if exported(content) {
		return t, nil
	}
	if t.Output, err = Output(content); err != nil {
		return nil, err
	}
	t.Arguments, err = toolschema.Compile(schema)
	return t, err
}

// Output returns the validator of a tool's results, nil if it declares no schema of them.
func Output(t *snapshot.Tool) (*toolschema.Validator, error) {
	output := toolcall.OutputSchema(t.Response)
	if output == nil {
		return nil, nil
	}
	return toolschema.Compile(output)
}

// outputSchema returns the schema of the results of a tool, nil if it declares none. A webhook's result may come after
// the call's, so that clients must not require one.
func outputSchema(t *snapshot.Tool) *toolschema.Schema {
	if t.Type == document.ToolTypeWebhook {
		return nil
	}
	return toolcall.OutputSchema(t.Response)
}

// Set holds the tools of an agent, for one state of its tools.
type Set struct {
	of []*snapshot.Entry
	// deployment is that of the agent.
	deployment *snapshot.Entry
	// Tools are the callable ones, and ByName has them by their names.
	Tools  []*Tool
	ByName map[string]*Tool
	// Defined are the callable ones and the functions of the application.
	Defined []*Tool
}

const (
	// setBytes bounds the memory of sets. Each deployment has an equal share of it.
	setBytes = 64 << 20
	// bytesOfTool is about what the compiled schema of a small tool takes, and bytesPerByte what each byte of its JSON
	// adds.
	bytesOfTool, bytesPerByte = 2 << 10, 12
	// maxListed bounds the JSON of an agent's tools, in bytes, so that every agent fits into the cache and is not
	// compiled for each request.
	maxListed = 2 << 20
)

// Sets caches the sets of agents. It is safe for concurrent use.
type Sets struct {
	cache *shares.Cache[string, *Set]
	turns turns.Turns
	clock func() time.Time
	log   logr.Logger
}

// NewSets returns an empty cache. It logs the tools that are left out.
func NewSets(clock func() time.Time, log logr.Logger) *Sets {
	return &Sets{cache: shares.NewCache[string, *Set](shares.Bounds{Bytes: setBytes}), clock: clock, log: log}
}

func (c *Sets) put(deployment, key string, p *Set) {
	size := int64(0)
	for _, one := range p.Defined {
		size += bytesOfTool + bytesPerByte*int64(len(one.Listed))
	}
	c.cache.Put(deployment, key, p, size, c.clock())
}

// same reports whether a set is that of the given entries.
func (p *Set) same(entries []*snapshot.Entry, deployment *snapshot.Entry) bool {
	if p == nil || len(p.of) != len(entries) || p.deployment != deployment {
		return false
	}
	for i := range entries {
		if p.of[i] != entries[i] {
			return false
		}
	}
	return true
}

// Of returns the tools of an agent, in the agent's order. Of two tools with one name, the later is left out, and so is
// a tool whose schema cannot be compiled, or that exceeds maxListed. Requests of a deployment compile one set at a
// time, and share it.
func (c *Sets) Of(current *snapshot.Snapshot, agent *snapshot.Entry) *Set {
	entries := current.Tools(agent)
	deployment, found := current.Deployment(agent.Deployment)
	if !found {
		return &Set{}
	}
	key := agent.Deployment + "/" + agent.Name
	known := func() *Set {
		if known, _ := c.cache.Get(key, c.clock()); known.same(entries, deployment) {
			return known
		}
		return nil
	}
	if p := known(); p != nil {
		return p
	}
	if done, err := c.turns.Take(context.Background(), agent.Deployment); err == nil { // without a deadline there is no error
		defer done()
	}
	if p := known(); p != nil {
		return p
	}
	p := c.compile(agent, entries, deployment)
	c.put(agent.Deployment, key, p)
	return p
}

func (c *Sets) compile(agent *snapshot.Entry, entries []*snapshot.Entry, deployment *snapshot.Entry) *Set {
	p := &Set{of: entries, deployment: deployment, ByName: map[string]*Tool{}}
	names := map[string]bool{}
	room := maxListed
	for _, e := range entries {
		content := snapshot.ContentOf[snapshot.Tool](e)
		if !callable(content, snapshot.ContentOf[document.Deployment](deployment)) && !exported(content) {
			continue
		}
		one, err := newTool(e, room)
		if err != nil {
			c.log.Error(err, "A tool of an agent is not listed", "agent", agent.Name, "namespace", e.Namespace, "name", e.Name)
			continue
		}
		if names[one.Name] {
			continue
		}
		names[one.Name] = true
		room -= len(one.Listed)
		p.Defined = append(p.Defined, one)
		if one.Arguments != nil {
			p.ByName[one.Name] = one
			p.Tools = append(p.Tools, one)
		}
	}
	return p
}
