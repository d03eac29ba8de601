package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/cause"
)

// connection selects the cluster with kubectl's flags.
type connection struct {
	kubeconfig, context, namespace string
	as                             string
	asGroups                       []string
	timeout                        time.Duration
}

func (c *connection) register(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig to use; absent: as kubectl finds it")
	flags.StringVar(&c.context, "context", "", "context of the kubeconfig; absent: its current one")
	flags.StringVarP(&c.namespace, "namespace", "n", "", "namespace; absent: the context's")
	flags.StringVar(&c.as, "as", "", "user to act as")
	flags.StringArrayVar(&c.asGroups, "as-group", nil, "group to act as, may be repeated")
	flags.DurationVar(&c.timeout, "request-timeout", 30*time.Second, "how long one request may take")
	_ = root.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return contexts(c.rules()), cobra.ShellCompDirectiveNoFileComp
	})
	_ = root.RegisterFlagCompletionFunc("namespace", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return c.completeNames(cmd.Context(), "Namespace"), cobra.ShellCompDirectiveNoFileComp
	})
}

func (c *connection) rules() *clientcmd.ClientConfigLoadingRules {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	return rules
}

func contexts(rules *clientcmd.ClientConfigLoadingRules) []string {
	config, err := rules.Load()
	if err != nil {
		return nil
	}
	var names []string
	for name := range config.Contexts {
		names = append(names, name)
	}
	return names
}

// cluster is a cluster with Cardea's kinds.
type cluster struct {
	config    *rest.Config
	client    client.Client
	namespace string
	// served are the kinds as the API server serves them.
	served []metav1.APIResource
}

// load reads the kubeconfig and sends no request.
func (c *connection) load() (*rest.Config, string, error) {
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.context}
	overrides.Context.Namespace = c.namespace
	overrides.AuthInfo.Impersonate, overrides.AuthInfo.ImpersonateGroups = c.as, c.asGroups
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.rules(), overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", &accessError{err: err, message: fmt.Sprintf("the kubeconfig cannot be used: %v: set KUBECONFIG or --kubeconfig, and see `kubectl config get-contexts`", err)}
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", &accessError{err: err, message: fmt.Sprintf("the kubeconfig has no usable namespace: %v: set one with -n", err)}
	}
	config.Timeout, config.UserAgent, config.QPS = c.timeout, "kubectl-cardea/"+version, -1
	// Warnings of the API server are for writes, and this client mostly reads.
	config.WarningHandler = rest.NoWarnings{}
	return config, namespace, nil
}

// install says how to install or upgrade the kinds. It names no paths of the repository, because users of the plugin
// have no checkout.
const install = "by Helm (helm upgrade --install cardea CHART -n cardea-system), or by the release's manifests (kubectl apply --server-side -f install.yaml, " +
	"or install-standalone.yaml)"

// open connects to a cluster, which must have Cardea's kinds.
func (c *connection) open(ctx context.Context) (*cluster, error) {
	config, namespace, err := c.load()
	if err != nil {
		return nil, err
	}
	made, err := newClient(config)
	if err != nil {
		return nil, &accessError{err: err, message: fmt.Sprintf("the kubeconfig cannot be used: %v", err)}
	}
	opened := &cluster{config: config, client: made, namespace: namespace}
	lister, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, opened.explain(err, "", "", "")
	}
	served, err := lister.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if ctx.Err() != nil { // the lister knows no context
		return nil, opened.explain(ctx.Err(), "discover", "the kinds of "+v1alpha1.GroupVersion.Group, "")
	}
	if apierrors.IsNotFound(err) {
		return nil, &accessError{err: err, message: fmt.Sprintf("the cluster at %s has no kinds of %s, so Cardea is not installed there: choose another cluster with --context, or let a cluster admin install it: %s",
			config.Host, v1alpha1.GroupVersion, install)}
	}
	if err != nil {
		return nil, opened.explain(err, "discover", "the kinds of "+v1alpha1.GroupVersion.Group, "")
	}
	opened.served = served.APIResources
	return opened, nil
}

