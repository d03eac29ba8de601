package gitops

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// pace is the time between rounds of writes; the key's own rate limit allows ten times that.
const pace = 40 * time.Millisecond

// deadline is how long Cardea waits for the Kubernetes API to complete a write before it responds with 503. Only an
// overloaded machine needs that long: an earlier 503 is a fault.
const deadline = 5 * time.Second

// traffic writes over HTTP while an engine syncs: fields that Git does not declare, fields that Git declares, and
// schemes of its own.
type traffic struct {
	n    *tenant
	stop func()
	done sync.WaitGroup

	mu     sync.Mutex
	rounds int
	// acknowledged counts the writes that succeeded.
	acknowledged int
	description  string
	// maybe is the latest description that was sent; its write may have been unanswered, so it may or may not be
	// stored.
	maybe string
	// made and deleted are the slugs of the schemes that were kept and of those that were deleted.
	made, deleted []string
	// late counts the writes that the Kubernetes API did not complete within the deadline, which shows that this
	// machine is slow.
	late     int
	problems []string
}

// startTraffic writes until the returned traffic ends, at the latest when the test ends.
func startTraffic(t *testing.T, n *tenant) *traffic {
	stop := make(chan struct{})
	w := &traffic{n: n, stop: sync.OnceFunc(func() { close(stop) })}
	w.done.Go(func() { w.run(stop) })
	t.Cleanup(w.halt)
	return w
}

func (w *traffic) halt() {
	w.stop()
	w.done.Wait()
}

func (w *traffic) run(stop chan struct{}) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for round := 1; ; round++ {
		select {
		case <-stop:
			return
		case <-ticker.C:
			w.round(round)
		}
	}
}

// round sends one write of each kind, and in two of ten rounds creates a scheme. It deletes every other scheme again.
func (w *traffic) round(round int) {
	w.expectKept()
	description, slug := fmt.Sprintf("round %d", round), fmt.Sprintf("http-%d", round)
	patched := w.wrote(http.StatusOK, "PATCH", schemesPath+"/free", fmt.Sprintf(`{"description":%q}`, description))
	w.wrote(http.StatusConflict, "PATCH", schemesPath+"/free", `{"name":"by HTTP"}`)
	var made, deleted []string
	if round%10 < 2 && w.wrote(http.StatusOK, "POST", schemesPath, fmt.Sprintf(`{"slug":%q,"name":"n","rules":[{"unit":"minute","duration":1,"max_requests":60}]}`, slug)) {
		switch {
		case round%10 == 0:
			made = []string{slug}
		case w.wrote(http.StatusNoContent, "DELETE", schemesPath+"/"+slug, ""):
			deleted = []string{slug}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rounds = round
	w.made, w.deleted = append(w.made, made...), append(w.deleted, deleted...)
	w.maybe = description
	if patched {
		w.description = description
	}
}

// expectKept records a problem if the live description is neither the last acknowledged nor the last sent one.
func (w *traffic) expectKept() {
	if w.description == "" {
		return
	}
	live, err := read(w.n.ctx, w.n.cluster.Client, of(v1alpha1.KindRateLimitScheme, w.n.namespace, "free"))
	if err != nil || live == nil {
		w.problem("the scheme that is written: %v, %v", live, err)
		return
	}
	if is, _, _ := unstructured.NestedString(live.Object, "spec", "description"); is != w.description && is != w.maybe {
		w.problem("the description is %q after %q was acknowledged", is, w.description)
	}
}

func (w *traffic) wrote(want int, method, path, body string) bool {
	began := time.Now()
	answer := w.n.http(method, path, body)
	if answer.Status == want {
		w.mu.Lock()
		defer w.mu.Unlock()
		if want < 300 {
			w.acknowledged++
		}
		return true
	}
	took := time.Since(began)
	if answer.Status == http.StatusServiceUnavailable && took >= deadline && strings.Contains(string(answer.Raw), "the Kubernetes API is unavailable") {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.late++
		return false
	}
	w.problem("%s %s %s: %d %s after %s, want %d", method, path, body, answer.Status, answer.Raw, took, want)
	return false
}

func (w *traffic) problem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

func (w *traffic) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rounds
}

// more waits until a number of further rounds are done.
func (w *traffic) more(rounds int) {
	from := w.count()
	w.n.Eventually(w.count, within).Should(BeNumerically(">=", from+rounds))
}

// settle ends the traffic and expects every acknowledged write to be in effect.
func (w *traffic) settle(t *testing.T) {
	w.halt()
	w.expectKept()
	w.n.Expect(w.problems).To(BeEmpty())
	w.n.Expect(w.made).NotTo(BeEmpty(), "the traffic made nothing in %d rounds", w.rounds)
	for _, slug := range w.made {
		w.n.Expect(w.n.live(v1alpha1.KindRateLimitScheme, "acme."+slug)).NotTo(BeNil(), "scheme %s that HTTP made", slug)
	}
	for _, slug := range w.deleted {
		w.n.Eventually(func() any { return w.n.live(v1alpha1.KindRateLimitScheme, "acme."+slug) }, within).Should(BeNil(), "scheme %s that HTTP deleted", slug)
	}
	t.Logf("%d writes acknowledged in %d rounds, %d schemes kept and %d deleted; %d writes that the Kubernetes API left unanswered for %s",
		w.acknowledged, w.rounds, len(w.made), len(w.deleted), w.late, deadline)
}
