package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/cause"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
)

// diagnosis is the output of why.
type diagnosis struct {
	// Well is true if all requested resources are active.
	Well bool `json:"well"`
	// Resources are the resources with findings.
	Resources []*cause.Node `json:"resources"`
	// Looked is how many resources were checked.
	Looked int `json:"looked"`
}

func whyCommand(to *connection, around surroundings) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "why [KIND/NAME]",
		Short: "Explain why a resource is not active, and how to fix it; without a name, for every resource of the namespace",
		Example: `  kubectl cardea why apikey/tracking -n acme
  kubectl cardea why oclient/tools-web
  kubectl cardea why conn/google
  kubectl cardea why dir/globex
  kubectl cardea why -n acme`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: to.completeResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, err := resourceArgument(args)
			if err != nil {
				return err
			}
			cluster, err := to.open(cmd.Context())
			if err != nil {
				return err
			}
			var found diagnosis
			if kind == "" {
				found, err = cluster.whyAll(cmd.Context())
			} else {
				found, err = cluster.why(cmd.Context(), kind, name)
			}
			if err != nil {
				return err
			}
			err = around.print(format, found, func(w io.Writer) error { return found.write(w, around.style(), cluster.namespace) })
			if err == nil && !found.Well {
				return &faultFound{}
			}
			return err
		},
	}
	outputFlag(cmd, &format, formatTable, formatJSON, formatYAML)
	return cmd
}

// resourceArgument reads KIND/NAME or KIND NAME.
func resourceArgument(args []string) (kind, name string, err error) {
	if len(args) == 0 {
		return "", "", nil
	}
	kind, name = args[0], ""
	if len(args) == 2 {
		name = args[1]
	} else {
		kind, name, _ = strings.Cut(args[0], "/")
	}
	if kind == "" || name == "" || strings.Contains(kind, "/") || strings.Contains(name, "/") {
		return "", "", usagef("%q is not a resource: write KIND/NAME, such as apikey/tracking", strings.Join(args, " "))
	}
	return kind, name, nil
}

func (c *cluster) why(ctx context.Context, kind, name string) (diagnosis, error) {
	info, err := c.kind(kind)
	if err != nil {
		return diagnosis{}, err
	}
	obj, err := c.Resource(ctx, info.Kind, c.namespace, name)
	if err != nil {
		return diagnosis{}, c.explain(err, "get", fmt.Sprintf("%s %q", info.Kind, name), c.namespace)
	}
	node, err := cause.NewDiagnosis(c).Diagnose(ctx, obj, info.Kind)
	if err != nil {
		return diagnosis{}, c.explain(err, "read", "what "+info.Kind+" "+name+" refers to", c.namespace)
	}
	return diagnosis{Well: node.Well(), Resources: []*cause.Node{node}, Looked: 1}, nil
}

// whyAll checks every resource of the namespace, each kind before the kinds that refer to it.
func (c *cluster) whyAll(ctx context.Context) (diagnosis, error) {
	listed := &listing{cluster: c, found: map[string]v1alpha1.Resource{}}
	found := diagnosis{Well: true, Resources: []*cause.Node{}}
	all := cause.NewDiagnosis(listed)
	for _, info := range v1alpha1.Kinds {
		resources, err := c.list(ctx, info)
		if err != nil {
			return found, err
		}
		for _, obj := range resources {
			listed.found[info.Kind+"/"+obj.GetName()] = obj
		}
	}
	for _, info := range v1alpha1.Kinds {
		for _, obj := range listed.of(info.Kind) {
			node, err := all.Diagnose(ctx, obj, info.Kind)
			if err != nil {
				return found, c.explain(err, "read", "what "+info.Kind+" "+obj.GetName()+" refers to", c.namespace)
			}
			found.Looked++
			found.Well = found.Well && node.Well() && node.State == cause.Ready
			if !node.Silent() && !node.Above {
				found.Resources = append(found.Resources, node)
			}
		}
	}
	return found, nil
}

