package schemafield

import (
	"encoding/json"
	"strings"
	"testing"
)

func nested(depth int) string {
	if depth == 1 {
		return `{"name":"leaf","fieldType":"STRING"}`
	}
	return `{"name":"n","fieldType":"OBJECT","properties":[` + nested(depth-1) + `]}`
}

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct{ in, fault string }{
		"a leaf":                {`{"name":"a","fieldType":"STRING"}`, ""},
		"depth 8":               {nested(8), ""},
		"depth 9":               {nested(9), "spec.f[0].properties[0].properties[0].properties[0].properties[0].properties[0].properties[0].properties[0].properties[0]: nests deeper"},
		"items need no name":    {`{"name":"a","fieldType":"ARRAY","itemsSchema":{"fieldType":"STRING"}}`, ""},
		"items of unknown type": {`{"name":"a","fieldType":"ARRAY","itemsSchema":{"fieldType":"TEXT"}}`, "spec.f[0].itemsSchema.fieldType: must be one of"},
		"no name":               {`{"fieldType":"STRING"}`, "spec.f[0].name: is required"},
		"unknown member":        {`{"name":"a","fieldType":"STRING","colour":1}`, `spec.f[0]: is not a schema field: json: unknown field "colour"`},
		"snake case":            {`{"name":"a","field_type":"STRING"}`, "unknown field"},
		"no object":             {`7`, "spec.f[0]: is not a schema field"},
		"minimum over maximum":  {`{"name":"a","fieldType":"NUMBER","minimum":2,"maximum":1}`, "spec.f[0].minimum"},
		"negative minItems":     {`{"name":"a","fieldType":"ARRAY","minItems":-1}`, "spec.f[0].minItems"},
		"a name twice":          {`{"name":"a","fieldType":"OBJECT","properties":[` + nested(1) + `,` + nested(1) + `]}`, "spec.f[0].properties[1].name"},
		"a name too long":       {`{"name":"` + strings.Repeat("x", 101) + `","fieldType":"STRING"}`, "spec.f[0].name: has 101"},
		"any enum values":       {`{"name":"a","fieldType":"NUMBER","enumValues":[1,"two",null,{"x":[]}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("spec.f[0]", json.RawMessage(tc.in))
			if (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("got %v, want %q", err, tc.fault)
			}
		})
	}
}

func TestServedForm(t *testing.T) {
	f, err := Parse("f", json.RawMessage(`{"name":"a","fieldType":"ARRAY","itemsSchema":{"fieldType":"OBJECT","properties":[{"name":"b","fieldType":"NUMBER","minimum":0}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(f)
	want := `{"name":"a","field_type":"ARRAY","required":false,"title":"","description":"","enum_values":[],"format":"","items_type":"",` +
		`"items_schema":{"name":"","field_type":"OBJECT","required":false,"title":"","description":"","enum_values":[],"format":"","items_type":"","items_schema":null,` +
		`"properties":[{"name":"b","field_type":"NUMBER","required":false,"title":"","description":"","enum_values":[],"format":"","minimum":0,"items_type":"","items_schema":null,"properties":[]}]},"properties":[]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(nested(3))
	f.Fuzz(func(t *testing.T, in string) { _, _ = Parse("f", json.RawMessage(in)) })
}
