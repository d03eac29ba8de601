package gitops

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// A soak lasts for leastSyncs, and at least for the Go duration in CARDEA_GITOPS_SOAK, if it is set.
const (
	leastSyncs   = 5
	soakDuration = "CARDEA_GITOPS_SOAK"
)

// soak syncs commit after commit, with concurrent HTTP writes to the same resources. Every sync succeeds and becomes
// active, no declared resource is out of sync after it, and no acknowledged HTTP write is lost.
func soak(t *testing.T, n *tenant) {
	lasts := time.Duration(0)
	if text := os.Getenv(soakDuration); text != "" {
		var err error
		lasts, err = time.ParseDuration(text)
		n.Expect(err).NotTo(HaveOccurred(), soakDuration)
	}
	n.start()
	http, began, syncs := startTraffic(t, n), time.Now(), 0
	for syncs < leastSyncs || time.Since(began) < lasts {
		syncs++
		n.next(t, syncs)
		n.sync()
		n.expectInSync()
		n.Expect(n.spec("free", "displayName")).To(Equal(n.git(kind, "free").Object["spec"].(map[string]any)["displayName"]))
		n.settle()
	}
	http.more(10)
	took := time.Since(began)
	http.settle(t)
	n.settle()
	n.expectInSync()
	t.Logf("%d syncs, each successful, in %s", syncs, took.Round(time.Second))
}

// next changes the commit: other fields than the one that HTTP writes, and a scheme that is added or removed.
func (n *tenant) next(t *testing.T, number int) {
	n.declare(t, kind, "free", fmt.Sprintf("Free %d", number), "spec", "displayName")
	n.declare(t, v1alpha1.KindAPIAuthApp, "globex", fmt.Sprintf("Globex %d", number), "spec", "displayName")
	n.commit = slices.Clone(n.commit)
	if number%2 == 1 {
		n.commit = append(n.commit, scheme(n.namespace, "sometimes", "sometimes"))
	} else {
		n.remove(kind, "sometimes")
	}
}
