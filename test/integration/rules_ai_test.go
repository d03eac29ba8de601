package integration

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

const oneValue = "set exactly one of value and valueFrom"

var _ = DescribeTable("The schema of AITool validates", validates(v1alpha1.KindAITool),
	table(commonEntries(), nameEntries(), descriptionEntries(), referenceEntries("deploymentRef", 63), urlEntries("endpoint"),
		switchEntries("active", "requiresUserApproval"), headerEntries(), parameterEntries(), []TableEntry{
			Entry("type API", `type: API`), Entry("type Function", `type: Function`), Entry("type Webhook", `type: Webhook`),
			Entry("no type", `type: null`, "spec.type: Required value"),
			Entry("another type", `type: api`, "spec.type", `supported values: "API", "Function", "Webhook"`),
			Entry("method GET", `method: GET`), Entry("method HEAD", `method: HEAD`), Entry("method POST", `method: POST`), Entry("method PUT", `method: PUT`),
			Entry("method PATCH", `method: PATCH`), Entry("method DELETE", `method: DELETE`), Entry("method OPTIONS", `method: OPTIONS`),
			Entry("another method", `method: TRACE`, "spec.method", `supported values: "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"`),
			Entry("a method in lower case", `method: get`, "spec.method", "Unsupported value"),
			Entry("a second", `timeoutSeconds: 1`), Entry("ten minutes", `timeoutSeconds: 600`),
			Entry("no time", `timeoutSeconds: 0`, "spec.timeoutSeconds", "greater than or equal to 1"),
			Entry("more than ten minutes", `timeoutSeconds: 601`, "spec.timeoutSeconds", "less than or equal to 600"),
			Entry("half a second", `timeoutSeconds: 0.5`, "spec.timeoutSeconds", "must be of type integer"),
			Entry("empty authorization", `authorization: {}`), Entry("authorization", `authorization: {authorizeAsUser: true, jwtTemplateID: `+letters(200)+`}`),
			Entry("a template's id of 201", `authorization: {jwtTemplateID: `+letters(201)+`}`, "spec.authorization.jwtTemplateID", "may not be more than 200"),
			Entry("an audience", `authorization: {authorizeAsUser: true, audience: "https://api.acme.example/v1"}`),
			Entry("an audience without scheme", `authorization: {authorizeAsUser: true, audience: api.acme.example}`, "spec.authorization.audience", "should match"),
			Entry("an audience with a fragment", `authorization: {authorizeAsUser: true, audience: "https://api.acme.example#x"}`, "spec.authorization.audience", "should match"),
			Entry("50 described headers", "authorization: {"+repeated("customHeaders", "{name: h#, fieldType: STRING}", 50)+"}"),
			Entry("51 described headers", "authorization: {"+repeated("customHeaders", "{name: h#, fieldType: STRING}", 51)+"}", "spec.authorization.customHeaders", tooMany),
		},
		callEntries(), fieldEntries("response: {schema: [%s]}", "spec.response.schema"),
		fieldEntries("requestBodySchema: [%s]", "spec.requestBodySchema"), fieldEntries("urlParamsSchema: [%s]", "spec.urlParamsSchema"),
		fieldEntries("authorization: {customHeaders: [%s]}", "spec.authorization.customHeaders")))

