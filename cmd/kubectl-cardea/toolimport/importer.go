package toolimport

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/text"
	"github.com/cardea-iam/cardea/internal/toolform"
	"github.com/cardea-iam/cardea/internal/translation"
)

const (
	// maxSchemas is how many schemas an operation may have, and allSchemas all operations together. Schemas that
	// several members share count for each.
	maxSchemas = 5_000
	allSchemas = 2_000_000
	// maxTool bounds a tool, in bytes of JSON.
	maxTool = 128 << 10
	// maxNotes bounds the notes.
	maxNotes = 1_000
	// maxTools is how many tools an agent has.
	maxTools = 100
)

// Approval says which tools ask the user before each call.
type Approval string

// The approvals.
const (
	// ApproveUnsafe: tools that can change something, so all but those of GET, HEAD and OPTIONS.
	ApproveUnsafe Approval = "unsafe"
	// ApproveSafe: these too, so every tool.
	ApproveSafe Approval = "safe"
	// ApproveNone: no tool.
	ApproveNone Approval = "none"
)

// Header is a header whose value comes from a Secret.
type Header struct{ Name, Secret, Key string }

// Options say how operations become tools.
type Options struct {
	// Namespace is that of the resources; "": none is written.
	Namespace string
	// Deployment is the IdentityDeployment of the resources.
	Deployment string
	// Agent is the name of the AIAgent with all tools; "": none.
	Agent string
	// Prefix begins the name of every tool.
	Prefix string
	// Include selects operations; none: all.
	Include []Pattern
	// Base is the URL before the paths; "": that of the document's first server.
	Base string
	// AsUser sends a token of the user with each call.
	AsUser bool
	// Headers are sent with each call.
	Headers []Header
	// Approve says which tools ask the user.
	Approve Approval
}

// Note is something that was left out.
type Note struct {
	// Operation is the method and the path; "" if the note is about the document.
	Operation string
	// Pointer is where it is in the document.
	Pointer string
	Text    string
}

