package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/getkin/kin-openapi/openapi3"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/test/testkit"
)

// ask sends a request and checks the response against backend.yaml.
func (w *world) ask(method, path, key, body string, header ...[2]string) testkit.Answer {
	GinkgoHelper()
	answer := w.do(method, path, key, body, header...)
	expectDocumented(method, path, answer)
	return answer
}

// expectDocumented checks a response against backend.yaml and against the rules for all responses.
func expectDocumented(method, path string, answer testkit.Answer) {
	GinkgoHelper()
	what := fmt.Sprintf("%s %.100s: %d %s", method, path, answer.Status, answer.Raw)
	Expect(answer.Header.Get("X-Request-Id")).NotTo(BeEmpty(), what)
	Expect(answer.Header).NotTo(HaveKey("Location"), what)
	if answer.Status == 204 || method == "HEAD" {
		Expect(answer.Raw).To(BeEmpty(), what)
		return
	}
	Expect(answer.Header.Get("Content-Type")).To(Equal("application/json"), what)
	schema := document().Components.Schemas["Error"].Value
	if answer.Status < 400 {
		schema = answerSchema(method, path)
	}
	Expect(schema.VisitJSON(map[string]any(answer.JSON), openapi3.MultiErrors(), openapi3.VisitAsResponse())).To(Succeed(), what)
	if answer.Status < 400 {
		return
	}
	Expect(answer.JSON["request_id"]).To(Equal(answer.Header.Get("X-Request-Id")), what)
	Expect(answer.JSON["errors"]).NotTo(BeEmpty(), what)
	for _, item := range answer.JSON["errors"].([]any) {
		Expect(item).To(HaveKeyWithValue("code", BeEquivalentTo(answer.Status)), what)
	}
}

func document() *openapi3.T {
	GinkgoHelper()
	loaded, err := openapi.Load()
	Expect(err).NotTo(HaveOccurred())
	return loaded.Spec()
}

func answerSchema(method, path string) *openapi3.Schema {
	GinkgoHelper()
	operation := documented(path).GetOperation(method)
	Expect(operation).NotTo(BeNil(), "%s %s is not documented", method, path)
	return operation.Responses.Status(200).Value.Content.Get("application/json").Schema.Value
}

// documented returns the entry of backend.yaml for a path.
func documented(path string) *openapi3.PathItem {
	GinkgoHelper()
	path, _, _ = strings.Cut(path, "?")
	segments := strings.Split(path, "/")
	for template, item := range document().Paths.Map() {
		parts := strings.Split(template, "/")
		fits := len(parts) == len(segments)
		for i := 0; fits && i < len(parts); i++ {
			fits = parts[i] == segments[i] || strings.HasPrefix(parts[i], "{")
		}
		if fits {
			return item
		}
	}
	Fail(path + " is not documented")
	return nil
}

// faultsAt returns the fields of an error's faults, joined by spaces.
func faultsAt(answer testkit.Answer) string {
	GinkgoHelper()
	var at []string
	for _, item := range answer.JSON["errors"].([]any) {
		field, _ := item.(map[string]any)["field"].(string)
		at = append(at, field)
	}
	return strings.Join(at, " ")
}

// free returns a body that creates a scheme with a slug and one rule.
func free(slug, more string) string {
	return fmt.Sprintf(`{"slug":%q,"name":"Free","rules":[{"unit":"minute","duration":1,"max_requests":60}]%s}`, slug, more)
}

func (w *world) post(key, slug, more string) testkit.Answer {
	GinkgoHelper()
	answer := w.ask("POST", schemesPath, key, free(slug, more))
	Expect(answer.Status).To(Equal(200), string(answer.Raw))
	return answer
}

// live returns the scheme resource with a name from the API server.
func (w *world) live(ctx context.Context, name string) *v1alpha1.RateLimitScheme {
	GinkgoHelper()
	obj := &v1alpha1.RateLimitScheme{}
	Expect(cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, obj)).To(Succeed())
	return obj
}

// Section 2.7 of the interface, exactly.
var (
	schemeFields = map[string]string{
		"deployment_id": "string", "slug": "string", "name": "string", "description": "string or null",
		"rules": "array", "created_at": "date-time", "updated_at": "date-time",
	}
	ruleFields = map[string]string{
		"unit": "string", "duration": "integer", "max_requests": "integer", "mode": "string", "endpoints": "array of string", "priority": "integer",
	}
)