// callEntries are the rules of what decides about calls.
func callEntries() []TableEntry {
	const approval = "requiresUserApproval: true\napproval: "
	return []TableEntry{
		Entry("a name for models", `toolName: _Find-order_2`), Entry("a name of 64", "toolName: "+letters(64)), Entry("a name of 65", "toolName: "+letters(65), "spec.toolName", "may not be more than 64"),
		Entry("a name of digits", `toolName: "123"`, "spec.toolName", "should match"), Entry("a name with a dot", `toolName: a.b`, "spec.toolName", "should match"),
		Entry("permissions", `permissions: ["orders:read", admin]`), Entry("every permission", `permissions: ["*"]`, "spec.permissions[0]", "should match"),
		Entry("a permission twice", `permissions: [a, a]`, "spec.permissions[1]", "Duplicate value"),
		Entry("10 permissions", repeated("permissions", "p#", 10)), Entry("11 permissions", repeated("permissions", "p#", 11), "spec.permissions", tooMany),
		Entry("a scheme", `rateLimitSchemeRef: {name: calls}`), Entry("a scheme without name", `rateLimitSchemeRef: {}`, "spec.rateLimitSchemeRef.name: Required value"),
		Entry("one call", `maxConcurrentCalls: 1`), Entry("256 calls", `maxConcurrentCalls: 256`),
		Entry("no call", `maxConcurrentCalls: 0`, "spec.maxConcurrentCalls", "greater than or equal to 1"), Entry("257 calls", `maxConcurrentCalls: 257`, "spec.maxConcurrentCalls", "less than or equal to 256"),
		Entry("hints", `annotations: {readOnly: true, destructive: false, idempotent: true, openWorld: false}`), Entry("no hints", `annotations: {}`),
		Entry("a hint as a word", `annotations: {readOnly: "yes"}`, "spec.annotations.readOnly", "must be of type boolean"),
		Entry("an approval", approval+`{}`), Entry("an approval of a day", approval+`{approver: Caller, lifetimeSeconds: 86400, fresh: true}`),
		Entry("an approval by a permission", approval+`{approver: Permission, permission: "orders:approve", lifetimeSeconds: 60}`),
		Entry("an approval of calls that need none", `approval: {}`, "spec.approval", "approval is only for tools with requiresUserApproval"),
		Entry("an approval of calls that must need none", "requiresUserApproval: false\napproval: {}", "spec.approval", "approval is only for tools with requiresUserApproval"),
		Entry("a permission of the caller", approval+`{permission: a}`, "spec.approval.permission", "permission is needed with approver Permission"),
		Entry("an approver without permission", approval+`{approver: Permission}`, "spec.approval.permission", "permission is needed with approver Permission"),
		Entry("another approver", approval+`{approver: Owner}`, "spec.approval.approver", `supported values: "Caller", "Permission"`),
		Entry("a short approval", approval+`{lifetimeSeconds: 59}`, "spec.approval.lifetimeSeconds", "greater than or equal to 60"),
		Entry("a long approval", approval+`{lifetimeSeconds: 86401}`, "spec.approval.lifetimeSeconds", "less than or equal to 86400"),
		Entry("a response", `response: {select: /data/0, type: Array, maxBytes: 1024}`), Entry("the largest response", `response: {maxBytes: 1048576}`),
		Entry("a pointer without slash", `response: {select: data}`, "spec.response.select", "should match"), Entry("a pointer with a bad escape", `response: {select: /a~2}`, "spec.response.select", "should match"),
		Entry("another type of response", `response: {type: Text}`, "spec.response.type", `supported values: "Object", "Array"`),
		Entry("a small response", `response: {maxBytes: 1023}`, "spec.response.maxBytes", "greater than or equal to 1024"),
		Entry("a large response", `response: {maxBytes: 1048577}`, "spec.response.maxBytes", "less than or equal to 1048576"),
		Entry("no record", `record: None`), Entry("arguments in the record", `record: Arguments`), Entry("everything in the record", `record: All`),
		Entry("a signing secret of a function", "type: Function\nsigningSecretRef: {name: hook, key: secret}"), Entry("a signing secret of a webhook", "type: Webhook\nsigningSecretRef: {name: hook, key: secret}"),
		Entry("a signing secret of an API", "type: API\nsigningSecretRef: {name: hook, key: secret}", "spec.signingSecretRef", "calls of type API are not signed"),
		Entry("a signing secret without key", "type: Function\nsigningSecretRef: {name: hook}", "spec.signingSecretRef.key: Required value"),
		Entry("a result within a second", "type: Webhook\nresultSeconds: 1"), Entry("a result within a day", "type: Webhook\nresultSeconds: 86400"),
		Entry("a result within no time", "type: Webhook\nresultSeconds: 0", "spec.resultSeconds", "greater than or equal to 1"),
		Entry("a result after a day", "type: Webhook\nresultSeconds: 86401", "spec.resultSeconds", "less than or equal to 86400"),
		Entry("a late result of a function", "type: Function\nresultSeconds: 60", "spec.resultSeconds", "resultSeconds is only for type Webhook"),
		Entry("another record", `record: Some`, "spec.record", `supported values: "None", "Arguments", "All"`),
	}
}

