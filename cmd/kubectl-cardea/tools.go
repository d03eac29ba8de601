package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
)

const (
	// revisionMCP is the revision of the Model Context Protocol that this client speaks. It needs no session.
	revisionMCP = "2026-07-28"
	formatText  = "text"
)

// agentFlags select an agent's MCP server and the credential.
type agentFlags struct {
	apiFlags
	host string
}

func toolsCommand(to *connection, around surroundings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "List and call the tools of an agent, as a client of its MCP server",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(toolsListCommand(to, around), toolsCallCommand(to, around))
	return cmd
}

func (f *agentFlags) register(cmd *cobra.Command, to *connection) {
	f.apiFlags.register(cmd, to, envFrontendServer, "the end-user API, port 8081; absent: that of the agent's status.mcpURL")
	cmd.Flags().StringVar(&f.host, "host", "", "the first of the deployment's frontendHosts, if --server has another name")
	cmd.ValidArgsFunction = to.completeOf(v1alpha1.KindAIAgent)
}

func toolsListCommand(to *connection, around surroundings) *cobra.Command {
	var format string
	var flags agentFlags
	cmd := &cobra.Command{
		Use:   "list AGENT",
		Short: "List the tools that the credential may call",
		Long:  "List the tools of an AIAgent that the credential may call, as every MCP client sees them. An API key needs the permission ai_agents:call.",
		Example: `  kubectl cardea tools list support -n acme --use-key acme-agent-key
  kubectl cardea tools list support --server http://127.0.0.1:8081 --host id.acme.example -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			agent, err := flags.open(cmd.Context(), to, around, args[0])
			if err != nil {
				return err
			}
			list, err := agent.list(cmd.Context())
			if err != nil {
				return err
			}
			return around.print(format, list, func(w io.Writer) error { return list.write(w) })
		},
	}
	outputFlag(cmd, &format, formatTable, formatJSON, formatYAML)
	flags.register(cmd, to)
	return cmd
}

func toolsCallCommand(to *connection, around surroundings) *cobra.Command {
	var format string
	var flags agentFlags
	cmd := &cobra.Command{
		Use:   "call AGENT TOOL [JSON | NAME=VALUE ...]",
		Short: "Call a tool of an agent",
		Long: "Call a tool of an AIAgent. Arguments are one JSON object, or names with values: a list is given as JSON, or by its name several times.\n" +
			"The result is on standard output, and exit code 1 means that the tool reports an error. An API key needs the permission ai_agents:call.",
		Example: `  kubectl cardea tools call support find-order number=1007 -n acme --use-key acme-agent-key
  kubectl cardea tools call support find-order '{"number": "1007"}' -o json`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			agent, err := flags.open(cmd.Context(), to, around, args[0])
			if err != nil {
				return err
			}
			if args[1] == "" || strings.ContainsFunc(args[1], func(r rune) bool { return r <= ' ' || r > '~' }) {
				return usagef("%q is no name of a tool: `kubectl cardea tools list` lists them", args[1])
			}
			arguments, err := agent.arguments(cmd.Context(), args[1], args[2:])
			if err != nil {
				return err
			}
			result, err := agent.callTool(cmd.Context(), args[1], arguments)
			if err != nil {
				return err
			}
			if err := around.print(format, result.raw, func(w io.Writer) error { return result.write(w) }); err != nil || !result.IsError {
				return err
			}
			return &faultFound{}
		},
	}
	outputFlag(cmd, &format, formatText, formatJSON, formatYAML)
	flags.register(cmd, to)
	return cmd
}

// agentServer is the MCP server of an agent.
type agentServer struct {
	*api
	name, host string
}

// open returns the MCP server of an agent: at --server, or at the URL that the agent's status has in the cluster.
func (f *agentFlags) open(ctx context.Context, to *connection, around surroundings, name string) (*agentServer, error) {
	server := f.server
	if server == "" {
		server, _ = around.lookup(f.serverEnv)
	}
	if server == "" {
		var err error
		if server, err = to.serverOf(ctx, name); err != nil {
			return nil, err
		}
	}
	opened, err := f.connect(ctx, to, around, server)
	if err != nil {
		return nil, err
	}
	return &agentServer{opened, name, f.host}, nil
}

// serverOf returns the URL of the server of an agent.
func (c *connection) serverOf(ctx context.Context, name string) (string, error) {
	opened, err := c.open(ctx)
	if err != nil {
		return "", err
	}
	agent := &v1alpha1.AIAgent{}
	if err := opened.client.Get(ctx, client.ObjectKey{Namespace: opened.namespace, Name: name}, agent); err != nil {
		return "", opened.explain(err, "get", "AIAgent "+name, opened.namespace)
	}
	server, found := strings.CutSuffix(agent.Status.MCPURL, "/mcp/"+name)
	if !found {
		return "", fmt.Errorf("AIAgent %s has no URL: `kubectl cardea why aiagent/%s -n %s` says why", name, name, opened.namespace)
	}
	return server, nil
}

// request sends a JSON-RPC request. name is the tool's, "" for none.
func (a *agentServer) request(ctx context.Context, method, name string, params map[string]any, into any) error {
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion":    revisionMCP,
		"io.modelcontextprotocol/clientCapabilities": map[string]any{},
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "kubectl-cardea", "version": version},
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base.JoinPath("mcp", url.PathEscape(a.name)).String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Host = a.host
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Mcp-Protocol-Version", revisionMCP)
	req.Header.Set("Mcp-Method", method)
	if name != "" {
		req.Header.Set("Mcp-Name", name)
	}
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := a.do(ctx, req, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return errors.New(terminal.Clean(answer.Error.Message))
	}
	return json.Unmarshal(answer.Result, into)
}

// toolList is the result of tools/list.
type toolList struct {
	Tools []listedTool `json:"tools"`
}

// listedTool is a tool as MCP clients see it.
type listedTool struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Annotations map[string]any  `json:"annotations,omitempty"`
}

func (a *agentServer) list(ctx context.Context) (*toolList, error) {
	list := &toolList{}
	return list, a.request(ctx, "tools/list", "", map[string]any{}, list)
}

func (l *toolList) write(w io.Writer) error {
	var rows [][]string
	for _, tool := range l.Tools {
		kind := "changes"
		switch {
		case tool.Annotations["readOnlyHint"] == true:
			kind = "reads"
		case tool.Annotations["destructiveHint"] == true:
			kind = "overwrites or deletes"
		}
		rows = append(rows, []string{tool.Name, orNone(strings.Join(tool.schema().described(), " ")), kind, tool.Title})
	}
	if err := terminal.Table(w, []string{"NAME", "ARGUMENTS", "EFFECT", "TITLE"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d tools. Arguments in brackets are optional.\n", len(l.Tools))
	return err
}

// argumentSchema is the part of a tool's schema that the command line needs.
type argumentSchema struct {
	Properties map[string]struct {
		Type  string `json:"type"`
		Items struct {
			Type string `json:"type"`
		} `json:"items"`
	} `json:"properties"`
	Required []string `json:"required"`
}

func (t *listedTool) schema() (s argumentSchema) {
	_ = json.Unmarshal(t.InputSchema, &s) // a schema of another form has no known arguments
	return s
}

// described returns the names of the arguments, the required ones first.
func (s argumentSchema) described() []string {
	names := slices.Clone(s.Required)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(s.Required, name) {
			names = append(names, "["+name+"]")
		}
	}
	return names
}

// arguments reads the arguments of a call. The types of the values are those of the tool's schema.
func (a *agentServer) arguments(ctx context.Context, tool string, words []string) (json.RawMessage, error) {
	if len(words) == 0 {
		return json.RawMessage(`{}`), nil
	}
	if strings.HasPrefix(strings.TrimSpace(words[0]), "{") {
		if len(words) > 1 || !json.Valid([]byte(words[0])) {
			return nil, usagef("the arguments are one JSON object, or names with values such as number=1007")
		}
		return json.RawMessage(words[0]), nil
	}
	list, err := a.list(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(list.Tools, func(t listedTool) bool { return t.Name == tool })
	if at < 0 {
		return nil, fmt.Errorf("there is no tool %s that the credential may call: `kubectl cardea tools list` lists them", terminal.Clean(tool))
	}
	return list.Tools[at].schema().parse(words)
}

// parse reads names with values.
func (s argumentSchema) parse(words []string) (json.RawMessage, error) {
	values, lists := map[string]any{}, map[string][]any{}
	for _, word := range words {
		name, text, found := strings.Cut(word, "=")
		property, known := s.Properties[name]
		switch {
		case !found:
			return nil, usagef("%q is no argument: write NAME=VALUE, or one JSON object", word)
		case !known:
			return nil, usagef("the tool has no argument %q: it has %s", name, orNone(strings.Join(s.described(), " ")))
		case property.Type == "array" && !strings.HasPrefix(text, "["):
			value, err := valueOf(name, property.Items.Type, text)
			if err != nil {
				return nil, err
			}
			lists[name] = append(lists[name], value)
			values[name] = lists[name]
			continue
		case values[name] != nil:
			return nil, usagef("the argument %q is given twice", name)
		}
		value, err := valueOf(name, property.Type, text)
		if err != nil {
			return nil, err
		}
		values[name] = value
	}
	return json.Marshal(values)
}

// valueOf reads a value of a type. Values of other types than text are JSON.
func valueOf(name, kind, text string) (any, error) {
	if kind == "string" || kind == "" && !json.Valid([]byte(text)) {
		return text, nil
	}
	if !json.Valid([]byte(text)) {
		return nil, usagef("the argument %q is of the type %s: %q is no JSON value of it", name, kind, text)
	}
	return json.RawMessage(text), nil
}

// toolResult is the result of tools/call.
type toolResult struct {
	raw     json.RawMessage
	Content []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Data     []byte `json:"data"`
		MIMEType string `json:"mimeType"`
	} `json:"content"`
	IsError bool `json:"isError"`
}

func (a *agentServer) callTool(ctx context.Context, tool string, arguments json.RawMessage) (*toolResult, error) {
	result := &toolResult{}
	if err := a.request(ctx, "tools/call", tool, map[string]any{"name": tool, "arguments": arguments}, &result.raw); err != nil {
		return nil, err
	}
	return result, json.Unmarshal(result.raw, result)
}

// write writes the content of a result. The answer of a tool cannot control the terminal.
func (r *toolResult) write(w io.Writer) error {
	for _, block := range r.Content {
		if block.Type != "text" {
			if _, err := fmt.Fprintf(w, "%s of the type %s with %d bytes, which -o json shows\n", terminal.Clean(block.Type), terminal.Clean(block.MIMEType), len(block.Data)); err != nil {
				return err
			}
			continue
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(block.Text, "\n"), "\n") {
			if _, err := fmt.Fprintln(w, terminal.Clean(line)); err != nil {
				return err
			}
		}
	}
	return nil
}
