package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/test/testkit"
)

// kubectl runs kubectl with a manifest and expects success.
func (w *world) kubectl(ctx context.Context, input string, args ...string) {
	GinkgoHelper()
	out, err := cluster.Kubectl(ctx, input, args...)
	Expect(err).NotTo(HaveOccurred(), out)
}

// declareScheme returns a scheme of deployment acme as YAML, with additional lines in spec.
func (w *world) declareScheme(slug string, more ...string) string {
	spec := fmt.Sprintf("deploymentRef: {name: acme}\nslug: %s\nrules: [{unit: minute, duration: 1, maxRequests: 60}]\n%s", slug, strings.Join(more, "\n"))
	return manifest(v1alpha1.KindRateLimitScheme, w.namespace, slug, spec)
}

// expectMember waits until a scheme is served with a member's value.
func (w *world) expectMember(key, slug, member string, want any) {
	GinkgoHelper()
	if want == nil {
		want = BeNil()
	}
	Eventually(func() map[string]any { return w.do("GET", schemesPath+"/"+slug, key, "").JSON }).Should(HaveKeyWithValue(member, want))
}

// expectOwned sends a PATCH and expects a 409 that names the field and its owner.
func (w *world) expectOwned(key, slug, body, field, path, manager string) {
	GinkgoHelper()
	answer := w.ask("PATCH", schemesPath+"/"+slug, key, body)
	Expect(answer.Status).To(Equal(409), string(answer.Raw))
	Expect(answer.JSON["errors"]).To(ConsistOf(And(
		HaveKeyWithValue("field", field), HaveKeyWithValue("resource_path", path), HaveKeyWithValue("manager", manager), HaveKeyWithValue("message", ContainSubstring("change it there")),
	)))
}

// expectPatched sends a PATCH and expects the change to be active at once.
func (w *world) expectPatched(key, slug, body string) testkit.Answer {
	GinkgoHelper()
	answer := w.ask("PATCH", schemesPath+"/"+slug, key, body)
	Expect(answer.Status).To(Equal(200), string(answer.Raw))
	Expect(answer.Header.Get("Cardea-Synced")).To(Equal("true"))
	return answer
}

