package toolimport

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"sigs.k8s.io/yaml"

	"github.com/cardea-iam/cardea/internal/toolform"
	"github.com/cardea-iam/cardea/internal/toolschema"
	"github.com/cardea-iam/cardea/internal/translation"
)

var update = flag.Bool("update", false, "write the golden files anew")

// documents are the documents of testdata, and the options with which they are imported.
func documents() map[string]Options {
	return map[string]Options{
		"orders.yaml": {
			Deployment: "acme", Namespace: "acme", Agent: "support", Prefix: "acme-", Approve: ApproveUnsafe,
			Headers: []Header{{"Authorization", "order-service-token", "token"}, {"x-tenant", "order-service-token", "tenant"}},
		},
		"library.json":  {Deployment: "library", AsUser: true, Approve: ApproveNone, Agent: "librarian"},
		"awkward.yaml":  {Deployment: "acme", Approve: ApproveSafe},
		"webhooks.yaml": {Deployment: "acme", Approve: ApproveUnsafe, Base: "http://api.cluster.local:8080/v2/"},
	}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func imported(t testing.TB, text []byte, opts Options) *Result {
	t.Helper()
	document, err := Read(text)
	if err != nil {
		t.Fatal(err)
	}
	result, err := document.Tools(opts)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// written returns a result as text: the resources, and the notes.
func written(t testing.TB, result *Result) string {
	t.Helper()
	text, err := result.YAML()
	if err != nil {
		t.Fatal(err)
	}
	out := string(text) + "---\n"
	for _, note := range result.Notes {
		out += "# " + note.String() + "\n"
	}
	return out
}

func TestDocumentsBecomeTools(t *testing.T) {
	for name, opts := range documents() {
		text := read(t, name)
		loaded, err := openapi3.NewLoader().LoadFromData(text)
		if err == nil {
			err = loaded.Validate(context.Background(), openapi3.AllowExtraSiblingFields("pathItems")) // which the library does not know
		}
		if err != nil {
			t.Errorf("%s is no valid document: %v", name, err)
		}
		result := imported(t, text, opts)
		expectCallable(t, result)
		got, path := written(t, result), filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if want := string(read(t, name+".golden")); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
		for range 20 { // the order of Go's maps varies
			if again := written(t, imported(t, text, opts)); again != got {
				t.Fatalf("%s: equal input, and another output:\n%s", name, again)
			}
		}
	}
}

// expectCallable checks each tool as the operator and the server do.
func expectCallable(t testing.TB, result *Result) {
	t.Helper()
	names := map[string]bool{}
	for _, tool := range result.Tools {
		content, err := translation.AITool(tool.AITool)
		if err != nil {
			t.Errorf("%s is not accepted: %v", tool.Operation, err)
			continue
		}
		if wrong := toolform.Check(&content); wrong != nil {
			t.Errorf("%s cannot be called: %v", tool.Operation, wrong)
		}
		fields := toolform.Fields(&content)
		if _, err := toolschema.Compile(toolschema.Object(fields)); err != nil {
			t.Errorf("%s has no schema: %v", tool.Operation, err)
		}
		if names[tool.Name] {
			t.Errorf("two tools have the name %s", tool.Name)
		}
		names[tool.Name] = true
	}
}

// A document in JSON gives what the same document in YAML gives.
func TestFormOfTheDocumentDoesNotMatter(t *testing.T) {
	text := read(t, "orders.yaml")
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	opts := documents()["orders.yaml"]
	if got, want := written(t, imported(t, asJSON, opts)), written(t, imported(t, text, opts)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestDocumentsAreRefused(t *testing.T) {
	bomb := "openapi: 3.0.0\na: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 10), ", "))
	}
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":             {"", "no object"},
		"a list":              {"[]", "no object"},
		"neither form":        {"{\x01", "neither JSON nor YAML"},
		"too large":           {strings.Repeat(" ", MaxBytes+1), "more than 4 MiB"},
		"aliases that grow":   {bomb, "alias"},
		"deep":                {`{"openapi":"3.0.0","x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + "}", "deeper than 200"},
		"deeper than readers": {strings.Repeat("[", 100_000), "neither JSON nor YAML"},
		"version 2":           {`{"swagger":"2.0"}`, "convert it"},
		"version 3.2":         {`{"openapi":"3.2.0"}`, "3.0 or 3.1"},
		"a number":            {`{"openapi":3.0}`, "3.0 or 3.1"},
		"no version":          {`{}`, "3.0 or 3.1"},
	} {
		if _, err := Read([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// document returns a document with one operation, POST /things, whose members are given as JSON.
func document(operation string) string {
	return `{"openapi":"3.1.0","servers":[{"url":"https://c.example"}],"paths":{"/things":{"post":` + operation + `}},"components":{"schemas":{
		"Loop":{"$ref":"#/components/schemas/Loop"},"A":{"allOf":[{"$ref":"#/components/schemas/B"}]},"B":{"allOf":[{"$ref":"#/components/schemas/A"}]},
		"Wide":{"type":"object","properties":{"a":{"$ref":"#/components/schemas/Wide2"},"b":{"$ref":"#/components/schemas/Wide2"},"c":{"$ref":"#/components/schemas/Wide2"}}},
		"Wide2":{"type":"object","properties":{` + wide("Leaf", 100) + `}},"Leaf":{"type":"object","properties":{` + wide("Text", 100) + `}},"Text":{"type":"string"}}}}`
}

func wide(to string, members int) string {
	var out []string
	for n := range members {
		out = append(out, fmt.Sprintf(`"m%d":{"$ref":"#/components/schemas/%s"}`, n, to))
	}
	return strings.Join(out, ",")
}

// body returns an operation whose body has one optional member.
func body(schema string) string {
	return `{"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"kept":{"type":"string"},"x":` + schema + `}}}}}}`
}

func TestPartsThatCannotBeExpressedAreNoted(t *testing.T) {
	for name, tc := range map[string]struct{ operation, want string }{
		"a reference to a file":        {body(`{"$ref":"other.yaml#/A"}`), `/properties/x: left out: "other.yaml#/A" is not in this document`},
		"a reference to a host":        {body(`{"$ref":"https://c.example/a.json"}`), "is not in this document"},
		"a reference to nothing":       {body(`{"$ref":"#/components/schemas/None"}`), "is not in this document"},
		"a reference that is no text":  {body(`{"$ref":7}`), "is not in this document"},
		"a reference to itself":        {body(`{"$ref":"#/components/schemas/Loop"}`), "refers to itself"},
		"two that refer to each other": {body(`{"$ref":"#/components/schemas/A"}`), "refers to itself"},
		"a dynamic reference":          {body(`{"$dynamicRef":"#x"}`), "$dynamicRef cannot be expressed"},
		"a tuple":                      {body(`{"type":"array","prefixItems":[{"type":"string"}]}`), "prefixItems cannot be expressed"},
		"several types":                {body(`{"type":["string","integer"]}`), "several types"},
		"only null":                    {body(`{"type":"null"}`), "no value but null"},
		"an unknown type":              {body(`{"type":"file"}`), `unknown type "file"`},
		"a type in capitals":           {body(`{"type":"String"}`), "unknown type"},
		"the schema false":             {body(`false`), "no schema that accepts a value"},
		"parts that contradict":        {body(`{"allOf":[{"type":"string"},{"type":"integer"}]}`), "different types"},
		"enums that contradict":        {body(`{"allOf":[{"type":"string","enum":["a"]},{"enum":["b"]}]}`), "no value of their enums"},
		"an enum of another type":      {body(`{"type":"string","enum":[1,2]}`), "no value of the type STRING"},
		"too many values":              {body(`{"type":"integer","enum":[` + strings.TrimSuffix(strings.Repeat("1,", 101), ",") + `]}`), "enum is left out"},
		"bounds that contradict":       {body(`{"type":"integer","minimum":3,"maximum":2}`), "minimum and maximum are left out"},
		"lengths that contradict":      {body(`{"type":"array","minItems":3,"maxItems":2}`), "minItems is larger"},
		"too many members":             {body(`{"type":"object","properties":{` + wide("Text", 101) + `}}`), "after the first 100"},
		"too many schemas":             {body(`{"$ref":"#/components/schemas/Wide"}`), "the operation is left out: it has too many schemas"},
		"a member of a hidden name":    {body(`{"type":"object","properties":{"a\u200bb":{"type":"string"}}}`), "its name is no name"},
		"a cookie":                     {`{"parameters":[{"name":"a","in":"cookie","schema":{"type":"string"}}]}`, "left out: a cookie cannot be sent"},
		"another place":                {`{"parameters":[{"name":"a","in":"body","schema":{"type":"string"}}]}`, `a parameter in "body"`},
		"a path without it":            {`{"parameters":[{"name":"a","in":"path","required":true,"schema":{"type":"string"}}]}`, "the path has no {a}"},
		"a body of other members":      {`{"requestBody":{"required":true,"content":{"application/json":{"schema":{"type":"object","additionalProperties":true}}}}}`, "no member that can be expressed"},
		"a merge patch":                {`{"requestBody":{"required":true,"content":{"application/merge-patch+json":{"schema":{"type":"object"}}}}}`, "no application/json"},
		"a description that is long":   {`{"description":"` + strings.Repeat("long ", 101) + `"}`, "cut at 500 characters"},
		"a relative server":            {`{"servers":[{"url":"/v2"}]}`, `the operation is left out: "/v2" is no absolute`},
	} {
		result := imported(t, []byte(document(tc.operation)), Options{Deployment: "acme", Approve: ApproveNone})
		expectCallable(t, result)
		if notes := written(t, result); !strings.Contains(notes, tc.want) {
			t.Errorf("%s: %s", name, notes)
		}
		if !strings.Contains(tc.want, "operation is left out") && strings.Contains(tc.operation, `"kept"`) && !strings.Contains(written(t, result), "name: kept") {
			t.Errorf("%s: the other members are lost too: %s", name, written(t, result))
		}
	}
}

func TestSchemasBecomeFields(t *testing.T) {
	for name, tc := range map[string]struct{ schema, want string }{
		"a choice between one and null": {`{"oneOf":[{"type":"string","enum":["a"]},{"type":"null"}],"description":"D"}`, `{"name":"x","fieldType":"STRING","description":"D","enumValues":["a"]}`},
		"a type by its values":          {`{"enum":[1,2,null]}`, `{"name":"x","fieldType":"INTEGER","enumValues":[1,2]}`},
		"numbers of both types":         {`{"enum":[1,2.5]}`, `{"name":"x","fieldType":"NUMBER","enumValues":[1,2.5]}`},
		"a type by its keywords":        {`{"items":{"type":"integer"}}`, `{"name":"x","fieldType":"ARRAY","itemsType":"INTEGER"}`},
		"items of any type":             {`{"type":"array"}`, `{"name":"x","fieldType":"ARRAY"}`},
		"texts next to a reference":     {`{"$ref":"#/components/schemas/Text","description":"D"}`, `{"name":"x","fieldType":"STRING","description":"D"}`},
		"keywords next to a reference":  {`{"$ref":"#/components/schemas/Text","enum":["a"]}`, `{"name":"x","fieldType":"STRING","enumValues":["a"]}`},
		"the tighter bounds":            {`{"type":"integer","minimum":1,"maximum":9,"allOf":[{"minimum":3,"maximum":12},{"exclusiveMaximum":9}]}`, `{"name":"x","fieldType":"INTEGER","minimum":3,"maximum":8}`},
		"an integer that is a number":   {`{"allOf":[{"type":"number"},{"type":"integer"}]}`, `{"name":"x","fieldType":"INTEGER"}`},
		"bounds beyond exact integers":  {`{"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807}`, `{"name":"x","fieldType":"INTEGER"}`},
		"lengths beyond the bound":      {`{"type":"array","minItems":1.5,"maxItems":4294967296}`, `{"name":"x","fieldType":"ARRAY"}`},
		"members that only answers have": {`{"type":"object","required":["id"],"properties":{"id":{"type":"string","readOnly":true},"a":{"type":"boolean"}}}`,
			`{"name":"x","fieldType":"OBJECT","properties":[{"name":"a","fieldType":"BOOLEAN"}]}`},
		"one member in two parts": {`{"type":"object","properties":{"a":{"type":"string"}},"allOf":[{"properties":{"a":{"enum":["b"]}},"required":["a"]}]}`,
			`{"name":"x","fieldType":"OBJECT","properties":[{"name":"a","fieldType":"STRING","required":true,"enumValues":["b"]}]}`},
		"constraints as words": {`{"type":"string","description":"D.","default":"a<b","minLength":1,"maxLength":3,"pattern":"^a"}`,
			`{"name":"x","fieldType":"STRING","description":"D. Default: \"a\\u003cb\". Minimum length: 1. Maximum length: 3. Pattern: ^a"}`},
		"other constraints as words": {`{"type":"number","default":false,"multipleOf":0.5,"exclusiveMinimum":0,"exclusiveMaximum":1}`,
			`{"name":"x","fieldType":"NUMBER","description":"Default: false. A multiple of 0.5. More than 0. Less than 1.","minimum":0,"maximum":1}`},
	} {
		result := imported(t, []byte(document(body(tc.schema))), Options{Deployment: "acme"})
		if len(result.Tools) != 1 || len(result.Tools[0].Spec.RequestBodySchema) != 2 {
			t.Errorf("%s: %s", name, written(t, result))
			continue
		}
		got, err := json.Marshal(result.Tools[0].Spec.RequestBodySchema[1])
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: got %s, want %s (%v)", name, got, tc.want, err)
		}
	}
}

func TestPatternsSelectOperations(t *testing.T) {
	for pattern, want := range map[string]string{
		"GET /orders*": "list-orders find-order", "* /orders": "list-orders create-order", "/orders": "list-orders create-order",
		"DELETE *": "delete-order", "GET /*": "health list-orders find-order", "* *": "*", "PUT /orders/*/quantity": "put-orders-number-lines-line-quantity", "POST /none": "",
	} {
		selected, err := ParsePattern(pattern)
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		result := imported(t, read(t, "orders.yaml"), Options{Deployment: "acme", Include: []Pattern{selected}})
		var names []string
		for _, tool := range result.Tools {
			names = append(names, tool.Name)
		}
		if got := strings.Join(names, " "); got != want && (want != "*" || len(names) != 7) {
			t.Errorf("%s: got %s", pattern, got)
		}
	}
	for _, wrong := range []string{"", "GET", "get /orders", "GET orders", "GET /a b", "GET  "} {
		if _, err := ParsePattern(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func TestNamesOfTools(t *testing.T) {
	for id, want := range map[string]string{
		"listOrders": "list-orders", "GetAPIKey": "get-api-key", "orders.list_all": "orders-list-all", "v2Users": "v2-users", "ÄndereAuftrag": "ndere-auftrag", "---": "get-x", "": "get-x",
		"ALLCAPS": "allcaps", strings.Repeat("long", 20): strings.Repeat("long", 14),
	} {
		text := fmt.Sprintf(`{"openapi":"3.0.0","servers":[{"url":"https://c.example"}],"paths":{"/X":{"get":{"operationId":%q},"head":{"operationId":%q}}}}`, id, id)
		result := imported(t, []byte(text), Options{Deployment: "acme"})
		if len(result.Tools) != 2 || result.Tools[0].Name != want {
			t.Errorf("%q: %s", id, written(t, result))
			continue
		}
		if second := result.Tools[1].Name; id != "" && id != "---" && second != want+"-2" {
			t.Errorf("%q: the second is %s", id, second)
		}
	}
}

func TestAgentHasABoundedNumberOfTools(t *testing.T) {
	paths := map[string]any{}
	for n := range 101 {
		paths[fmt.Sprint("/", n)] = map[string]any{"get": map[string]any{}}
	}
	text, err := json.Marshal(map[string]any{"openapi": "3.0.0", "servers": []any{map[string]any{"url": "https://c.example"}}, "paths": paths})
	if err != nil {
		t.Fatal(err)
	}
	document, err := Read(text)
	if err != nil {
		t.Fatal(err)
	}
	if result, err := document.Tools(Options{Deployment: "acme"}); err != nil || len(result.Tools) != 101 {
		t.Errorf("without an agent: %v", err)
	}
	if _, err := document.Tools(Options{Deployment: "acme", Agent: "support"}); err == nil || !strings.Contains(err.Error(), "--include") {
		t.Errorf("with an agent: %v", err)
	}
}

func TestNotesAreBounded(t *testing.T) {
	paths := map[string]any{}
	for n := range 2 * maxNotes {
		paths[fmt.Sprintf("/{p%d}", n)] = map[string]any{"get": map[string]any{}}
	}
	text, err := json.Marshal(map[string]any{"openapi": "3.0.0", "servers": []any{map[string]any{"url": "https://c.example"}}, "paths": paths})
	if err != nil {
		t.Fatal(err)
	}
	if result := imported(t, text, Options{Deployment: "acme"}); len(result.Notes) != maxNotes+1 || !strings.Contains(result.Notes[maxNotes].Text, "further notes") {
		t.Errorf("%d notes", len(result.Notes))
	}
}

func FuzzDocument(f *testing.F) {
	for name := range documents() {
		f.Add(string(read(f, name)))
	}
	f.Add(document(body(`{"$ref":"#/components/schemas/Wide2"}`)))
	f.Add(`{"openapi":"3.0.0","servers":[{"url":"https://c.example"}],"paths":{"/a/{b}":{"get":{"parameters":[{"name":"b","in":"path","schema":{"type":"string"}}]}}}}`)
	f.Fuzz(expectSound)
}

// FuzzOperation reaches more of the reader, because the document around the operation is sound.
func FuzzOperation(f *testing.F) {
	for _, seed := range []string{
		body(`{"type":"string","enum":["a"]}`), body(`{"allOf":[{"type":"object","properties":{"a":{"type":"array","items":{}}}},{"required":["a"]}]}`),
		body(`{"type":"integer","minimum":1,"exclusiveMaximum":true,"default":1}`), body(`{"oneOf":[{"$ref":"#/components/schemas/A"},{"type":"null"}]}`),
		body(`{"$ref":"#/paths/~1things/post/requestBody"}`), `{"parameters":[{"name":"q","in":"query","schema":{"type":"array","items":{"type":"boolean"}}}],"description":"D"}`,
		`{"parameters":[{"$ref":"#/components/schemas/Text"}],"servers":[{"url":"https://{a}.c.example","variables":{"a":{"default":"b"}}}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, operation string) { expectSound(t, document(operation)) })
}

// expectSound expects that a document is refused, or becomes tools that can be called, the same ones each time.
func expectSound(t *testing.T, text string) {
	t.Helper()
	document, err := Read([]byte(text))
	if err != nil {
		return
	}
	result, err := document.Tools(Options{Deployment: "acme", Approve: ApproveUnsafe})
	if err != nil {
		return
	}
	expectCallable(t, result)
	again, err := document.Tools(Options{Deployment: "acme", Approve: ApproveUnsafe})
	if err != nil || written(t, again) != written(t, result) {
		t.Errorf("equal input, and another output: %v", err)
	}
}
