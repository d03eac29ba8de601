package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/test/testkit"
)

// contract states sections 2.1 to 2.7 and 2.11 of the interface exactly: the members of each object and their forms.
// "or none" marks numbers that are left out when they are not set (decisions.md 1); every other member is always
// present.
var contract = map[string]map[string]string{
	// 2.1
	"OAuth app": {
		"id": "string", "slug": "string", "name": "string", "description": "string", "logo_url": "string", "fqdn": "string",
		"supported_scopes": "array of string", "scope_definitions": "array of scope definition",
		"allow_dynamic_client_registration": "boolean", "is_active": "boolean", "created_at": "date-time", "updated_at": "date-time",
	},
	"scope definition": {
		"scope": "string", "display_name": "string", "description": "string", "archived": "boolean", "category": "string",
		"organization_permission": "string", "workspace_permission": "string",
	},
	// 2.2, with the members that recent entries carry for published clients (decisions.md 9)
	"analytics summary": {
		"unique_signins": "integer", "signups": "integer", "organizations_created": "integer", "workspaces_created": "integer", "total_signups": "integer",
		"unique_signins_change": "number or null", "signups_change": "number or null", "organizations_created_change": "number or null",
		"workspaces_created_change": "number or null", "daily_metrics": "array of daily metric", "recent_signups": "array of recent sign-up",
		"recent_signins": "array of recent sign-in",
	},
	"daily metric": {"day": "date", "signins": "integer", "signups": "integer"},
	"recent sign-up": {
		"user_id": "i64", "email": "string", "first_name": "string", "last_name": "string", "signed_up_at": "date-time", "method": "string",
		"name": "string", "date": "date-time",
	},
	"recent sign-in": {
		"user_id": "i64", "user_email": "string", "signed_in_at": "date-time", "method": "string", "ip_address": "string", "user_agent": "string",
		"email": "string", "name": "string", "date": "date-time",
	},
	// 2.3
	"AI tool": {
		"id": "i64", "name": "string", "description": "string", "type": "api, function or webhook", "config": "tool config",
		"is_active": "boolean", "created_at": "date-time", "updated_at": "date-time",
	},
	"tool config":    {"endpoint": "string", "method": "string", "headers": "object of string", "parameters": "array of tool parameter"},
	"tool parameter": {"name": "string", "type": "string", "required": "boolean"},
	// 2.4
	"AI agent": {
		"id": "string", "name": "string", "description": "string", "model": "string", "system_prompt": "string",
		"temperature": "number or none", "max_tokens": "integer or none", "tools": "array of string", "knowledge_bases": "array of string",
		"is_active": "boolean", "created_at": "date-time", "updated_at": "date-time",
	},
	// 2.5
	"agent tool": {
		"id": "string", "created_at": "date-time", "updated_at": "date-time", "name": "string", "description": "string", "tool_type": "string",
		"deployment_id": "string", "requires_user_approval": "boolean", "configuration": "tool configuration",
	},
	"tool configuration": {
		"type": "string", "endpoint": "string", "method": "string", "authorization": "tool authorization",
		"request_body_schema": "array of schema field", "url_params_schema": "array of schema field", "timeout_seconds": "integer",
	},
	"tool authorization": {"authorize_as_user": "boolean", "jwt_template_id": "string", "custom_headers": "array of schema field"},
	"schema field": {
		"name": "string", "field_type": "string", "required": "boolean", "title": "string", "description": "string", "enum_values": "array of any",
		"format": "string", "minimum": "number or none", "maximum": "number or none", "items_type": "string", "items_schema": "schema field or null",
		"min_items": "integer or none", "max_items": "integer or none", "properties": "array of schema field",
	},
	// 2.6
	"B2B settings": {
		"enabled": "boolean", "allow_workspace_creation": "boolean", "default_workspace_limit": "integer", "require_org_for_signup": "boolean",
		"auto_assign_org_role": "i64 or null", "auto_assign_workspace_role": "i64 or null",
	},
	// 2.7
	"rate-limit scheme": {
		"deployment_id": "string", "slug": "string", "name": "string", "description": "string or null", "rules": "array of rate-limit rule",
		"created_at": "date-time", "updated_at": "date-time",
	},
	"rate-limit rule": {
		"unit": "string", "duration": "integer", "max_requests": "integer", "mode": "string", "endpoints": "array of string", "priority": "integer",
	},
	// 2.11
	"AI agent list":    {"total": "integer", "page": "integer", "per_page": "integer", "total_pages": "integer", "data": "array of AI agent"},
	"agent tools list": {"data": "array of agent tool", "has_more": "boolean", "limit": "integer or null", "offset": "integer or null"},
}