// expectFields checks an object of a response against a table of the interface: exactly these members.
func expectFields(raw json.RawMessage, fields map[string]string) map[string]json.RawMessage {
	GinkgoHelper()
	var members map[string]json.RawMessage
	Expect(json.Unmarshal(raw, &members)).To(Succeed())
	Expect(members).To(HaveLen(len(fields)), string(raw))
	for name, form := range fields {
		Expect(members).To(HaveKey(name))
		value := string(members[name])
		switch form {
		case "string":
			Expect(value).To(HavePrefix(`"`), name)
		case "string or null":
			Expect(value).To(Or(HavePrefix(`"`), Equal("null")), name)
		case "array":
			Expect(value).To(HavePrefix("["), name)
		case "array of string":
			Expect(json.Unmarshal(members[name], &[]string{})).To(Succeed(), name)
		case "integer":
			Expect(value).To(MatchRegexp(`^-?[0-9]+$`), name)
		case "date-time":
			Expect(value).To(MatchRegexp(`^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"$`), name)
		}
	}
	return members
}

func expectScheme(raw json.RawMessage) map[string]json.RawMessage {
	GinkgoHelper()
	members := expectFields(raw, schemeFields)
	var rules []json.RawMessage
	Expect(json.Unmarshal(members["rules"], &rules)).To(Succeed())
	Expect(rules).NotTo(BeEmpty())
	for _, rule := range rules {
		expectFields(rule, ruleFields)
	}
	return members
}