// String returns the note on one line.
func (n Note) String() string {
	var parts []string
	for _, part := range []string{n.Operation, n.Pointer, n.Text} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// Tool is a tool with its operation.
type Tool struct {
	// Operation is the method and the path.
	Operation string
	*v1alpha1.AITool
}

// Result is what became of a document.
type Result struct {
	// Title is the document's title and version.
	Title string
	Tools []Tool
	// Agent is nil if none was wanted.
	Agent *v1alpha1.AIAgent
	// Operations is how many operations were selected.
	Operations int
	Notes      []Note
}

// importer turns a document into tools.
type importer struct {
	document *Document
	opts     Options
	base     string
	// schemas is how many schemas may still be read.
	schemas int
	notes   []Note
	noted   map[Note]bool
}

// Tools returns the tools of a document's operations. Equal documents and options give equal results.
func (d *Document) Tools(opts Options) (*Result, error) {
	c := &importer{document: d, opts: opts, schemas: allSchemas, noted: map[Note]bool{}, base: opts.Base}
	if c.base == "" {
		var err error
		if c.base, err = baseOf(place{value: d.root, pointer: "#"}); err != nil {
			return nil, fmt.Errorf("%s: %w", pointerOf(err), err)
		}
		if c.base == "" {
			return nil, errors.New("the document names no server: name the API's address with --base-url")
		}
	}
	info := objectOf(d.root["info"])
	result := &Result{Title: oneLine(stringOf(info["title"])+" "+stringOf(info["version"]), maxTitle)}
	for _, o := range c.operations() {
		if len(opts.Include) > 0 && !slices.ContainsFunc(opts.Include, func(p Pattern) bool { return p.matches(o) }) {
			continue
		}
		result.Operations++
		tool, err := c.tool(o)
		if err != nil {
			c.note(o.title(), &fault{firstOf(pointerOf(err), o.at.pointer), "the operation is left out: " + err.Error()})
			continue
		}
		c.needs(o)
		result.Tools = append(result.Tools, Tool{o.title(), tool})
	}
	result.Notes = c.notes
	if opts.Agent == "" {
		return result, nil
	}
	if len(result.Tools) > maxTools {
		return nil, fmt.Errorf("the agent would have %d tools, and %d are the most: select operations with --include", len(result.Tools), maxTools)
	}
	result.Agent = c.agent(result.Tools)
	return result, nil
}

func pointerOf(err error) string {
	var at *fault
	if errors.As(err, &at) {
		return at.pointer
	}
	return ""
}

// note adds a note, each once.
func (c *importer) note(operation string, err error) {
	n := Note{Operation: operation, Pointer: pointerOf(err), Text: err.Error()}
	key := n
	if n.Pointer != "" && !strings.HasPrefix(n.Pointer, "#/paths/") {
		key.Operation = "" // a component that several operations use
	}
	if c.noted[key] || len(c.notes) > maxNotes {
		return
	}
	c.noted[key] = true
	if len(c.notes) == maxNotes {
		n = Note{Text: fmt.Sprintf("further notes are left out after %d", maxNotes)}
	}
	c.notes = append(c.notes, n)
}

// tool returns the tool of an operation. The error says why there is none.
func (c *importer) tool(o operation) (*v1alpha1.AITool, error) {
	base, err := c.baseFor(o)
	if err != nil {
		return nil, err
	}
	convert := &converter{importer: c, operation: o, left: min(maxSchemas, c.schemas), names: map[string]bool{}}
	before := convert.left
	err = convert.parameters()
	if err == nil {
		err = convert.body()
	}
	if c.schemas -= before - max(convert.left, 0); err != nil {
		return nil, err
	}
	tool := c.resource(o, strings.TrimRight(base, "/")+o.path, convert.out)
	return tool, c.check(o, tool)
}

// baseFor returns the URL before an operation's path. A document cannot send credentials to several hosts: all
// operations have the host of the document's first server, or the URL of the options.
func (c *importer) baseFor(o operation) (string, error) {
	if c.opts.Base != "" {
		return c.opts.Base, nil
	}
	for _, at := range []place{o.at, o.item} {
		own, err := baseOf(at)
		switch {
		case err != nil:
			return "", err
		case own == "":
			continue
		case origin(own) != origin(c.base):
			return "", at.member("servers").fault("its server has another host than that of the document: import it alone, with --base-url")
		}
		return own, nil
	}
	return c.base, nil
}

// resource returns the AITool of an operation.
func (c *importer) resource(o operation, endpoint string, fields arguments) *v1alpha1.AITool {
	tool := &v1alpha1.AITool{}
	tool.APIVersion, tool.Kind = v1alpha1.GroupVersion.String(), v1alpha1.KindAITool
	tool.Namespace, tool.Name = c.opts.Namespace, o.name
	spec := &tool.Spec
	spec.DeploymentRef.Name = c.opts.Deployment
	node := objectOf(o.at.value)
	spec.DisplayName = ptr.To(v1alpha1.DisplayName(firstOf(
		oneLine(stringOf(node["summary"]), text.MaxName), oneLine(stringOf(node["operationId"]), text.MaxName), oneLine(o.title(), text.MaxName))))
	described := stringOf(node["description"])
	if summary := oneLine(stringOf(node["summary"]), text.MaxDescription); described == "" && len([]rune(summary)) > text.MaxName {
		described = summary // else it is the name, and a description that repeats it says nothing
	}
	if short := lines(described, text.MaxDescription); short != "" {
		spec.Description = ptr.To(v1alpha1.Description(short))
		if short != lines(described, len(described)+len(ellipsis)) {
			c.note(o.title(), o.at.member("description").fault("the description is cut at %d characters", text.MaxDescription))
		}
	}
	spec.Type = v1alpha1.AIToolTypeAPI
	spec.Method = ptr.To(v1alpha1.HTTPMethod(o.method))
	spec.Endpoint = ptr.To(v1alpha1.URL(endpoint))
	spec.URLParamsSchema, spec.RequestBodySchema = fields.url, fields.body
	if c.opts.Approve == ApproveSafe || c.opts.Approve == ApproveUnsafe && !toolform.Safe(o.method) {
		spec.RequiresUserApproval = ptr.To(true)
	}
	if c.opts.AsUser || len(fields.header) > 0 {
		spec.Authorization = &v1alpha1.ToolAuthorization{CustomHeaders: fields.header}
		if c.opts.AsUser {
			spec.Authorization.AuthorizeAsUser = ptr.To(true)
		}
	}
	for _, header := range c.opts.Headers {
		spec.Headers = append(spec.Headers, v1alpha1.ToolHeader{
			Name: header.Name, ValueFrom: &v1alpha1.HeaderValueSource{SecretKeyRef: v1alpha1.SecretKeyReference{Name: header.Secret, Key: header.Key}},
		})
	}
	return tool
}

func firstOf(texts ...string) string {
	for _, one := range texts {
		if strings.TrimSpace(one) != "" {
			return one
		}
	}
	return ""
}

// check checks what the API server and the operator check of a tool's texts, URL and fields.
func (c *importer) check(o operation, tool *v1alpha1.AITool) error {
	endpoint := string(*tool.Spec.Endpoint)
	if len(endpoint) > 2048 || strings.ContainsAny(endpoint, "?#") || strings.ContainsFunc(endpoint, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return o.at.fault("its URL has more than 2048 characters, or others than visible ASCII without ? and #")
	}
	if _, err := text.Name(string(*tool.Spec.DisplayName)); err != nil {
		return o.at.fault("its name %v", err)
	}
	content, err := translation.AITool(tool)
	if err != nil {
		return o.at.fault("%v", err)
	}
	if wrong := toolform.Check(&content); wrong != nil {
		return o.at.fault("%v", wrong)
	}
	raw, err := json.Marshal(tool)
	if err != nil {
		return err
	}
	if len(raw) > maxTool {
		return o.at.fault("the tool would have more than %d KiB", maxTool>>10)
	}
	return nil
}

// agent returns the AIAgent with all tools.
func (c *importer) agent(tools []Tool) *v1alpha1.AIAgent {
	agent := &v1alpha1.AIAgent{}
	agent.APIVersion, agent.Kind = v1alpha1.GroupVersion.String(), v1alpha1.KindAIAgent
	agent.Namespace, agent.Name = c.opts.Namespace, c.opts.Agent
	agent.Spec.DeploymentRef.Name = c.opts.Deployment
	if title := oneLine(stringOf(objectOf(c.document.root["info"])["title"]), text.MaxName); title != "" {
		agent.Spec.DisplayName = ptr.To(v1alpha1.DisplayName(title))
	}
	for _, tool := range tools {
		agent.Spec.ToolRefs = append(agent.Spec.ToolRefs, v1alpha1.AIToolReference{Name: tool.Name})
	}
	return agent
}