func headerEntries() []TableEntry {
	const secret = "valueFrom: {secretKeyRef: {name: s, key: token}}"
	return []TableEntry{
		Entry("a header", `headers: [{name: X-A, value: "b c~"}]`), Entry("a header from a Secret", "headers: [{name: X-A, "+secret+"}]"), Entry("no header", `headers: []`),
		Entry("an empty value", `headers: [{name: X-A, value: ""}]`),
		Entry("a header without value", `headers: [{name: X-A}]`, "spec.headers[0]", oneValue), Entry("a header with both", "headers: [{name: X-A, value: b, "+secret+"}]", "spec.headers[0]", oneValue),
		Entry("a header twice", `headers: [{name: X-A, value: a}, {name: X-A, value: b}]`, "spec.headers[1]", "Duplicate value"),
		Entry("a header without name", `headers: [{value: a}]`, "spec.headers[0].name: Required value"), Entry("an empty name", `headers: [{name: "", value: a}]`, "spec.headers[0].name"),
		Entry("a header's name of 101", "headers: [{name: "+letters(101)+", value: a}]", "spec.headers[0].name", "may not be more than 100"),
		Entry("a header's name with a colon", `headers: [{name: "X:A", value: a}]`, "spec.headers[0].name", "should match"),
		Entry("a header's name with a line break", `headers: [{name: "X\nA", value: a}]`, "spec.headers[0].name", "should match"),
		Entry("a value of 1024", "headers: [{name: X, value: "+letters(1024)+"}]"),
		Entry("a value of 1025", "headers: [{name: X, value: "+letters(1025)+"}]", "spec.headers[0].value", "may not be more than 1024"),
		Entry("a value with a line break", `headers: [{name: X, value: "a\r\nB: c"}]`, "spec.headers[0].value", "should match '^[ -~]*$'"),
		Entry("a value beyond ASCII", `headers: [{name: X, value: "ü"}]`, "spec.headers[0].value", "should match"),
		Entry("no reference to a Secret", `headers: [{name: X, valueFrom: {}}]`, "spec.headers[0].valueFrom.secretKeyRef: Required value"),
		Entry("a Secret without name", `headers: [{name: X, valueFrom: {secretKeyRef: {key: k}}}]`, "secretKeyRef.name: Required value"),
		Entry("a Secret without key", `headers: [{name: X, valueFrom: {secretKeyRef: {name: s}}}]`, "secretKeyRef.key: Required value"),
		Entry("a Secret's key with a slash", `headers: [{name: X, valueFrom: {secretKeyRef: {name: s, key: a/b}}}]`, "secretKeyRef.key", "should match"),
		Entry("50 headers", repeated("headers", "{name: h#, value: v}", 50)), Entry("51 headers", repeated("headers", "{name: h#, value: v}", 51), "spec.headers", tooMany),
	}
}

func parameterEntries() []TableEntry {
	return []TableEntry{
		Entry("a parameter", `parameters: [{name: q, type: string, required: true}]`), Entry("no parameter", `parameters: []`),
		Entry("a parameter without name", `parameters: [{type: string}]`, "spec.parameters[0].name: Required value"),
		Entry("a parameter without type", `parameters: [{name: q}]`, "spec.parameters[0].type: Required value"),
		Entry("a parameter's empty name", `parameters: [{name: "", type: string}]`, "spec.parameters[0].name"), Entry("a parameter's empty type", `parameters: [{name: q, type: ""}]`, "spec.parameters[0].type"),
		Entry("a parameter's name of 101", "parameters: [{name: "+letters(101)+", type: string}]", "spec.parameters[0].name", "may not be more than 100"),
		Entry("a parameter's type of 41", "parameters: [{name: q, type: "+letters(41)+"}]", "spec.parameters[0].type", "may not be more than 40"),
		Entry("a parameter required as a word", `parameters: [{name: q, type: string, required: "yes"}]`, "spec.parameters[0].required", "must be of type boolean"),
		Entry("a parameter twice", `parameters: [{name: q, type: string}, {name: q, type: number}]`, "spec.parameters[1]", "Duplicate value"),
		Entry("100 parameters", repeated("parameters", "{name: p#, type: t}", 100)), Entry("101 parameters", repeated("parameters", "{name: p#, type: t}", 101), "spec.parameters", tooMany),
	}
}

