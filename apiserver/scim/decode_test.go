package scim

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// plain returns a decoded value as encoding/json has it: of members with exactly the same name, the last one.
func plain(value any) any {
	switch v := value.(type) {
	case object:
		out := map[string]any{}
		for _, m := range v {
			out[m.name] = plain(m.value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	}
	return value
}

// FuzzDecode compares decode with encoding/json: both accept the same objects, and read the same values.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, ` {"a":[1,-0.5e+7,true,false,null,"x\u00e9\ud800\\"],"A":{"b":{}},"a":2} `, `{"a":1}{}`, `{"a":1`, `{"a" 1}`, `{"a":1,}`, `[1,]`, `{"a":01}`, `{"a":"\u0000"}`, "{\"a\":\"\x01\"}",
		`{"a":1e999}`, `{1:2}`, `nul`, ``, `{"a":}`, `{,}`, `{"a":"\uD83D\uDE00"}`, "\ufeff{}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decode(body)
		if !utf8.Valid(body) || depth(body) > maxDepth {
			if err == nil {
				t.Fatal("accepted")
			}
			return
		}
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		var want any
		known := json.Valid(body) && d.Decode(&want) == nil
		refused := (*Error)(nil)
		switch {
		case err == nil:
			if !known || !reflect.DeepEqual(plain(got), want) {
				t.Fatalf("%q: %v, want %v", body, plain(got), want)
			}
		case !errors.As(err, &refused):
			t.Fatalf("%q: %v", body, err)
		case known && refused.Type == InvalidSyntax:
			if _, isObject := want.(map[string]any); isObject {
				t.Fatalf("%q: %v", body, err)
			}
		case known && !strings.Contains(string(body), `\u0000`):
			t.Fatalf("%q: %v", body, err)
		}
	})
}
