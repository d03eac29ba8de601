package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/test/testkit"
)

// said is the exit code and the output of a program.
type said struct {
	Out, Problems string
	Code          int
}

// plugin runs `kubectl cardea` as users do: kubectl finds the plugin in PATH.
func plugin(ctx context.Context, kubeconfig string, env []string, args ...string) said {
	GinkgoHelper()
	return kubectlAs(ctx, kubeconfig, env, append([]string{"cardea"}, args...)...)
}

func kubectlAs(ctx context.Context, kubeconfig string, env []string, args ...string) said {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, cluster.ControlPlane.Kubectl(), args...)
	cmd.Env = append([]string{
		"PATH=" + filepath.Dir(processes.Binary()) + ":" + os.Getenv("PATH"), "HOME=" + cluster.Dir, "KUBECONFIG=" + kubeconfig,
	}, env...)
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		Expect(err).NotTo(HaveOccurred())
	}
	return said{out.String(), problems.String(), cmd.ProcessState.ExitCode()}
}

// admin runs the plugin as the administrator.
func admin(ctx context.Context, args ...string) said {
	GinkgoHelper()
	return plugin(ctx, cluster.AdminKubeconfig(), nil, args...)
}

// causesYAML are resources, each with a different fault.
const causesYAML = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: cardea-operator-secrets}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cardea-operator-secrets}
subjects: [{kind: ServiceAccount, name: cardea-standalone, namespace: cardea-system}]
---
apiVersion: iam.cardea.dev/v1alpha1
kind: IdentityDeployment
metadata: {name: main}
spec: {permissionCatalog: {organization: ["orders:read"]}}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: IdentityDeployment
metadata: {name: moving}
spec: {frontendHosts: [before.example], permissionCatalog: {organization: ["orders:read"]}}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: OAuthApp
metadata: {name: moving}
spec: {deploymentRef: {name: moving}, slug: moving}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: OAuthScope
metadata: {name: named-as-permission}
spec: {oauthAppRef: {name: moving}, scope: "orders:read"}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: RateLimitScheme
metadata: {name: frozen}
spec: {suspend: true, deploymentRef: {name: main}, slug: frozen, rules: [{unit: minute, duration: 1, maxRequests: 1}]}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: RateLimitScheme
metadata: {name: doomed}
spec: {deploymentRef: {name: main}, slug: doomed, rules: [{unit: minute, duration: 1, maxRequests: 1}]}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: RateLimitScheme
metadata: {name: twin-a}
spec: {deploymentRef: {name: main}, slug: twin, rules: [{unit: minute, duration: 1, maxRequests: 1}]}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: RateLimitScheme
metadata: {name: twin-b}
spec: {deploymentRef: {name: main}, slug: twin, rules: [{unit: minute, duration: 1, maxRequests: 1}]}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIAuthApp
metadata: {name: user}
spec: {deploymentRef: {name: main}, slug: user, rateLimitSchemeRef: {name: doomed}}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIAuthApp
metadata: {name: lost}
spec: {deploymentRef: {name: main}, slug: lost, rateLimitSchemeRef: {name: nowhere}}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: AITool
metadata: {name: theirs}
spec: {deploymentRef: {name: mailing}, type: API}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: AIAgent
metadata: {name: confused}
spec: {deploymentRef: {name: main}, toolRefs: [{name: theirs}]}
---
{apiVersion: iam.cardea.dev/v1alpha1, kind: AITool, metadata: {name: sketch}, spec: {deploymentRef: {name: main}, type: API, toolName: sketch}}
---
{apiVersion: iam.cardea.dev/v1alpha1, kind: AITool, metadata: {name: resting}, spec: {deploymentRef: {name: main}, type: API, active: false, toolName: sketch}}
---
{apiVersion: iam.cardea.dev/v1alpha1, kind: AITool, metadata: {name: templated}, spec: {deploymentRef: {name: main}, type: API, endpoint: "https://api.example/", authorization: {jwtTemplateID: mine}}}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: AITool
metadata: {name: penniless}
spec: {deploymentRef: {name: main}, type: API, endpoint: "https://api.example/", headers: [{name: X-Token, valueFrom: {secretKeyRef: {name: garbage, key: api-key}}}]}
---
{apiVersion: iam.cardea.dev/v1alpha1, kind: AITool, metadata: {name: sketch-of-a-host}, spec: {deploymentRef: {name: moving}, type: API, toolName: sketch}}
---
{apiVersion: iam.cardea.dev/v1alpha1, kind: AITool, metadata: {name: another-sketch}, spec: {deploymentRef: {name: moving}, type: API, toolName: sketch}}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: AIAgent
metadata: {name: twofold}
spec: {deploymentRef: {name: moving}, toolRefs: [{name: sketch-of-a-host}, {name: another-sketch}]}
---
{apiVersion: iam.cardea.dev/v1alpha1, kind: AIAgent, metadata: {name: appless}, spec: {deploymentRef: {name: moving}, access: {oauthAppRef: {name: nowhere}}}}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: MembershipRole
metadata: {name: dreamer}
spec: {deploymentRef: {name: main}, level: Organization, permissions: ["dreams:read"]}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: MembershipRole
metadata: {name: unreachable}
spec: {deploymentRef: {name: main}, level: Organization, assurance: {required: PhishingResistant}}
---
{apiVersion: iam.cardea.dev/v1alpha1, kind: IdentityDeployment, metadata: {name: hostless}, spec: {signIn: {passkey: {enabled: true}}}}
---
{apiVersion: iam.cardea.dev/v1alpha1, kind: IdentityDeployment, metadata: {name: elsewhere}, spec: {frontendHosts: [login.elsewhere.example], allowedOrigins: ["https://shop.example"], signIn: {passkey: {relyingPartyID: elsewhere.example}}}}
---
{apiVersion: iam.cardea.dev/v1alpha1, kind: IdentityDeployment, metadata: {name: scattered}, spec: {frontendHosts: [scattered.example], allowedOrigins: ["https://a.example", "https://b.example", "https://c.example", "https://d.example", "https://e.example"]}}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: IdentityDeployment
metadata: {name: squatter}
spec: {frontendHosts: [squatter.example]}
---
apiVersion: v1
kind: Secret
metadata: {name: taken}
stringData: {api-key: somebody's}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIKey
metadata: {name: taken}
spec: {appRef: {name: user}, secretTemplate: {}}
---
apiVersion: v1
kind: Secret
metadata: {name: garbage}
stringData: {api-key: no-key}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIKey
metadata: {name: garbage}
spec: {appRef: {name: user}, existingSecretRef: {name: garbage}}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIKey
metadata: {name: unminted}
spec: {appRef: {name: user}, existingSecretRef: {name: unminted}}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIKey
metadata: {name: old}
spec: {appRef: {name: user}, secretTemplate: {}, expiresAt: "2026-01-01T00:00:00Z"}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: IdentityDeployment
metadata: {name: keyless}
spec: {jwtIssuers: [{name: x, issuer: "https://issuer.example", audiences: [a], algorithms: [RS256], jwksConfigMapRef: {name: keys, key: jwks}, permissionsClaim: p}]}
---
apiVersion: v1
kind: Secret
metadata: {name: mail}
stringData: {password: correct-horse}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: IdentityDeployment
metadata: {name: mailing}
spec: {email: {from: a@acme.example, smtp: {host: mail.acme.example, port: 587, username: a, passwordSecretRef: {name: mail, key: password}}}}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIAuthApp
metadata: {name: mailer}
spec: {deploymentRef: {name: mailing}, slug: mailer}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIKey
metadata: {name: mailer-key}
spec: {appRef: {name: mailer}, secretTemplate: {}}
`

// byHTTP is a scheme as the management API creates it; lateYAML later declares a scheme with the same slug.
const byHTTP = `
apiVersion: iam.cardea.dev/v1alpha1
kind: RateLimitScheme
metadata: {name: main.trial, labels: {app.kubernetes.io/managed-by: cardea-http}}
spec: {deploymentRef: {name: main}, slug: trial, rules: [{unit: minute, duration: 1, maxRequests: 1}]}
`

const lateYAML = `
apiVersion: iam.cardea.dev/v1alpha1
kind: APIAuthApp
metadata: {name: late}
spec: {deploymentRef: {name: main}, slug: late, rateLimitSchemeRef: {name: doomed}}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: RateLimitScheme
metadata: {name: trial}
spec: {deploymentRef: {name: main}, slug: trial, rules: [{unit: minute, duration: 1, maxRequests: 1}]}
`

// withoutRights is a tenant whose Secrets the operator may not read.
const withoutRights = `
apiVersion: iam.cardea.dev/v1alpha1
kind: IdentityDeployment
metadata: {name: main}
spec: {}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIAuthApp
metadata: {name: user}
spec: {deploymentRef: {name: main}, slug: user}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIKey
metadata: {name: user}
spec: {appRef: {name: user}, secretTemplate: {}}
`

// notMade are the reasons of docs/operations.md that these specs do not produce: the store is available, there is a
// root key, there are no former users and passkeys, there are few resources, and no server fetches from providers. The
// tests of cmd/kubectl-cardea/cause cover these reasons, and those of test/integration the ones of Connections and
// WebhookEndpoints.
var notMade = []string{
	"StoreUnavailable", "RootKeyMissing", "FoundPeople", "Delivering", "Failing", "Disabled", "OtherPasskeys", "TooMany",
	"OrganizationNotFound", "Fetched", "Unreachable", "Refused", "InvalidMetadata", "IssuerMismatch", "Expiring", "Changed",
}

// documentedReasons returns the reasons in the table of conditions, without Ready.
func documentedReasons() []string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "operations.md"))
	Expect(err).NotTo(HaveOccurred())
	_, section, _ := strings.Cut(string(text), "## Conditions, and what to do")
	section, _, _ = strings.Cut(section, "\n## ")
	found := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| [A-Za-z= ]*\| (?:<a id="reason-[a-z]+"></a>)?([A-Za-z]+) \|`).FindAllStringSubmatch(section, -1) {
		found[row[1]] = true
	}
	for _, other := range []string{"reason", "Ready", "Callable", "Serving"} { // the header, and good states
		delete(found, other)
	}
	var reasons []string
	for reason := range found {
		reasons = append(reasons, reason)
	}
	return reasons
}

