package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// restConfig returns how to reach the Kubernetes API, without client-side throttling: API priority and fairness does
// that better.
func restConfig(kubeconfig string) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if kubeconfig == "" {
		config, err = rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("not in a cluster, and --kubeconfig is missing: %w", err)
		}
	} else if config, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	config.QPS = -1
	config.UserAgent = "cardea/" + version
	return config, nil
}

// newScheme returns every type Cardea speaks.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, eventsv1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// newMapper maps kinds to resources without asking the API server: a process must start while that is away.
func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{v1alpha1.KindIdentityDeployment, v1alpha1.KindRateLimitScheme, v1alpha1.KindAPIAuthApp, v1alpha1.KindAPIKey} {
		mapper.Add(v1alpha1.GroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, gvk := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Secret"), coordinationv1.SchemeGroupVersion.WithKind("Lease"),
	} {
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	return mapper
}

// newClient returns a client that reads and writes the API server itself.
func newClient(config *rest.Config) (client.Client, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme, Mapper: newMapper(), HTTPClient: httpClient})
}

// installID is the UID of namespace kube-system: as old and as unique as the cluster.
func installID(reader client.Reader) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		var namespace corev1.Namespace
		if err := reader.Get(ctx, client.ObjectKey{Name: "kube-system"}, &namespace); err != nil {
			return "", fmt.Errorf("identify the cluster by namespace kube-system: %w", err)
		}
		return string(namespace.UID), nil
	}
}

// podNamespace is the namespace this process runs in, "" outside a cluster.
func podNamespace() string {
	raw, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// static gives controller-runtime our mapper.
func static(*rest.Config, *http.Client) (meta.RESTMapper, error) { return newMapper(), nil }
