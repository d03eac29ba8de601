package integration

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/test/testkit"
)

// catalog sets the permission catalog of the deployment acme.
func (w *world) catalog(ctx context.Context, organization, workspace []v1alpha1.CatalogPermission) {
	GinkgoHelper()
	update(ctx, testkit.Deployment(w.namespace, "acme"), func(d *v1alpha1.IdentityDeployment) {
		d.Spec.PermissionCatalog = &v1alpha1.PermissionCatalog{Organization: organization, Workspace: workspace}
	})
}

var _ = Describe("OAuth apps over HTTP", func() {
	It("archives scopes and rotates signing keys where they are declared", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(1)})
		key := w.tenant(ctx, "acme")
		w.declared(ctx, testkit.OAuthApp(w.namespace, "acme", "portal"), "slug: portal\nfqdn: "+w.namespace+".oauth.example")
		w.declared(ctx, testkit.OAuthScope(w.namespace, "portal", "read", "read"), "scope: read")
		archived := func(verb string) any {
			answer := w.ask("POST", "/oauth/apps/portal/scopes/read/"+verb, key, "")
			Expect(answer.Status).To(Equal(200), string(answer.Raw))
			Expect(answer.Header.Get("Cardea-Synced")).To(Equal("true"))
			return answer.JSON["scope_definitions"].([]any)[0].(map[string]any)["archived"]
		}
		Eventually(func() int { return w.do("PATCH", "/oauth/apps/portal/scopes/read", key, `{}`).Status }).Should(Equal(200))
		Expect(archived("archive")).To(BeTrue())
		Expect(archived("archive")).To(BeTrue(), "again")
		Expect(archived("unarchive")).To(BeFalse())

		signing := func(answer testkit.Answer) (ids []string) {
			Expect(answer.Status).To(Equal(200), string(answer.Raw))
			for _, one := range answer.JSON["keys"].([]any) {
				view := one.(map[string]any)
				Expect(view).To(HaveKeyWithValue("created_at", Not(BeNil())))
				ids = append(ids, view["kid"].(string)+" "+view["status"].(string))
			}
			return ids
		}
		const path = "/oauth/apps/portal/signing-keys"
		before := signing(w.ask("GET", path, key, ""))
		Expect(before).To(HaveLen(2))
		// Rotating within a second of the keys' creation replaces no key, so retry.
		Eventually(func() []string { return signing(w.ask("POST", path+"/rotate", key, "")) }).Should(HaveLen(4))
		after := signing(w.ask("GET", path, key, ""))
		Expect(after).To(HaveLen(4))
		for i, id := range before {
			Expect(after[i]).NotTo(Equal(id))
			Expect(after[i+2]).To(Equal(strings.Replace(id, "active", "retired", 1)))
		}
	})
})

