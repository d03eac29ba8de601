package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/manifest"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
)

func exportCommand(to *connection, around surroundings) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "export [DEPLOYMENT]",
		Short: "Write a tenant as YAML that applies cleanly; without a name, all tenants of the namespace",
		Long: "Write a tenant as YAML that applies cleanly, including resources that were created over HTTP. Ids derive from namespace and name, so the same\n" +
			"ids are served in every cluster. Secrets are named in a comment, and never read. Runtime data is only in the store, and not in an export:\n" +
			"users, API keys and OAuth clients that were created over HTTP, and OAuth clients that registered themselves.\n" +
			"`cardea backup` writes them.",
		Example: `  kubectl cardea export acme -n acme >acme.yaml
  kubectl cardea export -n acme | kubectl diff -f -`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: to.completeOf(v1alpha1.KindIdentityDeployment),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := to.open(cmd.Context())
			if err != nil {
				return err
			}
			resources, err := cluster.raw(cmd.Context())
			if err != nil {
				return err
			}
			if len(args) == 1 {
				resources = manifest.Of(args[0], resources)
				if !slices.ContainsFunc(resources, func(obj *unstructured.Unstructured) bool { return obj.GetKind() == v1alpha1.KindIdentityDeployment }) {
					return fmt.Errorf("there is no IdentityDeployment %q in namespace %s: correct the name or the namespace (-n)", args[0], cluster.namespace)
				}
			}
			if len(resources) == 0 {
				return fmt.Errorf("there are no resources of Cardea in namespace %s: correct the namespace (-n)", cluster.namespace)
			}
			manifest.Sort(resources)
			if format == formatJSON {
				return printJSON(around, cluster.namespace, resources)
			}
			return writeExport(around.out, cluster.namespace, resources)
		},
	}
	outputFlag(cmd, &format, formatYAML, formatJSON)
	return cmd
}

// raw returns every resource of the namespace as the API server returns it, so that fields that this plugin does not
// know are kept.
func (c *cluster) raw(ctx context.Context) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, info := range v1alpha1.Kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(info.Kind + "List"))
		if err := c.client.List(ctx, list, client.InNamespace(c.namespace)); err != nil {
			return nil, c.explain(err, "list", info.Resource, c.namespace)
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
	return all, nil
}

// staying returns the cleaned resources that are not being deleted.
func staying(resources []*unstructured.Unstructured) (kept, leaving []*unstructured.Unstructured) {
	for _, obj := range resources {
		if obj.GetDeletionTimestamp() != nil {
			leaving = append(leaving, obj)
		} else {
			kept = append(kept, manifest.Clean(obj))
		}
	}
	return kept, leaving
}

// printJSON writes a List. JSON has no comments, so the omissions go to standard error.
func printJSON(around surroundings, namespace string, resources []*unstructured.Unstructured) error {
	if err := around.print(formatJSON, asList(resources), nil); err != nil {
		return err
	}
	var b strings.Builder
	kept, leaving := staying(resources)
	writePreamble(&b, "", namespace, kept, leaving)
	_, err := io.WriteString(around.err, b.String())
	return err
}

func asList(resources []*unstructured.Unstructured) map[string]any {
	kept, _ := staying(resources)
	items := []any{}
	for _, obj := range kept {
		items = append(items, obj.Object)
	}
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
}

func writeExport(w io.Writer, namespace string, resources []*unstructured.Unstructured) error {
	kept, leaving := staying(resources)
	var b strings.Builder
	writePreamble(&b, "# ", namespace, kept, leaving)
	for _, obj := range kept {
		text, err := terminal.YAML(obj.Object)
		if err != nil {
			return err
		}
		b.WriteString("---\n")
		b.Write(text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writePreamble lists what an export needs but does not contain, each line after a mark. Names of Kubernetes objects
// have no line breaks, so they cannot end a YAML comment.
func writePreamble(b *strings.Builder, mark, namespace string, kept, leaving []*unstructured.Unstructured) {
	fmt.Fprintf(b, "%sCardea's resources of namespace %s. Not included:\n", mark, namespace)
	fmt.Fprintf(b, "%s- Namespace %s, with its annotation %s if hosts are granted\n", mark, namespace, v1alpha1.AnnotationAllowedHosts)
	b.WriteString(mark + "- runtime data, which is only in the store: users, API keys and OAuth clients that were created over HTTP,\n" +
		mark + "  OAuth clients that registered themselves. cardea backup writes them\n")
	b.WriteString(mark + "- RoleBinding cardea-operator-secrets, which lets the operator write and read Secrets there\n")
	secrets, configMaps := manifest.Needs(kept)
	for _, needed := range []struct {
		kind  string
		names map[string][]string
	}{{"Secret", secrets}, {"ConfigMap", configMaps}} {
		for _, name := range slices.Sorted(maps.Keys(needed.names)) {
			fmt.Fprintf(b, "%s- %s %s, which %s needs\n", mark, needed.kind, name, strings.Join(needed.names[name], ", "))
		}
	}
	for _, obj := range kept {
		if _, generated, _ := unstructured.NestedMap(obj.Object, "spec", "secretTemplate"); generated {
			fmt.Fprintf(b, "%s- the Secret of %s/%s: in another cluster the operator generates a new one\n", mark, obj.GetKind(), obj.GetName())
		}
		if _, saml, _ := unstructured.NestedMap(obj.Object, "spec", "saml"); saml {
			fmt.Fprintf(b, "%s- Secret %s%s: copy it, or give the identity provider the certificate that the operator generates\n",
				mark, obj.GetName(), v1alpha1.SAMLKeysSuffix)
		}
	}
	for _, obj := range leaving {
		fmt.Fprintf(b, "%s- %s/%s, which is being deleted\n", mark, obj.GetKind(), obj.GetName())
	}
}