// reported returns the reasons of a diagnosis, each with its fix.
func reported(output string) map[string]string {
	type node struct {
		Findings  []struct{ Reason, Fix string }
		DependsOn []json.RawMessage
	}
	var whole struct{ Resources []json.RawMessage }
	reasons := map[string]string{}
	var visit func(raw json.RawMessage)
	visit = func(raw json.RawMessage) {
		var n node
		if json.Unmarshal(raw, &n) != nil {
			return
		}
		for _, finding := range n.Findings {
			reasons[finding.Reason] = finding.Fix
		}
		for _, child := range n.DependsOn {
			visit(child)
		}
	}
	_ = json.Unmarshal([]byte(output), &whole)
	for _, raw := range whole.Resources {
		visit(raw)
	}
	return reasons
}

var _ = Describe("kubectl cardea why", Ordered, func() {
	var namespace, barred string

	BeforeAll(func(ctx context.Context) {
		kubectl(ctx, "create", "clusterrolebinding", "plugin-host-grants", "--clusterrole=cardea-operator-host-grants", "--serviceaccount=cardea-system:cardea-standalone")
		start(ctx, testkit.Launch{Role: "standalone", Store: "sqlite://" + processes.Path("why.db"), Flags: []string{"--require-host-grants"}})
		var err error
		namespace, err = cluster.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		barred, err = cluster.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		kubectl(ctx, "annotate", "namespace", namespace, "iam.cardea.dev/allowed-hosts=before.example,after.example,login.elsewhere.example,scattered.example")
		for _, given := range []struct {
			namespace, yaml string
			args            []string
		}{
			{namespace, causesYAML, nil}, {namespace, byHTTP, []string{"--server-side", "--field-manager=cardea-http"}}, {barred, withoutRights, nil},
		} {
			out, err := cluster.Kubectl(ctx, given.yaml, append([]string{"apply", "-n", given.namespace, "-f", "-"}, given.args...)...)
			Expect(err).NotTo(HaveOccurred(), out)
		}
		// The doomed scheme is in use before it is deleted, and is deleted before the late app refers to it.
		kubectl(ctx, "wait", "-n", namespace, "apiauthapp/user", "ratelimitscheme/main.trial", "oauthapp/moving", "--for=condition=Ready", "--timeout=30s")
		kubectl(ctx, "delete", "ratelimitscheme", "doomed", "-n", namespace, "--wait=false")
		kubectl(ctx, "wait", "-n", namespace, "ratelimitscheme/doomed", "--for=condition=Deleting", "--timeout=30s")
		out, err := cluster.Kubectl(ctx, lateYAML, "apply", "-n", namespace, "-f", "-")
		Expect(err).NotTo(HaveOccurred(), out)
	})
	AfterAll(func(ctx context.Context) {
		kubectl(ctx, "delete", "namespace", namespace, barred, "--wait=false")
		processes.KillAll()
		kubectl(ctx, "delete", "clusterrolebinding", "plugin-host-grants")
	})

	It("names every cause that docs/operations.md lists, with what to do", func(ctx context.Context) {
		wanted := documentedReasons()
		Expect(len(wanted)).To(BeNumerically(">", 15))
		// The move is reported only for a minute, so it starts now, after the other resources.
		kubectl(ctx, "patch", "identitydeployment/moving", "-n", namespace, "--type=merge", "-p", `{"spec": {"frontendHosts": ["after.example"]}}`)
		Eventually(func() []string {
			reasons := reported(admin(ctx, "why", "-n", namespace, "-o", "json").Out)
			for reason, fix := range reported(admin(ctx, "why", "-n", barred, "-o", "json").Out) {
				reasons[reason] = fix
			}
			var missing []string
			for _, reason := range wanted {
				if reasons[reason] == "" {
					missing = append(missing, reason)
				}
			}
			return missing
		}).WithPolling(500 * time.Millisecond).Should(ConsistOf(notMade))
	})

	It("reports only what a deletion waits for", func(ctx context.Context) {
		Expect(reported(admin(ctx, "why", "rls/doomed", "-n", namespace, "-o", "json").Out)).To(And(HaveLen(1), HaveKey("InUse")))
	})

	It("follows references to the cause, and its advice fixes it", func(ctx context.Context) {
		found := admin(ctx, "why", "akey/mailer-key", "-n", namespace)
		Expect(found.Code).To(Equal(1), found.Problems)
		fix := fmt.Sprintf("kubectl label secret mail -n %s iam.cardea.dev/deployment=mailing", namespace)
		Expect(found.Out).To(And(
			HavePrefix("APIKey/mailer-key  "), ContainSubstring("\n└─ spec.appRef: APIAuthApp/mailer  "),
			ContainSubstring("\n   └─ spec.deploymentRef: IdentityDeployment/mailing  not ready\n"),
			ContainSubstring("CredentialsReady=False SecretNotShared"), ContainSubstring("Secret/mail  not ready\n"), ContainSubstring("→ "+fix+"\n"),
			Not(ContainSubstring("correct-horse")), Not(ContainSubstring("\x1b"))))
		kubectl(ctx, strings.Fields(fix)[1:]...)
		Eventually(func() said { return admin(ctx, "why", "akey/mailer-key", "-n", namespace) }).Should(
			And(HaveField("Code", 0), HaveField("Out", "APIKey/mailer-key  active\nIt is active.\n")))
	})

	It("reports an invalid question", func(ctx context.Context) {
		for _, tc := range []struct {
			args []string
			code int
			says string
		}{
			{[]string{"why", "apikey/none", "-n", namespace}, 1, `there is no APIKey "none" in namespace ` + namespace},
			{[]string{"why", "pod/x"}, 2, "is not a kind of Cardea"},
			{[]string{"why", "apikey"}, 2, "write KIND/NAME"},
			{[]string{"why", "--colour"}, 2, "unknown flag"},
			{[]string{"wyh"}, 2, `unknown command "wyh"`},
			{[]string{"why", "--context", "elsewhere"}, 3, `context "elsewhere" does not exist`},
		} {
			answer := admin(ctx, tc.args...)
			Expect(answer.Code).To(Equal(tc.code), "%v: %s", tc.args, answer.Problems)
			Expect(answer.Problems).To(And(HavePrefix("kubectl cardea: "), ContainSubstring(tc.says)))
		}
		Expect(admin(ctx, "why", "-n", "kube-public")).To(And(HaveField("Code", 0), HaveField("Out", HavePrefix("There are no resources of Cardea in namespace kube-public"))))
	})

	It("completes commands, kinds and names for kubectl", func(ctx context.Context) {
		complete := func(words ...string) string {
			GinkgoHelper()
			return kubectlAs(ctx, cluster.AdminKubeconfig(), nil, append([]string{"__complete", "cardea"}, words...)...).Out
		}
		Expect(complete("")).To(ContainSubstring("doctor\t"))
		Expect(complete("why", "")).To(ContainSubstring("apikey/\n"))
		Expect(complete("-n", namespace, "why", "oclient/")).NotTo(ContainSubstring("garbage"))
		Expect(complete("-n", namespace, "why", "akey/")).To(ContainSubstring("akey/garbage\n"))
		Expect(complete("-n", namespace, "key", "rotate", "")).To(ContainSubstring("\nmailer-key\n"))
		Expect(complete("export", "-n", namespace, "")).To(ContainSubstring("mailing\n"))
	})
})