var _ = Describe("The rate-limit scheme operations", Ordered, func() {
	var w *world
	var key string
	BeforeAll(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{})
		key = w.tenant(ctx, "acme")
	})

	It("create with effective values, as a resource in the deployment's namespace", func(ctx context.Context) {
		answer := w.ask("POST", schemesPath, key, `{"slug":"whole","name":"  Whole plan\u3000","description":" two\nlines ","rules":[
			{"unit":"calendar_month","duration":1,"max_requests":2147483647,"mode":"per_ip","endpoints":["POST /v1/*","/v1/things"],"priority":-3},
			{"unit":"millisecond","duration":60000,"max_requests":1}]}`)
		Expect(answer.Status).To(Equal(200))
		Expect(answer.Header.Get("Cardea-Synced")).To(Equal("true"))
		members := expectScheme(answer.Raw)

		obj := w.live(ctx, "acme.whole")
		Expect(obj.Labels).To(HaveKeyWithValue(v1alpha1.LabelManagedBy, "cardea-http"))
		deployment := testkit.Deployment(w.namespace, "acme")
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
		Expect(string(members["deployment_id"])).To(Equal(`"` + deployment.Status.ID + `"`))
		Expect(string(members["slug"])).To(Equal(`"whole"`))
		Expect(string(members["name"])).To(Equal(`"Whole plan"`))
		Expect(string(members["description"])).To(Equal(`"two\nlines"`))
		Expect(string(members["created_at"])).To(Equal(obj.CreationTimestamp.UTC().Format(`"` + time.RFC3339 + `"`)))
		Expect(members["rules"]).To(MatchJSON(`[
			{"unit":"calendar_month","duration":1,"max_requests":2147483647,"mode":"per_ip","endpoints":["POST /v1/*","/v1/things"],"priority":-3},
			{"unit":"millisecond","duration":60000,"max_requests":1,"mode":"per_key","endpoints":["*"],"priority":0}]`))
		Expect(obj.Spec.Rules[1]).To(Equal(v1alpha1.RateLimitRule{Unit: "millisecond", Duration: 60000, MaxRequests: 1}), "rules are stored as sent")
		Expect(w.ask("GET", schemesPath+"/whole", key, "").Raw).To(Equal(answer.Raw))
		out, err := cluster.Kubectl(ctx, "", "get", "ratelimitschemes", "-n", w.namespace, "acme.whole")
		Expect(err).NotTo(HaveOccurred(), out)
		Expect(out).To(ContainSubstring("whole"))
	})

	It("answer description null when there is none, and keep an empty one", func(ctx context.Context) {
		Expect(w.post(key, "absent", "").JSON).To(HaveKeyWithValue("description", BeNil()))
		Expect(w.post(key, "null", `,"description":null`).JSON).To(HaveKeyWithValue("description", BeNil()))
		Expect(w.post(key, "empty", `,"description":""`).JSON).To(HaveKeyWithValue("description", ""))
		Expect(w.live(ctx, "acme.null").Spec.Description).To(BeNil())
	})

	It("update what is named and nothing else", func(ctx context.Context) {
		before := w.post(key, "update", `,"description":"first"`)
		path := schemesPath + "/update"
		renamed := w.ask("PATCH", path, key, `{"name":" New\tname "}`)
		Expect(renamed.Status).To(Equal(400), "a control character inside is refused")
		renamed = w.ask("PATCH", path, key, `{"name":" New name "}`)
		Expect(renamed.Status).To(Equal(200))
		Expect(renamed.Header.Get("Cardea-Synced")).To(Equal("true"))
		Expect(renamed.JSON).To(And(HaveKeyWithValue("name", "New name"), HaveKeyWithValue("description", "first"), HaveKeyWithValue("created_at", before.JSON["created_at"])))
		Expect(renamed.JSON["updated_at"]).NotTo(Equal(before.JSON["updated_at"]))
		Expect(w.ask("PATCH", path, key, `{"description":null}`).JSON).To(HaveKeyWithValue("description", BeNil()))
		Expect(w.live(ctx, "acme.update").Spec.Description).To(BeNil())

		replaced := w.ask("PATCH", path, key, `{"rules":[{"unit":"day","duration":30,"max_requests":5}]}`)
		Expect(replaced.JSON["rules"]).To(HaveLen(1))
		expectScheme(replaced.Raw)
		Expect(w.ask("GET", path, key, "").Raw).To(Equal(replaced.Raw))
	})

	It("write nothing when the value is equal, also when equal only in effect", func(ctx context.Context) {
		before := w.post(key, "equal", `,"description":"d"`)
		expectReady(ctx, w.live(ctx, "acme.equal"))
		obj := w.live(ctx, "acme.equal")
		for _, body := range []string{
			`{}`, `{"name":"Free"}`, `{"name":" Free "}`, `{"description":"d"}`,
			`{"rules":[{"unit":"minute","duration":1,"max_requests":60,"mode":"per_key","endpoints":["*"],"priority":0}]}`,
		} {
			answer := w.ask("PATCH", schemesPath+"/equal", key, body)
			Expect(answer.Status).To(Equal(200), body)
			Expect(answer.Header.Get("Cardea-Synced")).To(Equal("true"))
			Expect(answer.Raw).To(Equal(before.Raw), body)
		}
		after := w.live(ctx, "acme.equal")
		Expect(after.ResourceVersion).To(Equal(obj.ResourceVersion))
		Expect(after.Generation).To(Equal(obj.Generation))
	})

	It("serve what YAML declares under its effective name", func(ctx context.Context) {
		declared := testkit.Scheme(w.namespace, "acme", "declared")
		create(ctx, declared)
		expectReady(ctx, declared)
		Eventually(func() int { return w.do("GET", schemesPath+"/declared", key, "").Status }).Should(Equal(200))
		answer := w.ask("GET", schemesPath+"/declared", key, "")
		Expect(answer.JSON).To(And(HaveKeyWithValue("name", "declared"), HaveKeyWithValue("description", BeNil())))
		expectScheme(answer.Raw)
		Expect(w.ask("HEAD", schemesPath+"/declared", key, "").Status).To(Equal(200))
		Expect(w.ask("GET", schemesPath+"/d%65clared", key, "").Raw).To(Equal(answer.Raw), "the path is decoded once")
	})

	It("delete, and the slug is free again", func(ctx context.Context) {
		w.post(key, "deleted", "")
		obj := w.live(ctx, "acme.deleted")
		answer := w.ask("DELETE", schemesPath+"/deleted", key, "")
		Expect(answer.Status).To(Equal(204))
		Expect(answer.Header.Get("Cardea-Synced")).To(Equal("true"))
		Expect(w.ask("GET", schemesPath+"/deleted", key, "").Status).To(Equal(404))
		expectGone(ctx, obj)
		Expect(w.ask("DELETE", schemesPath+"/deleted", key, "").Status).To(Equal(404))
		w.post(key, "deleted", "")
	})

	It("list in pages, newest first, with both spellings of the data", func(ctx context.Context) {
		whole := w.ask("GET", schemesPath, key, "")
		Expect(whole.JSON).To(HaveLen(6))
		total := int(whole.JSON["total"].(float64))
		Expect(total).To(BeNumerically(">=", 5))
		all := whole.JSON["data"].([]any)
		Expect(all).To(HaveLen(total))
		Expect(whole.JSON["schemes"]).To(Equal(whole.JSON["data"]))
		Expect(whole.JSON).To(And(HaveKeyWithValue("has_more", false), HaveKeyWithValue("limit", 50.0), HaveKeyWithValue("offset", 0.0)))
		for i := 1; i < len(all); i++ {
			newer, older := all[i-1].(map[string]any)["created_at"].(string), all[i].(map[string]any)["created_at"].(string)
			Expect(newer >= older).To(BeTrue(), "%s before %s", newer, older)
		}
		var paged []any
		for offset := 0; offset < total; offset += 2 {
			page := w.ask("GET", fmt.Sprintf("%s?limit=2&offset=%d&unknown=x", schemesPath, offset), key, "")
			Expect(page.JSON["has_more"]).To(Equal(offset+2 < total))
			paged = append(paged, page.JSON["data"].([]any)...)
		}
		Expect(paged).To(Equal(all))
		for query, want := range map[string]string{
			"?limit=101":                  `{"data":` + compact(all) + `,"has_more":false,"limit":100,"offset":0,"schemes":` + compact(all) + fmt.Sprintf(`,"total":%d}`, total),
			"?offset=9223372036854775807": fmt.Sprintf(`{"data":[],"has_more":false,"limit":50,"offset":9223372036854775807,"schemes":[],"total":%d}`, total),
		} {
			Expect(w.ask("GET", schemesPath+query, key, "").Raw).To(MatchJSON(want), query)
		}
		empty := w.tenant(ctx, "empty")
		Expect(w.ask("GET", schemesPath, empty, "").Raw).To(MatchJSON(`{"data":[],"has_more":false,"limit":50,"offset":0,"schemes":[],"total":0}`))
	})

	It("refuse every write of a deployment that disables them", func(ctx context.Context) {
		closed := w.tenant(ctx, "closed")
		w.post(closed, "kept", "")
		update(ctx, testkit.Deployment(w.namespace, "closed"), func(d *v1alpha1.IdentityDeployment) {
			d.Spec.Management = &v1alpha1.ManagementPolicy{Writes: ptr.To(v1alpha1.ManagementWritesDisabled)}
		})
		Eventually(func() int { return w.do("PATCH", schemesPath+"/kept", closed, `{}`).Status }).Should(Equal(403))
		for _, method := range []string{"POST", "PATCH", "DELETE"} {
			path := schemesPath
			if method != "POST" {
				path += "/kept"
			}
			answer := w.ask(method, path, closed, `{"bad":1}`)
			Expect(answer.Status).To(Equal(403), method)
			Expect(answer.JSON["message"]).To(ContainSubstring("spec.management.writes"))
		}
		Expect(w.ask("GET", schemesPath+"/kept", closed, "").Status).To(Equal(200))
	})

	It("answer a request's own id, else a new one", func() {
		for _, sent := range []string{"abc-1_2.3:4", strings.Repeat("x", 128)} {
			Expect(w.ask("GET", schemesPath, key, "", [2]string{"X-Request-Id", sent}).Header.Get("X-Request-Id")).To(Equal(sent))
			Expect(w.ask("GET", "/nowhere", "", "", [2]string{"X-Request-Id", sent}).JSON).To(HaveKeyWithValue("request_id", sent))
		}
		for _, sent := range []string{"", strings.Repeat("x", 129), "a b", "<script>", "ü"} {
			Expect(w.ask("GET", schemesPath, key, "", [2]string{"X-Request-Id", sent}).Header.Get("X-Request-Id")).To(MatchRegexp("^[0-9a-f]{32}$"))
		}
	})

	It("are described at /openapi.json and /docs, without a credential", func() {
		for path, contentType := range map[string]string{"/openapi.json": "application/json", "/docs": "text/html; charset=utf-8"} {
			answer := w.do("GET", path, "", "")
			Expect(answer.Status).To(Equal(200), path)
			Expect(answer.Header.Get("Content-Type")).To(Equal(contentType))
			Expect(w.do("POST", path, "", "{}").Status).To(Equal(405), path)
		}
		Expect(w.do("GET", "/openapi.json", "", "").JSON).To(HaveKey("paths"))
	})
})

func compact(value any) string {
	GinkgoHelper()
	raw, err := json.Marshal(value)
	Expect(err).NotTo(HaveOccurred())
	return string(raw)
}