var _ = Describe("OAuth apps and scopes", func() {
	var w *world
	var key string
	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{})
		key = w.tenant(ctx, "acme")
		w.catalog(ctx, []v1alpha1.CatalogPermission{"orders:read"}, nil)
		app := testkit.OAuthApp(w.namespace, "acme", "portal")
		create(ctx, app)
		expectReady(ctx, app)
	})

	It("serves a PATCH of any scope, sent as one encoded segment, with the whole app", func(ctx context.Context) {
		for i, scope := range []string{"read:users", "https://x/y", "a/b", "a+b", "100%", "a%2Fb"} {
			obj := testkit.OAuthScope(w.namespace, "portal", fmt.Sprintf("s%d", i), scope)
			obj.Spec.Archived = ptr.To(i%2 == 1)
			create(ctx, obj)
			expectReady(ctx, obj)
			path := "/oauth/apps/portal/scopes/" + url.PathEscape(scope)
			Eventually(func() int { return w.do("PATCH", path, key, `{}`).Status }).Should(Equal(200))
			answer := w.do("PATCH", path, key, fmt.Sprintf(`{"display_name": " Scope %d ", "description": "what it is"}`, i))
			Expect(answer.Status).To(Equal(200), string(answer.Raw))
			Expect(answer.Header.Get("Cardea-Synced")).To(Equal("true"))
			Expect(answer.JSON["supported_scopes"]).To(HaveLen(i + 1))
			Expect(answer.JSON["scope_definitions"]).To(ContainElement(And(
				HaveKeyWithValue("scope", scope), HaveKeyWithValue("display_name", fmt.Sprintf("Scope %d", i)),
				HaveKeyWithValue("description", "what it is"), HaveKeyWithValue("archived", i%2 == 1))))
		}
		id := w.deploymentID(ctx, "acme")
		answer := w.do("PATCH", "/deployments/"+id+"/oauth/apps/portal/scopes/a%2Fb", key, `{"description": ""}`)
		Expect(answer.Status).To(Equal(200))
		Expect(answer.JSON["scope_definitions"]).To(ContainElement(And(HaveKeyWithValue("scope", "a/b"), HaveKeyWithValue("description", ""))))
		Expect(w.do("PATCH", "/deployments/1/oauth/apps/portal/scopes/a%2Fb", key, `{}`).Status).To(Equal(404))
		Expect(w.do("PATCH", "/oauth/apps/portal/scopes/a%252Fb", key, `{}`).Status).To(Equal(200), "decoded once")
		Expect(w.do("PATCH", "/oauth/apps/portal/scopes/nope", key, `{}`).Status).To(Equal(404))
		Expect(w.do("PATCH", "/oauth/apps/nope/scopes/a%2Fb", key, `{}`).Status).To(Equal(404))
		for _, bad := range []string{`{"display_name": ""}`, `{"display_name": null}`, `{"description": null}`, `{"archived": true}`, `{"display_name": 1}`} {
			Expect(w.do("PATCH", "/oauth/apps/portal/scopes/a+b", key, bad).Status).To(Equal(400), bad)
		}
	})

	It("touches one resource of a hundred, and keeps two PATCHes of different fields", func(ctx context.Context) {
		for i := range 100 {
			create(ctx, testkit.OAuthScope(w.namespace, "portal", fmt.Sprintf("s%03d", i), fmt.Sprintf("scope:%03d", i)))
		}
		for i := range 100 {
			expectReady(ctx, testkit.OAuthScope(w.namespace, "portal", fmt.Sprintf("s%03d", i), ""))
		}
		Eventually(func() int {
			answer := w.do("GET", "/oauth/apps/portal", key, "")
			return len(answer.JSON["supported_scopes"].([]any))
		}).Should(Equal(100))
		var before v1alpha1.OAuthScopeList
		Expect(cluster.Client.List(ctx, &before, client.InNamespace(w.namespace))).To(Succeed())
		var group sync.WaitGroup
		for _, body := range []string{`{"display_name": "Mine"}`, `{"description": "Yours"}`} {
			group.Go(func() {
				defer GinkgoRecover()
				Expect(w.do("PATCH", "/oauth/apps/portal/scopes/scope:042", key, body).Status).To(Equal(200))
			})
		}
		group.Wait()
		var after v1alpha1.OAuthScopeList
		Expect(cluster.Client.List(ctx, &after, client.InNamespace(w.namespace))).To(Succeed())
		for i := range before.Items {
			if name := before.Items[i].Name; name == "s042" {
				Expect(after.Items[i].Spec.DisplayName).To(HaveValue(BeEquivalentTo("Mine")))
				Expect(after.Items[i].Spec.Description).To(HaveValue(BeEquivalentTo("Yours")))
			} else {
				Expect(after.Items[i].ResourceVersion).To(Equal(before.Items[i].ResourceVersion), name)
			}
		}
	})

	It("checks permissions against the catalog, also when it changes", func(ctx context.Context) {
		scope := testkit.OAuthScope(w.namespace, "portal", "s", "plans")
		scope.Spec.Category, scope.Spec.WorkspacePermission = ptr.To(v1alpha1.ScopeCategoryWorkspace), ptr.To(v1alpha1.CatalogPermission("plans:read"))
		role := testkit.Role(w.namespace, "acme", "r", v1alpha1.RoleLevelOrganization, "orders:read", "orders:write")
		create(ctx, scope, role)
		Eventually(condition(ctx, scope, v1alpha1.ConditionAccepted)).Should(Equal("False/UnknownPermission"))
		Eventually(condition(ctx, role, v1alpha1.ConditionAccepted)).Should(Equal("False/UnknownPermission"))
		Expect(lazyConditions{role}.String()).To(ContainSubstring(`"orders:write" is not in the organization permissions`))
		w.catalog(ctx, []v1alpha1.CatalogPermission{"orders:read", "orders:write"}, []v1alpha1.CatalogPermission{"plans:read"})
		expectReady(ctx, scope, role)
	})

	It("keeps an app that has scopes", func(ctx context.Context) {
		scope := testkit.OAuthScope(w.namespace, "portal", "s", "profile")
		create(ctx, scope)
		expectReady(ctx, scope)
		app := testkit.OAuthApp(w.namespace, "acme", "portal")
		Expect(cluster.Client.Delete(ctx, app)).To(Succeed())
		Eventually(condition(ctx, app, v1alpha1.ConditionDeleting)).Should(Equal("True/InUse"))
		Expect(cluster.Client.Delete(ctx, scope)).To(Succeed())
		expectGone(ctx, app)
	})
})

