package toolcall

import (
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

func text(name string) schemafield.Field { return schemafield.Field{Name: name, FieldType: "STRING"} }

func TestRequestOfEachPlace(t *testing.T) {
	constant := text("X-Version")
	constant.EnumValues = append(constant.EnumValues, []byte(`"2"`))
	for name, tc := range map[string]struct {
		tool            document.AITool
		arguments       map[string]any
		method, url     string
		body, wantFault string
		header          map[string]string
	}{
		"path and query": {
			tool:      document.AITool{Method: "GET", Endpoint: "https://a.example/{a}/b?c={c}&d={d}&e=1", URLParamsSchema: []schemafield.Field{text("a"), text("c"), text("d"), text("f")}},
			arguments: map[string]any{"a": "x/y", "c": "1&2", "f": []any{"p", true}}, url: "https://a.example/x%2Fy/b?c=1%262&e=1&f=p&f=true",
		},
		"parameters of GET": {
			tool:      document.AITool{Method: "GET", Endpoint: "https://a.example/{a}", Parameters: []document.ToolParameter{{Name: "a", Type: "string"}, {Name: "n", Type: "integer"}}},
			arguments: map[string]any{"a": "1", "n": "2"}, url: "https://a.example/1?n=2",
		},
		"parameters of POST": {
			tool:      document.AITool{Method: "POST", Endpoint: "https://a.example/", Parameters: []document.ToolParameter{{Name: "n", Type: "any"}}},
			arguments: map[string]any{"n": "2"}, url: "https://a.example/", body: `{"n":"2"}`, header: map[string]string{"Content-Type": "application/json", "Idempotency-Key": "7"},
		},
		"no members": {
			tool: document.AITool{Method: "POST", Endpoint: "https://a.example/", RequestBodySchema: []schemafield.Field{text("a")}}, url: "https://a.example/", body: `{}`,
		},
		"headers": {
			tool:      document.AITool{Method: "GET", Endpoint: "https://a.example/", Authorization: document.ToolAuthorization{CustomHeaders: []schemafield.Field{constant, text("X-Day")}}},
			arguments: map[string]any{"X-Day": "Monday"}, url: "https://a.example/", header: map[string]string{"X-Version": "2", "X-Day": "Monday", "Idempotency-Key": ""},
		},
		"line break in a header": {
			tool:      document.AITool{Method: "GET", Endpoint: "https://a.example/", Authorization: document.ToolAuthorization{CustomHeaders: []schemafield.Field{text("X-Day")}}},
			arguments: map[string]any{"X-Day": "a\r\nX-Admin: 1"}, wantFault: "/X-Day: a header has",
		},
		"segment without value": {tool: document.AITool{Method: "GET", Endpoint: "https://a.example/{a}", URLParamsSchema: []schemafield.Field{text("a")}}, wantFault: "/a: a segment"},
		"object in a path": {
			tool: document.AITool{Method: "GET", Endpoint: "https://a.example/{a}", URLParamsSchema: []schemafield.Field{text("a")}}, arguments: map[string]any{"a": map[string]any{}}, wantFault: "/a: only a text",
		},
	} {
		r, err := (&Call{Tool: &tc.tool, Arguments: tc.arguments, ID: "7"}).request(t.Context())
		if tc.wantFault != "" {
			if wrong := new(ArgumentError); !errors.As(err, &wrong) || !strings.Contains(wrong.Text, tc.wantFault) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.String() != tc.url || string(body) != tc.body {
			t.Errorf("%s: %s %q, %v", name, r.URL, body, err)
		}
		for header, want := range tc.header {
			if got := r.Header.Get(header); got != want {
				t.Errorf("%s: %s is %q", name, header, got)
			}
		}
	}
}

// FuzzRequestStaysInItsPlace checks that no argument changes the host, the segments or the names of the query.
func FuzzRequestStaysInItsPlace(f *testing.F) {
	f.Add("a", "b", "c")
	f.Add("../..", "1&admin=1", "x#y")
	f.Add("{query}", "{segment}", "\x00\xff")
	f.Fuzz(func(t *testing.T, segment, query, more string) {
		tool := document.AITool{Method: "GET", Endpoint: "https://a.example/v1/{segment}/x?q={query}", URLParamsSchema: []schemafield.Field{text("segment"), text("query"), text("more")}}
		r, err := (&Call{Tool: &tool, Arguments: map[string]any{"segment": segment, "query": query, "more": more}}).request(t.Context())
		if wrong := new(ArgumentError); errors.As(err, &wrong) && (segment == "" || segment == "." || segment == "..") {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(r.URL.EscapedPath(), "/")
		inSegment, err := url.PathUnescape(parts[2])
		values := r.URL.Query()
		if err != nil || r.URL.Host != "a.example" || len(parts) != 4 || inSegment != segment || len(values) != 2 || values.Get("q") != query || values.Get("more") != more || r.URL.Fragment != "" || r.URL.User != nil {
			t.Fatalf("%s", r.URL)
		}
	})
}
