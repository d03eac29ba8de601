package permission

import (
	"testing"

	"pgregory.net/rapid"
)

func TestWithin(t *testing.T) {
	for _, tc := range []struct {
		name         string
		key, ceiling []string
		ask          string
		want         bool
	}{
		{"granted by both", []string{"a:read"}, []string{"a:read", "b:read"}, "a:read", true},
		{"not in the app", []string{"a:read"}, []string{"b:read"}, "a:read", false},
		{"not in the key", []string{"b:read"}, []string{"a:read", "b:read"}, "a:read", false},
		{"key has all, app has it", []string{"*"}, []string{"a:read"}, "a:read", true},
		{"key has all, app has not", []string{"*"}, []string{"b:read"}, "a:read", false},
		{"app has all", []string{"a:read"}, []string{"*"}, "a:read", true},
		{"both have all", []string{"*"}, []string{"*"}, "anything", true},
		{"none listed is none granted", nil, []string{"*"}, "a:read", false},
		{"no ceiling is none granted", []string{"*"}, nil, "a:read", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := NewSet(tc.key).Within(NewSet(tc.ceiling)).Allows(tc.ask); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestWithinNeverGrantsMoreThanEither(t *testing.T) {
	names := rapid.SliceOf(rapid.SampledFrom([]string{"*", "a", "b", "c", "d"}))
	rapid.Check(t, func(t *rapid.T) {
		key, app := NewSet(names.Draw(t, "key")), NewSet(names.Draw(t, "app"))
		ask := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "ask")
		if got, want := key.Within(app).Allows(ask), key.Allows(ask) && app.Allows(ask); got != want {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}
