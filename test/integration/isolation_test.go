package integration

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/test/testkit"
)

// token creates a ServiceAccount and returns a token of it for an audience.
func token(ctx context.Context, namespace, name, audience string) string {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	create(ctx, account)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}, ExpirationSeconds: ptr.To[int64](3600)}}
	Expect(cluster.Client.SubResource("token").Create(ctx, account, request)).To(Succeed())
	return request.Status.Token
}

var _ = Describe("Tokens of ServiceAccounts", func() {
	It("work where they are mapped, and are 403 where they are not", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{})
		w.tenant(ctx, "acme")
		deployment := testkit.Deployment(w.namespace, "acme")
		expression := fmt.Sprintf("claims.sub == 'system:serviceaccount:%s:reader' ? ['ai_agents:read'] : []", w.namespace)
		update(ctx, deployment, func(d *v1alpha1.IdentityDeployment) {
			d.Spec.JWTIssuers = []v1alpha1.JWTIssuer{{Name: "cluster", Kubernetes: &v1alpha1.KubernetesIssuer{}, PermissionsExpression: &expression}}
		})
		expectReady(ctx, deployment)
		audience := "cardea:" + w.namespace + ":acme"
		reader := token(ctx, w.namespace, "reader", audience)
		Eventually(func() int { return w.do("GET", "/ai-agents", reader, "").Status }).Should(Equal(200))
		Expect(w.do("GET", "/ai-tools", reader, "").Status).To(Equal(403))
		Expect(w.do("GET", "/ai-agents", token(ctx, w.namespace, "stranger", audience), "").Status).To(Equal(403))
		Expect(w.do("GET", "/ai-agents", token(ctx, w.namespace, "elsewhere", "https://kubernetes.default.svc"), "").Status).To(Equal(401))

		rival := testkit.Deployment(w.namespace, "rival")
		rival.Spec.JWTIssuers = []v1alpha1.JWTIssuer{{Name: "mine", Kubernetes: &v1alpha1.KubernetesIssuer{}, Audiences: []v1alpha1.Audience{v1alpha1.Audience(audience)}, PermissionsClaim: ptr.To("scope")}}
		create(ctx, rival)
		Eventually(condition(ctx, rival, v1alpha1.ConditionAccepted)).Should(Equal("False/Invalid"))
		Expect(lazyConditions{rival}.String()).To(ContainSubstring("belongs to another deployment"))
		update(ctx, rival, func(d *v1alpha1.IdentityDeployment) { d.Spec.JWTIssuers[0].Audiences[0] = "shared.example" })
		expectReady(ctx, rival)
		third := testkit.Deployment(w.namespace, "third")
		third.Spec.JWTIssuers = rival.Spec.JWTIssuers
		create(ctx, third)
		Eventually(condition(ctx, third, v1alpha1.ConditionAccepted)).Should(Equal("False/Conflict"))

		update(ctx, deployment, func(d *v1alpha1.IdentityDeployment) { d.Spec.JWTIssuers[0].PermissionsExpression = ptr.To("claims.") })
		Eventually(condition(ctx, deployment, v1alpha1.ConditionAccepted)).Should(Equal("False/Invalid"))
		Expect(lazyConditions{deployment}.String()).To(ContainSubstring("spec.jwtIssuers[0].permissionsExpression: does not compile"))
		Expect(w.do("GET", "/ai-agents", reader, "").Status).To(Equal(200), "accepted content stays active")
	})

	It("wait for the ConfigMap that holds an issuer's keys", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{})
		deployment := testkit.Deployment(w.namespace, "acme")
		deployment.Spec.JWTIssuers = []v1alpha1.JWTIssuer{{Name: "idp", Issuer: ptr.To("https://idp.example"), PermissionsClaim: ptr.To("scope"),
			JWKSConfigMapRef: &v1alpha1.ConfigMapKeyReference{Name: "keys", Key: "jwks.json"}}}
		create(ctx, deployment)
		Eventually(condition(ctx, deployment, v1alpha1.ConditionCredentialsReady)).Should(Equal("False/ConfigMapNotFound"))
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "keys"}, Data: map[string]string{"jwks.json": `{"keys":[]}`}}
		create(ctx, configMap)
		Eventually(condition(ctx, deployment, v1alpha1.ConditionAccepted)).Should(Equal("False/Invalid"))
		update(ctx, configMap, func(c *corev1.ConfigMap) {
			c.Data["jwks.json"] = `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`
		})
		expectReady(ctx, deployment)
	})
})

