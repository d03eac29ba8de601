package webhookendpoint

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cardea-iam/cardea/store/people"
)

func TestEventsAfterThePositionWait(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		bounds         people.EventBounds
		position, want int64
	}{
		"an empty log":                  {people.EventBounds{}, 0, 0},
		"nothing was filtered yet":      {people.EventBounds{First: 1, Last: 12}, 0, 12},
		"some were":                     {people.EventBounds{First: 1, Last: 12}, 7, 5},
		"all were":                      {people.EventBounds{First: 1, Last: 12}, 12, 0},
		"the oldest are deleted":        {people.EventBounds{First: 10, Last: 12}, 2, 3},
		"a store of an earlier restore": {people.EventBounds{First: 1, Last: 12}, 20, 0},
	} {
		if got := waiting(tt.bounds, tt.position); got != tt.want {
			t.Errorf("%s: %d events wait, want %d", name, got, tt.want)
		}
	}
}

func TestEventsAreCountedAtMostOnceAMinute(t *testing.T) {
	t.Parallel()
	c, now := &counts{at: map[types.UID]time.Time{}}, time.Date(2026, 5, 10, 11, 0, 0, 0, time.UTC)
	expect := func(endpoint types.UID, after time.Duration, want bool) {
		t.Helper()
		if got := c.due(endpoint, now.Add(after)); got != want {
			t.Errorf("%s after %s: %t", endpoint, after, got)
		}
	}
	expect("a", 0, true)
	c.note("a", now)
	expect("a", time.Minute-time.Second, false)
	expect("b", 0, true)
	expect("a", time.Minute, true)
	c.forget("a")
	expect("a", 0, true)
}