// scalars maps each scalar form to the pattern of its JSON text.
var scalars = map[string]string{
	"string": `".*"`, "boolean": `true|false`, "integer": `-?(0|[1-9][0-9]*)`, "number": `-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?`,
	"date": `"\d{4}-\d\d-\d\d"`, "i64": `"[1-9][0-9]{0,18}"`, "date-time": `"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"`, "api, function or webhook": `"(api|function|webhook)"`, "any": `.*`,
}

// expectForm checks a value, and recursively all values in it, against a form of the contract. An object must have
// exactly the form's members.
func expectForm(at, form string, raw json.RawMessage) {
	GinkgoHelper()
	form = strings.TrimSuffix(form, " or none")
	if nullable, ok := strings.CutSuffix(form, " or null"); ok {
		if form = nullable; string(raw) == "null" {
			return
		}
	}
	if element, ok := strings.CutPrefix(form, "array of "); ok {
		var elements []json.RawMessage
		Expect(json.Unmarshal(raw, &elements)).To(Succeed(), "%s: %s", at, raw)
		Expect(elements).NotTo(BeNil(), "%s is null, not a list", at)
		for i, value := range elements {
			expectForm(fmt.Sprintf("%s[%d]", at, i), element, value)
		}
		return
	}
	if scalar, ok := scalars[form]; ok {
		Expect(string(raw)).To(MatchRegexp("(?s)^("+scalar+")$"), at)
		return
	}
	var members map[string]json.RawMessage
	Expect(json.Unmarshal(raw, &members)).To(Succeed(), "%s: %s", at, raw)
	Expect(members).NotTo(BeNil(), "%s is null, not an object", at)
	fields, documented := contract[form]
	if !documented { // an object of free members
		for name, value := range members {
			expectForm(at+"."+name, strings.TrimPrefix(form, "object of "), value)
		}
		return
	}
	for name, value := range members {
		Expect(fields).To(HaveKey(name), "%s has a member that the contract does not know: %s", at, name)
		expectForm(at+"."+name, fields[name], value)
	}
	for name, of := range fields {
		if !strings.HasSuffix(of, " or none") {
			Expect(members).To(HaveKey(name), at)
		}
	}
}

// expectAnswer checks a response against a form of the contract and against the values that the test knows.
func expectAnswer(answer testkit.Answer, form, values string) {
	GinkgoHelper()
	Expect(answer.Status).To(Equal(200), string(answer.Raw))
	expectForm(form, form, answer.Raw)
	expectValues(answer.JSON, values)
}

// expectValues compares an object with JSON, without the members that the server chooses.
func expectValues(object any, values string) {
	GinkgoHelper()
	known := maps.Clone(object.(map[string]any))
	maps.DeleteFunc(known, func(name string, _ any) bool {
		return slices.Contains([]string{"id", "deployment_id", "created_at", "updated_at"}, name)
	})
	Expect(compact(known)).To(MatchJSON(values))
}

// declared creates a resource of deployment acme from YAML and waits until it is active.
func (w *world) declared(ctx context.Context, obj v1alpha1.Resource, overlay string) {
	GinkgoHelper()
	gvk, err := cluster.Client.GroupVersionKindFor(obj)
	Expect(err).NotTo(HaveOccurred())
	create(ctx, declare(gvk.Kind, w.namespace, obj.GetName(), overlay))
	expectReady(ctx, obj)
}

// expectServedMeta checks the id and the creation time of an object against its resource.
func expectServedMeta(object any, obj v1alpha1.Resource) {
	GinkgoHelper()
	Expect(object).To(And(HaveKeyWithValue("id", obj.CommonStatus().ID),
		HaveKeyWithValue("created_at", obj.GetCreationTimestamp().UTC().Format(time.RFC3339))))
}