// Every route is requested for objects of five places with ten credentials. Each response must keep deployments
// isolated.
var _ = Describe("The isolation matrix", func() {
	It("holds for every route, object and credential", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(1)})
		elsewhere, err := cluster.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		own := w.furnish(ctx, w.namespace, "acme")
		own.kind = "user.created" // types belong to no deployment
		places := map[string]premises{
			"own": own, "sibling": w.furnish(ctx, w.namespace, "sibling"), "foreign": w.furnish(ctx, elsewhere, "foreign"),
			"deleted": w.removed(ctx, w.furnish(ctx, elsewhere, "gone")),
			"unknown": {
				deployment: "12", slug: "unknown", scope: "unknown", template: "12", tool: "12", agent: "12", user: "12", organization: "12", key: "12", client: "12", call: "12", connection: "12", domain: "12", link: "12", directory: "12", token: "12", event: "evt_12", kind: "unknown.created", endpoint: "12", delivery: "12", replay: "12", file: strings.Repeat("0", 64),
			},
		}
		narrow := testkit.Key(w.namespace, "acme-app", "narrow", "orders:read")
		create(ctx, narrow)
		expectReady(ctx, narrow)
		expression := fmt.Sprintf("claims.sub == 'system:serviceaccount:%s:operator' ? ['*'] : []", w.namespace)
		deployment := testkit.Deployment(w.namespace, "acme")
		update(ctx, deployment, func(d *v1alpha1.IdentityDeployment) {
			d.Spec.JWTIssuers = []v1alpha1.JWTIssuer{{Name: "cluster", Kubernetes: &v1alpha1.KubernetesIssuer{}, PermissionsExpression: &expression}}
		})
		expectReady(ctx, deployment)
		jwt := token(ctx, w.namespace, "operator", "cardea:"+w.namespace+":acme")
		right := cluster.APIKey(ctx, w.namespace, "acme-key")
		w.expectAccepted(right)
		w.expectAccepted(jwt)
		expired := testkit.Key(w.namespace, "acme-app", "expired", "*")
		expired.Spec.ExpiresAt = ptr.To(metav1.Unix(1, 0))
		create(ctx, expired)
		expectReady(ctx, expired)
		deleted := testkit.Key(w.namespace, "acme-app", "deleted", "*")
		create(ctx, deleted)
		expectReady(ctx, deleted)
		deletedKey := cluster.APIKey(ctx, w.namespace, "deleted")
		w.expectAccepted(deletedKey)
		Expect(cluster.Client.Delete(ctx, deleted)).To(Succeed())
		Eventually(func() int { return w.do("GET", "/ai-agents", deletedKey, "").Status }).Should(Equal(401))
		credentials := []struct {
			name, value string
			cookie      bool
			status      int // 0: the status depends on the object
		}{
			{"no credential", "", false, 401}, {"a bad key", right[:len(right)-1] + "?", false, 401},
			{"an expired key", cluster.APIKey(ctx, w.namespace, "expired"), false, 401}, {"a deleted key", deletedKey, false, 401},
			{"a revoked key", w.revoked(right), false, 401}, {"a session cookie", right, true, 401},
			{"a session token as a key", "0123456789abcdef0123456789abcdef0123456789a", false, 401},
			{"a key without the permission", cluster.APIKey(ctx, w.namespace, "narrow"), false, 403},
			{"the right key", right, false, 0}, {"the right token", jwt, false, 0},
		}
		document, err := openapi.Load()
		Expect(err).NotTo(HaveOccurred())
		asked := 0
		for pattern, route := range document.Routes() {
			method, path, _ := strings.Cut(pattern, " ")
			changes := method == "POST" || method == "PUT" || method == "DELETE"
			for name, where := range places {
				for _, credential := range credentials {
					if credential.status == 0 && changes && (name == "own" || !strings.Contains(path, "{")) {
						continue // they change the objects under test; the management and users specs cover them
					}
					if credential.status == 0 && route.Lines {
						continue // an import's file belongs to the importer: it names no object of another deployment
					}
					body, header := "", [2]string{"X-None", ""}
					switch {
					case method == "PUT":
						body = `{"password":"a passphrase that is long enough"}`
					case strings.HasSuffix(path, "/domains"):
						body = `{"name":"added.example"}`
					case strings.HasSuffix(path, "/setup-links"):
						body = `{"email":"it@example.com","intents":["sso"]}`
					case strings.HasSuffix(path, "/clients"):
						body = clientBody
					case strings.HasSuffix(path, "/rotate-secret"), strings.HasSuffix(path, "/second-factors/reset"), strings.HasSuffix(path, "/temporary-code"), strings.HasSuffix(path, "/tokens"), strings.HasSuffix(path, "/reactivate"):
						body = "{}"
					case route.HasBody && changes:
						body = fmt.Sprintf(`{"user_id":%q}`, own.user)
					case route.HasBody:
						body = "{}"
					}
					bearer := credential.value
					if credential.cookie {
						bearer, header = "", [2]string{"Cookie", "__session=" + credential.value}
					}
					want := credential.status
					if want == 0 {
						want = 200
						if name != "own" && strings.Contains(path, "{") {
							want = 404
						}
					}
					// Each request comes from another client address, because failed attempts are throttled per client.
					client := [2]string{"X-Forwarded-For", fmt.Sprintf("203.%d.%d.1", asked/256%256, asked%256)}
					content := [2]string{"X-None", ""}
					if route.Lines {
						content = [2]string{"Content-Type", "application/x-ndjson"}
					}
					answer := w.do(method, where.fill(path)+queries[path], bearer, body, header, client, content)
					Expect(answer.Status).To(Equal(want), "%s of %s with %s: %s", pattern, name, credential.name, answer.Raw)
					for _, secret := range []string{"sibling", "foreign", elsewhere} {
						Expect(string(answer.Raw)).NotTo(ContainSubstring(secret), "%s of %s with %s", pattern, name, credential.name)
					}
					asked++
				}
			}
		}
		AddReportEntry("requests", asked)
		Expect(asked).To(BeNumerically(">", 500))
	})
})