// fieldEntries are the rules of a schema field, for any path with a list of such fields. The operator checks nested
// fields.
func fieldEntries(list, at string) []TableEntry {
	field := func(more string) string { return fmt.Sprintf(list, "{name: f, fieldType: ARRAY"+more+"}") }
	entries := []TableEntry{
		Entry(at+": no field", fmt.Sprintf(list, "")),
		Entry(at+": a field without name", fmt.Sprintf(list, "{fieldType: STRING}"), at+"[0].name: Required value"),
		Entry(at+": a field without type", fmt.Sprintf(list, "{name: f}"), at+"[0].fieldType: Required value"),
		Entry(at+": another type", fmt.Sprintf(list, "{name: f, fieldType: string}"), at+"[0].fieldType", `supported values: "STRING", "INTEGER", "NUMBER", "BOOLEAN", "ARRAY", "OBJECT"`),
		Entry(at+": a name of 101", fmt.Sprintf(list, "{name: "+letters(101)+", fieldType: STRING}"), at+"[0].name", "may not be more than 100"),
		Entry(at+": all members", field(", required: true, title: "+letters(200)+", description: "+letters(2000)+", format: "+letters(100)+
			", minimum: -9007199254740991, maximum: 9007199254740991, itemsType: OBJECT, minItems: 0, maxItems: 2147483647")),
		Entry(at+": a title of 201", field(", title: "+letters(201)), at+"[0].title", "may not be more than 200"),
		Entry(at+": a description of 2001", field(", description: "+letters(2001)), at+"[0].description", "may not be more than 2000"),
		Entry(at+": a format of 101", field(", format: "+letters(101)), at+"[0].format", "may not be more than 100"),
		Entry(at+": a minimum as a word", field(`, minimum: "1"`), at+"[0].minimum", "must be of type number"),
		Entry(at+": halves", field(", minimum: -1.5, maximum: 1.0e-9")),
		Entry(at+": a minimum that JSON's numbers cannot hold", field(", minimum: -9007199254740993"), at+"[0].minimum", "should be greater than or equal to"),
		Entry(at+": a maximum that JSON's numbers cannot hold", field(", maximum: 1.0e300"), at+"[0].maximum", "should be less than or equal to"),
		Entry(at+": another items' type", field(", itemsType: DATE"), at+"[0].itemsType", "Unsupported value"),
		Entry(at+": fewer items than none", field(", minItems: -1"), at+"[0].minItems", "greater than or equal to 0"),
		Entry(at+": too many least items", field(", minItems: 2147483648"), at+"[0].minItems", "less than or equal to 2147483647"),
		Entry(at+": fewer items at most", field(", maxItems: -1"), at+"[0].maxItems", "greater than or equal to 0"),
		Entry(at+": too many items", field(", maxItems: 2147483648"), at+"[0].maxItems", "less than or equal to 2147483647"),
		Entry(at+": values of any JSON", field(`, enumValues: ["a", 1, -1.5e3, true, null, [], {"b": [null]}]`)),
		Entry(at+": values that are no list, which the operator validates", field(`, enumValues: {a: 1}`)),
		Entry(at+": properties of any form, which the operator validates", field(`, properties: [{name: p, fieldType: OBJECT, properties: [{name: q, enumValues: [null, 1, a]}]}, {}, {other: [1]}]`)),
		Entry(at+": a property that is no object", field(`, properties: [{}, 7]`), at+"[0].properties[1]", "must be of type object"),
		Entry(at+": 100 properties", field(", "+repeated("properties", "{name: p#, fieldType: STRING}", 100))),
		Entry(at+": 101 properties", field(", "+repeated("properties", "{name: p#, fieldType: STRING}", 101)), at+"[0].properties", tooMany),
		Entry(at+": items of any form", field(`, itemsSchema: {fieldType: ARRAY, itemsSchema: {fieldType: OBJECT, properties: []}}`)),
	}
	return entries
}

