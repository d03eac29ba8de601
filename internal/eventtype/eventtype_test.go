package eventtype

import (
	"strings"
	"testing"
)

func TestPatternsSelectVersionsAndOptInTypes(t *testing.T) {
	t.Parallel()
	const call, updated = "agent.tool_call.completed", "user.updated"
	for _, tc := range []struct {
		pattern string
		of      string
		optIn   bool
		want    bool
	}{
		{"user.updated@1", updated, false, true},
		{"user.*@1", updated, false, true},
		{"*@1", updated, false, true},
		{"user.updated@2", updated, false, false},
		{"user.updated@", updated, false, false},
		{"user.updated@01", updated, false, false},
		{"user.updated@1@1", updated, false, false},
		{"@1", updated, false, false},
		{"*", call, false, true},
		{"agent.*", call, false, true},
		{"*", call, true, false},
		{"agent.*", call, true, false},
		{"agent.tool_call.", call, true, false},
		{"agent.tool_call.*", call, true, true},
		{"agent.tool_call.*@1", call, true, true},
		{"agent.tool_call.completed", call, true, true},
		{"agent.tool_call.completed@1", call, true, true},
		{"agent.tool_call.completed@2", call, true, false},
		{"agent.tool_call.*@2", call, true, false},
	} {
		if got := selects(tc.pattern, tc.of, 1, tc.optIn); got != tc.want {
			t.Errorf("%s selects %s, opt-in %t: %t", tc.pattern, tc.of, tc.optIn, got)
		}
	}
	for pattern, want := range map[string]int{"user.updated@1": 1, "*@1": len(Versions) - len(optIn), "rate_limit.*": 1, "agent.*": 4, "agent.tool_call.*": 1, "rate_limit.exceeded@1": 1} {
		if types, err := Select([]string{pattern}); err != nil || len(types) != want {
			t.Errorf("%s selects %v: %v", pattern, types, err)
		}
	}
}

func TestPatternsThatSelectNothingNameTheNearest(t *testing.T) {
	t.Parallel()
	for pattern, says := range map[string]string{
		"user.craeted":           `the nearest is "user.created"`,
		"users.*":                `the nearest is "user.*"`,
		"user":                   `the nearest is "user.*"`,
		"Membership.Deleted":     `the nearest is "membership.deleted"`,
		"user.updated@2":         `user.updated has no version "2", its version is 1`,
		"user.updated@":          `user.updated has no version ""`,
		"user.updatet@2":         `the nearest is "user.updated"`,
		"":                       `"" selects no type`,
		strings.Repeat("x", 500): "a pattern of 500 characters",
	} {
		if types, err := Select([]string{"user.created", pattern}); err == nil || !strings.Contains(err.Error(), says) || types != nil {
			t.Errorf("%s: %v, %v", pattern, types, err)
		}
	}
}

func TestDistanceOfTexts(t *testing.T) {
	t.Parallel()
	for texts, want := range map[[2]string]int{
		{"", ""}: 0, {"", "abc"}: 3, {"abc", ""}: 3, {"abc", "abc"}: 0, {"abc", "abd"}: 1, {"abc", "bc"}: 1, {"kitten", "sitting"}: 3, {"user.craeted", "user.created"}: 2,
	} {
		if got := distance(texts[0], texts[1]); got != want {
			t.Errorf("%q: %d", texts, got)
		}
	}
}
