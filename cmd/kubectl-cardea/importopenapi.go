package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/toolimport"
)

// importFlags are the flags of import-openapi as they are typed.
type importFlags struct {
	deployment, agent, prefix, base, approve string
	include, headers                         []string
	asUser                                   bool
}

func importCommand(to *connection, around surroundings) *cobra.Command {
	var flags importFlags
	cmd := &cobra.Command{
		Use:   "import-openapi FILE|-",
		Short: "Write the operations of an OpenAPI document as AITools in YAML, and an AIAgent that has them",
		Long: "Write the operations of an OpenAPI document (3.0 or 3.1, at most 4 MiB, - for standard input) as AITools in YAML, for your Git repository.\n" +
			"Nothing is applied, and nothing is fetched: the document must be complete in itself. What a tool cannot express is left out and listed\n" +
			"on standard error with its path. Equal input gives equal output.",
		Example: `  kubectl cardea import-openapi orders.yaml --deployment acme --agent support -n acme >tools.yaml
  kubectl cardea import-openapi - --deployment acme --include 'GET /orders*' --header Authorization=order-service-token/token <orders.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := flags.options(to.namespace)
			if err != nil {
				return err
			}
			text, err := readDocument(args[0], around.in)
			if err != nil {
				return err
			}
			document, err := toolimport.Read(text)
			if err != nil {
				return err
			}
			result, err := document.Tools(opts)
			if err != nil {
				return err
			}
			return writeTools(around, result)
		},
	}
	set := cmd.Flags()
	set.StringVar(&flags.deployment, "deployment", "", "IdentityDeployment of the tools; required")
	set.StringVar(&flags.agent, "agent", "", "also write an AIAgent with this name and all tools")
	set.StringVar(&flags.prefix, "prefix", "", "beginning of the name of every tool, such as orders-")
	set.StringVar(&flags.base, "base-url", "", "URL before the paths; absent: the document's first server")
	set.StringArrayVar(&flags.include, "include", nil, "operations to write, such as 'GET /orders*', may be repeated; absent: all")
	set.BoolVar(&flags.asUser, "as-user", false, "send a token of the user with each call")
	set.StringArrayVar(&flags.headers, "header", nil, "NAME=SECRET/KEY: header whose value is in a Secret, may be repeated")
	set.StringVar(&flags.approve, "approve", string(toolimport.ApproveUnsafe), "calls that the user approves: unsafe (all but GET, HEAD, OPTIONS), safe (these too) or none")
	_ = cmd.MarkFlagRequired("deployment")
	_ = cmd.RegisterFlagCompletionFunc("deployment", to.completeOf(v1alpha1.KindIdentityDeployment))
	_ = cmd.RegisterFlagCompletionFunc("approve", cobra.FixedCompletions(approvals(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func approvals() []string {
	return []string{string(toolimport.ApproveUnsafe), string(toolimport.ApproveSafe), string(toolimport.ApproveNone)}
}

// options checks the flags.
func (f *importFlags) options(namespace string) (toolimport.Options, error) {
	opts := toolimport.Options{
		Namespace: namespace, Deployment: f.deployment, Agent: f.agent, Prefix: f.prefix, Base: f.base, AsUser: f.asUser, Approve: toolimport.Approval(f.approve),
	}
	for _, name := range []struct{ flag, value string }{{"deployment", f.deployment}, {"agent", f.agent}} {
		if name.value == "" && name.flag == "agent" {
			continue
		}
		if len(validation.IsDNS1123Subdomain(name.value)) > 0 {
			return opts, usagef("--%s: %q is no name of a resource: use lower-case letters, digits, dots and dashes", name.flag, name.value)
		}
	}
	if f.prefix != "" && (len(f.prefix) > toolimport.MaxPrefix || len(validation.IsDNS1123Label(f.prefix+"x")) > 0) {
		return opts, usagef("--prefix: %q begins no name of a resource: use at most %d lower-case letters, digits and dashes", f.prefix, toolimport.MaxPrefix)
	}
	if f.base != "" {
		if err := toolimport.CheckBase(f.base); err != nil {
			return opts, usagef("--base-url must be an absolute http or https URL, without user, query and fragment")
		}
	}
	if !slices.Contains(approvals(), f.approve) {
		return opts, usagef("--approve must be one of %s, not %q", strings.Join(approvals(), ", "), f.approve)
	}
	for _, text := range f.include {
		pattern, err := toolimport.ParsePattern(text)
		if err != nil {
			return opts, usagef("--include: %v", err)
		}
		opts.Include = append(opts.Include, pattern)
	}
	var err error
	opts.Headers, err = f.parseHeaders()
	return opts, err
}

// parseHeaders reads the headers whose values are in Secrets.
func (f *importFlags) parseHeaders() (headers []toolimport.Header, err error) {
	for _, text := range f.headers {
		name, source, _ := strings.Cut(text, "=")
		secret, key, _ := strings.Cut(source, "/")
		switch {
		case !toolimport.HeaderName(name) || len(validation.IsDNS1123Subdomain(secret)) > 0 || len(validation.IsConfigMapKey(key)) > 0:
			return nil, usagef("--header: a header is NAME=SECRET/KEY, such as Authorization=order-service-token/token")
		case toolimport.Reserved(name):
			return nil, usagef("--header: %s is set by the connection or by Cardea: use another header", name)
		case f.asUser && strings.EqualFold(name, "Authorization"):
			return nil, usagef("--header: Authorization has the token of the user with --as-user: leave one of them out")
		case slices.ContainsFunc(headers, func(h toolimport.Header) bool { return strings.EqualFold(h.Name, name) }):
			return nil, usagef("--header: %s is named twice", name)
		}
		headers = append(headers, toolimport.Header{Name: name, Secret: secret, Key: key})
	}
	return headers, nil
}

// readDocument reads a file, or standard input.
func readDocument(name string, in io.Reader) ([]byte, error) {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, usagef("%v", err)
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, toolimport.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("the document cannot be read: %w", err)
	}
	return text, nil
}

// writeTools writes the resources on standard output, and what was left out on standard error.
func writeTools(around surroundings, result *toolimport.Result) error {
	for _, note := range result.Notes {
		if _, err := fmt.Fprintln(around.err, terminal.Clean(note.String())); err != nil {
			return err
		}
	}
	if result.Operations == 0 {
		return errors.New("no operation was found: check the document and --include")
	}
	if len(result.Tools) == 0 {
		return errors.New("no operation can be a tool: standard error lists why")
	}
	text, err := result.YAML()
	if err != nil {
		return err
	}
	if _, err := around.out.Write(text); err != nil {
		return err
	}
	_, err = fmt.Fprintf(around.err, "%d of %d operations are tools. Nothing was applied.\n", len(result.Tools), result.Operations)
	return err
}