var _ = DescribeTable("The schema of AIAgent validates", validates(v1alpha1.KindAIAgent),
	table(commonEntries(), nameEntries(), descriptionEntries(), referenceEntries("deploymentRef", 63), switchEntries("active"), temperatureEntries(), []TableEntry{
		Entry("a model", `model: "vendor/model-4.1:latest"`), Entry("a model of 201", "model: "+letters(201), "spec.model", "may not be more than 200"),
		Entry("an empty model", `model: ""`, "spec.model", "at least 1 chars long"), Entry("a model with a blank", `model: "a b"`, "spec.model", "should match '^[!-~]+$'"),
		Entry("a prompt", quoted("systemPrompt", "Be kind.\nUse \t tabs, 日本語.")), Entry("an empty prompt", `systemPrompt: ""`),
		Entry("a prompt of 65536", "systemPrompt: "+letters(65536)), Entry("a prompt of 65537", "systemPrompt: "+letters(65537), "spec.systemPrompt", "may not be more than 65536"),
		Entry("a token", `maxTokens: 1`), Entry("the most tokens", `maxTokens: 2147483647`),
		Entry("no token", `maxTokens: 0`, "spec.maxTokens", "greater than or equal to 1"), Entry("too many tokens", `maxTokens: 2147483648`, "spec.maxTokens", "less than or equal to 2147483647"),
		Entry("half a token", `maxTokens: 1.5`, "spec.maxTokens", "must be of type integer"),
		Entry("tools", `toolRefs: [{name: b}, {name: a}]`), Entry("no tool", `toolRefs: []`),
		Entry("a tool twice", `toolRefs: [{name: a}, {name: b}, {name: a}]`, "spec.toolRefs", "each tool may be listed only once: remove the duplicate"),
		Entry("a tool without name", `toolRefs: [{}]`, "spec.toolRefs[0].name: Required value"), Entry("a tool's empty name", `toolRefs: [{name: ""}]`, "spec.toolRefs[0].name"),
		Entry("a tool's name of 254", "toolRefs: [{name: "+letters(254)+"}]", "spec.toolRefs[0].name", "may not be more than 253"),
		Entry("100 tools", repeated("toolRefs", "{name: t#}", 100)), Entry("101 tools", repeated("toolRefs", "{name: t#}", 101), "spec.toolRefs", tooMany),
		Entry("knowledge", `knowledgeBases: ["kb_1", "kb 2"]`), Entry("an empty knowledge base", `knowledgeBases: [""]`, "spec.knowledgeBases[0]", "at least 1 chars long"),
		Entry("a knowledge base of 201", "knowledgeBases: ["+letters(201)+"]", "spec.knowledgeBases[0]", "may not be more than 200"),
		Entry("instructions", quoted("instructions", "Ask first.\nThen\tcall.")), Entry("instructions of 2000", "instructions: "+letters(2000)),
		Entry("instructions of 2001", "instructions: "+letters(2001), "spec.instructions", "may not be more than 2000"),
		Entry("instructions that turn the direction", `instructions: "a\u202Eb"`, "spec.instructions", "should match"),
		Entry("empty access", `access: {}`), Entry("whole access", `access: {oauthAppRef: {name: agents}, sessions: Allowed, permissions: ["orders:read"]}`),
		Entry("no sessions", `access: {sessions: Denied}`), Entry("other sessions", `access: {sessions: allowed}`, "spec.access.sessions", `supported values: "Allowed", "Denied"`),
		Entry("an app without name", `access: {oauthAppRef: {}}`, "spec.access.oauthAppRef.name: Required value"),
		Entry("every permission", `access: {permissions: ["*"]}`, "spec.access.permissions[0]", "should match"),
		Entry("10 permissions", "access: {"+repeated("permissions", "p#", 10)+"}"), Entry("11 permissions", "access: {"+repeated("permissions", "p#", 11)+"}", "spec.access.permissions", tooMany),
		Entry("a scheme", `rateLimitSchemeRef: {name: calls}`), Entry("a scheme without name", `rateLimitSchemeRef: {}`, "spec.rateLimitSchemeRef.name: Required value"),
		Entry("one call", `maxConcurrentCalls: 1`), Entry("1024 calls", `maxConcurrentCalls: 1024`),
		Entry("no call", `maxConcurrentCalls: 0`, "spec.maxConcurrentCalls", "greater than or equal to 1"), Entry("1025 calls", `maxConcurrentCalls: 1025`, "spec.maxConcurrentCalls", "less than or equal to 1024"),
		Entry("100 knowledge bases", repeated("knowledgeBases", "k#", 100)), Entry("101 knowledge bases", repeated("knowledgeBases", "k#", 101), "spec.knowledgeBases", tooMany),
	}))

