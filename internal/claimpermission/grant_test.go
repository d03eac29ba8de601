package claimpermission

import (
	"slices"
	"strings"
	"testing"
)

func TestExpression(t *testing.T) {
	claims := map[string]any{"sub": "system:serviceaccount:acme:reader", "groups": []any{"staff", "ops"}, "level": 3.0}
	for source, want := range map[string][]string{
		`['a:read']`: {"a:read"},
		`claims.sub == 'system:serviceaccount:acme:reader' ? ['ai_agents:read'] : []`: {"ai_agents:read"},
		`'ops' in claims.groups ? ['*'] : []`:                                         {"*"},
		`claims.groups.map(g, g + ':read')`:                                           {"staff:read", "ops:read"},
		`claims.groups`:                                                               {"staff", "ops"},
		`claims.level > 2.0 ? ['x'] : []`:                                             {"x"},
	} {
		e, err := Compile(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := e.Permissions(claims); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %v, %v", source, got, err)
		}
	}
}

func TestExpressionFaults(t *testing.T) {
	for _, source := range []string{``, `claims.`, `1`, `'a'`, `{'a': 1}`, `[1]`, `unknown`, `true`} {
		if _, err := Compile(source); err == nil {
			t.Errorf("%q compiles", source)
		}
	}
	for _, source := range []string{
		`claims.missing`, `claims.sub`, `claims.numbers`,
		`claims.long.map(a, claims.long.map(b, a + b).size() > 0 ? 'x' : 'y')`,
	} {
		e, err := Compile(source)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		long := make([]any, 2000)
		for i := range long {
			long[i] = "abcdefgh"
		}
		if got, err := e.Permissions(map[string]any{"sub": "x", "numbers": []any{1.0}, "long": long}); err == nil {
			t.Errorf("%s grants %v", source, got)
		}
	}
}

func TestFromClaim(t *testing.T) {
	for name, want := range map[string][]string{
		"words": {"a:read", "b:write"}, "list": {"a", "b"}, "mixed": {"a"}, "number": nil, "missing": nil, "null": nil, "object": nil,
	} {
		got := FromClaim(map[string]any{"words": " a:read  b:write ", "list": []any{"a", "b"}, "mixed": []any{"a", 1.0, nil}, "number": 1.0, "null": nil, "object": map[string]any{}}, name)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestAnExpressionTakesLittleMemory: one tenant's expression must not exhaust a server that other tenants share.
func TestAnExpressionTakesLittleMemory(t *testing.T) {
	for _, source := range []string{
		`claims.x.split('').join(claims.y) == '' ? ['a'] : []`,
		`[claims.x.replace('', claims.y)]`,
		`claims.x.split(',')`,
		`[['a', 'b'].join(claims.y)]`,
		`['x'].map(a, ['a'] + ['a']).map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a)[0]`,
	} {
		if _, err := Compile(source); err == nil {
			t.Errorf("%s compiles", source)
		}
	}
	for source, claims := range map[string]map[string]any{
		`[claims.x]`:                               {"x": strings.Repeat("x", MaxString+1)},
		`'x' in claims.nested.list ? ['a'] : []`:   {"nested": map[string]any{"list": []any{"x", strings.Repeat("x", MaxString+1)}}},
		`['a']`:                                    {strings.Repeat("x", MaxString+1): 1.0},
		`lists.range(1000000).map(i, string(i))`:   {},
		`lists.range(1000).map(i, 'x') + ['more']`: {},
	} {
		e, err := Compile(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := e.Permissions(claims); err == nil {
			t.Errorf("%s grants %d permissions", source, len(got))
		}
	}
	e, err := Compile(`[claims.x]`)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := e.Permissions(map[string]any{"x": strings.Repeat("x", MaxString)}); err != nil || len(got) != 1 {
		t.Errorf("a string of %d bytes: %v", MaxString, err)
	}
}
