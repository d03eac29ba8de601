package upstream

import (
	"fmt"
	"maps"
	"testing"
	"time"
)

// due returns a plan with a number of due checks in each deployment.
func duePlan(now time.Time, of map[string]int) *plan {
	p := newPlan(func(time.Duration) time.Duration { return 0 })
	for deployment, n := range of {
		for id := range n {
			c := &check{Connection: Connection{Deployment: deployment, ID: int64(id)}, at: now.Add(time.Duration(id-n) * time.Second)}
			p.checks[target{deployment, int64(id)}] = c
		}
	}
	return p
}

func counted(checks []*check) map[string]int {
	counts := map[string]int{}
	for _, c := range checks {
		counts[c.Deployment]++
	}
	return counts
}

// Many connections of one deployment, whose providers do not answer, do not delay the only one of another.
func TestDeploymentsTakeTurnsWithTheirChecks(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	p := duePlan(now, map[string]int{"acme/many": 1000, "globex/one": 1})
	begun := p.take(now)
	if got := counted(begun); !maps.Equal(got, map[string]int{"acme/many": checksOfDeployment, "globex/one": 1}) {
		t.Errorf("%v", got)
	}
	if again := p.take(now); len(again) != 0 {
		t.Errorf("%d more begin", len(again))
	}
	for _, c := range begun {
		p.end(c, c.since, now.Add(time.Hour))
	}
	if got := counted(p.take(now)); !maps.Equal(got, map[string]int{"acme/many": checksOfDeployment}) {
		t.Errorf("%v", got)
	}
}

func TestChecksAreBoundedAndLongestDueFirst(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	of := map[string]int{}
	for n := range 3 * checksAtOnce {
		of[fmt.Sprint("acme/", n)] = 1
	}
	p := duePlan(now, of)
	first := counted(p.take(now))
	if len(first) != checksAtOnce {
		t.Errorf("%d begin", len(first))
	}
	for _, c := range p.checks {
		if c.running {
			p.end(c, c.since, now) // due again at once
		}
	}
	for deployment := range counted(p.take(now)) {
		if first[deployment] > 0 {
			t.Errorf("%s has its second turn before others have their first", deployment)
		}
	}
	p = duePlan(now, map[string]int{"acme/home": 9})
	for n, c := range p.take(now) {
		if c.ID != int64(n) { // ids with earlier times are lower
			t.Errorf("%d begins at turn %d", c.ID, n)
		}
	}
}

// A connection whose provider changes while it is checked is checked again at once.
func TestProviderThatChangesDuringACheckIsCheckedAgain(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	p := duePlan(now, map[string]int{"acme/home": 1})
	c := p.take(now)[0]
	began := c.since
	c.since, c.at = now, now.Add(time.Second)
	p.end(c, began, now.Add(time.Hour))
	if got := p.take(now.Add(time.Second)); len(got) != 1 {
		t.Error("it waits for an hour")
	}
}

// A check that ends after its connection was deleted must not bring back what is recorded of the connection.
func TestPlanHasNoDeletedConnections(t *testing.T) {
	t.Parallel()
	p := newPlan(func(time.Duration) time.Duration { return 0 })
	c := &check{Connection: Connection{Deployment: "acme/home", ID: 1}}
	of := target{"acme/home", 1}
	p.checks[of] = c
	if !p.has(c) {
		t.Error("the plan lacks a connection")
	}
	delete(p.checks, of)
	if p.has(c) {
		t.Error("the plan has a deleted connection")
	}
	p.checks[of] = &check{Connection: c.Connection}
	if p.has(c) {
		t.Error("a former check counts as that of the connection that was declared again")
	}
}