// write writes the diagnosis as text.
func (d diagnosis) write(w io.Writer, style terminal.Style, namespace string) error {
	var b strings.Builder
	for _, node := range d.Resources {
		writeNode(&b, style, node, "", "")
	}
	switch {
	case d.Looked == 0:
		fmt.Fprintf(&b, "There are no resources of Cardea in namespace %s. Select another namespace with -n.\n", terminal.Clean(namespace))
	case d.Well && d.Looked == 1:
		b.WriteString(style.Good("It is active.") + "\n")
	case d.Well:
		b.WriteString(style.Good(fmt.Sprintf("All %d resources are active.", d.Looked)) + "\n")
	case d.Looked > 1:
		fmt.Fprintf(&b, "%d resources were checked.\n", d.Looked)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// words are the names of states in the output.
var words = map[cause.State]string{
	cause.Ready: "active", cause.NotReady: "not ready", cause.Missing: "missing", cause.Unreadable: "not readable",
}

// writeNode writes a tree. first is the prefix of the node's own line, and rest the prefix of the lines below it.
func writeNode(b *strings.Builder, style terminal.Style, node *cause.Node, first, rest string) {
	state := style.Bad(words[node.State])
	switch {
	case node.Well():
		state = style.Good(words[node.State])
	case node.State == cause.Ready:
		state = style.Note("active, but a resource that it depends on is not")
	case node.Above:
		state += ", see above"
	}
	field := ""
	if node.Field != "" {
		field = terminal.Clean(node.Field) + ": "
	}
	fmt.Fprintf(b, "%s%s%s  %s\n", first, field, terminal.Clean(node.Kind+"/"+node.Name), state)
	bar := rest + "   "
	if len(node.DependsOn) > 0 {
		bar = rest + "│  "
	}
	for _, finding := range node.Findings {
		said := finding.Reason
		if finding.Status != "" {
			said = finding.Condition + "=" + finding.Status + " " + finding.Reason
		}
		fmt.Fprintf(b, "%s%s: %s\n", bar, style.Note(terminal.Clean(said)), terminal.Clean(finding.Message))
		fmt.Fprintf(b, "%s  → %s\n", bar, terminal.Clean(finding.Fix))
	}
	writeRegistration(b, style, node.Register, bar)
	for i, child := range node.DependsOn {
		if i == len(node.DependsOn)-1 {
			writeNode(b, style, child, rest+"└─ ", rest+"   ")
		} else {
			writeNode(b, style, child, rest+"├─ ", rest+"│  ")
		}
	}
}

// writeRegistration writes what to register at an identity provider, each value on a line of its own to be copied.
func writeRegistration(b *strings.Builder, style terminal.Style, r *cause.Registration, bar string) {
	if r == nil {
		return
	}
	write := func(title string, values ...string) {
		values = slices.DeleteFunc(slices.Clone(values), func(value string) bool { return value == "" })
		if len(values) == 0 {
			return
		}
		fmt.Fprintf(b, "%s%s\n", bar, style.Note(title))
		for _, value := range values {
			fmt.Fprintf(b, "%s  %s\n", bar, terminal.Clean(value))
		}
	}
	write("redirect URIs to register at the identity provider:", r.RedirectURIs...)
	write("back-channel logout URL, if the identity provider has a field for it:", r.BackchannelLogoutURL)
	write("metadata URL for the identity provider, if it reads metadata; otherwise enter the values below:", r.MetadataURL)
	write("entity ID (audience):", r.EntityID)
	write("assertion consumer service (ACS) URLs:", r.ACSURLs...)
	write("the identity provider's certificate expires at:", r.CertificateExpiresAt)
	write("SCIM base URL (tenant URL) for the identity provider:", r.SCIMURL)
	if r.TokenSecret != "" {
		write("bearer token for the identity provider, in a Secret:", r.TokenSecret+", key "+r.TokenKey)
	}
}

// listing reads listed resources from memory, and others from the cluster.
type listing struct {
	*cluster
	found map[string]v1alpha1.Resource
}

// Resource implements cause.Reader.
func (l *listing) Resource(ctx context.Context, kind, namespace, name string) (v1alpha1.Resource, error) {
	if obj := l.found[kind+"/"+name]; obj != nil {
		return obj, nil
	}
	return l.cluster.Resource(ctx, kind, namespace, name)
}

// of returns the listed resources of a kind by name.
func (l *listing) of(kind string) []v1alpha1.Resource {
	var found []v1alpha1.Resource
	for key, obj := range l.found {
		if strings.HasPrefix(key, kind+"/") {
			found = append(found, obj)
		}
	}
	slices.SortFunc(found, func(a, b v1alpha1.Resource) int { return strings.Compare(a.GetName(), b.GetName()) })
	return found
}