var _ = Describe("The contract", Ordered, ContinueOnFailure, func() {
	var w *world
	var key, jwt, deploymentID string
	BeforeAll(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(1)})
		key = w.tenant(ctx, "acme")
		w.catalog(ctx, []v1alpha1.CatalogPermission{"orders:read"}, []v1alpha1.CatalogPermission{"plans:read"})
		deployment := testkit.Deployment(w.namespace, "acme")
		update(ctx, deployment, func(d *v1alpha1.IdentityDeployment) {
			expression := "['*']"
			d.Spec.JWTIssuers = []v1alpha1.JWTIssuer{{Name: "cluster", Kubernetes: &v1alpha1.KubernetesIssuer{}, PermissionsExpression: &expression}}
		})
		expectReady(ctx, deployment)
		deploymentID = deployment.Status.ID
		jwt = token(ctx, w.namespace, "backend", "cardea:"+w.namespace+":acme")
		w.expectAccepted(jwt)
	})
	// served retries until the server serves what the test just declared, then returns the documented response.
	served := func(path, credential string) testkit.Answer {
		GinkgoHelper()
		Eventually(func() int { return w.do("GET", path, credential, "").Status }).Should(Equal(200), path)
		return w.ask("GET", path, credential, "")
	}

	It("4.1: the update of a scope answers with the whole app", func(ctx context.Context) {
		app := testkit.OAuthApp(w.namespace, "acme", "portal")
		w.declared(ctx, app, "slug: portal\ndisplayName: Customer portal\ndescription: |-\n  Two\n  lines\nlogoURL: https://cdn.example/logo.png\nfqdn: portal.example.com\nallowDynamicClientRegistration: true\nactive: false")
		w.declared(ctx, testkit.OAuthScope(w.namespace, "portal", "a", "a:orders"), "scope: a:orders\narchived: true\ncategory: organization\norganizationPermission: orders:read")
		w.declared(ctx, testkit.OAuthScope(w.namespace, "portal", "b", "b:plans"), "scope: b:plans\ncategory: workspace\nworkspacePermission: plans:read")
		w.declared(ctx, testkit.OAuthScope(w.namespace, "portal", "c", "c"), "scope: c")
		Eventually(func() any { return w.do("GET", "/oauth/apps/portal", key, "").JSON["supported_scopes"] }).Should(HaveLen(3))
		answer := w.ask("PATCH", "/deployments/"+deploymentID+"/oauth/apps/portal/scopes/a%3Aorders", key, `{"display_name":"Your orders","description":"All of them"}`)
		expectAnswer(answer, "OAuth app", `{"slug":"portal","name":"Customer portal","description":"Two\nlines","logo_url":"https://cdn.example/logo.png","fqdn":"portal.example.com",
			"allow_dynamic_client_registration":true,"is_active":false,"supported_scopes":["a:orders","b:plans","c"],"scope_definitions":[
			{"scope":"a:orders","display_name":"Your orders","description":"All of them","archived":true,"category":"organization","organization_permission":"orders:read","workspace_permission":""},
			{"scope":"b:plans","display_name":"b:plans","description":"","archived":false,"category":"workspace","organization_permission":"","workspace_permission":"plans:read"},
			{"scope":"c","display_name":"c","description":"","archived":false,"category":"","organization_permission":"","workspace_permission":""}]}`)
		expectServedMeta(answer.JSON, app)

		create(ctx, declare(v1alpha1.KindOAuthApp, w.namespace, "bare", "slug: bare"))
		w.declared(ctx, testkit.OAuthScope(w.namespace, "bare", "bare", "x"), "scope: x\noauthAppRef: {name: bare}")
		Eventually(func() int { return w.do("PATCH", "/oauth/apps/bare/scopes/x", key, `{}`).Status }).Should(Equal(200))
		expectAnswer(w.ask("PATCH", "/oauth/apps/bare/scopes/x", key, `{"description":""}`), "OAuth app",
			`{"slug":"bare","name":"bare","description":"","logo_url":"","fqdn":"","allow_dynamic_client_registration":false,"is_active":true,"supported_scopes":["x"],
			"scope_definitions":[{"scope":"x","display_name":"x","description":"","archived":false,"category":"","organization_permission":"","workspace_permission":""}]}`)
		served("/oauth/apps", key)
	})

	It("4.2: the summary of a period", func(ctx context.Context) {
		const path = "/analytics?from=2026-03-01T00:00:00Z&to=2026-03-03T00:00:00Z"
		expectAnswer(w.ask("GET", path, key, ""), "analytics summary", `{"unique_signins":0,"signups":0,"organizations_created":0,"workspaces_created":0,"total_signups":0,
			"unique_signins_change":null,"signups_change":null,"organizations_created_change":null,"workspaces_created_change":null,
			"daily_metrics":[{"day":"2026-03-01","signins":0,"signups":0},{"day":"2026-03-02","signins":0,"signups":0}],"recent_signups":[],"recent_signins":[]}`)
		w.lived(ctx, w.namespace+"/acme", "Ada", time.Date(2026, 3, 2, 9, 30, 0, 123456000, time.UTC))
		expectAnswer(w.ask("GET", path, key, ""), "analytics summary", `{"unique_signins":1,"signups":1,"organizations_created":1,"workspaces_created":1,"total_signups":1,
			"unique_signins_change":null,"signups_change":null,"organizations_created_change":null,"workspaces_created_change":null,
			"daily_metrics":[{"day":"2026-03-01","signins":0,"signups":0},{"day":"2026-03-02","signins":1,"signups":1}],
			"recent_signups":[{"user_id":"1","email":"Ada@Example.com","first_name":"Ada","last_name":"Person","signed_up_at":"2026-03-02T09:30:00.123456Z","method":"password",
				"name":"Ada Person","date":"2026-03-02T09:30:00.123456Z"}],
			"recent_signins":[{"user_id":"1","user_email":"Ada@Example.com","signed_in_at":"2026-03-02T09:30:00.123456Z","method":"password","ip_address":"192.0.2.1","user_agent":"agent/1",
				"email":"Ada@Example.com","name":"Ada Person","date":"2026-03-02T09:30:00.123456Z"}]}`)
	})

	const wholeField = `{name: when, fieldType: ARRAY, required: true, title: When, description: The days, enumValues: [a, 1, null, {b: 2.5}], format: date, minimum: -1.5, maximum: 20,
		itemsType: OBJECT, itemsSchema: {fieldType: OBJECT, properties: [{name: day, fieldType: STRING}]}, minItems: 0, maxItems: 3, properties: [{name: p, fieldType: BOOLEAN}]}`
	absentField := func(name, fieldType, properties string) string {
		return fmt.Sprintf(`{"name":%q,"field_type":%q,"required":false,"title":"","description":"","enum_values":[],"format":"","items_type":"","items_schema":null,"properties":[%s]}`, name, fieldType, properties)
	}
	wholeFieldServed := `{"name":"when","field_type":"ARRAY","required":true,"title":"When","description":"The days","enum_values":["a",1,null,{"b":2.5}],"format":"date","minimum":-1.5,"maximum":20,
		"items_type":"OBJECT","items_schema":` + absentField("", "OBJECT", absentField("day", "STRING", "")) + `,"min_items":0,"max_items":3,"properties":[` + absentField("p", "BOOLEAN", "") + `]}`

	It("4.3, 4.4 and 4.5: tools and agents, with every field and with the fewest", func(ctx context.Context) {
		create(ctx, secret(w.namespace, "upstream", "token", "hush"))
		whole, bare := testkit.Tool(w.namespace, "acme", "whole"), testkit.Tool(w.namespace, "acme", "bare")
		w.declared(ctx, whole, `{type: Webhook, displayName: Book, description: Books a visit, active: false, requiresUserApproval: true, endpoint: "https://api.example/visits", method: POST, timeoutSeconds: 600,
			headers: [{name: X-Plain, value: seen}, {name: X-Secret, valueFrom: {secretKeyRef: {name: upstream, key: token}}}],
			parameters: [{name: day, type: string, required: true}, {name: note, type: string}],
			authorization: {authorizeAsUser: true, jwtTemplateID: tpl_1, customHeaders: [`+wholeField+`]}, requestBodySchema: [`+wholeField+`, {name: count, fieldType: INTEGER}], urlParamsSchema: [`+wholeField+`]}`)
		w.declared(ctx, bare, `{}`)
		agent, idle := testkit.Agent(w.namespace, "acme", "agent"), testkit.Agent(w.namespace, "acme", "idle")
		w.declared(ctx, agent, `{displayName: Planner, description: Plans visits, model: vendor/large-2, systemPrompt: "Be brief.\nBe kind.", temperature: "0.70", maxTokens: 2147483647,
			toolRefs: [{name: whole}, {name: bare}], knowledgeBases: [kb_2, kb_1], active: false}`)
		w.declared(ctx, idle, `{}`)

		answer := served("/ai-tools/"+whole.Status.ID, jwt)
		expectAnswer(answer, "AI tool", `{"name":"Book","description":"Books a visit","type":"webhook","is_active":false,"config":{"endpoint":"https://api.example/visits","method":"POST",
			"headers":{"X-Plain":"seen","X-Secret":"********"},"parameters":[{"name":"day","type":"string","required":true},{"name":"note","type":"string","required":false}]}}`)
		expectServedMeta(answer.JSON, whole)
		answer = served("/ai-tools/"+bare.Status.ID, jwt)
		expectAnswer(answer, "AI tool", `{"name":"bare","description":"","type":"api","is_active":true,"config":{"endpoint":"","method":"GET","headers":{},"parameters":[]}}`)
		expectServedMeta(answer.JSON, bare)

		Eventually(func() any { return w.do("GET", "/ai-agents", jwt, "").JSON["total"] }).Should(Equal(2.0))
		answer = w.ask("GET", "/ai-agents?is_active=false", jwt, "")
		expectForm("AI agent list", "AI agent list", answer.Raw)
		Expect(answer.JSON).To(And(HaveKeyWithValue("total", 1.0), HaveKeyWithValue("page", 1.0), HaveKeyWithValue("per_page", 20.0), HaveKeyWithValue("total_pages", 1.0)))
		planner := answer.JSON["data"].([]any)[0]
		expectServedMeta(planner, agent)
		expectValues(planner, `{"name":"Planner","description":"Plans visits","model":"vendor/large-2","system_prompt":"Be brief.\nBe kind.","temperature":0.7,"max_tokens":2147483647,
			"tools":["`+whole.Status.ID+`","`+bare.Status.ID+`"],"knowledge_bases":["kb_2","kb_1"],"is_active":false}`)
		answer = w.ask("GET", "/ai-agents?is_active=true&page=1&per_page=1", jwt, "")
		expectForm("AI agent list", "AI agent list", answer.Raw)
		expectValues(answer.JSON["data"].([]any)[0], `{"name":"idle","description":"","model":"","system_prompt":"","tools":[],"knowledge_bases":[],"is_active":true}`)
		expectAnswer(w.ask("GET", "/ai-agents?page=2&per_page=100", jwt, ""), "AI agent list", `{"total":2,"page":2,"per_page":100,"total_pages":1,"data":[]}`)

		answer = w.ask("GET", "/ai/agents/"+agent.Status.ID+"/tools", key, "")
		expectForm("agent tools list", "agent tools list", answer.Raw)
		Expect(answer.JSON).To(And(HaveKeyWithValue("has_more", false), HaveKeyWithValue("limit", BeNil()), HaveKeyWithValue("offset", BeNil()), HaveKeyWithValue("data", HaveLen(2))))
		for i, want := range []struct {
			tool   v1alpha1.Resource
			values string
		}{
			{whole, `{"name":"Book","description":"Books a visit","tool_type":"webhook","requires_user_approval":true,"configuration":{"type":"webhook","endpoint":"https://api.example/visits","method":"POST",
				"timeout_seconds":600,"authorization":{"authorize_as_user":true,"jwt_template_id":"tpl_1","custom_headers":[` + wholeFieldServed + `]},
				"request_body_schema":[` + wholeFieldServed + `,` + absentField("count", "INTEGER", "") + `],"url_params_schema":[` + wholeFieldServed + `]}}`},
			{bare, `{"name":"bare","description":"","tool_type":"api","requires_user_approval":false,"configuration":{"type":"api","endpoint":"","method":"GET","timeout_seconds":30,
				"authorization":{"authorize_as_user":false,"jwt_template_id":"","custom_headers":[]},"request_body_schema":[],"url_params_schema":[]}}`},
		} {
			element := answer.JSON["data"].([]any)[i]
			expectServedMeta(element, want.tool)
			Expect(element).To(HaveKeyWithValue("deployment_id", deploymentID))
			expectValues(element, want.values)
		}
		answer = w.ask("GET", "/ai/agents/"+agent.Status.ID+"/tools?limit=1&offset=0", key, "")
		expectForm("agent tools list", "agent tools list", answer.Raw)
		Expect(answer.JSON).To(And(HaveKeyWithValue("has_more", true), HaveKeyWithValue("limit", 1.0), HaveKeyWithValue("offset", 0.0), HaveKeyWithValue("data", HaveLen(1))))
		expectAnswer(w.ask("GET", "/ai/agents/"+idle.Status.ID+"/tools", key, ""), "agent tools list", `{"data":[],"has_more":false,"limit":null,"offset":null}`)
		for _, path := range []string{"/ai-tools", "/ai/tools", "/ai/tools/" + whole.Status.ID, "/ai/agents"} {
			served(path, key)
		}
	})

	It("4.6: the settings of a deployment", func(ctx context.Context) {
		const path = "/settings/b2b-settings"
		organization, workspace := testkit.Role(w.namespace, "acme", "member", v1alpha1.RoleLevelOrganization), testkit.Role(w.namespace, "acme", "planner", v1alpha1.RoleLevelWorkspace)
		create(ctx, organization, workspace)
		expectReady(ctx, organization, workspace)
		absent := `{"enabled":false,"allow_workspace_creation":true,"default_workspace_limit":5,"require_org_for_signup":false,"auto_assign_org_role":null,"auto_assign_workspace_role":null}`
		expectAnswer(w.ask("PATCH", path, jwt, `{}`), "B2B settings", absent)
		whole := `{"enabled":true,"allow_workspace_creation":false,"default_workspace_limit":2147483647,"require_org_for_signup":true,"auto_assign_org_role":"` + organization.Status.ID + `","auto_assign_workspace_role":"` + workspace.Status.ID + `"}`
		Eventually(func() int { return w.do("PATCH", path, jwt, whole).Status }).Should(Equal(200))
		expectAnswer(w.ask("PATCH", path, jwt, whole), "B2B settings", whole)
		expectAnswer(w.ask("PATCH", path, jwt, `{"auto_assign_org_role":null,"default_workspace_limit":0}`), "B2B settings",
			`{"enabled":true,"allow_workspace_creation":false,"default_workspace_limit":0,"require_org_for_signup":true,"auto_assign_org_role":null,"auto_assign_workspace_role":"`+workspace.Status.ID+`"}`)
		expectAnswer(w.ask("PATCH", path, jwt, absent), "B2B settings", absent)
		Expect(cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "acme"}, &v1alpha1.B2BSettings{})).To(Succeed())
	})

	It("4.7 and 4.8: rate-limit schemes", func() {
		rules := `[{"unit":"calendar_day","duration":1,"max_requests":2147483647,"mode":"per_app_and_ip","endpoints":["POST /v1/*","/v1/things"],"priority":-2147483648}]`
		answer := w.ask("POST", schemesPath, key, `{"slug":"gold","name":"Gold","description":"With a contract","rules":`+rules+`}`)
		expectAnswer(answer, "rate-limit scheme", `{"slug":"gold","name":"Gold","description":"With a contract","rules":`+rules+`}`)
		Expect(answer.JSON).To(HaveKeyWithValue("deployment_id", deploymentID))
		expectAnswer(w.ask("POST", schemesPath, key, free("least", "")), "rate-limit scheme",
			`{"slug":"least","name":"Free","description":null,"rules":[{"unit":"minute","duration":1,"max_requests":60,"mode":"per_key","endpoints":["*"],"priority":0}]}`)
		expectAnswer(w.ask("PATCH", schemesPath+"/gold", key, `{"name":"Gold 2","description":null}`), "rate-limit scheme", `{"slug":"gold","name":"Gold 2","description":null,"rules":`+rules+`}`)
		expectAnswer(w.ask("PATCH", schemesPath+"/least", key, `{"description":"","rules":`+rules+`}`), "rate-limit scheme", `{"slug":"least","name":"Free","description":"","rules":`+rules+`}`)
	})
})

// secret returns a Secret with one value that every deployment of its namespace may read.
func secret(namespace, name, key, value string) *corev1.Secret {
	shared := map[string]string{v1alpha1.LabelDeployment: "*"}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: shared}, StringData: map[string]string{key: value}}
}
