package scale

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const page = "../../docs/scale.md"

// block matches a table of the page, between the comments that name it.
var block = regexp.MustCompile(`(?s)<!-- scale:(\w+) -->\n\n(.*?)\n<!-- end -->`)

// TestPage compares the tables of docs/scale.md with those of the model. CARDEA_SCALE_WRITE=1 writes them.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page)
	check(t, err)
	all, seen := tables(), map[string]bool{}
	written := block.ReplaceAllStringFunc(string(text), func(found string) string {
		name := block.FindStringSubmatch(found)[1]
		want, known := all[name]
		if !known || seen[name] {
			t.Errorf("%s: the model has no table %q, or the page has it twice", page, name)
			return found
		}
		seen[name] = true
		return fmt.Sprintf("<!-- scale:%s -->\n\n%s\n<!-- end -->", name, want)
	})
	for name := range all {
		if !seen[name] {
			t.Errorf("%s has no table %q", page, name)
		}
	}
	if os.Getenv("CARDEA_SCALE_WRITE") != "" && !t.Failed() {
		check(t, os.WriteFile(page, []byte(written), 0o600))
		return
	}
	if written != string(text) {
		was, is := strings.Split(string(text), "\n"), strings.Split(written, "\n")
		for i := range min(len(was), len(is)) {
			if was[i] != is[i] {
				t.Errorf("%s:%d: the model prints\n%s\nrun CARDEA_SCALE_WRITE=1 go test ./test/scale -run TestPage", page, i+1, is[i])
				return
			}
		}
		t.Errorf("%s: a table has another length", page)
	}
}

// TestMoreLoadNeedsMore: no need shrinks when a size has more users, deployments or use.
func TestMoreLoadNeedsMore(t *testing.T) {
	t.Parallel()
	for _, s := range sizes() {
		before := needOf(s)
		for name, grow := range map[string]func(*Size){
			"users":       func(s *Size) { s.Users *= 2 },
			"deployments": func(s *Size) { s.Deployments *= 2 },
			"active":      func(s *Size) { s.ActiveShare *= 2 },
			"decisions":   func(s *Size) { s.DecisionsByKeyOfUser *= 2 },
			"keys":        func(s *Size) { s.KeysOfUser *= 2 },
			"changes":     func(s *Size) { s.ChangesOfDeployment *= 10 },
			"sessions":    func(s *Size) { s.SessionDays *= 2 },
		} {
			more := s
			grow(&more)
			after := needOf(more)
			for i, r := range after.ceilings() {
				if was := before.ceilings()[i]; r.Use < was.Use {
					t.Errorf("%s with more %s: %s falls from %g to %g", s.Name, name, r.Name, was.Use, r.Use)
				}
			}
			if after.ServerProcessors < before.ServerProcessors || after.Servers < before.Servers || after.DatabaseMachine < before.DatabaseMachine || after.Operator < before.Operator {
				t.Errorf("%s with more %s needs fewer processors", s.Name, name)
			}
		}
	}
}

// TestSaturatingHasHighestUtilization: the resource that saturates first has the highest utilization.
func TestSaturatingHasHighestUtilization(t *testing.T) {
	t.Parallel()
	for _, s := range sizes() {
		n := needOf(s)
		for _, all := range [][]Resource{n.installed(), n.ceilings()} {
			first := saturating(all)
			for _, r := range all {
				if r.Utilization() > first.Utilization() || r.Utilization() <= 0 || math.IsNaN(r.Utilization()) {
					t.Errorf("%s: %s has %g, %s %g", s.Name, r.Name, r.Utilization(), first.Name, first.Utilization())
				}
			}
		}
	}
}

// TestRecommendedInstallIsBelowTheAim: the resources of the recommended install are used to the aim at most, also
// without the spare server, and each size is within what is assumed to be the most.
func TestRecommendedInstallIsBelowTheAim(t *testing.T) {
	t.Parallel()
	for _, s := range sizes() {
		n := needOf(s)
		if first := saturating(n.installed()); first.Utilization() > aim {
			t.Errorf("%s: %s has %g", s.Name, first.Name, first.Utilization())
		}
		if first := saturating(n.ceilings()); first.Utilization() > 1 {
			t.Errorf("%s does not fit: %s", s.Name, first.Name)
		}
	}
}

// TestSimulationAgreesWithErlang: with one kind of request, the simulated wait is that of M/M/c.
func TestSimulationAgreesWithErlang(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		processors  int
		utilization float64
	}{{1, 0.5}, {4, 0.6}, {4, 0.9}, {16, 0.8}} {
		random := rand.New(rand.NewPCG(1, 2))
		operation := Operation{Name: "one", Server: time.Millisecond}
		rate := of.utilization * float64(of.processors) / operation.Server.Seconds()
		jobs := arrivals(random, []Rate{{operation, rate}}, 1_000_000)
		served := 0.0
		serve(jobs, of.processors, func(job *Job) float64 {
			time := exponential(random, job.operation, job.operation.Server)
			served += time
			return time
		})
		wait := -served
		for _, job := range jobs {
			wait += job.at - job.arrives
		}
		got, want := wait/float64(len(jobs)), meanWait(rate, operation.Server, of.processors)
		if math.Abs(got-want) > 0.08*want {
			t.Errorf("%d processors at %g: %g s, by the formula %g s", of.processors, of.utilization, got, want)
		}
	}
}

// TestLatencyGrowsWithUtilization: p99 never falls when the utilization rises.
func TestLatencyGrowsWithUtilization(t *testing.T) {
	t.Parallel()
	n := needOf(sizes()[2])
	var p99 []time.Duration
	for _, utilization := range []float64{0.3, 0.6, 0.9} {
		latencies, _ := simulate(n, utilization, 100_000, getSession)
		p99 = append(p99, latencies[0].P99)
	}
	if !slices.IsSorted(p99) {
		t.Errorf("p99 of GET /session: %v", p99)
	}
}