var _ = Describe("A scheme that both Git and HTTP write", Ordered, func() {
	var w *world
	var key string
	BeforeAll(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{})
		key = w.tenant(ctx, "acme")
	})

	for _, way := range []struct{ slug, manager, side string }{
		{"client-side", "kubectl-client-side-apply", "--server-side=false"}, {"server-side", "kubectl", "--server-side=true"},
	} {
		It("is Git's where YAML declares and HTTP's elsewhere, with kubectl apply "+way.side, func(ctx context.Context) {
			slug := way.slug
			declared := w.declareScheme(slug)
			w.kubectl(ctx, declared, "apply", way.side, "-f", "-")
			w.expectMember(key, slug, "name", slug)
			w.expectOwned(key, slug, `{"rules":[{"unit":"day","duration":1,"max_requests":1}]}`, "/rules", "spec.rules", way.manager)
			w.expectPatched(key, slug, `{"rules":[{"unit":"minute","duration":1,"max_requests":60}]}`)

			w.expectPatched(key, slug, `{"name":"By HTTP"}`)
			both := w.expectPatched(key, slug, `{"description":"by HTTP"}`)
			Expect(both.JSON).To(And(HaveKeyWithValue("name", "By HTTP"), HaveKeyWithValue("description", "by HTTP")))
			w.kubectl(ctx, declared, "diff", way.side, "-f", "-")
			w.kubectl(ctx, declared, "apply", way.side, "-f", "-")
			w.kubectl(ctx, w.declareScheme(slug, "suspend: false"), "apply", way.side, "-f", "-")
			Expect(w.expectPatched(key, slug, `{}`).JSON).To(And(HaveKeyWithValue("name", "By HTTP"), HaveKeyWithValue("description", "by HTTP")))

			// Git takes over a field, first with the value that HTTP set, then with another value.
			w.kubectl(ctx, w.declareScheme(slug, "displayName: By HTTP"), "apply", way.side, "-f", "-")
			w.expectOwned(key, slug, `{"name":"Again"}`, "/name", "spec.displayName", way.manager)
			taken := []string{"apply", way.side, "-f", "-"}
			if way.side == "--server-side=true" {
				taken = append(taken, "--force-conflicts")
			}
			w.kubectl(ctx, w.declareScheme(slug, "displayName: By HTTP", "description: by Git"), taken...)
			w.expectMember(key, slug, "description", "by Git")
			w.expectOwned(key, slug, `{"description":null}`, "/description", "spec.description", way.manager)
			answer := w.ask("PATCH", schemesPath+"/"+slug, key, `{"name":"x","description":"y","rules":[{"unit":"day","duration":1,"max_requests":1}]}`)
			Expect(answer.Status).To(Equal(409))
			Expect(faultsAt(answer)).To(Equal("/name /description /rules"))
			Expect(w.live(ctx, slug).Spec.Description).To(HaveValue(BeEquivalentTo("by Git")), "nothing was written")

			// Git gives the field up, so HTTP may set it again.
			w.kubectl(ctx, w.declareScheme(slug), "apply", way.side, "-f", "-")
			w.expectMember(key, slug, "description", nil)
			w.expectPatched(key, slug, `{"description":"back"}`)
			refused := w.ask("DELETE", schemesPath+"/"+slug, key, "")
			Expect(refused.Status).To(Equal(409))
			Expect(refused.JSON["errors"]).To(ConsistOf(And(HaveKeyWithValue("manager", way.manager), HaveKeyWithValue("resource_path", "spec"))))
		})
	}

	It("is HTTP's where the deployment says Override, and Git's again at its next apply", func(ctx context.Context) {
		loose := w.tenant(ctx, "loose")
		declared := strings.Replace(w.declareScheme("override", "displayName: By Git"), "name: acme", "name: loose", 1)
		w.kubectl(ctx, declared, "apply", "-f", "-")
		w.expectMember(loose, "override", "name", "By Git")
		w.expectOwned(loose, "override", `{"name":"By HTTP"}`, "/name", "spec.displayName", "kubectl-client-side-apply")
		update(ctx, testkit.Deployment(w.namespace, "loose"), func(d *v1alpha1.IdentityDeployment) {
			d.Spec.Management = &v1alpha1.ManagementPolicy{FieldConflicts: ptr.To(v1alpha1.FieldConflictsOverride)}
		})
		Eventually(func() int { return w.do("PATCH", schemesPath+"/override", loose, `{"name":"By HTTP"}`).Status }).Should(Equal(200))
		w.expectMember(loose, "override", "name", "By HTTP")
		w.kubectl(ctx, declared, "apply", "-f", "-")
		w.expectMember(loose, "override", "name", "By Git")
		Expect(w.ask("DELETE", schemesPath+"/override", loose, "").Status).To(Equal(204))
	})

	It("keeps each of many concurrent PATCHes, each whole", func(ctx context.Context) {
		w.post(key, "busy", "")
		const rounds = 5
		for round := range rounds {
			answers := atOnce(
				func() testkit.Answer {
					return w.do("PATCH", schemesPath+"/busy", key, fmt.Sprintf(`{"name":"name %d"}`, round))
				},
				func() testkit.Answer {
					return w.do("PATCH", schemesPath+"/busy", key, fmt.Sprintf(`{"description":"description %d"}`, round))
				},
				func() testkit.Answer {
					return w.do("PATCH", schemesPath+"/busy", key, fmt.Sprintf(`{"rules":[{"unit":"hour","duration":%d,"max_requests":7}]}`, round+1))
				},
			)
			for _, answer := range answers {
				Expect(answer.Status).To(Equal(200), string(answer.Raw))
			}
			now := w.expectPatched(key, "busy", `{}`)
			Expect(now.JSON).To(And(HaveKeyWithValue("name", fmt.Sprintf("name %d", round)), HaveKeyWithValue("description", fmt.Sprintf("description %d", round))))
			Expect(now.JSON["rules"]).To(ConsistOf(HaveKeyWithValue("duration", float64(round+1))))
		}
		pairs := atOnce(
			func() testkit.Answer {
				return w.do("PATCH", schemesPath+"/busy", key, `{"name":"a","rules":[{"unit":"day","duration":1,"max_requests":1},{"unit":"hour","duration":1,"max_requests":1}]}`)
			},
			func() testkit.Answer {
				return w.do("PATCH", schemesPath+"/busy", key, `{"name":"b","rules":[{"unit":"day","duration":2,"max_requests":2}]}`)
			},
		)
		Expect(pairs).To(HaveEach(HaveField("Status", 200)))
		Expect(w.expectPatched(key, "busy", `{}`).JSON).To(Or(
			And(HaveKeyWithValue("name", "a"), HaveKeyWithValue("rules", HaveLen(2))), And(HaveKeyWithValue("name", "b"), HaveKeyWithValue("rules", HaveLen(1))),
		))
	})

	It("is created once by concurrent requests", func(ctx context.Context) {
		create := func() testkit.Answer { return w.do("POST", schemesPath, key, free("raced", "")) }
		statuses := map[int]int{}
		for _, answer := range atOnce(create, create, create, create) {
			statuses[answer.Status]++
		}
		Expect(statuses).To(Equal(map[int]int{200: 1, 409: 3}))
		Expect(w.live(ctx, "acme.raced").Spec.Slug).To(BeEquivalentTo("raced"))
	})

	It("is not created if YAML declares the slug, and a refused request leaves nothing behind", func(ctx context.Context) {
		w.kubectl(ctx, w.declareScheme("taken"), "apply", "-f", "-")
		w.expectMember(key, "taken", "name", "taken")
		answer := w.ask("POST", schemesPath, key, free("taken", ""))
		Expect(answer.Status).To(Equal(409))
		Expect(faultsAt(answer)).To(Equal("/slug"))
		expectGone(ctx, testkit.Scheme(w.namespace, "acme", "acme.taken"))

		// Here only the operator detects the conflict: another resource declares the id that the new resource would
		// have.
		id := ids.Format(ids.Derive(v1alpha1.KindRateLimitScheme, w.namespace, "acme.clash"))
		w.kubectl(ctx, w.declareScheme("holder", "id: \""+id+"\""), "apply", "-f", "-")
		w.expectMember(key, "holder", "name", "holder")
		answer = w.ask("POST", schemesPath, key, free("clash", ""))
		Expect(answer.Status).To(Equal(409), string(answer.Raw))
		Expect(answer.JSON["message"]).To(And(ContainSubstring("id "+id), ContainSubstring("holder")))
		expectGone(ctx, testkit.Scheme(w.namespace, "acme", "acme.clash"))
		Expect(w.ask("GET", schemesPath+"/clash", key, "").Status).To(Equal(404))
	})

	It("gets another resource name when its own is taken", func(ctx context.Context) {
		squatter := testkit.Scheme(w.namespace, "acme", "squatter")
		squatter.Name = "acme.wanted"
		create(ctx, squatter)
		expectReady(ctx, squatter)
		w.post(key, "wanted", "")
		var list v1alpha1.RateLimitSchemeList
		Expect(cluster.Client.List(ctx, &list, client.InNamespace(w.namespace), client.MatchingLabels{v1alpha1.LabelManagedBy: "cardea-http"})).To(Succeed())
		var names []string
		for _, item := range list.Items {
			if item.Spec.Slug == "wanted" {
				names = append(names, item.Name)
			}
		}
		Expect(names).To(ConsistOf(MatchRegexp(`^acme\.wanted-[0-9a-f]{5}$`)))
		w.expectPatched(key, "wanted", `{"name":"Found"}`)
		Expect(w.ask("DELETE", schemesPath+"/wanted", key, "").Status).To(Equal(204))
	})

	It("names its deployment as owner, which is deleted without waiting for it", func(ctx context.Context) {
		w.post(key, "owned", "")
		deployment := testkit.Deployment(w.namespace, "acme")
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
		owners := w.live(ctx, "acme.owned").OwnerReferences
		Expect(owners).To(HaveLen(1))
		Expect(owners[0]).To(And(HaveField("Kind", "IdentityDeployment"), HaveField("Name", "acme"), HaveField("UID", deployment.UID),
			HaveField("Controller", BeNil()), HaveField("BlockOwnerDeletion", BeNil())))
	})

	It("frees its slug before the response to its deletion", func(ctx context.Context) {
		for range 10 {
			w.post(key, "again", "")
			answer := w.ask("DELETE", schemesPath+"/again", key, "")
			Expect(answer.Status).To(Equal(204))
		}
		w.post(key, "again", "")
	})

	It("is not deleted while a resource refers to it", func(ctx context.Context) {
		w.post(key, "used", "")
		app := testkit.App(w.namespace, "acme", "user")
		app.Spec.RateLimitSchemeRef = &v1alpha1.RateLimitSchemeReference{Name: "acme.used"}
		create(ctx, app)
		expectReady(ctx, app)
		Eventually(func() int { return w.do("DELETE", schemesPath+"/used", key, "").Status }).Should(Equal(409))
		Expect(w.ask("DELETE", schemesPath+"/used", key, "").JSON["message"]).To(ContainSubstring("in use by APIAuthApp user"))
		Expect(w.live(ctx, "acme.used").DeletionTimestamp).To(BeNil())
		Expect(cluster.Client.Delete(ctx, app)).To(Succeed())
		expectGone(ctx, app)
		Eventually(func() int { return w.do("DELETE", schemesPath+"/used", key, "").Status }).Should(Equal(204))
	})

	It("is deleted right after it was written, whatever the operator writes meanwhile", func(ctx context.Context) {
		for range 10 {
			w.post(key, "brief", "")
			Expect(w.ask("DELETE", schemesPath+"/brief", key, "").Status).To(Equal(204))
			expectGone(ctx, testkit.Scheme(w.namespace, "acme", "acme.brief"))
		}
	})
})

// atOnce sends requests concurrently and returns their responses.
func atOnce(requests ...func() testkit.Answer) []testkit.Answer {
	answers := make([]testkit.Answer, len(requests))
	var group sync.WaitGroup
	for i, request := range requests {
		group.Go(func() {
			defer GinkgoRecover()
			answers[i] = request()
		})
	}
	group.Wait()
	return answers
}