// newClient returns a client without a cache, which maps kinds without discovery.
func newClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	v1alpha1.AddToMapper(mapper)
	for _, known := range []struct {
		group, version, kind string
		scope                meta.RESTScope
	}{
		{"", "v1", cause.KindSecret, meta.RESTScopeNamespace}, {"", "v1", cause.KindConfigMap, meta.RESTScopeNamespace},
		{"", "v1", "Namespace", meta.RESTScopeRoot}, {"apps", "v1", "Deployment", meta.RESTScopeNamespace},
		{"apps", "v1", "StatefulSet", meta.RESTScopeNamespace}, {"coordination.k8s.io", "v1", "Lease", meta.RESTScopeNamespace},
		{"authorization.k8s.io", "v1", "SelfSubjectAccessReview", meta.RESTScopeRoot},
	} {
		mapper.Add(schema.GroupVersionKind{Group: known.group, Version: known.version, Kind: known.kind}, known.scope)
	}
	return client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
}

// explain returns an error of the API server with its fix.
func (c *cluster) explain(err error, verb, what, namespace string) error {
	where := ""
	if namespace != "" {
		where = " in namespace " + namespace
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s %s%s was interrupted: %w", verb, what, where, context.Canceled)
	case apierrors.IsUnauthorized(err):
		return &accessError{err: err, message: fmt.Sprintf("the API server at %s does not accept your credentials: sign in again, or choose another user with --context", c.config.Host)}
	case apierrors.IsForbidden(err):
		return &accessError{err: err, message: fmt.Sprintf("you may not %s %s%s: ask for ClusterRole %s there", verb, what, where, roleFor(verb, what))}
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no %s%s: correct the name or the namespace (-n)", what, where)
	case overloaded(err):
		return &accessError{err: err, message: fmt.Sprintf("the API server at %s is unavailable: %v: try again in a moment, and check the cluster", c.config.Host, err)}
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		return &accessError{err: err, message: fmt.Sprintf("the API server at %s is unreachable: %v: check whether it runs, and --context", c.config.Host, err)}
	}
	return fmt.Errorf("%s %s%s: %w", verb, what, where, err)
}

// overloaded reports whether a response means that the API server, or a proxy in front of it, is unavailable.
func overloaded(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// roleFor returns the least of Kubernetes' user-facing roles with a right: view cannot read Secrets.
func roleFor(verb, what string) string {
	if (verb == "get" || verb == "list" || verb == "read") && !strings.HasPrefix(what, cause.KindSecret) {
		return "view"
	}
	return "edit"
}

// kind finds a kind by any of its names: plural, singular, short name, or kind.
func (c *cluster) kind(name string) (v1alpha1.KindInfo, error) {
	wanted := strings.ToLower(strings.TrimSuffix(strings.ToLower(name), "."+v1alpha1.GroupVersion.Group))
	for _, served := range c.served {
		names := append([]string{served.Name, served.SingularName, strings.ToLower(served.Kind)}, served.ShortNames...)
		for _, candidate := range names {
			if candidate == wanted {
				if info, known := v1alpha1.InfoOf(served.Kind); known {
					return info, nil
				}
			}
		}
	}
	return v1alpha1.KindInfo{}, usagef("%q is not a kind of Cardea: see `kubectl api-resources --api-group=%s`", name, v1alpha1.GroupVersion.Group)
}

// Resource implements cause.Reader.
func (c *cluster) Resource(ctx context.Context, kind, namespace, name string) (v1alpha1.Resource, error) {
	info, known := v1alpha1.InfoOf(kind)
	if !known {
		return nil, fmt.Errorf("%s is not a kind of Cardea", kind)
	}
	obj := info.New()
	return obj, c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj.(client.Object))
}

// Metadata implements cause.Reader.
func (c *cluster) Metadata(ctx context.Context, kind, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	found := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind}}
	return found, c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, found)
}

// list returns the resources of a kind in a namespace, in the order of their names.
func (c *cluster) list(ctx context.Context, info v1alpha1.KindInfo) ([]v1alpha1.Resource, error) {
	list := info.NewList()
	if err := c.client.List(ctx, list.(client.ObjectList), client.InNamespace(c.namespace)); err != nil {
		return nil, c.explain(err, "list", info.Resource, c.namespace)
	}
	var found []v1alpha1.Resource
	err := meta.EachListItem(list, func(obj runtime.Object) error {
		found = append(found, obj.(v1alpha1.Resource))
		return nil
	})
	return found, err
}
