package gitops

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

const kind = v1alpha1.KindRateLimitScheme

// Prune deletes the resources that Git no longer holds, and no resource that HTTP or the operator created.
func pruneLeavesWhatGitNeverHeld(t *testing.T, n *tenant) {
	n.commit = append(n.commit, scheme(n.namespace, "extra", "extra"))
	n.start()
	http := startTraffic(t, n)
	http.more(4)
	n.remove(kind, "extra")
	n.remove(v1alpha1.KindAPIKey, "globex-tracking-key")
	n.sync()
	n.Eventually(func() any { return n.live(kind, "extra") }, within).Should(BeNil())
	n.Eventually(func() any { return n.live("Secret", "globex-tracking-key") }, within).Should(BeNil(), "its key's Secret goes with it")
	http.more(10)
	n.sync()
	n.expectInSync()
	http.settle(t)
	n.Expect(n.live("Secret", "acme-backend-key")).NotTo(BeNil())
	if a, is := n.engine.(*argo); is {
		n.Eventually(func() []string { return a.orphans(n.namespace) }, within).Should(BeEmpty(), "orphan monitoring lists no Cardea resource")
	}
}

// A scheme in use is pruned only after its last user stops using it; no other resource waits for that.
func pruneWaitsForUse(t *testing.T, n *tenant) {
	n.commit = append(n.commit, scheme(n.namespace, "extra", "extra"))
	n.start()
	n.remove(kind, "partner")
	n.remove(kind, "extra")
	n.declare(t, kind, "free", "Changed", "spec", "displayName")
	n.sync()
	n.Eventually(func() string { return n.condition(kind, "partner", "Deleting") }, within).Should(HavePrefix("True/InUse"))
	n.Expect(n.condition(kind, "partner", "Deleting")).To(ContainSubstring("APIAuthApp globex"))
	n.Eventually(func() any { return n.live(kind, "extra") }, within).Should(BeNil(), "the other scheme does not wait")
	n.settle()
	n.expect(200, "GET", schemesPath+"/partner", "")
	n.Expect(n.spec("free", "displayName")).To(Equal("Changed"))

	n.declare(t, v1alpha1.KindAPIAuthApp, "globex", nil, "spec", "rateLimitSchemeRef")
	n.sync()
	n.Eventually(func() any { return n.live(kind, "partner") }, within).Should(BeNil())
	n.settle()
	n.expectInSync()
}

// Git declares a resource that HTTP created, under its name. Git then owns it, and removing it from Git deletes it.
func gitAdopts(t *testing.T, n *tenant) {
	n.start()
	n.post("gold")
	n.Eventually(func() string { return n.condition(kind, "acme.gold", "Ready") }, within).Should(HavePrefix("True/"))
	id := n.id(kind, "acme.gold")
	n.commit = append(n.commit, scheme(n.namespace, "acme.gold", "gold"))
	n.declare(t, kind, "acme.gold", "Gold", "spec", "displayName")
	n.sync()
	n.settle()
	n.expectInSync()
	n.Expect(n.id(kind, "acme.gold")).To(Equal(id))
	n.expectOwned("gold", `{"name":"by HTTP"}`, "spec.displayName")
	n.Expect(n.http("DELETE", schemesPath+"/gold", "").Status).To(Equal(409), "it is Git's")

	n.remove(kind, "acme.gold")
	n.sync()
	n.Eventually(func() any { return n.live(kind, "acme.gold") }, within).Should(BeNil())
}

// Git declares a slug that HTTP created, under another name. The declared resource takes over, with the id of its name.
func gitTakesOver(t *testing.T, n *tenant) {
	n.start()
	n.post("gold")
	http := startTraffic(t, n)
	n.commit = append(n.commit, scheme(n.namespace, "gold", "gold"))
	n.sync()
	n.settle()
	n.Eventually(func() string { return n.condition(kind, "acme.gold", "Accepted") }, within).Should(HavePrefix("False/Superseded"))
	n.Eventually(func() any { return n.http("GET", schemesPath+"/gold", "").JSON["name"] }, within).Should(Equal("gold"), "the resource that HTTP created has another display name")
	n.expectOwned("gold", `{"rules":[{"unit":"day","duration":1,"max_requests":1}]}`, "spec.rules")
	n.sync()
	n.expectInSync()
	http.more(3)
	http.settle(t)
}

// The whole commit is removed, the namespace included: everything is deleted, also the resources that HTTP created.
func aNamespaceEnds(t *testing.T, n *tenant) {
	n.commit = samples(t, n.namespace)
	n.start()
	n.post("gold")
	n.commit = nil
	n.sync()
	n.Eventually(func() (*unstructured.Unstructured, error) {
		return read(n.ctx, n.cluster.Client, of("Namespace", "", n.namespace))
	}, 2*within).Should(BeNil())
}
