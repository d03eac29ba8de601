package gitops

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// pace is how often traffic writes; the key's own rate limit allows ten times that.
const pace = 40 * time.Millisecond

// traffic writes over HTTP beside an engine: fields that Git leaves open, fields that it declares, and schemes of its own.
type traffic struct {
	n    *tenant
	stop chan struct{}
	done sync.WaitGroup

	mu          sync.Mutex
	rounds      int
	description string
	// maybe is a description whose write was answered 503: it may be there, and need not.
	maybe    string
	made     []string
	problems []string
}

// startTraffic writes until the returned traffic ends, at the latest with the test.
func startTraffic(t *testing.T, n *tenant) *traffic {
	w := &traffic{n: n, stop: make(chan struct{})}
	w.done.Go(w.run)
	t.Cleanup(w.halt)
	return w
}

func (w *traffic) halt() {
	w.mu.Lock()
	select {
	case <-w.stop:
	default:
		close(w.stop)
	}
	w.mu.Unlock()
	w.done.Wait()
}

func (w *traffic) run() {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for round := 1; ; round++ {
		select {
		case <-w.stop:
			return
		case <-ticker.C:
			w.round(round)
		}
	}
}

// round is one write of each sort. Every other scheme that it makes is deleted again.
func (w *traffic) round(round int) {
	description, slug := fmt.Sprintf("round %d", round), fmt.Sprintf("http-%d", round)
	patched := w.wrote(http.StatusOK, "PATCH", schemesPath+"/free", fmt.Sprintf(`{"description":%q}`, description))
	w.wrote(http.StatusConflict, "PATCH", schemesPath+"/free", `{"name":"by HTTP"}`)
	kept := false
	if round%10 < 2 {
		kept = w.wrote(http.StatusOK, "POST", schemesPath, fmt.Sprintf(`{"slug":%q,"name":"n","rules":[{"unit":"minute","duration":1,"max_requests":60}]}`, slug))
		if round%10 == 1 && w.wrote(http.StatusNoContent, "DELETE", schemesPath+"/"+slug, "") {
			kept = false
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rounds = round
	if patched {
		w.description, w.maybe = description, description
	} else {
		w.maybe = description
	}
	if kept {
		w.made = append(w.made, slug)
	}
}

func (w *traffic) wrote(want int, method, path, body string) bool {
	answer := w.n.http(method, path, body)
	if answer.Status == want {
		return true
	}
	if answer.Status == http.StatusServiceUnavailable {
		return false // the Kubernetes API was too slow, which promises nothing
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf("%s %s %s: %d %s, want %d", method, path, body, answer.Status, answer.Raw, want))
	return false
}

func (w *traffic) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rounds
}

// more waits until so many further rounds have been written.
func (w *traffic) more(rounds int) {
	from := w.count()
	w.n.Eventually(w.count, within).Should(BeNumerically(">=", from+rounds))
}

// settle ends the traffic and expects that every acknowledged write is there.
func (w *traffic) settle() {
	w.halt()
	w.n.Expect(w.problems).To(BeEmpty())
	w.n.Expect(w.made).NotTo(BeEmpty(), "the traffic made nothing in %d rounds", w.rounds)
	description, _, _ := unstructured.NestedString(w.n.live(v1alpha1.KindRateLimitScheme, "free").Object, "spec", "description")
	w.n.Expect(description).To(Or(Equal(w.description), Equal(w.maybe)), "the last acknowledged write")
	for _, slug := range slices.Clone(w.made) {
		w.n.Expect(w.n.live(v1alpha1.KindRateLimitScheme, "acme."+slug)).NotTo(BeNil(), "scheme %s that HTTP made", slug)
	}
}
