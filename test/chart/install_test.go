package chart

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
)

// tenant is declared by another team, and must outlive every change of the release.
const tenant = `
apiVersion: v1
kind: Namespace
metadata: {name: acme}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: RateLimitScheme
metadata: {name: free, namespace: acme}
spec:
  deploymentRef: {name: acme}
  slug: free
  displayName: Free
  rules: [{unit: minute, duration: 1, maxRequests: 60}]
`

// A platform team installs the chart, changes values, upgrades to a newer chart, and uninstalls it, while another
// team's resources are in the cluster.
func TestLifeOfARelease(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	chart := load(t, chartPath)
	t.Run("a server takes what is rendered", func(t *testing.T) { testDryRun(t, c) })

	if err := c.install(t, chart, values{}); err != nil {
		t.Fatal(err)
	}
	c.declareTenant(t)
	before := c.identities(t)
	service := c.field(t, "service/cardea-server", "{.metadata.resourceVersion}", "-n", system)

	t.Run("values change", func(t *testing.T) {
		c.upgrade(t, chart, set(t, `server.replicas=3,trustedProxies=["203.0.113.7/32"]`))
		if got := c.field(t, "deployment/cardea-server", "{.spec.replicas} {.spec.template.spec.containers[0].args}", "-n", system); got !=
			`3 ["server","--root-key=/etc/cardea/root-key/root.key","--trusted-proxies=203.0.113.7/32"]` {
			t.Errorf("the server is %s after the upgrade", got)
		}
		if got := c.field(t, "service/cardea-server", "{.metadata.resourceVersion}", "-n", system); got != service {
			t.Error("the Service was written although it did not change")
		}
		c.unchanged(t, before)
	})
	t.Run("a newer chart upgrades the kinds, and the form changes", func(t *testing.T) {
		c.upgrade(t, newer(t, chart), set(t, "standalone.enabled=true"))
		if got := c.field(t, "crd/ratelimitschemes.iam.cardea.dev", "{.spec.names.shortNames[*]}"); !strings.Contains(got, "newshortname") {
			t.Errorf("the kind has the short names %s: the upgrade did not reach it", got)
		}
		if c.there(t, "deployment/cardea-server", "-n", system) || !c.there(t, "statefulset/cardea-standalone", "-n", system) {
			t.Error("the release is not standalone")
		}
		c.unchanged(t, before)
	})
	t.Run("uninstalled", func(t *testing.T) {
		c.uninstall(t)
		for _, gone := range []string{"statefulset/cardea-standalone", "service/cardea-server", "serviceaccount/cardea-standalone", "networkpolicy/cardea-default-deny"} {
			if c.there(t, gone, "-n", system) {
				t.Errorf("%s is still there", gone)
			}
		}
		if c.there(t, "clusterrole/cardea-operator") || c.there(t, "validatingadmissionpolicy/cardea-operator-secrets") {
			t.Error("rights are still there")
		}
		c.unchanged(t, before)
	})
	t.Run("under another name", func(t *testing.T) {
		err := c.install(t, chart, values{}, func(i *action.Install) { i.ReleaseName = "another" })
		if err == nil || !strings.Contains(err.Error(), "invalid ownership metadata") {
			t.Errorf("%v, want a refusal of the kinds that the first release keeps", err)
		}
	})
	t.Run("from the release before", func(t *testing.T) { testPrevious(t, c, chart, before) })
}

// testPrevious upgrades from the previous release, which hack/release-before names: from its chart, or from its
// manifests if it has no chart. The CRDs and resources that the uninstalled release kept are still there.
func testPrevious(t *testing.T, c *cluster, chart *chartv2.Chart, before string) {
	const withoutKinds = "server.replicas=4,crds.enabled=false" // a release that no longer has the kinds keeps them too
	config, release := previous(t)
	if from := filepath.Join(config, "chart", "cardea"); exists(from) {
		t.Logf("from the chart of %s", release)
		if err := c.install(t, load(t, from), values{}); err != nil {
			t.Fatal(err)
		}
		c.upgrade(t, chart, set(t, withoutKinds))
	} else {
		t.Logf("%s has no chart: from its manifests", release)
		c.kubectl(t, "", "apply", "--server-side", "--force-conflicts", "-k", filepath.Join(config, "default"))
		if err := c.install(t, chart, values{}); err == nil || !strings.Contains(err.Error(), "invalid ownership metadata") {
			t.Errorf("installing over kubectl's objects without TakeOwnership: %v, want a refusal", err)
		}
		if err := c.install(t, chart, values{}, func(i *action.Install) { i.TakeOwnership, i.ForceConflicts = true, true }); err != nil {
			t.Fatal(err)
		}
		// kubectl still owns the fields that both set to equal values.
		c.upgrade(t, chart, set(t, withoutKinds), func(u *action.Upgrade) { u.ForceConflicts = true })
	}
	if got := c.field(t, "deployment/cardea-server", "{.spec.replicas}", "-n", system); got != "4" {
		t.Errorf("%s replicas after an upgrade to 4", got)
	}
	c.unchanged(t, before)
}

