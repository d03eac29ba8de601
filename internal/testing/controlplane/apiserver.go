package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/cardea-iam/cardea/internal/testing/process"
)

const serviceAccountIssuer = "https://kubernetes.default.svc.cluster.local"

// auditPolicy leaves out the stage RequestReceived, whose line repeats part of the later line of the same request.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// StartAPIServer starts the API server, on the same port and data as before, and returns when it is ready.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	if c.apiServer != nil {
		return errors.New("the API server is running already")
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	if err := c.launchAPIServer(ctx); err != nil {
		return errors.Join(err, c.StopAPIServer())
	}
	return nil
}

func (c *ControlPlane) launchAPIServer(ctx context.Context) (err error) {
	if c.options.AuditLog {
		if err := os.WriteFile(c.path("audit-policy.yaml"), []byte(auditPolicy), 0o600); err != nil {
			return err
		}
	}
	c.apiServer, err = c.group.Start(process.Spec{
		Name: "kube-apiserver",
		Path: c.binaries.apiServer,
		Args: append(c.apiServerArgs(), c.options.APIServerArgs...),
		Env:  childEnvironment(),
	})
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(c.admin)
	if err != nil {
		return err
	}
	return awaitHealthy(ctx, c.apiServer, client, c.URL()+"/readyz")
}

// StopAPIServer ends the API server alone. Connections to it are closed at once, watches too.
func (c *ControlPlane) StopAPIServer() error { return stop(&c.apiServer, apiServerStop) }

func (c *ControlPlane) apiServerArgs() []string {
	file := func(name string) string { return filepath.Join(c.certificates.dir, name) }
	args := []string{
		"--etcd-servers=http://" + loopback(c.options.EtcdPort),
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.options.APIServerPort),
		// Endpoints may not hold a loopback address, and there are no pods to use the Service `kubernetes`.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + file("apiserver.crt"),
		"--tls-private-key-file=" + file("apiserver.key"),
		"--client-ca-file=" + file("ca.crt"),
		"--authorization-mode=RBAC",
		"--service-account-issuer=" + serviceAccountIssuer,
		"--service-account-key-file=" + file("service-account.key"),
		"--service-account-signing-key-file=" + file("service-account.key"),
		"--service-account-max-token-expiration=" + maxServiceAccountTokens.String(),
		"--service-cluster-ip-range=10.0.0.0/24",
		"--allow-privileged=true",
		// Priority and fairness stay on, as in production, with more seats than the default of 600. A benchmark that
		// writes thousands of objects must measure Cardea, not a queue: the priority level of its ServiceAccount has
		// only a fraction of the seats.
		"--max-requests-inflight=2000",
		"--max-mutating-requests-inflight=1000",
		// Tests delete namespaces with thousands of objects.
		"--delete-collection-workers=4",
		// Without this period, the server does not end open watches, and its shutdown waits a minute for them.
		"--shutdown-watch-termination-grace-period=1s",
		"--profiling=false",
	}
	if c.options.AuditLog {
		args = append(args,
			"--audit-policy-file="+c.path("audit-policy.yaml"),
			"--audit-log-path="+c.AuditLog(),
		)
	}
	return args
}
