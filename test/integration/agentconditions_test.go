package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/test/testkit"
)

var _ = Describe("The conditions of agents and tools", func() {
	It("say why a tool cannot be called, while the tool is served", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{})
		key := w.tenant(ctx, "acme")
		tool := testkit.Tool(w.namespace, "acme", "find")
		create(ctx, tool)
		callable := condition(ctx, tool, v1alpha1.ConditionCallable)
		change := func(how func(*v1alpha1.AIToolSpec)) {
			GinkgoHelper()
			update(ctx, tool, func(t *v1alpha1.AITool) { how(&t.Spec) })
		}
		Eventually(callable).Should(Equal("False/NoEndpoint"))
		change(func(s *v1alpha1.AIToolSpec) { s.Endpoint = ptr.To(v1alpha1.URL("https://api.acme.example/{number}")) })
		Eventually(callable).Should(Equal("False/Invalid"))
		Expect(lazyConditions{tool}.String()).To(ContainSubstring("spec.endpoint: the placeholder {number} is no parameter"))
		expectReady(ctx, tool)
		Eventually(func() int { return w.do("GET", "/ai/tools/"+tool.Status.ID, key, "").Status }).Should(Equal(200), "it is served")
		change(func(s *v1alpha1.AIToolSpec) {
			s.URLParamsSchema = []v1alpha1.SchemaField{{Name: "number", FieldType: v1alpha1.FieldTypeString, Required: ptr.To(true)}}
		})
		Eventually(callable).Should(Equal("True/Callable"))
		change(func(s *v1alpha1.AIToolSpec) { s.Active = ptr.To(false) })
		Eventually(callable).Should(Equal("False/Inactive"))
		change(func(s *v1alpha1.AIToolSpec) { s.Active, s.Type = nil, v1alpha1.AIToolTypeFunction })
		Eventually(callable).Should(Equal("False/NoFrontendHost"))
		change(func(s *v1alpha1.AIToolSpec) {
			s.Type, s.Authorization = v1alpha1.AIToolTypeAPI, &v1alpha1.ToolAuthorization{JWTTemplateID: ptr.To("of-the-application")}
		})
		Eventually(callable).Should(Equal("False/NotPerformed"))
	})

	It("say where an agent is served, and why it is not", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(1)})
		w.tenant(ctx, "acme")
		host := w.namespace + ".app.example"
		agent := testkit.Agent(w.namespace, "acme", "support", "find", "find-2")
		agent.Spec.Access = &v1alpha1.AgentAccess{OAuthAppRef: &v1alpha1.OAuthAppReference{Name: "agents"}}
		create(ctx, agent)
		served := condition(ctx, agent, v1alpha1.ConditionServed)
		Eventually(served).Should(Equal("False/NoFrontendHost"))
		Expect(agent.Status.MCPURL).To(BeEmpty())

		update(ctx, testkit.Deployment(w.namespace, "acme"), func(d *v1alpha1.IdentityDeployment) {
			d.Spec.FrontendHosts = []v1alpha1.Hostname{v1alpha1.Hostname(host)}
		})
		Eventually(served).Should(Equal("False/AppNotReady"))
		Expect(agent.Status.MCPURL).To(Equal("https://" + host + "/mcp/support"))
		create(ctx, testkit.OAuthApp(w.namespace, "acme", "agents"))
		Eventually(served).Should(Equal("True/Serving"))

		first, second := testkit.Tool(w.namespace, "acme", "find"), testkit.Tool(w.namespace, "acme", "find-2")
		second.Spec.ToolName = ptr.To("find")
		create(ctx, first, second)
		Eventually(served).Should(Equal("False/DuplicateToolName"))
		Expect(lazyConditions{agent}.String()).To(ContainSubstring(`AITools "find" and "find-2" have the name "find" for models`))
		update(ctx, second, func(t *v1alpha1.AITool) { t.Spec.ToolName = nil })
		Eventually(served).Should(Equal("True/Serving"))
		update(ctx, agent, func(a *v1alpha1.AIAgent) { a.Spec.Active = ptr.To(false) })
		Eventually(served).Should(Equal("False/Inactive"))
	})

	It("refuse an app and schemes of another deployment", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(1)})
		w.tenant(ctx, "acme")
		w.tenant(ctx, "other")
		app := testkit.OAuthApp(w.namespace, "other", "agents")
		scheme := testkit.Scheme(w.namespace, "other", "calls")
		create(ctx, app, scheme)
		agent := testkit.Agent(w.namespace, "acme", "support")
		agent.Spec.Access = &v1alpha1.AgentAccess{OAuthAppRef: &v1alpha1.OAuthAppReference{Name: "agents"}}
		tool := testkit.Tool(w.namespace, "acme", "find")
		tool.Spec.RateLimitSchemeRef = &v1alpha1.RateLimitSchemeReference{Name: "calls"}
		limited := testkit.Agent(w.namespace, "acme", "limited")
		limited.Spec.RateLimitSchemeRef = tool.Spec.RateLimitSchemeRef
		create(ctx, agent, tool, limited)
		for _, object := range []v1alpha1.Resource{agent, tool, limited} {
			Eventually(condition(ctx, object, v1alpha1.ConditionAccepted)).Should(Equal("False/Invalid"), object.GetName())
		}
	})

	It("refuse templates whose tokens Cardea would accept, and protect a template in use", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{})
		key := w.tenant(ctx, "acme")
		host := w.namespace + ".app.example"
		update(ctx, testkit.Deployment(w.namespace, "acme"), func(d *v1alpha1.IdentityDeployment) {
			d.Spec.FrontendHosts = []v1alpha1.Hostname{v1alpha1.Hostname(host)}
		})
		template := &v1alpha1.JWTTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "orders"}}
		template.Spec.DeploymentRef.Name = "acme"
		template.Spec.Claims = []v1alpha1.TemplateClaim{{Name: "mail", Expression: ptr.To("user.email")}}
		tool := testkit.Tool(w.namespace, "acme", "find")
		tool.Spec.Endpoint = ptr.To(v1alpha1.URL("https://api.acme.example"))
		tool.Spec.Authorization = &v1alpha1.ToolAuthorization{JWTTemplateRef: &v1alpha1.JWTTemplateReference{Name: "orders"}}
		create(ctx, tool)
		Eventually(condition(ctx, tool, v1alpha1.ConditionReferencesResolved)).Should(HavePrefix("False/"))
		create(ctx, template)
		expectReady(ctx, template, tool)
		Eventually(condition(ctx, tool, v1alpha1.ConditionCallable)).Should(Equal("True/Callable"))
		Eventually(func() any { return w.do("GET", "/jwt-templates/"+template.Status.ID, key, "").JSON["template"] }).Should(Equal(map[string]any{"mail": map[string]any{"expression": "user.email"}}))

		accepted := condition(ctx, template, v1alpha1.ConditionAccepted)
		for _, audience := range []string{"cardea:" + w.namespace + ":acme", "https://" + host + "/mcp/support"} {
			update(ctx, template, func(t *v1alpha1.JWTTemplate) { t.Spec.Audiences = []string{audience} })
			Eventually(accepted).Should(Equal("False/Invalid"), audience)
			Expect(lazyConditions{template}.String()).To(ContainSubstring("audiences[0]"))
			update(ctx, template, func(t *v1alpha1.JWTTemplate) { t.Spec.Audiences = nil })
			Eventually(accepted).Should(Equal("True/Accepted"))
		}
		update(ctx, template, func(t *v1alpha1.JWTTemplate) { t.Spec.Claims[0].Expression = ptr.To("user.") })
		Eventually(accepted).Should(Equal("False/Invalid"))
		Expect(lazyConditions{template}.String()).To(ContainSubstring("spec.claims[0].expression: does not compile"))

		Expect(cluster.Client.Delete(ctx, template)).To(Succeed())
		Eventually(condition(ctx, template, v1alpha1.ConditionDeleting)).Should(HavePrefix("True/"), "the tool uses it")
		Expect(cluster.Client.Delete(ctx, tool)).To(Succeed())
		Eventually(func() bool {
			return apierrors.IsNotFound(cluster.Client.Get(ctx, client.ObjectKeyFromObject(template), template))
		}).Should(BeTrue())
	})
})
