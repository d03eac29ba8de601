package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cardea-iam/cardea/internal/tracing"
)

// restConfig returns the configuration of clients of the Kubernetes API. It disables client-side throttling, because
// the API server's priority and fairness limits requests better.
func restConfig(kubeconfig string, tracer *tracing.Tracer) (*rest.Config, error) {
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
	if tracer.On() {
		config.Wrap(func(base http.RoundTripper) http.RoundTripper { return tracer.Transport(base, "Kubernetes API") })
	}
	config.UserAgent = "cardea/" + version
	return config, nil
}

// podNamespace is the namespace this process runs in, "" outside a cluster.
func podNamespace() string {
	raw, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}
