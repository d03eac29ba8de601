package toolform

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

func field(name, fieldType string, values ...string) schemafield.Field {
	f := schemafield.Field{Name: name, FieldType: fieldType}
	for _, v := range values {
		f.EnumValues = append(f.EnumValues, json.RawMessage(v))
	}
	return f
}

func required(name string) schemafield.Field {
	f := field(name, "STRING")
	f.Required = true
	return f
}

func TestEndpointsThatCannotBeCalled(t *testing.T) {
	for endpoint, want := range map[string]string{
		"": "", "https://a.example/{x}": "", "https://a.example": "", "https://a.example?x={x}": "", "https://a.example?y={y}": "",
		"https://u:p@a.example/": "contains credentials", "https://{x}.example/": "placeholder in its host", "ftp://a.example/": "no http",
		"https://a.example/{z}": "{z} is no parameter", "https://a.example/{y}": "{y} of the path has a parameter that may be absent",
		"https://a.example/#x": "fragment", "a.example/x": "no http", "https:///x": "no http", "https://a.example/{b}": "{b} is no parameter",
	} {
		got := Check(&document.AITool{
			Method: "POST", Endpoint: endpoint, URLParamsSchema: []schemafield.Field{required("x"), field("y", "STRING")},
			RequestBodySchema: []schemafield.Field{required("b")},
		})
		if want == "" && got != nil || want != "" && (got == nil || got.Path != "spec.endpoint" || !strings.Contains(got.Text, want)) {
			t.Errorf("%q: %v", endpoint, got)
		}
	}
}

func TestDeclarationsThatCannotBeCalled(t *testing.T) {
	list := field("x", "ARRAY")
	list.ItemsType = "ARRAY"
	objects := field("x", "ARRAY")
	objects.ItemsSchema = &schemafield.Field{FieldType: "OBJECT"}
	deep := field("x", "OBJECT")
	deep.Properties = []schemafield.Field{field("y", "INTEGER", "1", "1.5")}
	fields := func(list ...schemafield.Field) []schemafield.Field { return list }
	asUser := document.ToolAuthorization{AuthorizeAsUser: true}
	audience := func(a string) document.AITool {
		return document.AITool{Authorization: document.ToolAuthorization{AuthorizeAsUser: true, Audience: a}}
	}
	for name, tc := range map[string]struct {
		tool document.AITool
		want string // the path and a part of the text; "" if it can be called
	}{
		"an object in the URL":             {document.AITool{URLParamsSchema: fields(field("x", "OBJECT"))}, "spec.urlParamsSchema[0]: an object cannot"},
		"a list of lists in the URL":       {document.AITool{URLParamsSchema: fields(list)}, "spec.urlParamsSchema[0]: a list of lists cannot"},
		"a list of objects in the URL":     {document.AITool{URLParamsSchema: fields(objects)}, "spec.urlParamsSchema[0]: an object cannot"},
		"a body of GET":                    {document.AITool{Method: "GET", RequestBodySchema: fields(field("x", "STRING"))}, "spec.requestBodySchema: a GET request"},
		"a body of DELETE":                 {document.AITool{Method: "DELETE", RequestBodySchema: fields(field("x", "STRING"))}, ""},
		"a name in URL and body":           {document.AITool{URLParamsSchema: fields(field("x", "STRING")), RequestBodySchema: fields(field("x", "STRING"))}, `spec.requestBodySchema[0].name: "x" is also in spec.urlParamsSchema`},
		"a name twice in the body":         {document.AITool{RequestBodySchema: fields(field("x", "STRING"), field("x", "STRING"))}, "spec.requestBodySchema[1].name: "},
		"a text among numbers":             {document.AITool{RequestBodySchema: fields(field("x", "NUMBER", "1", `"2"`))}, "spec.requestBodySchema[0].enumValues[1]: is no NUMBER"},
		"a fraction among integers, below": {document.AITool{RequestBodySchema: fields(deep)}, "spec.requestBodySchema[0].properties[0].enumValues[1]: is no INTEGER"},
		"a value of the response":          {document.AITool{Response: &document.ToolResponse{Schema: fields(field("x", "BOOLEAN", "1"))}}, "spec.response.schema[0].enumValues[0]: "},
		"values of their types": {document.AITool{RequestBodySchema: fields(
			field("a", "STRING", `"x"`), field("b", "INTEGER", "7"), field("c", "NUMBER", "7.5"), field("d", "BOOLEAN", "true"), field("e", "ARRAY", "[]"), field("f", "OBJECT", "{}"))}, ""},
		"a number of a million digits":  {document.AITool{RequestBodySchema: fields(field("x", "NUMBER", "1e999999"))}, "spec.requestBodySchema[0].enumValues[0]: is no NUMBER"},
		"such a number in an object":    {document.AITool{RequestBodySchema: fields(field("x", "OBJECT", `{"a":[1e999999]}`))}, "spec.requestBodySchema[0].enumValues[0]: is no OBJECT"},
		"a header of the connection":    {document.AITool{Headers: []document.ToolHeader{{Name: "Host"}}}, "spec.headers[Host]: the header Host cannot be set"},
		"a header of the content":       {document.AITool{Headers: []document.ToolHeader{{Name: "Content-Length"}}}, "cannot be set"},
		"a header of a signature":       {document.AITool{Authorization: document.ToolAuthorization{CustomHeaders: fields(field("Webhook-Id", "STRING"))}}, "spec.authorization.customHeaders[0]: the header Webhook-Id cannot"},
		"a header twice":                {document.AITool{Headers: []document.ToolHeader{{Name: "X-A"}, {Name: "x-a"}}}, "the header x-a is set twice"},
		"a header fixed and chosen":     {document.AITool{Headers: []document.ToolHeader{{Name: "X-A"}}, Authorization: document.ToolAuthorization{CustomHeaders: fields(field("x-A", "STRING"))}}, "is set twice"},
		"a list as a header":            {document.AITool{Authorization: document.ToolAuthorization{CustomHeaders: fields(field("X-A", "ARRAY"))}}, "a header is a text"},
		"a header with a line break":    {document.AITool{Authorization: document.ToolAuthorization{CustomHeaders: fields(field("X\nA", "STRING"))}}, "is no name of a header"},
		"Authorization beside a token":  {document.AITool{Authorization: asUser, Headers: []document.ToolHeader{{Name: "Authorization"}}}, "holds the token"},
		"Authorization without a token": {document.AITool{Headers: []document.ToolHeader{{Name: "Authorization"}}}, ""},
		"an audience without a token":   {document.AITool{Authorization: document.ToolAuthorization{Audience: "https://a.example"}}, "spec.authorization.audience: no token is sent"},
		"an audience with a fragment":   {audience("https://a.example/#x"), "is no absolute URL"},
		"an audience that is relative":  {audience("/orders"), "is no absolute URL"},
		"Cardea as the audience":        {audience("cardea:backend"), "Cardea's own"},
		"a URN as the audience":         {audience("urn:acme:orders"), ""},
		"a URL as the audience":         {audience("https://a.example/orders"), ""},
	} {
		if tc.tool.Method == "" {
			tc.tool.Method = "POST"
		}
		got := Check(&tc.tool)
		if tc.want == "" && got != nil || tc.want != "" && (got == nil || !strings.Contains(got.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", name, got, tc.want)
		}
	}
}
