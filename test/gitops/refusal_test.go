package gitops

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// A manifest that a kind's validation refuses fails the sync, with Cardea's message. The active content stays active,
// and a revert resolves the failure.
func aRefusedCommitChangesNothing(t *testing.T, n *tenant) {
	n.start()
	http := startTraffic(t, n)
	before := n.git(v1alpha1.KindAPIKey, "globex-tracking-key").DeepCopy()
	n.declare(t, v1alpha1.KindAPIKey, "globex-tracking-key", map[string]any{"name": "brought"}, "spec", "existingSecretRef")
	n.declare(t, kind, "partner", "Beside it", "spec", "displayName")
	n.Expect(n.engine.sync(n.ctx, n.commit)).To(MatchError(ContainSubstring("set exactly one of secretTemplate (the operator generates the key) and existingSecretRef (you provide it)")))
	n.settle()
	n.expect(200, "GET", schemesPath+"/partner", "")
	beside := "Beside it"
	if n.engine.manager() == fluxManager {
		beside = "Partner"
	}
	n.Expect(n.spec("partner", "displayName")).To(Equal(beside), "Flux applies nothing of a commit with a refused manifest; Argo CD applies all others")
	http.more(3)

	n.git(v1alpha1.KindAPIKey, "globex-tracking-key").Object = before.Object
	n.sync()
	n.settle()
	n.expectInSync()
	http.more(10)
	http.settle(t)
}

// A condition names a reference to a missing resource, the rest stays active, and creating the resource resolves the
// condition.
func aBrokenReferenceIsTold(t *testing.T, n *tenant) {
	n.start()
	n.declare(t, v1alpha1.KindAPIAuthApp, "globex", "gone", "spec", "rateLimitSchemeRef", "name")
	n.sync()
	n.Eventually(func() string { return n.condition(v1alpha1.KindAPIAuthApp, "globex", "ReferencesResolved") }, within).Should(And(HavePrefix("False/"), ContainSubstring("gone")))
	n.expect(200, "GET", schemesPath+"/partner", "")
	if a, is := n.engine.(*argo); is {
		n.Expect(a.healthy(n.ctx, n.commit)).To(MatchError(And(ContainSubstring("globex is Progressing"), ContainSubstring("gone"))))
	}
	n.commit = append(n.commit, scheme(n.namespace, "gone", "gone"))
	n.sync()
	n.settle()
	n.expectInSync()
}

// The operator gets its rights on Secrets after the resources that need them. The keys become Ready soon after,
// although no event announces new rights. The bound is below 15 s, the retry interval for namespaces that have lacked
// the rights for long.
func rightsThatComeLate(t *testing.T, n *tenant) {
	const soon = 10 * time.Second
	rights := n.git("RoleBinding", "cardea-operator-secrets")
	n.remove("RoleBinding", "cardea-operator-secrets")
	n.sync()
	of := func(condition string) func() string {
		return func() string { return n.condition(v1alpha1.KindAPIKey, "acme-backend-key", condition) }
	}
	n.Eventually(of("CredentialsReady"), within).Should(And(HavePrefix("False/SecretForbidden"), ContainSubstring("bind ClusterRole cardea-operator-secrets there")))
	n.Expect(n.cluster.Client.Create(n.ctx, rights.DeepCopy())).To(Succeed())
	n.Eventually(of("Ready"), soon).Should(HavePrefix("True/"))
	n.commit = append(n.commit, rights)
	n.start()
	n.expectInSync()
}

// A suspended resource that was active blocks no sync.
func aSuspendedResourceBlocksNothing(t *testing.T, n *tenant) {
	n.start()
	n.declare(t, kind, "partner", true, "spec", "suspend")
	n.declare(t, kind, "partner", "Later", "spec", "displayName")
	n.sync()
	n.Eventually(func() string { return n.condition(kind, "partner", "Ready") }, within).Should(HavePrefix("True/Suspended"))
	if _, is := n.engine.(*argo); is {
		n.Expect(n.engine.healthy(n.ctx, n.commit)).To(MatchError(ContainSubstring("partner is Suspended")))
	} else {
		n.Expect(n.engine.healthy(n.ctx, n.commit)).To(Succeed())
	}
	n.expectInSync()
	n.declare(t, kind, "partner", nil, "spec", "suspend")
	n.sync()
	n.settle()
	n.Expect(n.http("GET", schemesPath+"/partner", "").JSON).To(HaveKeyWithValue("name", "Later"))
}

// A sync wave waits until the resources of earlier waves are healthy.
func wavesWaitForHealth(t *testing.T, n *tenant) {
	n.start()
	wave := func(o *unstructured.Unstructured, number string) {
		o.SetAnnotations(map[string]string{"argocd.argoproj.io/sync-wave": number})
	}
	first := n.git(v1alpha1.KindAPIAuthApp, "globex")
	n.declare(t, v1alpha1.KindAPIAuthApp, "globex", "gone", "spec", "rateLimitSchemeRef", "name")
	second := scheme(n.namespace, "second", "second")
	n.commit = append(n.commit, second)
	wave(first, "1")
	wave(second, "2")
	ended := make(chan error, 1)
	go func() { ended <- n.engine.sync(n.ctx, n.commit) }()
	n.Eventually(func() string { return n.condition(v1alpha1.KindAPIAuthApp, "globex", "ReferencesResolved") }, within).Should(HavePrefix("False/"))
	n.Consistently(func() any { return n.live(kind, "second") }).Should(BeNil())
	n.Expect(n.cluster.Client.Create(n.ctx, scheme(n.namespace, "gone", "gone"))).To(Succeed())
	n.Eventually(ended, within).Should(Receive(BeNil()))
	n.settle()
}
