package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// mostCompletions is the maximum number of names for a completion.
const mostCompletions = 500

// completeResources completes KIND/NAME, and KIND NAME. Completion ignores all errors.
func (c *connection) completeResources(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	kind, _, named := strings.Cut(word, "/")
	switch {
	case len(args) == 1 && !strings.Contains(args[0], "/"):
		return c.completeNames(cmd.Context(), args[0]), cobra.ShellCompDirectiveNoFileComp
	case len(args) > 0:
		return nil, cobra.ShellCompDirectiveNoFileComp
	case named:
		var words []string
		for _, name := range c.completeNames(cmd.Context(), kind) {
			words = append(words, kind+"/"+name)
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
	var kinds []string
	for _, info := range v1alpha1.Kinds {
		kinds = append(kinds, strings.ToLower(info.Kind)+"/")
	}
	return kinds, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeOf completes the one argument of a command with names of a kind.
func (c *connection) completeOf(kind string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.completeNames(cmd.Context(), kind), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeNames returns the names of the resources of a kind, or of the namespaces if kind is "Namespace". kind can be
// any name of the kind, such as its short name.
func (c *connection) completeNames(ctx context.Context, kind string) []string {
	opened, err := c.open(ctx)
	if err != nil {
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	options := []client.ListOption{client.Limit(mostCompletions)}
	if kind == "Namespace" {
		list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NamespaceList"})
	} else {
		info, err := opened.kind(kind)
		if err != nil {
			return nil
		}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(info.Kind + "List"))
		options = append(options, client.InNamespace(opened.namespace))
	}
	if opened.client.List(ctx, list, options...) != nil {
		return nil
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	slices.Sort(names)
	return names
}
