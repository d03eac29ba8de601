package toolimport

import (
	"fmt"
	"strings"

	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
)

// YAML returns the resources as YAML, each after a comment with its operation. No text of the document ends a comment
// or controls a terminal.
func (r *Result) YAML() ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# From the OpenAPI document %s by kubectl cardea import-openapi.\n", terminal.Clean(r.Title))
	write := func(comment string, resource any) error {
		text, err := terminal.YAML(resource)
		fmt.Fprintf(&b, "---\n# %s\n%s", terminal.Clean(comment), text)
		return err
	}
	for _, tool := range r.Tools {
		if err := write(tool.Operation, tool.AITool); err != nil {
			return nil, err
		}
	}
	if r.Agent != nil {
		if err := write("The agent with these tools", r.Agent); err != nil {
			return nil, err
		}
	}
	return []byte(b.String()), nil
}