var _ = Describe("B2B settings", func() {
	It("are created by the first PATCH, merged by the next, and one a deployment", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{})
		key := w.tenant(ctx, "acme")
		w.catalog(ctx, []v1alpha1.CatalogPermission{"orders:read"}, nil)
		role := testkit.Role(w.namespace, "acme", "member", v1alpha1.RoleLevelOrganization, "orders:read")
		planner := testkit.Role(w.namespace, "acme", "planner", v1alpha1.RoleLevelWorkspace)
		create(ctx, role, planner)
		expectReady(ctx, role, planner)
		const path = "/settings/b2b-settings"
		absent := `{"enabled":false,"allow_workspace_creation":true,"default_workspace_limit":5,"require_org_for_signup":false,"auto_assign_org_role":null,"auto_assign_workspace_role":null}`
		Expect(w.do("GET", path, key, "").Raw).To(MatchJSON(absent))
		Expect(w.do("PATCH", path, key, `{}`).Raw).To(MatchJSON(absent))
		settings := testkit.Settings(w.namespace, "acme", "acme")
		Expect(client.IgnoreNotFound(cluster.Client.Get(ctx, client.ObjectKeyFromObject(settings), settings))).To(Succeed())
		Expect(settings.UID).To(BeEmpty(), "an empty PATCH creates nothing")

		answer := w.do("PATCH", path, key, `{"enabled": true, "default_workspace_limit": 0, "auto_assign_org_role": "`+role.Status.ID+`"}`)
		Expect(answer.Status).To(Equal(200), string(answer.Raw))
		Expect(answer.Raw).To(MatchJSON(`{"enabled":true,"allow_workspace_creation":true,"default_workspace_limit":0,"require_org_for_signup":false,"auto_assign_org_role":"` + role.Status.ID + `","auto_assign_workspace_role":null}`))
		expectReady(ctx, settings)
		Expect(settings.Labels).To(HaveKeyWithValue(v1alpha1.LabelManagedBy, v1alpha1.ManagedByHTTP))
		Expect(w.do("PATCH", "/settings/b2b", key, `{"auto_assign_org_role": null, "require_org_for_signup": true}`).JSON).To(And(
			HaveKeyWithValue("auto_assign_org_role", BeNil()), HaveKeyWithValue("require_org_for_signup", true), HaveKeyWithValue("enabled", true)))
		for _, bad := range []string{
			`{"enabled": null}`, `{"enabled": "yes"}`, `{"default_workspace_limit": -1}`, `{"default_workspace_limit": 1.5}`, `{"default_workspace_limit": "5"}`,
			`{"auto_assign_org_role": 5}`, `{"auto_assign_org_role": "1e3"}`, `{"auto_assign_org_role": "9223372036854775808"}`, `{"auto_assign_org_role": "12"}`,
			`{"auto_assign_org_role": "` + planner.Status.ID + `"}`, `{"auto_assign_workspace_role": "` + role.Status.ID + `"}`,
		} {
			refused := w.do("PATCH", path, key, bad)
			Expect(refused.Status).To(Equal(400), bad)
		}
		second := testkit.Settings(w.namespace, "acme", "second")
		create(ctx, second)
		expectReady(ctx, second) // a declared resource takes over from the resource that HTTP created
		Eventually(condition(ctx, settings, v1alpha1.ConditionAccepted)).Should(Equal("False/Superseded"))
		third := testkit.Settings(w.namespace, "acme", "third")
		create(ctx, third)
		Eventually(condition(ctx, third, v1alpha1.ConditionAccepted)).Should(Equal("False/Conflict"))
	})
})

