package gitops

import (
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// Each story runs with each engine, in a separate namespace.
func TestGitOps(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(func() {
		if t.Failed() {
			log := w.log()
			t.Log(log[max(0, len(log)-4000):])
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
		{"tenant", aTenantIsHealthyAndSilent}, {"out-of-sync", whatBothSetIsOutOfSync}, {"ownership", bothWrite}, {"late-rights", rightsThatComeLate}, {"prune", pruneLeavesWhatGitNeverHeld},
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
		t.Run("argocd/by-hand", func(t *testing.T) {
			t.Parallel()
			aPersonsEditBarsHTTP(t, newTenant(t, w, "argocd-by-hand", newArgo(false)(w, "argocd-by-hand")))
		})
		t.Run("argocd/waves", func(t *testing.T) {
			t.Parallel()
			wavesWaitForHealth(t, newTenant(t, w, "argocd-waves", newArgo(false)(w, "argocd-waves")))
		})
	})
	// The soak runs after the stories, so that they do not affect its figures.
	t.Run("soak", func(t *testing.T) {
		for _, e := range engines {
			t.Run(e.name, func(t *testing.T) {
				t.Parallel()
				soak(t, newTenant(t, w, e.name+"-soak", e.new(w, e.name+"-soak")))
			})
		}
	})
	w.expectNoErrorsOfReconciles(t)
}

// A whole tenant, applied in any order, becomes healthy. After the first sync, every comparison finds all declared
// resources in sync while HTTP writes, and later syncs write nothing.
func aTenantIsHealthyAndSilent(t *testing.T, n *tenant) {
	n.commit = samples(t, n.namespace)
	rand.Shuffle(len(n.commit), func(i, j int) { n.commit[i], n.commit[j] = n.commit[j], n.commit[i] })
	n.start()
	before := n.written()
	http, looks := startTraffic(t, n), n.watch(t, n.commit)
	for range 3 {
		http.more(4)
		n.sync()
		n.Expect(n.written()).To(Equal(before))
	}
	looks.reaches(50)
	http.more(10)
	looks.expectClean(t)
	http.settle(t)
	n.settle()
	n.expectInSync()
}

// A field that Git declares and HTTP writes is OutOfSync. This shows that the comparisons of the other stories can
// fail.
func whatBothSetIsOutOfSync(t *testing.T, n *tenant) {
	n.start()
	http := startTraffic(t, n)
	http.more(3)
	ahead := copies(n.commit)
	set(t, find(ahead, kind, "free"), "by Git", "spec", "description")
	looks := n.watch(t, ahead)
	n.Eventually(func() []string { _, faults := looks.seen(); return faults }, within).ShouldNot(BeEmpty())
	http.more(10)
	looks.end()
	_, faults := looks.seen()
	n.Expect(faults).To(HaveEach(And(ContainSubstring("RateLimitScheme free"), ContainSubstring("spec.description"))))
	http.settle(t)

	// If the deployment lets HTTP override Git, the engine detects the difference, and its next sync reverts the field.
	n.declare(t, v1alpha1.KindIdentityDeployment, "acme", "Override", "spec", "management", "fieldConflicts")
	n.sync()
	n.settle()
	n.expectInSync()
	n.Eventually(func() int { return n.http("PATCH", schemesPath+"/free", `{"name":"by HTTP"}`).Status }, within).Should(Equal(200), "servers follow")
	overridden, excused, err := n.outOfSync(n.commit)
	n.Expect(err).NotTo(HaveOccurred())
	n.Expect(excused).To(BeZero())
	n.Expect(overridden).To(And(Not(BeEmpty()), HaveEach(And(ContainSubstring("RateLimitScheme free"), ContainSubstring("spec.displayName")))))
	n.sync()
	n.expectInSync()
	n.Expect(n.spec("free", "displayName")).To(Equal("Free"))
}

// written returns, for each object of the commit, a value that changes with every write of Git or of the operator. For
// the scheme that the traffic writes, it is the part that the engine declares.
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

// HTTP does not change fields that Git declares, may change others, and a commit changes the owner of a field.
func bothWrite(t *testing.T, n *tenant) {
	n.start()
	n.expectOwned("free", `{"name":"by HTTP"}`, "spec.displayName")
	n.expectOwned("free", `{"rules":[{"unit":"day","duration":1,"max_requests":1}]}`, "spec.rules")
	n.expect(200, "PATCH", schemesPath+"/free", `{"description":"by HTTP"}`)
	n.sync()
	n.expectInSync()
	n.Expect(n.spec("free", "description")).To(Equal("by HTTP"))

	// Git declares another value than the one that HTTP set.
	n.declare(t, v1alpha1.KindRateLimitScheme, "free", "by Git", "spec", "description")
	ahead, _, err := n.outOfSync(n.commit)
	n.Expect(err).NotTo(HaveOccurred())
	n.Expect(ahead).To(And(Not(BeEmpty()), HaveEach(ContainSubstring("spec.description"))))
	n.sync()
	n.settle()
	n.expectInSync()
	n.Expect(n.spec("free", "description")).To(Equal("by Git"))
	n.expectOwned("free", `{"description":"again"}`, "spec.description")

	// Git stops declaring two fields, so HTTP may set them.
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
		return // Flux skips this apply: see fluxSkipsWhatIsEqual
	}
	// Git declares the same value that HTTP set, and then owns the field.
	n.declare(t, v1alpha1.KindRateLimitScheme, "free", "mine", "spec", "description")
	n.sync()
	n.expectInSync()
	n.expectOwned("free", `{"description":"again"}`, "spec.description")
}

func (n *tenant) spec(scheme, field string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(n.live(v1alpha1.KindRateLimitScheme, scheme).Object, "spec", field)
	return value
}

// Flux skips an apply whose content is equal, and so does not become the owner of a field that HTTP set to that value.
func fluxSkipsWhatIsEqual(t *testing.T, n *tenant) {
	n.start()
	n.expect(200, "PATCH", schemesPath+"/free", `{"description":"equal"}`)
	n.declare(t, v1alpha1.KindRateLimitScheme, "free", "equal", "spec", "description")
	n.sync()
	n.expect(200, "PATCH", schemesPath+"/free", `{"description":"changed"}`)
	n.sync()
	n.Expect(n.spec("free", "description")).To(Equal("equal"), "the sync after reverts it")
	n.expectOwned("free", `{"description":"changed"}`, "spec.description")

	// Flux reverts a field that a user set with kubectl.
	n.edit("partner", `{"spec":{"suspend":false}}`)
	n.Expect(n.spec("partner", "suspend")).To(BeFalse())
	n.sync()
	n.Expect(n.spec("partner", "suspend")).To(BeNil())
}

// HTTP cannot change a field that a user sets with kubectl, until a user removes it again. Argo CD does not change it.
func aPersonsEditBarsHTTP(t *testing.T, n *tenant) {
	n.start()
	n.edit("free", `{"spec":{"description":"by hand"}}`)
	n.sync()
	n.expectInSync()
	barred := n.expect(409, "PATCH", schemesPath+"/free", `{"description":"by HTTP"}`)
	n.Expect(barred.JSON["errors"]).To(ConsistOf(HaveKeyWithValue("manager", "kubectl-patch")))

	n.edit("free", `{"spec":{"description":null}}`)
	n.expectInSync()
	n.expect(200, "PATCH", schemesPath+"/free", `{"description":"by HTTP"}`)
	n.expectInSync()
}

// edit changes a scheme with kubectl, as a user does.
func (n *tenant) edit(scheme, patch string) {
	out, err := n.cluster.Kubectl(n.ctx, "", "patch", "ratelimitscheme", scheme, "-n", n.namespace, "--type=merge", "-p", patch)
	n.Expect(err).NotTo(HaveOccurred(), out)
}