// testDryRun checks that the API server accepts all resources, in a namespace that admits only restricted Pods, without
// a warning.
func testDryRun(t *testing.T, c *cluster) {
	c.kubectl(t, tenant[:strings.Index(tenant, "---")], "apply", "-f", "-")
	apply := []string{"apply", "--server-side", "--dry-run=server", "--warnings-as-errors", "-f", "-"}
	admitted := func(text string) (manifest string) {
		manifest, err := template(t, system, set(t, text))
		if err != nil {
			t.Fatal(err)
		}
		c.kubectl(t, manifest, apply...)
		return manifest
	}
	admitted("standalone.enabled=true," + everything)
	manifest := admitted("crds.enabled=false," + everything)
	if output, err := c.try(t, strings.ReplaceAll(manifest, "runAsNonRoot: true", "runAsNonRoot: false"), apply...); err == nil || !strings.Contains(output, "PodSecurity") {
		t.Errorf("Pods that may run as root pass: this check cannot fail\n%s", output)
	}
}

func (c *cluster) declareTenant(t *testing.T) {
	t.Helper()
	c.kubectl(t, "", "wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
	c.kubectl(t, tenant, "apply", "-f", "-")
}

// identities returns what must not change: the UIDs of the kinds and of the tenant's resource, and the resource's spec.
func (c *cluster) identities(t *testing.T) string {
	t.Helper()
	identities := c.field(t, "crd", `{range .items[*]}{.metadata.name} {.metadata.uid} {.metadata.deletionTimestamp}{"\n"}{end}`) +
		c.field(t, "ratelimitscheme/free", "{.metadata.uid} {.metadata.generation} {.spec}", "-n", "acme")
	if strings.Count(identities, "iam.cardea.dev ") < 10 {
		t.Fatalf("the kinds are not there:\n%s", identities)
	}
	return identities
}

func (c *cluster) unchanged(t *testing.T, before string) {
	t.Helper()
	if now := c.identities(t); now != before {
		t.Errorf("kinds and resources were\n%s\nand are\n%s", before, now)
	}
}

// newer returns the chart as a later release may be: one kind has an additional short name.
func newer(t *testing.T, chart *chartv2.Chart) *chartv2.Chart {
	t.Helper()
	later := load(t, chartPath)
	later.Metadata.Version = "99.0.0"
	for _, file := range later.Templates {
		if strings.HasSuffix(file.Name, "_ratelimitschemes.yaml") {
			file.Data = bytes.Replace(file.Data, []byte("    shortNames:\n"), []byte("    shortNames:\n    - newshortname\n"), 1)
			return later
		}
	}
	t.Fatalf("%s has no template of the kind", chart.Name())
	return nil
}

// previous returns config/ of the previous release, from git's history, and the release's name.
func previous(t *testing.T) (config, release string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "hack", "release-before"))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(content))
	if len(fields) != 2 {
		t.Fatalf("hack/release-before says %q, want a release and its commit", content)
	}
	release, commit := fields[0], fields[1]
	if exec.CommandContext(t.Context(), "git", "-C", root, "cat-file", "-e", commit+"^{commit}").Run() != nil {
		t.Skipf("the history of this clone does not reach %s, so nothing is upgraded from it: git fetch --unshallow", release)
	}
	archive := exec.CommandContext(t.Context(), "git", "-C", root, "archive", "--format=tar", commit, "config")
	packed, err := archive.Output()
	if err != nil {
		t.Fatalf("%s: %v", archive, err)
	}
	dir := t.TempDir()
	unpack := exec.CommandContext(t.Context(), "tar", "-x", "-C", dir)
	unpack.Stdin = bytes.NewReader(packed)
	if output, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", unpack, err, output)
	}
	return filepath.Join(dir, "config"), release
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
