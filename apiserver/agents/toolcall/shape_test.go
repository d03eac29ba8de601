package toolcall

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
	"github.com/cardea-iam/cardea/internal/toolschema"
)

func TestResponsesHaveTheDeclaredForm(t *testing.T) {
	lines := schemafield.Field{Name: "lines", FieldType: "ARRAY", ItemsSchema: &schemafield.Field{FieldType: "OBJECT", Properties: []schemafield.Field{{Name: "sku", FieldType: "STRING"}}}}
	state := schemafield.Field{Name: "state", FieldType: "STRING", Required: true}
	free := schemafield.Field{Name: "more", FieldType: "OBJECT"}
	schema := []schemafield.Field{state, lines, free}
	for name, tc := range map[string]struct {
		declared *document.ToolResponse
		answer   string
		want     string // the structured content, or a part of the failure
	}{
		"everything":               {nil, `{"b":1,"a":[2]}`, `{"a":[2],"b":1}`},
		"a part":                   {&document.ToolResponse{Select: "/data/0/a~1b"}, `{"data":[{"a/b":{"x":1.50}}]}`, `{"x":1.50}`},
		"a part that is a list":    {&document.ToolResponse{Select: "/data"}, `{"data":[1]}`, `[1]`},
		"a part that is absent":    {&document.ToolResponse{Select: "/data/1"}, `{"data":[1]}`, "it has nothing at /data/1"},
		"an index with a zero":     {&document.ToolResponse{Select: "/data/00"}, `{"data":[1]}`, "it has nothing at /data/00"},
		"below a text":             {&document.ToolResponse{Select: "/data/0"}, `{"data":"x"}`, "it has nothing at /data/0"},
		"named members only":       {&document.ToolResponse{Schema: schema}, `{"state":"open","secret":"x","lines":[{"sku":"a","cost":1}],"more":{"kept":true}}`, `{"lines":[{"sku":"a"}],"more":{"kept":true},"state":"open"}`},
		"a missing member":         {&document.ToolResponse{Schema: schema}, `{"lines":[]}`, "does not have the declared form"},
		"a member of another type": {&document.ToolResponse{Schema: schema}, `{"state":7}`, "/state"},
		"a list for an object":     {&document.ToolResponse{Schema: schema}, `[{"state":"open"}]`, "does not have the declared form"},
		"a list":                   {&document.ToolResponse{Array: true, Schema: schema}, `[{"state":"open","secret":1},{"state":"late"}]`, `[{"state":"open"},{"state":"late"}]`},
		"an object for a list":     {&document.ToolResponse{Array: true, Schema: schema}, `{"state":"open"}`, "does not have the declared form"},
		"too large":                {&document.ToolResponse{MaxBytes: 1024}, `{"x":"` + strings.Repeat("y", 1024) + `"}`, "more than 1024 bytes"},
	} {
		r := newReader(nil)
		r.shape.declared = tc.declared
		if s := OutputSchema(tc.declared); s != nil {
			validator, err := toolschema.Compile(s)
			if err != nil {
				t.Fatal(err)
			}
			r.shape.validator = validator
		}
		resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(tc.answer))}
		got, err := r.read(resp)
		if err != nil {
			t.Fatal(err)
		}
		if failed := !strings.HasPrefix(tc.want, "{") && !strings.HasPrefix(tc.want, "["); failed {
			if got.Code == "" || !strings.Contains(got.Content[0].Text, tc.want) {
				t.Errorf("%s: %+v", name, got)
			}
		} else if got.Code != "" || string(got.Structured) != tc.want || got.Content[0].Text != tc.want {
			t.Errorf("%s: %s %+v", name, got.Structured, got.Content)
		}
	}
}

func TestRoomIsTakenAsAnAnswerGrows(t *testing.T) {
	for size, want := range map[int][]int64{
		0: {32 << 10}, 32 << 10: {32 << 10, 32 << 10}, 100 << 10: {32 << 10, 32 << 10, 64 << 10}, 300 << 10: {32 << 10, 32 << 10, 64 << 10, 128 << 10, 1},
	} {
		var taken []int64
		r := newReader(nil)
		r.room = func(bytes int64) bool { taken = append(taken, bytes); return true }
		raw, room, err := r.body(strings.NewReader(strings.Repeat("x", size)))
		if err != nil || !room || len(raw) != min(size, 256<<10+1) || !slices.Equal(taken, want) {
			t.Errorf("%d: read %d, took %v, want %v (%v)", size, len(raw), taken, want, err)
		}
	}
	r := newReader(nil)
	r.room = func(int64) bool { return false }
	if raw, room, err := r.body(strings.NewReader("x")); room || raw != nil || err != nil {
		t.Errorf("%v, %v: an answer is read without room", raw, err)
	}
}
