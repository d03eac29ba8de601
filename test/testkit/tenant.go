package testkit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tenantManifest declares a deployment "main" with users, keys and an OAuth app: %[1]s is the namespace, %[2]s the
// host, %[3]d the port of the mail server, %[4]s further members of the deployment's spec, %[5]t whether clients may
// register themselves.
const tenantManifest = `
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

// Tenant is the owner of a namespace with the deployment "main".
type Tenant struct {
	*Install
	Namespace, Host string
	// Key manages the deployment. CustomerKey is the API key of a customer, which gateways check.
	Key, CustomerKey string
	// ClientID and ClientSecret are the credentials of the declared OAuth client.
	ClientID, ClientSecret string
}

// Deployment returns the name of the tenant's deployment in decision requests.
func (t *Tenant) Deployment() string { return t.Namespace + "/main" }

// TenantOptions are what a tenant declares in addition to the defaults.
type TenantOptions struct {
	// Host is the frontend host where the tenant's users sign in.
	Host string
	// Spec holds further members of the deployment's spec, indented by two spaces.
	Spec string
	// OpenRegistration lets clients register themselves.
	OpenRegistration bool
	// Manifests returns further resources for a namespace; nil: none.
	Manifests func(namespace string) string
}

// Declare applies a tenant's resources in a new namespace and waits until every server serves them.
func (in *Install) Declare(ctx context.Context, options TenantOptions) (*Tenant, error) {
	namespace, err := in.Cluster.Namespace(ctx)
	if err != nil {
		return nil, err
	}
	t := &Tenant{Install: in, Namespace: namespace, Host: options.Host}
	binding, err := os.ReadFile(filepath.Join(Root(), "config", "samples", "secrets_role_binding.yaml"))
	if err != nil {
		return nil, err
	}
	text := strings.Replace(string(binding), "namespace: acme", "namespace: "+namespace, 1) + "\n---\n" +
		fmt.Sprintf(tenantManifest, namespace, options.Host, in.Inbox.SMTPPort(), options.Spec, options.OpenRegistration)
	if options.Manifests != nil {
		text += "\n---\n" + options.Manifests(namespace)
	}
	if err := t.Apply(ctx, text); err != nil {
		return nil, err
	}
	return t, Until(ctx, "the deployment of "+options.Host+" is not served", func() error {
		t.Key, t.CustomerKey = in.Cluster.APIKey(ctx, namespace, "backend-key"), in.Cluster.APIKey(ctx, namespace, "customer-key")
		var secret corev1.Secret
		if err := in.Cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "service-client"}, &secret); err != nil {
			return err
		}
		t.ClientID, t.ClientSecret = string(secret.Data["client-id"]), string(secret.Data["client-secret"])
		for _, server := range in.Servers {
			if fault := errors.Join(t.Decide(server), t.Token(server)); fault != nil {
				return fault
			}
		}
		return nil
	})
}

// Apply applies manifests as the cluster's administrator.
func (t *Tenant) Apply(ctx context.Context, text string) error {
	if out, err := t.Cluster.Kubectl(ctx, text, "apply", "-f", "-"); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// SignUp creates an account for a visitor with a code sent by email.
func (t *Tenant) SignUp(person *Visitor) error {
	attempt, answer, err := person.BeginSignUp(t.Server())
	if attempt == "" {
		return Fault(answer, err)
	}
	code := person.AwaitCode(t.Inbox)
	if code == "" {
		return errors.New("no code came by mail")
	}
	answer, err = person.EndSignUp(t.Server(), attempt, code)
	return Fault(answer, err)
}

// Decide checks the customer's key as a gateway does, and fails unless the request is allowed.
func (t *Tenant) Decide(server *Cardea) error {
	answer, err := Check(server, t.Deployment(), t.CustomerKey, "20.0.0.1")
	if err == nil && answer.JSON["allowed"] != true {
		err = fmt.Errorf("%d %s", answer.Status, answer.Raw)
	}
	return err
}

// Check checks an API key as the gateway of a deployment does.
func Check(server *Cardea, deployment, key, client string) (Answer, error) {
	body := fmt.Sprintf(`{"principal": {"type": "api_key", "value": %q}, "method": "GET", "resource": "/", "client_ip": %q}`, key, client)
	return Do(http.MethodPost, server.Decision+"/deployments/"+deployment+"/v1/authz/check", "", body, [2]string{"X-Forwarded-For", client})
}

// Token gets an access token as the tenant's OAuth client, by client credentials.
func (t *Tenant) Token(server *Cardea) error {
	answer, err := t.Form(server, "/oauth/portal/token", "20.0.0.1", url.Values{
		"grant_type": {"client_credentials"}, "client_id": {t.ClientID}, "client_secret": {t.ClientSecret},
	})
	return Fault(answer, err)
}

// IssueKey creates a key for a customer, uses it and revokes it.
func (t *Tenant) IssueKey(n int) error {
	keys := t.Server().Backend + "/api-auth/apps/customers/keys"
	made, err := Do(http.MethodPost, keys, t.Key, fmt.Sprintf(`{"name": "key %d", "permissions": ["orders:read"]}`, n))
	if err := Fault(made, err); err != nil {
		return err
	}
	var issued struct {
		Key    struct{ ID string }
		Secret string
	}
	if err := json.Unmarshal(made.Raw, &issued); err != nil {
		return err
	}
	used, err := Check(t.Server(), t.Deployment(), issued.Secret, "20.0.0.1")
	if err == nil && used.JSON["allowed"] != true {
		err = fmt.Errorf("a new key is refused: %d %s", used.Status, used.Raw)
	}
	return errors.Join(err, Fault(Do(http.MethodPost, keys+"/"+issued.Key.ID+"/revoke", t.Key, `{"reason": "used"}`)))
}

// ServiceAccountToken returns a token of the namespace's default ServiceAccount that may manage the tenant's
// deployment.
func (t *Tenant) ServiceAccountToken(ctx context.Context) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: "default"}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"cardea:" + t.Namespace + ":main"}}}
	err := Until(ctx, "the ServiceAccount has no token", func() error {
		return t.Cluster.Client.SubResource("token").Create(ctx, account, request)
	})
	return request.Status.Token, err
}

// Fault returns err, or an error if the response's status is 300 or higher.
func Fault(answer Answer, err error) error {
	if err == nil && answer.Status >= 300 {
		err = fmt.Errorf("%d %.300s", answer.Status, answer.Raw)
	}
	return err
}

// Form posts a form to an OAuth endpoint of the tenant's host from a client address.
func (t *Tenant) Form(server *Cardea, path, from string, values url.Values) (Answer, error) {
	return t.Visit(server, http.MethodPost, path, from, "application/x-www-form-urlencoded", strings.NewReader(values.Encode()))
}

// Visit sends a request to the tenant's host from a client address. The response is read in full; redirects are not
// followed.
func (t *Tenant) Visit(server *Cardea, method, path, from, contentType string, body io.Reader, header ...[2]string) (answer Answer, err error) {
	req, err := http.NewRequest(method, server.Frontend+path, body)
	if err != nil {
		return answer, err
	}
	req.Host = t.Host
	req.Header.Set("X-Forwarded-For", from)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for _, line := range header {
		req.Header.Set(line[0], line[1])
	}
	resp, err := visits.Do(req)
	if err != nil {
		return answer, err
	}
	raw, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return answer, err
	}
	answer = Answer{Status: resp.StatusCode, Header: resp.Header, Raw: raw}
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		err = json.Unmarshal(raw, &answer.JSON)
	}
	return answer, err
}

var visits = &http.Client{Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
