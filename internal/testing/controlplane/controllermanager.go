package controlplane

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/cardea-iam/cardea/internal/testing/process"
)

// controllers are the controllers for which a cluster without nodes has work.
var controllers = []string{
	"namespace-controller",
	"garbage-collector-controller",
	"serviceaccount-controller",
	"clusterrole-aggregation-controller", // fills view, edit and admin from our labelled ClusterRoles
	"root-ca-certificate-publisher-controller",
}

// startControllerManager returns when the namespace `default` has its ServiceAccount, the proof that controllers run.
func (c *ControlPlane) startControllerManager(ctx context.Context) (err error) {
	c.controllerManager, err = c.group.Start(process.Spec{
		Name: "kube-controller-manager",
		Path: c.binaries.controllerManager,
		Env:  childEnvironment(),
		Args: []string{
			"--kubeconfig=" + c.controllerManagerKubeconfig(),
			"--controllers=" + strings.Join(controllers, ","),
			"--root-ca-file=" + filepath.Join(c.certificates.dir, "ca.crt"),
			"--leader-elect=false",
			"--use-service-account-credentials=false",
			"--secure-port=0",
			// With the default of 20 requests a second, the deletion of a namespace with many objects takes minutes.
			"--kube-api-qps=1000",
			"--kube-api-burst=2000",
			"--profiling=false",
		},
	})
	if err != nil {
		return err
	}
	client, err := corev1.NewForConfig(c.admin)
	if err != nil {
		return err
	}
	for {
		_, err := client.ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		if ended := pause(ctx, c.controllerManager, readinessPause); ended != nil {
			return fmt.Errorf("%w; the ServiceAccount of the namespace default: %w", ended, err)
		}
	}
}
