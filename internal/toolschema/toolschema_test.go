package toolschema

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/schemafield"
)

func field(t testing.TB, text string) schemafield.Field {
	t.Helper()
	f, err := schemafield.Parse("field", json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestSchemaOfEachFieldType(t *testing.T) {
	for name, tc := range map[string]struct{ field, want string }{
		"text":    {`{"name":"a","fieldType":"STRING","title":"T","description":"D","format":"date","enumValues":["x"]}`, `{"type":"string","title":"T","description":"D","enum":["x"],"format":"date"}`},
		"integer": {`{"name":"a","fieldType":"INTEGER"}`, `{"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991}`},
		"bounds":  {`{"name":"a","fieldType":"INTEGER","minimum":1,"maximum":3}`, `{"type":"integer","minimum":1,"maximum":3}`},
		"number":  {`{"name":"a","fieldType":"NUMBER","minimum":0.5}`, `{"type":"number","minimum":0.5}`},
		"truth":   {`{"name":"a","fieldType":"BOOLEAN"}`, `{"type":"boolean"}`},
		"list":    {`{"name":"a","fieldType":"ARRAY","minItems":1,"maxItems":2,"itemsType":"STRING"}`, `{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":2}`},
		"any":     {`{"name":"a","fieldType":"ARRAY"}`, `{"type":"array"}`},
		"items":   {`{"name":"a","fieldType":"ARRAY","itemsSchema":{"fieldType":"BOOLEAN","title":"T"}}`, `{"type":"array","items":{"type":"boolean","title":"T"}}`},
		"open":    {`{"name":"a","fieldType":"OBJECT"}`, `{"type":"object"}`},
		"object": {
			`{"name":"a","fieldType":"OBJECT","properties":[{"name":"z","fieldType":"STRING","required":true},{"name":"b","fieldType":"BOOLEAN"}]}`,
			`{"type":"object","properties":{"z":{"type":"string"},"b":{"type":"boolean"}},"required":["z"],"additionalProperties":false}`,
		},
	} {
		got, err := json.Marshal(Of(field(t, tc.field)))
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: %s, want %s (%v)", name, got, tc.want, err)
		}
	}
}

func TestObjectWithoutFieldsHasProperties(t *testing.T) {
	got, err := json.Marshal(Object(nil))
	if want := `{"type":"object","properties":{},"additionalProperties":false}`; err != nil || string(got) != want {
		t.Errorf("%s, want %s (%v)", got, want, err)
	}
}

func TestFaultsNameEveryMemberByPointer(t *testing.T) {
	v, err := Compile(Object([]schemafield.Field{
		field(t, `{"name":"number","fieldType":"STRING","required":true}`), field(t, `{"name":"day","fieldType":"STRING","format":"date"}`),
		field(t, `{"name":"n","fieldType":"INTEGER"}`), field(t, `{"name":"note","fieldType":"STRING","format":"regex"}`),
		field(t, `{"name":"a/b","fieldType":"ARRAY","itemsType":"BOOLEAN"}`),
	}))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"number":"1"}`: "",
		`{"number":"1","day":"2027-02-30","n":9007199254740992,"note":"(","a/b":[true,1],"more":1}`: "/: additional /a~1b/1: /day: /n:",
		`{}`: "/: missing property 'number'",
		`[]`: "/: got array, want object",
	} {
		value, err := Read([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		faults := v.Faults(value)
		if got := strings.Join(faults, "\n"); want == "" && got != "" {
			t.Errorf("%s: %s", text, got)
		}
		for part := range strings.SplitSeq(want, " /") {
			if part = strings.TrimPrefix(part, "/"); want != "" && !strings.Contains(strings.Join(faults, "\n"), "/"+part) {
				t.Errorf("%s: no fault %q in %q", text, part, faults)
			}
		}
		if want != "" && len(faults) != len(strings.Split(want, " /")) {
			t.Errorf("%s: %d faults: %q", text, len(faults), faults)
		}
	}
}

// FuzzCompile compiles the schema of every field that can be declared.
func FuzzCompile(f *testing.F) {
	f.Add(`{"name":"a","fieldType":"OBJECT","properties":[{"name":"z","fieldType":"ARRAY","itemsType":"INTEGER","minItems":3,"maxItems":1}]}`, `{"a":{"z":[1]}}`)
	f.Add(`{"name":"a","fieldType":"STRING","enumValues":[1,null,{}],"format":"hostname"}`, `{"a":"b"}`)
	f.Fuzz(func(t *testing.T, declared, text string) {
		one, err := schemafield.Parse("field", json.RawMessage(declared))
		if err != nil {
			return
		}
		v, err := Compile(Object([]schemafield.Field{one}))
		if err != nil {
			t.Fatalf("%s: %v", declared, err)
		}
		if value, err := Read([]byte(text)); err == nil {
			for _, fault := range v.Faults(value) {
				if fault == "" || len(fault) > maxFault+10 {
					t.Fatalf("%q", fault)
				}
			}
		}
	})
}

func TestNumbersOfAMillionDigitsAreRefusedAtOnce(t *testing.T) {
	v, err := Compile(Object([]schemafield.Field{field(t, `{"name":"ids","fieldType":"ARRAY","itemsType":"INTEGER"}`), field(t, `{"name":"open","fieldType":"OBJECT"}`)}))
	if err != nil {
		t.Fatal(err)
	}
	many := "[" + strings.TrimSuffix(strings.Repeat("1e999999,", 7000), ",") + "]"
	for text, want := range map[string]int{`{"ids":` + many + `}`: MaxFaults, `{"open":{"a":[{"b":1e-999999}]}}`: 1, `{"ids":[1e15]}`: 0} {
		value, err := Read([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if faults := v.Faults(value); len(faults) != want || want == 1 && faults[0] != "/open/a/0/b: the number is too long, too large or too small" {
			t.Errorf("%d faults, want %d: %.300q", len(faults), want, faults)
		}
	}
}

func TestInexactWholeNumbers(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":9007199254740991}`: "", `{"a":9007199254740993}`: "/a: JSON", `{"a":[-9007199254740993]}`: "/a/0: JSON", `{"a":0.1000000000000000055}`: "",
		`{"a":-0}`: "", `{"a":1000000000000000000000}`: "", `{"a":1e400}`: "", `{"a":"9007199254740993"}`: "",
	} {
		value, err := Read([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(Inexact(value), ""); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
