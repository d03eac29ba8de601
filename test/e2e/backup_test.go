package e2e

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
	"github.com/cardea-iam/cardea/test/testkit"
)

var _ = Describe("A backup", Ordered, func() {
	const host, deployment = "kept.localhost", "people"
	var (
		inbox          *messagegateway.Gateway
		cardea         *testkit.Cardea
		launch         testkit.Launch
		namespace, key string
		vera           *visitor
		veraID, id     string
		organization   string
		file           string
		declared       string
	)
	idOf := func(ctx context.Context, in *testkit.Cluster) string {
		GinkgoHelper()
		out, err := in.Kubectl(ctx, "", "get", "identitydeployment", deployment, "-n", namespace, "-o", "jsonpath={.status.id}")
		Expect(err).NotTo(HaveOccurred(), out)
		return out
	}
	restore := func(ctx context.Context, store string, flags ...string) {
		GinkgoHelper()
		out, stderr, err := run(ctx, []string{"CARDEA_STORE=" + store}, append([]string{"restore", file}, flags...)...)
		Expect(err).NotTo(HaveOccurred(), stderr)
		Expect(out).To(ContainSubstring("restored store"))
	}
	expectVera := func(at *testkit.Cardea) {
		GinkgoHelper()
		vera.server = at
		Expect(vera.do("GET", "/me", "").Data).To(HaveKeyWithValue("id", veraID), "her session lives")
		again := newVisitor(host, inbox, at)
		again.email = vera.email
		again.signIn()
		session := again.do("GET", "/session", "")
		Expect(active(session)).To(Equal(organization), "the session keeps the active organization")
	}

	BeforeAll(func(ctx context.Context) {
		inbox = startCarrier()
		launch = testkit.Launch{Role: "standalone", Store: "sqlite://" + processes.Path("kept.db"), Flags: serving}
		cardea = start(ctx, launch)
		var err error
		namespace, err = cluster.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		declared = secretsRoleBinding(namespace) + "\n---\n" + staging(namespace, host, inbox, "")
		apply(ctx, declared)
		expectAllReady(ctx, namespace)
		key, id = cluster.APIKey(ctx, namespace, "people-key"), idOf(ctx, cluster)
		Expect(id).NotTo(BeEmpty())
		Eventually(get(cardea, schemesPath, key)).Should(haveStatus(200))
		vera = newVisitor(host, inbox, cardea)
		veraID = vera.signUp()
		organization = vera.organization("First")
		file = filepath.Join(GinkgoT().TempDir(), "cardea.backup")
	})
	AfterAll(func() { processes.KillAll() })

	It("is taken while the store is in use", func(ctx context.Context) {
		out, stderr, err := run(ctx, []string{"CARDEA_STORE=" + launch.Store}, "backup", file, "--root-key="+processes.Path("root.key"))
		Expect(err).NotTo(HaveOccurred(), stderr)
		Expect(out).To(ContainSubstring("sqlite"))
		Expect(vera.do("GET", "/me", "").Data).To(HaveKeyWithValue("id", veraID))
	})

	It("is refused under another root key, and over a store in use", func(ctx context.Context) {
		other := filepath.Join(GinkgoT().TempDir(), "root.key")
		Expect(os.WriteFile(other, bytes.Repeat([]byte{8}, 32), 0o600)).To(Succeed())
		_, stderr, err := run(ctx, []string{"CARDEA_STORE=sqlite://" + processes.Path("none.db")}, "restore", file, "--root-key="+other)
		Expect(err).To(HaveOccurred())
		Expect(stderr).To(ContainSubstring("--root-key"))
		Expect(processes.Path("none.db")).NotTo(BeAnExistingFile())
		_, stderr, err = run(ctx, []string{"CARDEA_STORE=" + launch.Store}, "restore", file, "--root-key="+processes.Path("root.key"))
		Expect(err).To(HaveOccurred())
		Expect(stderr).To(ContainSubstring("in use"))
	})

	It("that is older than the declared configuration converges to it", func(ctx context.Context) {
		Expect(do(cardea, "POST", schemesPath, key, `{"slug":"later","name":"Later","rules":[{"unit":"second","duration":1,"max_requests":5}]}`)).To(haveStatus(200))
		kubectl(ctx, "delete", "apikey", "people-key", "-n", namespace)
		apply(ctx, appKey(namespace, "people", "other-key", `"*"`))
		expectAllReady(ctx, namespace)
		other := cluster.APIKey(ctx, namespace, "other-key")
		Eventually(get(cardea, schemesPath, other)).Should(haveStatus(200))
		expectOrderlyEnd(cardea)
		for _, end := range []string{"", "-wal", "-shm"} {
			Expect(os.RemoveAll(processes.Path("kept.db" + end))).To(Succeed())
		}
		restore(ctx, launch.Store, "--root-key="+processes.Path("root.key"))
		cardea = start(ctx, launch)
		Eventually(get(cardea, schemesPath, other)).Should(haveMember("total", 1.0))
		Eventually(get(cardea, schemesPath, key)).Should(haveStatus(401), "the key was deleted after the backup")
		Eventually(get(cardea, schemesPath+"/later", other)).Should(haveMember("slug", "later"))
		expectVera(cardea)
	})

	It("and the YAML restore a tenant in an empty cluster with the same users, keys and ids", func(ctx context.Context) {
		apply(ctx, declared) // creates a new key, because the old one is deleted
		expectAllReady(ctx, namespace)
		key = cluster.APIKey(ctx, namespace, "people-key")
		var secret corev1.Secret
		Expect(cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "people-key"}, &secret)).To(Succeed())
		expectOrderlyEnd(cardea)

		empty, err := testkit.StartCluster(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(empty.Stop)
		elsewhere, err := testkit.NewProcesses(ctx, empty)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(elsewhere.Close)
		Expect(empty.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
		Expect(empty.Client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secret.Name, Labels: secret.Labels, Annotations: secret.Annotations},
			Type:       secret.Type, Data: secret.Data,
		})).To(Succeed())
		store := "sqlite://" + elsewhere.Path("restored.db")
		restore(ctx, store, "--root-key="+elsewhere.Path("root.key"))
		out, err := empty.Kubectl(ctx, declared, "apply", "-f", "-")
		Expect(err).NotTo(HaveOccurred(), out)
		restored, err := elsewhere.Start(ctx, testkit.Launch{Role: "standalone", Store: store, Flags: serving})
		Expect(err).NotTo(HaveOccurred())
		Expect(restored.AwaitReady(ctx)).To(Succeed())
		Eventually(func() string { return idOf(ctx, empty) }).WithTimeout(time.Minute).Should(Equal(id))
		Eventually(get(restored, schemesPath, key)).WithTimeout(time.Minute).Should(haveStatus(200), "a key that was in a Secret")
		expectVera(restored)
		expectOrderlyEnd(restored)
	})
})