// revoked creates a runtime key with every permission and revokes it.
func (w *world) revoked(manager string) (secret string) {
	GinkgoHelper()
	const keys = "/api-auth/apps/acme-app/keys"
	made := w.do("POST", keys, manager, `{"name":"revoked","permissions":["*"]}`)
	Expect(made.Status).To(Equal(200), string(made.Raw))
	secret, _ = made.JSON["secret"].(string)
	w.expectAccepted(secret)
	key, _ := made.JSON["key"].(map[string]any)
	Expect(w.do("POST", fmt.Sprintf("%s/%v/revoke", keys, key["id"]), manager, `{"reason":"a test"}`).Status).To(Equal(200))
	Eventually(func() int { return w.do("GET", "/ai-agents", secret, "").Status }).Should(Equal(401))
	return secret
}

// clientBody is the request body that creates a client of an OAuth app.
const clientBody = `{"client_name":"Reports","redirect_uris":["https://client.example/callback"]}`

// queries are the query strings that routes need.
var queries = map[string]string{
	"/analytics": "?from=2026-01-01T00:00:00Z&to=2026-12-31T00:00:00Z", "/analytics/export": "?from=2026-01-01T00:00:00Z&to=2026-12-31T00:00:00Z",
	"/ai/agents/{agent_id}/analytics": "?from=2026-01-01T00:00:00Z&to=2026-12-31T00:00:00Z",
}

// premises are the ids of the objects of one deployment.
type premises struct {
	namespace, name, deployment, slug, scope, template, tool, agent, user, organization, key, client, call, file, connection, domain, link, directory, token, event, kind, endpoint, delivery, replay string
}

// fill fills the parameters of a route with the premises' objects.
func (p premises) fill(path string) string {
	return strings.NewReplacer("{deployment_id}", p.deployment, "{oauth_app_slug}", p.slug, "{slug}", p.slug, "{scope}", p.scope, "{template_id}", p.template, "{tool_id}", p.tool, "{tool}", p.tool, "{agent_id}", p.agent,
		"{user_id}", p.user, "{organization_id}", p.organization, "{id}", p.key, "{oauth_client_id}", p.client, "{grant_id}", "12", "{tool_call_id}", p.call, "{file}", p.file, "{connection_id}", p.connection,
		"{domain_id}", p.domain, "{setup_link_id}", p.link, "{directory_id}", p.directory, "{token_id}", p.token, "{event_id}", p.event, "{type}", p.kind, "{endpoint_id}", p.endpoint, "{delivery_id}", p.delivery, "{task_id}", p.replay).Replace(path)
}

