package permission

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestAllows(t *testing.T) {
	for _, tc := range []struct {
		name  string
		names []string
		ask   string
		want  bool
	}{
		{"listed", []string{"b:read", "a:read"}, "a:read", true},
		{"not listed", []string{"a:read"}, "a:write", false},
		{"a part of a name", []string{"a:read"}, "a", false},
		{"all", []string{"*"}, "anything", true},
		{"all beside others", []string{"a:read", "*"}, "anything", true},
		{"none listed is none granted", nil, "a:read", false},
	} {
		if got := NewSet(tc.names).Allows(tc.ask); got != tc.want {
			t.Errorf("%s: got %v", tc.name, got)
		}
	}
	if (Set{}).Allows("a") {
		t.Error("the zero Set grants something")
	}
}

func TestASetGrantsWhatItLists(t *testing.T) {
	names := rapid.SliceOf(rapid.SampledFrom([]string{"*", "a", "b", "c", "d"}))
	rapid.Check(t, func(t *rapid.T) {
		listed := names.Draw(t, "names")
		ask := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "ask")
		if got, want := NewSet(listed).Allows(ask), slices.Contains(listed, ask) || slices.Contains(listed, All); got != want {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}