var _ = Describe("B2B settings of two deployments", func() {
	It("stay separate, whatever the names of the resources", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{})
		key := w.tenant(ctx, "acme")
		create(ctx, testkit.Deployment(w.namespace, "sibling"))
		theirs := testkit.Settings(w.namespace, "sibling", "acme") // the name that acme's own would get
		create(ctx, theirs)
		expectReady(ctx, theirs)
		generation := theirs.Generation
		Expect(w.do("PATCH", "/settings/b2b-settings", key, `{"enabled": true}`).JSON).To(HaveKeyWithValue("enabled", true))
		Expect(w.do("GET", "/settings/b2b-settings", key, "").JSON).To(HaveKeyWithValue("enabled", true))
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(theirs), theirs)).To(Succeed())
		Expect(theirs.Generation).To(Equal(generation))
		Expect(theirs.Spec.Enabled).To(BeNil())
	})
})

var _ = Describe("AI tools and agents", func() {
	var w *world
	var key string
	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(1)})
		key = w.tenant(ctx, "acme")
	})

	It("leaves out a tool that does not exist, and lists the others in declared order", func(ctx context.Context) {
		first, second := testkit.Tool(w.namespace, "acme", "first"), testkit.Tool(w.namespace, "acme", "second")
		second.Spec.Active = ptr.To(false)
		agent := testkit.Agent(w.namespace, "acme", "agent", "second", "missing", "first")
		create(ctx, first, second, agent)
		expectReady(ctx, first, second)
		Eventually(condition(ctx, agent, v1alpha1.ConditionReferencesResolved)).Should(Equal("False/NotFound"))
		Expect(condition(ctx, agent, v1alpha1.ConditionSynced)()).To(Equal("True/Synced"))
		tools := func() []any {
			return w.do("GET", "/ai-agents", key, "").JSON["data"].([]any)[0].(map[string]any)["tools"].([]any)
		}
		Eventually(tools).Should(HaveExactElements(second.Status.ID, first.Status.ID))
		path := "/ai/agents/" + agent.Status.ID + "/tools"
		listed := w.do("GET", path, key, "")
		Expect(listed.JSON).To(And(HaveKeyWithValue("has_more", false), HaveKeyWithValue("limit", BeNil()), HaveKeyWithValue("offset", BeNil()), HaveKeyWithValue("data", HaveLen(2))))
		Expect(w.do("GET", path+"?limit=1", key, "").JSON).To(And(HaveKeyWithValue("has_more", true), HaveKeyWithValue("limit", 1.0), HaveKeyWithValue("offset", 0.0)))
		Expect(w.do("GET", path+"?offset=1", key, "").JSON).To(And(HaveKeyWithValue("has_more", false), HaveKeyWithValue("limit", 50.0), HaveKeyWithValue("data", HaveLen(1))))
		for _, bad := range []string{"?limit=0", "?limit=x", "?offset=-1"} {
			Expect(w.do("GET", path+bad, key, "").Status).To(Equal(400), bad)
		}
		for _, unknown := range []string{"/ai/agents/12/tools", "/ai/agents/abc/tools", "/ai-tools/12"} {
			Expect(w.do("GET", unknown, key, "").Status).To(Equal(404), unknown)
		}
		Expect(w.do("GET", "/ai-tools/abc", key, "").Status).To(Equal(400))
		Expect(w.do("GET", "/ai-tools/0", key, "").Status).To(Equal(400))

		missing := testkit.Tool(w.namespace, "acme", "missing")
		create(ctx, missing)
		Eventually(tools).Should(HaveLen(3))
		expectReady(ctx, agent)
		Expect(cluster.Client.Delete(ctx, missing)).To(Succeed())
		Eventually(condition(ctx, missing, v1alpha1.ConditionDeleting)).Should(Equal("True/InUse"))
		update(ctx, agent, func(a *v1alpha1.AIAgent) { a.Spec.ToolRefs = a.Spec.ToolRefs[:1] })
		expectGone(ctx, missing)
		Eventually(tools).Should(HaveExactElements(second.Status.ID))
	})

	It("pages agents, newest first, and filters the active ones", func(ctx context.Context) {
		for i := range 23 {
			agent := testkit.Agent(w.namespace, "acme", fmt.Sprintf("a%02d", i))
			agent.Spec.Active = ptr.To(i%2 == 0)
			create(ctx, agent)
		}
		list := func(query string) map[string]any { return w.do("GET", "/ai-agents"+query, key, "").JSON }
		Eventually(func() any { return list("")["total"] }).Should(Equal(23.0))
		Expect(list("")).To(And(HaveKeyWithValue("page", 1.0), HaveKeyWithValue("per_page", 20.0), HaveKeyWithValue("total_pages", 2.0), HaveKeyWithValue("data", HaveLen(20))))
		Expect(list("?page=2")).To(HaveKeyWithValue("data", HaveLen(3)))
		Expect(list("?page=9223372036854775807&per_page=100")).To(And(HaveKeyWithValue("data", BeEmpty()), HaveKeyWithValue("total", 23.0)))
		Expect(list("?per_page=500")).To(And(HaveKeyWithValue("per_page", 100.0), HaveKeyWithValue("total_pages", 1.0)))
		Expect(list("?is_active=true")).To(And(HaveKeyWithValue("total", 12.0), HaveKeyWithValue("data", HaveLen(12))))
		Expect(list("?is_active=false")).To(HaveKeyWithValue("total", 11.0))
		for _, bad := range []string{"?page=0", "?per_page=0", "?page=x", "?page=9223372036854775808", "?is_active=yes", "?page=1&page=2"} {
			Expect(w.do("GET", "/ai-agents"+bad, key, "").Status).To(Equal(400), bad)
		}
		Expect(w.do("GET", "/ai/agents?search=A0&limit=3", key, "").JSON).To(And(
			HaveKeyWithValue("total", 10.0), HaveKeyWithValue("has_more", true), HaveKeyWithValue("data", HaveLen(3))))
	})

	It("never serves a header's secret, waits for it, and names the path of a bad field", func(ctx context.Context) {
		tool := testkit.Tool(w.namespace, "acme", "t")
		tool.Spec.Headers = []v1alpha1.ToolHeader{
			{Name: "X-Plain", Value: ptr.To("seen")},
			{Name: "X-Secret", ValueFrom: &v1alpha1.HeaderValueSource{SecretKeyRef: v1alpha1.SecretKeyReference{Name: "s", Key: "token"}}},
		}
		create(ctx, tool)
		Eventually(condition(ctx, tool, v1alpha1.ConditionCredentialsReady)).Should(Equal("False/SecretNotFound"))
		create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "s"}, StringData: map[string]string{"token": "hush-canary"}})
		Eventually(condition(ctx, tool, v1alpha1.ConditionCredentialsReady)).Should(Equal("False/SecretNotShared"))
		Expect(tool.Status.ID).NotTo(BeEmpty(), "a tool is served while its Secret is not shared: earlier versions accepted such tools")
		Eventually(func() int { return w.do("GET", "/ai-tools/"+tool.Status.ID, key, "").Status }).Should(Equal(200))
		answer := w.do("GET", "/ai-tools/"+tool.Status.ID, key, "")
		Expect(answer.JSON["config"]).To(HaveKeyWithValue("headers", And(HaveKeyWithValue("X-Plain", "seen"), HaveKeyWithValue("X-Secret", "********"))))
		Expect(string(w.held(ctx, "AITool", "t").Document.Payload)).NotTo(Or(ContainSubstring("hush-canary"), ContainSubstring("sealed")))
		update(ctx, secret(w.namespace, "s", "", ""), func(s *corev1.Secret) { s.Labels = map[string]string{v1alpha1.LabelDeployment: "acme"} })
		expectReady(ctx, tool)
		Expect(string(w.held(ctx, "AITool", "t").Document.Payload)).To(And(ContainSubstring("sealed"), Not(ContainSubstring("hush-canary"))))
		answer = w.do("GET", "/ai/tools/"+tool.Status.ID, key, "")
		Expect(string(answer.Raw)).To(And(ContainSubstring("********"), Not(ContainSubstring("sealed"))))
		update(ctx, tool, func(t *v1alpha1.AITool) {
			t.Spec.RequestBodySchema = []v1alpha1.SchemaField{{Name: "a", FieldType: "OBJECT", Properties: []v1alpha1.JSON{{Raw: []byte(`{"name":"b","fieldType":"TEXT"}`)}}}}
		})
		Eventually(condition(ctx, tool, v1alpha1.ConditionAccepted)).Should(Equal("False/Invalid"))
		Expect(lazyConditions{tool}.String()).To(ContainSubstring("spec.requestBodySchema[0].properties[0].fieldType: must be one of STRING"))
		Expect(w.do("GET", "/ai/tools/"+tool.Status.ID, key, "").Status).To(Equal(200), "accepted content stays active")
	})
})

