package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/testing/controlplane"
	"github.com/cardea-iam/cardea/test/testkit"
)

// onlookers are ServiceAccounts with the roles that users get in namespace acme, and one without a role.
const onlookers = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: editor}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: viewer}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: nobody}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: editor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: ServiceAccount, name: editor, namespace: acme}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: viewer, namespace: acme}]
`

// identity is the id and the generation of a resource. The id must be the same in every cluster, and applying the same
// manifests again must change neither.
type identity struct {
	ID         string
	Generation int64
}

func identities(ctx context.Context, namespace string) map[string]identity {
	GinkgoHelper()
	var list struct {
		Items []struct {
			Kind     string
			Metadata struct {
				Name       string
				Generation int64
			}
			Status struct{ ID string }
		}
	}
	Expect(json.Unmarshal([]byte(kubectl(ctx, "get", "cardea", "-n", namespace, "-o", "json")), &list)).To(Succeed())
	found := map[string]identity{}
	for _, item := range list.Items {
		Expect(item.Status.ID).NotTo(BeEmpty(), item.Metadata.Name)
		found[item.Kind+"/"+item.Metadata.Name] = identity{item.Status.ID, item.Metadata.Generation}
	}
	return found
}

// ids returns the ids without the generations, which start again in another cluster.
func ids(of map[string]identity) map[string]string {
	only := map[string]string{}
	for name, id := range of {
		only[name] = id.ID
	}
	return only
}

// refuses matches a result by its exit code and parts of its error message.
func refuses(code int, parts ...string) types.GomegaMatcher {
	matchers := []types.GomegaMatcher{HaveField("Code", code), HaveField("Problems", HavePrefix("kubectl cardea: "))}
	for _, part := range parts {
		matchers = append(matchers, HaveField("Problems", ContainSubstring(part)))
	}
	return And(matchers...)
}

var _ = Describe("kubectl cardea and a tenant", Ordered, func() {
	var cardea *testkit.Cardea
	var key string
	launch := testkit.Launch{Role: "standalone"}
	as := map[string]string{}

	// acme runs the plugin in namespace acme with the rights of an account.
	acme := func(ctx context.Context, who string, args ...string) said {
		GinkgoHelper()
		return plugin(ctx, as[who], []string{"CARDEA_BASE_URL=" + cardea.Backend, "CARDEA_DECISION_URL=" + cardea.Decision}, append(args, "-n", "acme")...)
	}

	BeforeAll(func(ctx context.Context) {
		launch.Store = "sqlite://" + processes.Path("plugin.db")
		cardea = start(ctx, launch)
		kubectl(ctx, "apply", "-k", samples)
		out, err := cluster.Kubectl(ctx, onlookers, "apply", "-n", "acme", "-f", "-")
		Expect(err).NotTo(HaveOccurred(), out)
		as["admin"] = cluster.AdminKubeconfig()
		for _, who := range []string{"editor", "viewer", "nobody"} {
			as[who] = processes.Path(who + ".kubeconfig")
			Expect(cluster.ServiceAccountKubeconfig(ctx, "acme", who, as[who], time.Hour)).To(Succeed())
		}
		expectAllReady(ctx, "acme")
		key = cluster.APIKey(ctx, "acme", "acme-backend-key")
		Eventually(get(cardea, schemesPath, key)).Should(haveStatus(200))
		Expect(do(cardea, "POST", schemesPath, key, `{"slug":"wave","name":"Wave","rules":[{"unit":"second","duration":1,"max_requests":5}]}`)).To(haveStatus(200))
		expectAllReady(ctx, "acme")
	})
	AfterAll(func(ctx context.Context) {
		kubectl(ctx, "delete", "ratelimitscheme", "acme.wave", "-n", "acme") // other specs use this namespace too
		processes.KillAll()
	})

	It("reports to a viewer that all is active, and nothing to accounts without rights", func(ctx context.Context) {
		Expect(acme(ctx, "viewer", "why")).To(And(HaveField("Code", 0), HaveField("Out", MatchRegexp(`(?m)^All \d+ resources are active\.\n\z`))))
		Expect(acme(ctx, "nobody", "why")).To(refuses(3, "you may not list identitydeployments in namespace acme", "ask for ClusterRole view"))
		Expect(acme(ctx, "nobody", "export")).To(refuses(3, "you may not list"))
		Expect(acme(ctx, "viewer", "key", "reveal", "acme-backend-key")).To(refuses(3, `you may not get Secret "acme-backend-key" in namespace acme: ask for ClusterRole edit there`))
		Expect(acme(ctx, "viewer", "key", "rotate", "acme-backend-key")).To(refuses(3, `you may not get Secret "acme-backend-key"`, "whether the previous key is still accepted"))
		Expect(acme(ctx, "viewer", "key", "rotate", "acme-backend-key", "--yes")).To(refuses(3, "you may not patch APIKey acme-backend-key"))
		Expect(acme(ctx, "viewer", "key", "revoke", "acme-backend-key", "--yes")).To(refuses(3, "you may not delete"))
	})

	It("examines the install as far as the caller's rights reach", func(ctx context.Context) {
		// Killed operators of other specs left this Lease; this install uses no leader election.
		kubectl(ctx, "delete", "lease", "cardea-operator", "-n", testkit.System, "--ignore-not-found")
		// The maximum age of a configuration depends on the load, so retry until all checks pass.
		Eventually(func() said { return acme(ctx, "admin", "doctor", "--metrics-url", cardea.Metrics) }).Should(And(HaveField("Code", 0), HaveField("Out", And(
			MatchRegexp(`(?m)^OK    kinds +%d kinds of iam\.cardea\.dev/v1alpha1 are served, with the fields of this version$`, len(v1alpha1.Kinds)),
			MatchRegexp(`(?m)^OK    clock `), MatchRegexp(`(?m)^OK    your rights `), MatchRegexp(`(?m)^OK    store `), MatchRegexp(`(?m)^OK    root key `),
			MatchRegexp(`(?m)^OK    server 127\.0\.0\.1:\d+ +ready; its configuration is at most \d+\.\d s old$`), MatchRegexp(`(?m)^OK    resources +all \d+ of namespace acme are active$`)))))
		Expect(acme(ctx, "viewer", "doctor")).To(And(HaveField("Code", 0), HaveField("Out", ContainSubstring("WARN  your rights  you may not get secrets, so you cannot use key reveal"))))
		Expect(acme(ctx, "nobody", "doctor")).To(And(HaveField("Code", 1), HaveField("Out", ContainSubstring("FAIL  your rights  in namespace acme you may not list identitydeployments"))))
		free, err := controlplane.FreePort()
		Expect(err).NotTo(HaveOccurred())
		Expect(acme(ctx, "viewer", "doctor", "--metrics-url", fmt.Sprintf("http://127.0.0.1:%d", free))).To(
			And(HaveField("Code", 1), HaveField("Out", MatchRegexp(`(?m)^FAIL  server .* it is not ready: `))))
	})

	It("reports that the API server is unreachable", func(ctx context.Context) {
		content, err := os.ReadFile(as["viewer"])
		Expect(err).NotTo(HaveOccurred())
		free, err := controlplane.FreePort()
		Expect(err).NotTo(HaveOccurred())
		away := processes.Path("away.kubeconfig")
		Expect(os.WriteFile(away, []byte(strings.Replace(string(content), cluster.URL(), fmt.Sprintf("https://127.0.0.1:%d", free), 1)), 0o600)).To(Succeed())
		for _, args := range [][]string{{"why"}, {"export"}, {"doctor"}, {"key", "reveal", "x"}} {
			Expect(plugin(ctx, away, nil, args...)).To(refuses(3, "is unreachable", "check whether it runs, and --context"))
		}
	})

	It("shows an editor a key only by name, rotates it and waits, and revokes it after a confirmation", func(ctx context.Context) {
		before := acme(ctx, "editor", "key", "reveal", "globex-tracking-key")
		Expect(before).To(And(HaveField("Code", 0), HaveField("Problems", ContainSubstring("Every program with this value can act as its owner"))))
		old := strings.TrimSpace(before.Out)
		_, err := apikey.Parse(old)
		Expect(err).NotTo(HaveOccurred())

		rotated := acme(ctx, "editor", "key", "rotate", "globex-tracking-key", "--yes") // other specs rotate it too
		Expect(rotated).To(And(HaveField("Code", 0), HaveField("Out", ContainSubstring("is rotated"))), rotated.Problems)
		fresh := strings.TrimSpace(acme(ctx, "editor", "key", "reveal", "globex-tracking-key").Out)
		Expect(fresh).NotTo(Equal(old))
		for _, accepted := range []string{old, fresh} {
			Eventually(get(cardea, schemesPath, accepted)).Should(haveStatus(200))
		}
		Expect(acme(ctx, "editor", "key", "rotate", "globex-tracking-key")).To(refuses(2, "the previous key is accepted until 20", "add --yes"))
		Expect(get(cardea, schemesPath, old)()).To(haveStatus(200))
		Expect(acme(ctx, "editor", "key", "rotate", "globex-tracking-key", "--yes")).To(HaveField("Code", 0))
		Eventually(get(cardea, schemesPath, old)).Should(haveStatus(401))
		old, fresh = fresh, strings.TrimSpace(acme(ctx, "editor", "key", "reveal", "globex-tracking-key").Out)
		Expect(acme(ctx, "editor", "key", "rotate", "oclient/tools-web", "--yes")).To(HaveField("Code", 0))
		Expect(acme(ctx, "editor", "key", "revoke", "oclient/tools-web", "--yes")).To(refuses(2, "revoke accepts only APIKeys", "kubectl delete oauthclient tools-web -n acme"))
		Expect(acme(ctx, "editor", "key", "rotate", "oclient/tools-terminal")).To(refuses(1, "has no secret to rotate"))

		Expect(acme(ctx, "editor", "key", "revoke", "globex-tracking-key")).To(refuses(2, "add --yes"))
		Eventually(get(cardea, schemesPath, fresh)).Should(haveStatus(200))
		Expect(acme(ctx, "editor", "key", "revoke", "globex-tracking-key", "--yes")).To(HaveField("Code", 0))
		for _, refused := range []string{old, fresh} {
			Eventually(get(cardea, schemesPath, refused)).Should(haveStatus(401))
		}
		kubectl(ctx, "apply", "-k", samples)
		expectAllReady(ctx, "acme")
	})

	It("asks the server for users, numbers and decisions, with a key that the caller may read", func(ctx context.Context) {
		Expect(do(cardea, "POST", "/users", key, `{"email":"ada@acme.example","first_name":"Ada","last_name":"Lovelace"}`)).To(haveStatus(200))
		Expect(acme(ctx, "editor", "users", "--use-key", "acme-backend-key", "--search", "LOVE").Out).To(
			And(MatchRegexp(`(?m)^\d+ +Ada Lovelace +ada@acme\.example +active +20`), HaveSuffix("1 of 1 users.\n")))
		Expect(acme(ctx, "editor", "analytics", "--use-key", "acme-backend-key", "--days", "3").Out).To(
			And(MatchRegexp(`(?m)^sign-ups of all time +1$`), MatchRegexp(`(?m)^20\d\d-\d\d-\d\d +1 +0$`)))
		Eventually(func() string {
			return acme(ctx, "editor", "events", "list", "--types", "user.created", "--use-key", "acme-backend-key").Out
		}).Should(And(MatchRegexp(`(?m)^\d+ +20\S+ \S+ +user\.created +user/\d+ +key/\S+ +{"method":"import"}$`), HaveSuffix("\n1 event.\n")))

		decide := func(more ...string) said {
			GinkgoHelper()
			return acme(ctx, "editor", append([]string{"decide", "globex-tracking-key", "GET", "/v1/orders", "--use-key", "acme-backend-key"}, more...)...)
		}
		Eventually(func() said { return decide() }).Should(And(HaveField("Code", 0), HaveField("Out", HavePrefix("200 allowed  GET /v1/orders\n"))))
		Expect(decide().Out).To(And(ContainSubstring("of app globex\n"), ContainSubstring("partner, from the app\n"), MatchRegexp(`(?m)^1200/1min +per_key +1200 +1200 `)))
		Expect(decide("--permission", "orders:write")).To(And(HaveField("Code", 1), HaveField("Out", And(HavePrefix("403 permission_denied"), ContainSubstring("missing         orders:write")))))

		By("telling what is wrong with the credential, and never the credential")
		partner := cluster.APIKey(ctx, "acme", "globex-tracking-key")
		file := processes.Path("partner.key")
		Expect(os.WriteFile(file, []byte(partner+"\n"), 0o600)).To(Succeed())
		for _, tc := range []struct {
			args []string
			code int
			says string
		}{
			{[]string{"users", "--api-key-file", file}, 3, "refuses this for the credential: "},
			{[]string{"users"}, 2, "set CARDEA_API_KEY, --api-key-file or --use-key APIKEY"},
			{[]string{"users", "--use-key", "acme-backend-key", "--server", "http://127.0.0.1:1"}, 3, "is unreachable"},
			{[]string{"decide", "globex-tracking-key", "GET", "/", "--api-key-file", file}, 3, "refuses this for the credential: "},
		} {
			answer := acme(ctx, "editor", tc.args...)
			Expect(answer).To(refuses(tc.code, tc.says))
			Expect(answer.Out + answer.Problems).NotTo(ContainSubstring(partner))
		}
		Expect(acme(ctx, "viewer", "users", "--use-key", "acme-backend-key")).To(refuses(3, "you may not get Secret"))
	})

	It("finds an agent's server by the agent's status, or where the caller says", func(ctx context.Context) {
		listed := acme(ctx, "editor", "tools", "list", "support", "--use-key", "acme-backend-key", "--server", cardea.Frontend, "--host", "localhost")
		Expect(listed).To(And(HaveField("Code", 0), HaveField("Out", HaveSuffix(" tools. Arguments in brackets are optional.\n"))), listed.Problems)
		Expect(acme(ctx, "editor", "tools", "list", "support", "--use-key", "acme-backend-key")).To(refuses(3, "the server at localhost is unreachable"))
		Expect(acme(ctx, "editor", "tools", "list", "other", "--use-key", "acme-backend-key")).To(refuses(1, "there is no AIAgent other in namespace acme"))
	})

	It("exports a tenant that is the same in every cluster", func(ctx context.Context) {
		exported := acme(ctx, "viewer", "export", "acme")
		Expect(exported.Code).To(Equal(0), exported.Problems)
		Expect(exported.Out).To(And(
			ContainSubstring("  name: acme.wave\n"), ContainSubstring("# - Secret acme-carrier, which IdentityDeployment/acme needs\n"), ContainSubstring("# - Secret order-service-token, which AITool/find-order needs\n"),
			Not(ContainSubstring("status:")), Not(ContainSubstring("managed")), Not(ContainSubstring("uid:")), Not(ContainSubstring("last-applied")), Not(ContainSubstring("generation"))))
		before := identities(ctx, "acme")

		By("changing nothing where it came from")
		file := processes.Path("acme.yaml")
		Expect(os.WriteFile(file, []byte(exported.Out), 0o600)).To(Succeed())
		kubectl(ctx, "apply", "-f", file)
		Expect(identities(ctx, "acme")).To(Equal(before))

		By("making the same tenant where there is none: no resource, and an empty store")
		kubectl(ctx, "delete", "cardea", "--all", "-n", "acme")
		expectOrderlyEnd(cardea)
		files, err := filepath.Glob(processes.Path("plugin.db*"))
		Expect(err).NotTo(HaveOccurred())
		Expect(files).NotTo(BeEmpty())
		for _, file := range files {
			Expect(os.Remove(file)).To(Succeed())
		}
		cardea = start(ctx, launch)
		kubectl(ctx, "apply", "-f", file)
		expectAllReady(ctx, "acme")
		after := identities(ctx, "acme")
		Expect(ids(after)).To(Equal(ids(before)))
		Expect(admin(ctx, "export", "acme", "-n", "acme").Out).To(Equal(exported.Out))
		kubectl(ctx, "apply", "-f", file)
		Expect(identities(ctx, "acme")).To(Equal(after))
	})
})
