package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// cluster is where a run declares its resources: a control plane of its own, or the cluster of the current kubeconfig
// context.
type cluster interface {
	// AdminKubeconfig is the path of the user's kubeconfig.
	AdminKubeconfig() string
	Kubectl() string
	URL() string
	ServiceAccountKubeconfig(ctx context.Context, namespace, name, file string, lifetime time.Duration) error
	Stop() error
}

// current is the cluster of the user's kubeconfig. It keeps running when the run ends.
type current struct {
	file, kubectl string
	config        *clientcmdapi.Config // of the one context, without references to files
}

// openCurrent copies the current context into file, so that a later switch of context does not affect the run.
func openCurrent(kubectl, file string) (*current, error) {
	config, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if config.Contexts[config.CurrentContext] == nil {
		return nil, errors.New("your kubeconfig has no current context: choose one with `kubectl config use-context`, or set KUBECONFIG")
	}
	if err := clientcmdapi.MinifyConfig(config); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if kubectl, err = exec.LookPath(kubectl); err != nil {
		return nil, fmt.Errorf("kubectl: %w; install it, or build it with `make k8s`", err)
	}
	if kubectl, err = filepath.Abs(kubectl); err != nil {
		return nil, err
	}
	return &current{file: file, kubectl: kubectl, config: config}, clientcmd.WriteToFile(*config, file)
}

func (c *current) AdminKubeconfig() string { return c.file }
func (c *current) Kubectl() string         { return c.kubectl }
func (c *current) Stop() error             { return nil }

func (c *current) URL() string {
	return c.config.Clusters[c.config.Contexts[c.config.CurrentContext].Cluster].Server
}

// ServiceAccountKubeconfig writes a kubeconfig that reaches the cluster as the user's does, with a token of a
// ServiceAccount. A cluster may shorten the requested lifetime of the token. The next start requests another token.
func (c *current) ServiceAccountKubeconfig(ctx context.Context, namespace, name, file string, lifetime time.Duration) error {
	rest, err := clientcmd.NewDefaultClientConfig(*c.config, nil).ClientConfig()
	if err != nil {
		return err
	}
	core, err := corev1.NewForConfig(rest)
	if err != nil {
		return err
	}
	seconds := int64(lifetime.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := core.ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("token for the ServiceAccount %s/%s: %w", namespace, name, err)
	}
	config := c.config.DeepCopy()
	user := config.Contexts[config.CurrentContext].AuthInfo
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{user: {Token: answer.Status.Token}}
	return clientcmd.WriteToFile(*config, file)
}

// refuseInstalled returns an error if the cluster already runs Cardea, because both would reconcile the same resources.
func (r *localRun) refuseInstalled(ctx context.Context) error {
	found, err := r.kubectl(ctx, "get", "deployments,statefulsets", "--all-namespaces", "--selector=app.kubernetes.io/name=cardea",
		"-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name} in {.metadata.namespace}, {end}`)
	if err != nil {
		return err
	}
	if names := strings.TrimSuffix(string(found), ", "); names != "" {
		return fmt.Errorf("the cluster %s runs Cardea already (%s): choose another context, or uninstall it first", r.cluster.URL(), names)
	}
	// An uninstalled chart leaves the kinds behind, with Helm's labels.
	owned, err := r.kubectl(ctx, "get", "crd", "--selector=app.kubernetes.io/managed-by=Helm", "-o", "name")
	if err != nil {
		return err
	}
	if strings.Contains(string(owned), ".iam.cardea.dev") {
		return fmt.Errorf("the kinds of Cardea in the cluster %s belong to a Helm release: choose another context, or delete them first (kubectl delete -k config/crd)", r.cluster.URL())
	}
	return nil
}

// database returns the path of the SQLite file. Each cluster has its own file, because a store belongs to one cluster.
func (r *localRun) database(ctx context.Context) (string, error) {
	if r.clusterName == "" {
		return r.path("cardea.db"), nil
	}
	uid, err := r.kubectl(ctx, "get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")
	return r.path("cardea-" + string(uid) + ".db"), err
}