// furnish creates a deployment with one object of each kind.
func (w *world) furnish(ctx context.Context, namespace, name string) premises {
	GinkgoHelper()
	deployment, app := testkit.Deployment(namespace, name), testkit.App(namespace, name, name+"-app", "*")
	deployment.Spec.Connections = &v1alpha1.OrganizationConnections{}
	customers := testkit.App(namespace, name, name+"-slug")
	scheme, oauth := testkit.Scheme(namespace, name, name+"-slug"), testkit.OAuthApp(namespace, name, name+"-slug")
	scope := testkit.OAuthScope(namespace, name+"-slug", name+"-scope", name+":read")
	tool := testkit.Tool(namespace, name, name+"-tool")
	agent := testkit.Agent(namespace, name, name+"-agent", name+"-tool")
	template := &v1alpha1.JWTTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-template"}, Spec: v1alpha1.JWTTemplateSpec{DeploymentRef: v1alpha1.DeploymentReference{Name: name}}}
	settings := testkit.Settings(namespace, name, name)
	settings.Spec.Enabled = ptr.To(true)
	connection := testkit.Connection(namespace, name, name+"-slug", "https://idp.example")
	connection.Spec.Active = ptr.To(false) // so that it needs no Secret
	webhook := testkit.WebhookEndpoint(namespace, name, name+"-hook", "https://hooks.example/"+name)
	create(ctx, deployment, app, customers, testkit.Key(namespace, name+"-app", name+"-key", "*"), scheme, oauth, scope, template, tool, agent, settings, connection, webhook)
	expectReady(ctx, deployment, app, customers, scheme, oauth, scope, template, tool, agent, settings, connection, webhook)
	var key string
	Eventually(func() any {
		key = cluster.APIKey(ctx, namespace, name+"-key")
		return w.do("GET", "/settings/b2b-settings", key, "").JSON["enabled"]
	}).Should(BeTrue())
	w.lived(ctx, namespace+"/"+name, name, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	user := w.newUser(key, "ada@"+name+".example")
	created := w.do("POST", "/api-auth/apps/"+name+"-slug/keys", key, `{"name":"`+name+`"}`)
	Expect(created.Status).To(Equal(200), string(created.Raw))
	file := fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
	line := fmt.Sprintf(`{"type":"api_key","external_id":%q,"app":"%s-slug","name":"Old","sha256":%q}`, name, name, file)
	imported := w.do("POST", "/imports/"+file+"/batches?offset=0", key, line+"\n", [2]string{"Content-Type", "application/x-ndjson"})
	Expect(imported.Status).To(Equal(200), string(imported.Raw))
	client := w.do("POST", "/oauth/apps/"+name+"-slug/clients", key, clientBody)
	Expect(client.Status).To(Equal(200), string(client.Raw))
	organization := w.newOrganization(key, name, user)
	runtime := w.do("POST", "/connections", key, fmt.Sprintf(`{"type":"OIDC","organization_id":%q,"display_name":%q,"issuer":"https://idp.example"}`, organization, name))
	Expect(runtime.Status).To(Equal(200), string(runtime.Raw))
	domain := w.do("POST", "/organizations/"+organization+"/domains", key, fmt.Sprintf(`{"name":"%s.example"}`, name))
	Expect(domain.Status).To(Equal(200), string(domain.Raw))
	link := w.do("POST", "/organizations/"+organization+"/setup-links", key, `{"email":"it@example.com","intents":["sso"]}`)
	Expect(link.Status).To(Equal(200), string(link.Raw))
	directory := w.do("POST", "/directories", key, fmt.Sprintf(`{"organization_id":%q}`, organization))
	Expect(directory.Status).To(Equal(200), string(directory.Raw))
	token := w.do("POST", "/directories/"+directory.JSON["id"].(string)+"/tokens", key, "{}")
	Expect(token.Status).To(Equal(200), string(token.Raw))
	var listed testkit.Answer
	Eventually(func() []any { // events get their numbers soon after the change
		listed = w.do("GET", "/events?since=1970-01-01T00:00:00Z&types=organization.created&limit=1", key, "")
		data, _ := listed.JSON["data"].([]any)
		return data
	}).ShouldNot(BeEmpty())
	endpoint := ids.Derive(v1alpha1.KindWebhookEndpoint, namespace, name+"-hook")
	delivery, replay := w.delivered(ctx, namespace+"/"+name, endpoint)
	return premises{
		endpoint: ids.Format(endpoint), delivery: ids.Format(delivery), replay: ids.Format(replay),
		event: listed.JSON["data"].([]any)[0].(map[string]any)["id"].(string), kind: name + ".created",
		template: template.Status.ID, client: client.JSON["client_id"].(string), call: w.called(ctx, namespace+"/"+name, name, agent.Status.ID, tool.Status.ID),
		key: created.JSON["key"].(map[string]any)["id"].(string), file: file, connection: runtime.JSON["id"].(string), domain: domain.JSON["id"].(string), link: link.JSON["id"].(string),
		directory: directory.JSON["id"].(string), token: token.JSON["id"].(string),
		namespace: namespace, name: name, deployment: deployment.Status.ID, slug: name + "-slug", scope: name + ":read", tool: tool.Status.ID, agent: agent.Status.ID,
		user: user, organization: organization,
	}
}

// called records a call of a deployment's tool and an approval, and returns the call's id.
func (w *world) called(ctx context.Context, deployment, name, agent, tool string) string {
	GinkgoHelper()
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	c := people.ToolCall{
		ID: ids.From(at) + ids.Derive("ToolCall", deployment, name)%(1<<21), At: at, AgentName: name, ToolName: name, Decision: people.CallAllowed, CallResult: people.CallResult{Outcome: people.CallSucceeded},
		Caller: people.ToolCaller{Kind: people.CallerKey, ID: name},
	}
	var err error
	c.Agent, err = ids.Parse(agent)
	Expect(err).NotTo(HaveOccurred())
	c.Tool, err = ids.Parse(tool)
	Expect(err).NotTo(HaveOccurred())
	a := people.Approval{
		ID: c.ID, Agent: c.Agent, AgentName: name, Tool: c.Tool, ToolName: name, Caller: c.Caller, Digest: name, Status: people.ApprovalUsed, RequestedAt: at, EndsAt: at,
	}
	Expect(w.store.Change(ctx, deployment, func(tx people.Tx) error {
		if err := tx.Records().InsertToolCall(c); err != nil {
			return err
		}
		_, err := tx.Approvals().InsertApproval(a)
		return err
	})).To(Succeed())
	return ids.Format(c.ID)
}

// removed deletes a premises's deployment.
func (w *world) removed(ctx context.Context, p premises) premises {
	GinkgoHelper()
	deployment := testkit.Deployment(p.namespace, p.name)
	Expect(cluster.Client.Delete(ctx, deployment)).To(Succeed())
	expectGone(ctx, deployment)
	return p
}

// delivered writes a delivery and a replay of a webhook endpoint, and returns their ids.
func (w *world) delivered(ctx context.Context, deployment string, endpoint int64) (delivery, replay int64) {
	GinkgoHelper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	delivery, replay = ids.From(now)|endpoint&0xffff|1<<20, ids.From(now)|endpoint&0xffff|1<<19
	Expect(w.store.Change(ctx, deployment, func(tx people.Tx) error {
		if _, err := tx.Webhooks().InsertWebhookState(people.WebhookState{Endpoint: endpoint}); err != nil {
			return err
		}
		if _, err := tx.Webhooks().InsertReplay(people.WebhookReplay{ID: replay, Endpoint: endpoint, Status: people.ReplayCompleted, Selection: "{}", CreatedAt: now, CompletedAt: now}); err != nil {
			return err
		}
		return tx.Webhooks().InsertDeliveries([]people.WebhookDelivery{{ID: delivery, Endpoint: endpoint, Event: 1, Type: "user.created", Status: people.DeliveryFailed, CreatedAt: now, SettledAt: now}})
	})).To(Succeed())
	return delivery, replay
}