// deploymentID returns the id under which a deployment is served.
func (w *world) deploymentID(ctx context.Context, name string) string {
	GinkgoHelper()
	deployment := testkit.Deployment(w.namespace, name)
	Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
	return deployment.Status.ID
}

var _ = Describe("OAuth scopes named like a permission", func() {
	It("report it while users can grant them", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(1)})
		w.tenant(ctx, "acme")
		app := testkit.OAuthApp(w.namespace, "acme", "portal")
		alone, held := testkit.OAuthScope(w.namespace, "portal", "alone", "orders:read"), testkit.OAuthScope(w.namespace, "portal", "held", "orders:write")
		held.Spec.OrganizationPermission = ptr.To(v1alpha1.CatalogPermission("orders:write"))
		held.Spec.Category = ptr.To(v1alpha1.ScopeCategoryOrganization)
		create(ctx, app, alone)
		expectReady(ctx, app, alone)
		named := func(s *v1alpha1.OAuthScope) func() (string, error) {
			return condition(ctx, s, v1alpha1.ConditionNamedAsPermission)
		}
		Expect(named(alone)()).To(BeEmpty())
		w.catalog(ctx, []v1alpha1.CatalogPermission{"orders:read", "orders:write"}, nil)
		Eventually(named(alone)).Should(Equal("True/InCatalog"))
		expectReady(ctx, alone)
		create(ctx, held)
		expectReady(ctx, held)
		Expect(named(held)()).To(BeEmpty())
		w.catalog(ctx, []v1alpha1.CatalogPermission{"orders:write"}, nil)
		Eventually(named(alone)).Should(BeEmpty())
	})
})
