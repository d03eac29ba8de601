package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/internal/testing/webhookreceiver"
)

// localEndpoint is the name of the WebhookEndpoint that sends the sample deployment's events to the local receiver, and
// of its Secret.
const localEndpoint = "local-inbox"

// webhookReceiver returns the receiver of webhooks with its path. It reads the endpoint's secrets from the cluster.
func (r *localRun) webhookReceiver() map[string]http.Handler {
	return map[string]http.Handler{webhookreceiver.Path: webhookreceiver.New(webhookreceiver.Options{Keys: r.signingSecrets})}
}

// signingSecrets returns the secrets that sign the events for the local receiver.
func (r *localRun) signingSecrets(ctx context.Context) ([]string, error) {
	namespace, _, _ := strings.Cut(r.tenant.deployment, "/")
	raw, err := r.kubectl(ctx, "get", "secret", localEndpoint, "--namespace="+namespace, "-o", "jsonpath={.data}")
	if err != nil {
		return nil, err
	}
	return secretsOf(raw)
}

// secretsOf returns the signing secrets in the data of a Secret, in any order.
func secretsOf(data []byte) (secrets []string, err error) {
	var encoded map[string]string
	if err := json.Unmarshal(data, &encoded); err != nil {
		return nil, fmt.Errorf("data of the Secret %s: %w", localEndpoint, err)
	}
	for _, key := range []string{"signing-secret", "previous-signing-secret"} {
		plain, err := base64.StdEncoding.DecodeString(encoded[key])
		if err != nil {
			return nil, fmt.Errorf("%s of the Secret %s: %w", key, localEndpoint, err)
		}
		secrets = append(secrets, string(plain))
	}
	return slices.DeleteFunc(secrets, func(secret string) bool { return secret == "" }), nil
}

// applyEndpoint declares the WebhookEndpoint of the local receiver, and returns its key. It is not in the samples,
// because only a local run has the receiver.
func (r *localRun) applyEndpoint(ctx context.Context) (key string, err error) {
	manifest := endpointManifest(r.tenant.deployment, r.carrier.URL()+webhookreceiver.Path)
	file := r.path("webhookendpoint.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		return "", err
	}
	if _, err := r.kubectl(ctx, "apply", "-f", file); err != nil {
		return "", err
	}
	objects, err := r.list(ctx, "-f", file)
	if err != nil {
		return "", err
	}
	return objects[0].key(), nil
}

// endpointManifest returns the WebhookEndpoint that sends the events of a deployment, named as namespace/name, to a
// URL.
func endpointManifest(deployment, url string) string {
	namespace, name, _ := strings.Cut(deployment, "/")
	return fmt.Sprintf(`# Sends the events of the sample deployment to the receiver of this run: %[4]s
apiVersion: iam.cardea.dev/v1alpha1
kind: WebhookEndpoint
metadata:
  name: %[1]s
  namespace: %[2]s
spec:
  deploymentRef:
    name: %[3]s
  displayName: Local inbox
  url: %[4]s
`, localEndpoint, namespace, name, url)
}
