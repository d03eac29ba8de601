package agents

import (
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/shares"
	"github.com/cardea-iam/cardea/internal/toolform"
	"github.com/cardea-iam/cardea/internal/toolschema"
)

// tool is a tool of an agent as clients see it.
type tool struct {
	entry   *snapshot.Entry
	content *snapshot.Tool
	name    string
	// listed is its JSON object in lists.
	listed    json.RawMessage
	arguments *toolschema.Validator
}

// described is the JSON object of a tool in lists.
type described struct {
	Name        string             `json:"name"`
	Title       string             `json:"title"`
	Description string             `json:"description"`
	InputSchema *toolschema.Schema `json:"inputSchema"`
	Annotations annotations        `json:"annotations"`
}

// annotations are hints about a tool.
type annotations struct {
	ReadOnly    bool `json:"readOnlyHint"`
	Destructive bool `json:"destructiveHint"`
	Idempotent  bool `json:"idempotentHint"`
	OpenWorld   bool `json:"openWorldHint"`
}

// callable reports whether calls of a tool can be performed: an active API tool that needs neither a user's own token,
// nor an approval, nor a value of a Secret that the operator did not seal.
func callable(t *snapshot.Tool) bool {
	if !t.Active || t.Type != document.ToolTypeAPI || t.RequiresUserApproval || t.Authorization.AuthorizeAsUser || t.Authorization.JWTTemplateID != "" {
		return false
	}
	for _, header := range t.Headers {
		if header.Secret && header.Sealed == "" {
			return false
		}
	}
	return t.Endpoint != "" && toolform.Check(&t.AITool) == nil
}

// errTooLarge: the tools of the agent before this one leave no room for it.
var errTooLarge = errors.New("the agent's tools have more than 2 MiB of JSON: shorten their schemas and descriptions, or list fewer")

// newTool prepares a tool, whose JSON must have at most room bytes: the size is checked before the schema is compiled.
func newTool(e *snapshot.Entry, room int) (*tool, error) {
	content := snapshot.ContentOf[snapshot.Tool](e)
	schema := toolschema.Object(toolform.Fields(&content.AITool))
	description := content.Description
	if description == "" {
		description = content.Name // some clients drop tools without a description
	}
	name, hints := content.NameFor(e.Name), content.Hints()
	listed, err := json.Marshal(described{name, content.Name, description, schema, annotations(hints)})
	if err != nil {
		return nil, err
	}
	if len(listed) > room {
		return nil, errTooLarge
	}
	arguments, err := toolschema.Compile(schema)
	return &tool{e, content, name, listed, arguments}, err
}

// prepared are the callable tools of an agent, for one state of its tools.
type prepared struct {
	of     []*snapshot.Entry
	tools  []*tool
	byName map[string]*tool
}

const (
	// preparedBytes bounds the memory of prepared tools. Each deployment has an equal share of it.
	preparedBytes = 64 << 20
	// bytesOfTool is about what the compiled schema of a small tool takes, and bytesPerByte what each byte of its JSON
	// adds.
	bytesOfTool, bytesPerByte = 2 << 10, 12
	// maxListed bounds the JSON of an agent's tools, in bytes, so that every agent fits into the cache and is not
	// compiled for each request.
	maxListed = 2 << 20
)

// preparations caches the prepared tools of agents. It is safe for concurrent use.
type preparations struct {
	mu    sync.Mutex
	cache *shares.Cache[string, *prepared]
}

func newPreparations() *preparations {
	return &preparations{cache: shares.NewCache[string, *prepared](shares.Bounds{Bytes: preparedBytes})}
}

// get returns the preparation of an agent, nil if there is none.
func (c *preparations) get(key string, now time.Time) *prepared {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, _ := c.cache.Get(key, now)
	return known
}

func (c *preparations) put(deployment, key string, p *prepared, now time.Time) {
	size := int64(0)
	for _, one := range p.tools {
		size += bytesOfTool + bytesPerByte*int64(len(one.listed))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cache.Put(deployment, key, p, size, now)
}

// same reports whether a preparation is that of the given entries.
func (p *prepared) same(entries []*snapshot.Entry) bool {
	if p == nil || len(p.of) != len(entries) {
		return false
	}
	for i := range entries {
		if p.of[i] != entries[i] {
			return false
		}
	}
	return true
}

// prepare returns the callable tools of an agent, in the agent's order. Of two tools with one name, the later is left
// out, and so is a tool whose schema cannot be compiled, or that exceeds maxListed.
func (s *Server) prepare(current *snapshot.Snapshot, agent *snapshot.Entry) *prepared {
	entries := current.Tools(agent)
	key := agent.Deployment + "/" + agent.Name
	if known := s.known.get(key, s.Clock()); known.same(entries) {
		return known
	}
	p := &prepared{of: entries, byName: map[string]*tool{}}
	room := maxListed
	for _, e := range entries {
		if !callable(snapshot.ContentOf[snapshot.Tool](e)) {
			continue
		}
		one, err := newTool(e, room)
		if err != nil {
			s.Log.Error(err, "A tool of an agent is not listed", "agent", agent.Name, "namespace", e.Namespace, "name", e.Name)
			continue
		}
		if p.byName[one.name] == nil {
			p.byName[one.name] = one
			p.tools = append(p.tools, one)
			room -= len(one.listed)
		}
	}
	s.known.put(agent.Deployment, key, p, s.Clock())
	return p
}
