package isolation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/test/testkit"
)

// manifest declares a deployment "main" with people, keys and an OAuth app: %[1]s is the namespace, %[2]s the host, %[3]d the port of the mail
// server, %[4]s further members of the deployment's spec, %[5]t whether clients may register themselves.
const manifest = `
apiVersion: iam.cardea.dev/v1alpha1
kind: IdentityDeployment
metadata: {name: main, namespace: %[1]s}
spec:
  mode: Staging
  frontendHosts: [%[2]s]
  permissionCatalog: {organization: ["orders:read"]}
  email: {from: no-reply@example.com, smtp: {host: 127.0.0.1, port: %[3]d, security: None}}
%[4]s
---
apiVersion: iam.cardea.dev/v1alpha1
kind: RateLimitScheme
metadata: {name: standard, namespace: %[1]s}
spec: {deploymentRef: {name: main}, slug: standard, rules: [{unit: minute, duration: 1, maxRequests: 1000000, mode: per_key}]}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIAuthApp
metadata: {name: backend, namespace: %[1]s}
spec: {deploymentRef: {name: main}, slug: backend, permissions: ["*"]}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIAuthApp
metadata: {name: customers, namespace: %[1]s}
spec: {deploymentRef: {name: main}, slug: customers, permissions: ["*"], rateLimitSchemeRef: {name: standard}}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIKey
metadata: {name: backend, namespace: %[1]s}
spec: {appRef: {name: backend}, permissions: ["*"], secretTemplate: {name: backend-key}}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIKey
metadata: {name: customer, namespace: %[1]s}
spec: {appRef: {name: customers}, permissions: ["*"], secretTemplate: {name: customer-key}}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: OAuthApp
metadata: {name: portal, namespace: %[1]s}
spec: {deploymentRef: {name: main}, slug: portal, allowDynamicClientRegistration: %[5]t}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: OAuthClient
metadata: {name: service, namespace: %[1]s}
spec: {oauthAppRef: {name: portal}, grantTypes: [ClientCredentials], secretTemplate: {name: service-client}}
`

// kubernetesIssuer lets ServiceAccounts of the cluster manage a deployment.
const kubernetesIssuer = `
  - name: cluster
    kubernetes: {}
    permissionsExpression: "['*']"
`

// peoplePerTenant is how many people of a tenant sign in and out.
const peoplePerTenant = 5

// tenant is the owner of a namespace with the deployment "main".
type tenant struct {
	*install
	namespace, host string
	// key manages the deployment, customerKey is one whose requests a gateway asks about.
	key, customerKey string
	// clientID and clientSecret are those of a declared OAuth client.
	clientID, clientSecret string
	people                 []*testkit.Visitor
}

// deployment is the name of the tenant's deployment in decisions.
func (t *tenant) deployment() string { return t.namespace + "/main" }

// declareTenants declares the attacker and two others, and signs the others' people up.
func (in *install) declareTenants(ctx context.Context) (err error) {
	issuers := "  jwtIssuers:" + kubernetesIssuer
	if in.attacker, err = in.declareTenant(ctx, "attacker.localhost", issuers+in.site.issuer(), true); err != nil {
		return err
	}
	for i := range 2 {
		other, err := in.declareTenant(ctx, fmt.Sprintf("other-%d.localhost", i), issuers, false)
		if err != nil {
			return err
		}
		in.others = append(in.others, other)
	}
	for i, t := range append(in.others, in.attacker) {
		for n := range peoplePerTenant {
			person := testkit.NewVisitor(t.host, fmt.Sprintf("person-%d@example.com", i*peoplePerTenant+n), address(1, i*peoplePerTenant+n))
			if err := t.signUp(person); err != nil {
				return err
			}
			t.people = append(t.people, person)
		}
	}
	return nil
}

// address returns an IPv4 address in a /24 of its own: of one network, much is bounded. Blocks are those of different users of addresses.
func address(block byte, n int) string { return fmt.Sprintf("%d.%d.%d.7", 20+block, n/250%250, n%250) }

// declareTenant applies a tenant's resources and waits until both servers serve them.
func (in *install) declareTenant(ctx context.Context, host, spec string, registration bool) (*tenant, error) {
	namespace, err := in.cluster.Namespace(ctx)
	if err != nil {
		return nil, err
	}
	t := &tenant{install: in, namespace: namespace, host: host}
	binding, err := os.ReadFile(filepath.Join(testkit.Root(), "config", "samples", "secrets_role_binding.yaml"))
	if err != nil {
		return nil, err
	}
	text := strings.Replace(string(binding), "namespace: acme", "namespace: "+namespace, 1) + "\n---\n" + fmt.Sprintf(manifest, namespace, host, in.inbox.SMTPPort(), spec, registration)
	if registration {
		text += "\n---\n" + in.site.configMap(namespace)
	}
	if err := t.apply(ctx, text); err != nil {
		return nil, err
	}
	return t, until(ctx, "the deployment of "+host+" is not served", func() error {
		t.key, t.customerKey = in.cluster.APIKey(ctx, namespace, "backend-key"), in.cluster.APIKey(ctx, namespace, "customer-key")
		var secret corev1.Secret
		if err := in.cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "service-client"}, &secret); err != nil {
			return err
		}
		t.clientID, t.clientSecret = string(secret.Data["client-id"]), string(secret.Data["client-secret"])
		for _, server := range in.servers {
			if fault := errors.Join(t.decide(server), t.token(server)); fault != nil {
				return fault
			}
		}
		return nil
	})
}

// apply applies manifests as the owner of the namespace may.
func (t *tenant) apply(ctx context.Context, text string) error {
	if out, err := t.cluster.Kubectl(ctx, text, "apply", "-f", "-"); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// signUp makes an account with a code by mail.
func (t *tenant) signUp(person *testkit.Visitor) error {
	attempt, answer, err := person.BeginSignUp(t.server())
	if attempt == "" {
		return fault(answer, err)
	}
	code := person.AwaitCode(t.inbox)
	if code == "" {
		return errors.New("no code came by mail")
	}
	answer, err = person.EndSignUp(t.server(), attempt, code)
	return fault(answer, err)
}

// decide asks, as a gateway does, about the tenant's customer.
func (t *tenant) decide(server *testkit.Cardea) error {
	answer, err := check(server, t.deployment(), t.customerKey, "20.0.0.1")
	if err == nil && answer.JSON["allowed"] != true {
		err = fmt.Errorf("%d %s", answer.Status, answer.Raw)
	}
	return err
}

// check asks about an API key as the gateway of a deployment does.
func check(server *testkit.Cardea, deployment, key, client string) (testkit.Answer, error) {
	body := fmt.Sprintf(`{"principal": {"type": "api_key", "value": %q}, "method": "GET", "resource": "/", "client_ip": %q}`, key, client)
	return testkit.Do(http.MethodPost, server.Decision+"/deployments/"+deployment+"/v1/authz/check", "", body, [2]string{"X-Forwarded-For", client})
}

// token gets an access token with the tenant's client.
func (t *tenant) token(server *testkit.Cardea) error {
	answer, err := t.form(server, "/oauth/portal/token", "20.0.0.1", url.Values{
		"grant_type": {"client_credentials"}, "client_id": {t.clientID}, "client_secret": {t.clientSecret},
	})
	return fault(answer, err)
}

// fault returns an error for an answer that is none, or no success.
func fault(answer testkit.Answer, err error) error {
	if err == nil && answer.Status >= 300 {
		err = fmt.Errorf("%d %.300s", answer.Status, answer.Raw)
	}
	return err
}
