package install

import (
	"testing"
)

// A platform team installs Cardea, then another team declares its tenant.
func TestInstall(t *testing.T) {
	c := startCluster(t)
	c.apply(t, "crd")
	c.kubectl(t, "wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
	c.apply(t, "namespace")

	for _, folder := range installs {
		t.Run("a server takes "+folder, func(t *testing.T) { c.apply(t, folder, "--dry-run=server") })
	}

	c.apply(t, "local")
	t.Run("restricted Pods", func(t *testing.T) { testPods(t, c) })

	t.Run("the samples apply as they stand", func(t *testing.T) {
		c.kubectl(t, "apply", "--warnings-as-errors", "-k", config("samples"))
		if difference := c.kubectl(t, "diff", "-k", config("samples")); difference != "" {
			t.Errorf("kubectl diff of what was just applied:\n%s", difference)
		}
	})
	t.Run("rights", func(t *testing.T) { testRights(t, c) })
	t.Run("Secrets", func(t *testing.T) { testSecrets(t, c) })
}