func temperatureEntries() []TableEntry {
	var entries []TableEntry
	for _, taken := range []string{"0", "1", "2", "0.7", "1.999999", "0.000001", "2.0", "2.000000"} {
		entries = append(entries, Entry("temperature "+taken, quoted("temperature", taken)))
	}
	for _, refused := range []string{"2.1", "2.000001", "3", "-1", "-0", "01", ".5", "1.", "0,7", "1e0", "0.1234567", "NaN", "+1", " 1", "1\n"} {
		entries = append(entries, Entry(fmt.Sprintf("temperature %q", refused), quoted("temperature", refused), "spec.temperature", "Invalid value"))
	}
	return append(entries, Entry("an empty temperature", `temperature: ""`, "spec.temperature"), Entry("a temperature as a number", `temperature: 0.7`, "spec.temperature", "must be of type string"))
}

var _ = DescribeTable("The schema of JWTTemplate validates", validates(v1alpha1.KindJWTTemplate),
	table(commonEntries(), nameEntries(), referenceEntries("deploymentRef", 63), reservedClaimEntries(), []TableEntry{
		Entry("10 seconds", `lifetimeSeconds: 10`), Entry("an hour", `lifetimeSeconds: 3600`),
		Entry("9 seconds", `lifetimeSeconds: 9`, "spec.lifetimeSeconds", "greater than or equal to 10"),
		Entry("more than an hour", `lifetimeSeconds: 3601`, "spec.lifetimeSeconds", "less than or equal to 3600"),
		Entry("audiences", `audiences: ["https://api.acme.example", "urn:acme:orders"]`),
		Entry("an audience without scheme", `audiences: [api.acme.example]`, "spec.audiences[0]", "should match"),
		Entry("an audience with a fragment", `audiences: ["https://api.acme.example#x"]`, "spec.audiences[0]", "should match"),
		Entry("10 audiences", repeated("audiences", `"urn:a:#"`, 10)), Entry("an audience twice", `audiences: ["urn:a:1", "urn:a:1"]`, "spec.audiences[1]", "Duplicate value"),
		Entry("a value", `claims: [{name: tier, value: gold}]`), Entry("a value of any JSON", `claims: [{name: tier, value: {a: [1, null, true]}}]`),
		Entry("an expression", `claims: [{name: mail, expression: user.email}]`),
		Entry("a claim twice", `claims: [{name: a, value: 1}, {name: a, value: 2}]`, "spec.claims[1]", "Duplicate value"),
		Entry("a claim without name", `claims: [{value: 1}]`, "spec.claims[0].name: Required value"),
		Entry("a claim's empty name", `claims: [{name: "", value: 1}]`, "spec.claims[0].name"),
		Entry("a claim's name of 101", `claims: [{name: `+letters(101)+`, value: 1}]`, "spec.claims[0].name", "may not be more than 100"),
		Entry("a claim's name with a blank", `claims: [{name: "a b", value: 1}]`, "spec.claims[0].name", "should match"),
		Entry("64 claims", repeated("claims", "{name: c#, value: 1}", 64)), Entry("65 claims", repeated("claims", "{name: c#, value: 1}", 65), "spec.claims", tooMany),
	}))

// reservedClaimEntries are the claims that no template sets, and names that only look like them.
func reservedClaimEntries() []TableEntry {
	var entries []TableEntry
	for _, name := range []string{"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "act", "client_id", "typ", "scope", "org_id", "workspace_id"} {
		for form, claim := range map[string]string{"value": "value: 1", "expression": "expression: user.id"} {
			entries = append(entries, Entry("the claim "+name+" by "+form, "claims: [{name: tier, value: 1}, {name: "+name+", "+claim+"}]", "spec.claims[1].name", "this claim is set by Cardea: choose another name"))
		}
	}
	for _, name := range []string{"Sub", "subject", "may_act", "acr", "nonce", "azp"} {
		entries = append(entries, Entry("the claim "+name, "claims: [{name: "+name+", value: 1}]"))
	}
	return entries
}
