package gitops

import (
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// Each story is told by each engine, in a namespace of its own.
func TestGitOps(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.log())
		}
	})
	engines := []struct {
		name string
		new  func(w *world, namespace string) engine
	}{{"flux", newFlux}, {"argocd-client-side", newArgo(false)}, {"argocd-server-side", newArgo(true)}}
	stories := []struct {
		name string
		tell func(t *testing.T, n *tenant)
	}{
		{"tenant", aTenantIsHealthyAndSilent}, {"ownership", bothWrite}, {"prune", pruneLeavesWhatGitNeverHeld},
		{"in-use", pruneWaitsForUse}, {"adoption", gitAdopts}, {"takeover", gitTakesOver},
		{"refused", aRefusedCommitChangesNothing}, {"broken", aBrokenReferenceIsTold}, {"suspended", aSuspendedResourceBlocksNothing}, {"deletion", aNamespaceEnds},
	}
	t.Run("stories", func(t *testing.T) {
		for _, e := range engines {
			for _, s := range stories {
				t.Run(e.name+"/"+s.name, func(t *testing.T) {
					t.Parallel()
					namespace := e.name + "-" + s.name
					s.tell(t, newTenant(t, w, namespace, e.new(w, namespace)))
				})
			}
		}
		t.Run("flux/equal", func(t *testing.T) {
			t.Parallel()
			fluxSkipsWhatIsEqual(t, newTenant(t, w, "flux-equal", newFlux(w, "flux-equal")))
		})
		t.Run("argocd/waves", func(t *testing.T) {
			t.Parallel()
			wavesWaitForHealth(t, newTenant(t, w, "argocd-waves", newArgo(false)(w, "argocd-waves")))
		})
	})
}

// A whole tenant, applied in any order, becomes healthy; the syncs after write nothing while HTTP writes.
func aTenantIsHealthyAndSilent(t *testing.T, n *tenant) {
	n.commit = samples(t, n.namespace)
	rand.Shuffle(len(n.commit), func(i, j int) { n.commit[i], n.commit[j] = n.commit[j], n.commit[i] })
	n.start()
	n.expectInSync()
	before := n.written()
	http := startTraffic(t, n)
	for range 3 {
		http.more(4)
		n.sync()
		n.Expect(n.written()).To(Equal(before))
		n.expectInSync()
	}
	http.more(10)
	http.settle()
	n.settle()
}

// written is, for each object of the commit, what a write of Git or of the operator would change. Of what the traffic writes it
// is what the engine declares.
func (n *tenant) written() map[string]string {
	all := map[string]string{}
	for _, o := range n.commit {
		live, err := read(n.ctx, n.cluster.Client, o)
		n.Expect(err).NotTo(HaveOccurred())
		if o.GetKind() == v1alpha1.KindRateLimitScheme && o.GetName() == "free" {
			for _, entry := range live.GetManagedFields() {
				if entry.Manager == n.engine.manager() {
					all[o.GetName()] += entry.Time.Format(time.RFC3339) + entry.FieldsV1.GetRawString()
				}
			}
			continue
		}
		all[o.GetKind()+"/"+o.GetName()] = live.GetResourceVersion()
	}
	return all
}

// What Git declares HTTP does not change, what it leaves open HTTP may, and a field changes hands with a commit.
func bothWrite(t *testing.T, n *tenant) {
	n.start()
	n.expectOwned("free", `{"name":"by HTTP"}`, "spec.displayName")
	n.expectOwned("free", `{"rules":[{"unit":"day","duration":1,"max_requests":1}]}`, "spec.rules")
	n.expect(200, "PATCH", schemesPath+"/free", `{"description":"by HTTP"}`)
	n.sync()
	n.expectInSync()
	n.Expect(n.spec("free", "description")).To(Equal("by HTTP"))

	// Git declares another value than HTTP had set.
	n.declare(t, v1alpha1.KindRateLimitScheme, "free", "by Git", "spec", "description")
	n.Expect(n.engine.drift(n.ctx, n.commit)).NotTo(BeEmpty())
	n.sync()
	n.settle()
	n.expectInSync()
	n.Expect(n.spec("free", "description")).To(Equal("by Git"))
	n.expectOwned("free", `{"description":"again"}`, "spec.description")

	// Git lets two fields go: they are open.
	n.declare(t, v1alpha1.KindRateLimitScheme, "free", nil, "spec", "description")
	n.declare(t, v1alpha1.KindRateLimitScheme, "free", nil, "spec", "displayName")
	n.sync()
	n.settle()
	n.expect(200, "PATCH", schemesPath+"/free", `{"name":"mine","description":"mine"}`)
	n.sync()
	n.expectInSync()
	n.Expect(n.spec("free", "displayName")).To(Equal("mine"))
	n.Expect(n.spec("free", "description")).To(Equal("mine"))

	if n.engine.manager() == fluxManager {
		return // which skips it: fluxSkipsWhatIsEqual
	}
	// Git declares the very value that HTTP had set: it is Git's from then on.
	n.declare(t, v1alpha1.KindRateLimitScheme, "free", "mine", "spec", "description")
	n.sync()
	n.expectInSync()
	n.expectOwned("free", `{"description":"again"}`, "spec.description")
}

func (n *tenant) spec(scheme, field string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(n.live(v1alpha1.KindRateLimitScheme, scheme).Object, "spec", field)
	return value
}

// Flux skips an apply whose content is equal, and so does not come to own what HTTP had set to the same value first.
func fluxSkipsWhatIsEqual(t *testing.T, n *tenant) {
	n.start()
	n.expect(200, "PATCH", schemesPath+"/free", `{"description":"equal"}`)
	n.declare(t, v1alpha1.KindRateLimitScheme, "free", "equal", "spec", "description")
	n.sync()
	n.expect(200, "PATCH", schemesPath+"/free", `{"description":"changed"}`)
	n.sync()
	n.Expect(n.spec("free", "description")).To(Equal("equal"), "the sync after reverts it")
	n.expectOwned("free", `{"description":"changed"}`, "spec.description")

	// A person's edit of an open field by kubectl bars HTTP from it until Flux, at its next sync, takes it back.
	out, err := n.cluster.Kubectl(n.ctx, "", "patch", "ratelimitscheme", "partner", "-n", n.namespace, "--type=merge", "-p", `{"spec":{"suspend":false}}`)
	n.Expect(err).NotTo(HaveOccurred(), out)
	n.Expect(n.spec("partner", "suspend")).To(BeFalse())
	n.sync()
	n.Expect(n.spec("partner", "suspend")).To(BeNil())
}
