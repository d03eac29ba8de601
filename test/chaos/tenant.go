package chaos

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
	"github.com/cardea-iam/cardea/test/testkit"
)

// tenant is a deployment with users, an app whose key manages it, and an app whose keys are created at runtime.
const tenant = `
apiVersion: v1
kind: Secret
metadata: {name: carrier, namespace: %[1]s, labels: {iam.cardea.dev/deployment: people}}
data: {auth-token: %[2]s}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: IdentityDeployment
metadata: {name: people, namespace: %[1]s}
spec:
  mode: Staging
  frontendHosts: [%[3]s]
  permissionCatalog: {organization: ["orders:read"]}
  email:
    from: no-reply@acme.example
    smtp: {host: 127.0.0.1, port: %[4]d, security: None}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIAuthApp
metadata: {name: people, namespace: %[1]s}
spec: {deploymentRef: {name: people}, slug: backend, permissions: ["*"]}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIAuthApp
metadata: {name: customers, namespace: %[1]s}
spec: {deploymentRef: {name: people}, slug: customers, permissions: ["orders:read"]}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIKey
metadata: {name: people-key, namespace: %[1]s}
spec: {appRef: {name: people}, permissions: ["*"], secretTemplate: {name: people-key}}
`

// declareTenant applies the tenant and waits until both servers serve it.
func (in *install) declareTenant(ctx context.Context) (err error) {
	if in.namespace, err = in.Cluster.Namespace(ctx); err != nil {
		return err
	}
	binding, err := os.ReadFile(filepath.Join(testkit.Root(), "config", "samples", "secrets_role_binding.yaml"))
	if err != nil {
		return err
	}
	text := strings.Replace(string(binding), "namespace: acme", "namespace: "+in.namespace, 1) + "\n---\n" +
		fmt.Sprintf(tenant, in.namespace, base64.StdEncoding.EncodeToString([]byte(messagegateway.DefaultAuthToken)), host, in.Inbox.SMTPPort())
	if out, err := in.Cluster.Kubectl(ctx, text, "apply", "-f", "-"); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		in.key = in.Cluster.APIKey(ctx, in.namespace, "people-key")
		served := 0
		for _, server := range in.servers {
			if answer, err := testkit.Do("GET", server.Backend+keysPath, in.key, ""); err == nil && answer.Status == 200 {
				served++
			}
		}
		if served == len(in.servers) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the tenant is not served: %w", ctx.Err())
		case <-again.C:
		}
	}
}

// declared creates, changes and deletes rate-limit schemes in the Kubernetes API, as an editor does.
func (l *load) declared() func(n int) {
	var living []*v1alpha1.RateLimitScheme
	made := 0
	return func(n int) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if len(living) == 0 || len(living) < 8 && rand.IntN(3) == 0 {
			made++
			scheme := testkit.Scheme(l.namespace, "people", fmt.Sprintf("declared-%d", made))
			scheme.Spec.Rules[0].MaxRequests = int32(n + 1)
			if l.applied(scheme, fmt.Sprint(n+1), l.Cluster.Client.Create(ctx, scheme)) {
				living = append(living, scheme)
			}
			return
		}
		at := rand.IntN(len(living))
		scheme := living[at]
		if rand.IntN(4) == 0 {
			living = append(living[:at], living[at+1:]...)
			l.applied(scheme, absent, l.Cluster.Client.Delete(ctx, scheme))
			return
		}
		before := scheme.DeepCopy()
		scheme.Spec.Rules[0].MaxRequests = int32(n + 1)
		if !l.applied(scheme, fmt.Sprint(n+1), l.Cluster.Client.Patch(ctx, scheme, client.MergeFrom(before))) {
			living = append(living[:at], living[at+1:]...)
		}
	}
}

// applied records how a write to the Kubernetes API ended. A write that the API server rejected had no effect.
func (l *load) applied(scheme *v1alpha1.RateLimitScheme, state string, err error) bool {
	object := "declared/" + string(scheme.Spec.Slug)
	switch {
	case err == nil:
		l.acknowledge(object, state)
		return true
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		l.refused(object, string(apierrors.ReasonForError(err)))
	default:
		l.wonder(object, state, err.Error())
	}
	return false
}
