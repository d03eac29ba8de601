package shares

import (
	"strconv"
	"testing"
	"time"
)

func TestBudgetIsSavedUpToItsBurst(t *testing.T) {
	t.Parallel()
	b, now := NewBudget(10, 100), time.Unix(1, 0)
	taken := func(after time.Duration) (n int) {
		now = now.Add(after)
		for b.Take("acme/home", 1, now) {
			n++
		}
		return n
	}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{0, 100}, {0, 0}, {time.Second, 10}, {time.Hour, 100}} {
		if got := taken(c.after); got != c.want {
			t.Errorf("%v later %d were taken, want %d", c.after, got, c.want)
		}
	}
	if !b.Take("globex/home", 100, now) {
		t.Error("another deployment has no budget of its own")
	}
}

func TestSpendingMoreThanThereIsDelays(t *testing.T) {
	t.Parallel()
	b, now := NewBudget(10, 100), time.Unix(1, 0)
	if d := b.Delay("acme/home", now); d != 0 {
		t.Errorf("an unused budget delays by %v", d)
	}
	b.Spend("acme/home", 60, now)
	if d := b.Delay("acme/home", now); d != 0 {
		t.Errorf("a budget with 40 left delays by %v", d)
	}
	b.Spend("acme/home", 250, now)
	if d := b.Delay("acme/home", now); d.Round(time.Millisecond) != 21100*time.Millisecond {
		t.Errorf("it delays by %v, want 21.1 s", d)
	}
	if b.Take("acme/home", 1, now) || b.Delay("globex/home", now) != 0 {
		t.Error("the wrong deployment waits")
	}
}

func TestDeploymentsWithLessThanTheBurstAreKept(t *testing.T) {
	t.Parallel()
	b, now := NewBudget(10, 100), time.Unix(1, 0)
	const many = 3 * sweepAt
	for i := range many {
		b.Spend(strconv.Itoa(i), 100, now)
	}
	for i := range many {
		if b.Take(strconv.Itoa(i), 1, now) {
			t.Fatalf("deployment %d has a new budget", i)
		}
	}
	now = now.Add(10 * time.Second) // all have saved the burst
	for i := range many {
		b.Spend("other "+strconv.Itoa(i), 1, now)
	}
	if held := len(b.of); held > 2*many {
		t.Errorf("%d deployments are held", held)
	}
	if _, found := b.of["0"]; found {
		t.Error("a deployment with the whole burst is held")
	}
}
