// Package gitops runs the engines of Flux and of Argo CD against a real control plane and a running Cardea, with
// concurrent HTTP writes.
package gitops

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/test/testkit"
)

// within bounds every wait, on a loaded machine.
const within = time.Minute

const schemesPath = "/api-auth/rate-limit-schemes"

// world is a control plane with a running Cardea, shared by all tenants.
type world struct {
	cluster *testkit.Cluster
	cardea  *testkit.Cardea
	argo    *argoCluster
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	ctx := context.Background()
	cluster, err := testkit.StartCluster(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	processes, err := testkit.NewProcesses(ctx, cluster)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := processes.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{cluster: cluster}
	if w.cardea, err = processes.Start(ctx, testkit.Launch{Role: "standalone", Store: "sqlite://" + processes.Path("cardea.db")}); err != nil {
		t.Fatal(err)
	}
	if err := w.cardea.AwaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	w.argo = newArgoCluster(t, cluster.RESTConfig())
	return w
}

// engine is a tool that applies a commit.
type engine interface {
	// manager returns the field manager that the engine applies as.
	manager() string
	// sync applies a commit, and deletes the resources of an earlier sync that the commit does not have.
	sync(ctx context.Context, commit []*unstructured.Unstructured) error
	// healthy returns nil if the engine considers every resource of a commit healthy, otherwise an error that names
	// one.
	healthy(ctx context.Context, commit []*unstructured.Unstructured) error
	// drift returns what the engine would report as out of sync with a commit.
	drift(ctx context.Context, commit []*unstructured.Unstructured) ([]difference, error)
}

// tenant is a namespace managed by an engine, and the commit in Git.
type tenant struct {
	*WithT
	*world
	ctx       context.Context
	engine    engine
	namespace string
	commit    []*unstructured.Unstructured
	key       string
}

// newTenant returns a tenant with only the samples' backend, not synced yet.
func newTenant(t *testing.T, w *world, namespace string, e engine) *tenant {
	return &tenant{WithT: NewWithT(t), world: w, ctx: t.Context(), engine: e, namespace: namespace, commit: backend(t, namespace)}
}

// start syncs the commit until the engine considers it healthy, and reads the backend's key.
func (n *tenant) start() {
	n.sync()
	n.settle()
	n.key = n.cluster.APIKey(n.ctx, n.namespace, "acme-backend-key")
	n.Expect(n.key).NotTo(BeEmpty(), "the key that was generated")
	n.Eventually(func() int { return n.http("GET", schemesPath, "").Status }, within).Should(Equal(200), "the key is active")
}

func (n *tenant) sync() { n.Expect(n.engine.sync(n.ctx, n.commit)).To(Succeed()) }

// settle waits until the engine considers the commit healthy.
func (n *tenant) settle() {
	n.Eventually(func() error { return n.engine.healthy(n.ctx, n.commit) }, within, 50*time.Millisecond).Should(Succeed())
}

// http sends a request with the backend's key. If there is no response, the Answer has status 0 and the error's text.
func (n *tenant) http(method, path, body string) testkit.Answer {
	answer, err := testkit.Do(method, n.cardea.Backend+path, n.key, body)
	if err != nil {
		return testkit.Answer{Raw: []byte(err.Error())}
	}
	return answer
}

// expect sends a request and expects a status.
func (n *tenant) expect(status int, method, path, body string) testkit.Answer {
	answer := n.http(method, path, body)
	n.Expect(answer.Status).To(Equal(status), "%s %s %s: %s", method, path, body, answer.Raw)
	return answer
}

// expectOwned expects HTTP to be refused a field because the engine owns it.
func (n *tenant) expectOwned(slug, body, path string) {
	answer := n.expect(http.StatusConflict, "PATCH", schemesPath+"/"+slug, body)
	n.Expect(answer.JSON["errors"]).To(ConsistOf(And(HaveKeyWithValue("manager", n.engine.manager()), HaveKeyWithValue("resource_path", path))))
}

// post creates a scheme over HTTP.
func (n *tenant) post(slug string) {
	n.expect(http.StatusOK, "POST", schemesPath, fmt.Sprintf(`{"slug":%q,"name":"by HTTP","rules":[{"unit":"minute","duration":1,"max_requests":60}]}`, slug))
}

// live reads a resource from the API server, nil if there is none.
func (n *tenant) live(kind, name string) *unstructured.Unstructured {
	object, err := read(n.ctx, n.cluster.Client, of(kind, n.namespace, name))
	n.Expect(err).NotTo(HaveOccurred())
	return object
}

// condition returns "Status/Reason message" of a live resource's condition, "" if it has none.
func (n *tenant) condition(kind, name, condition string) string {
	object := n.live(kind, name)
	if object == nil {
		return ""
	}
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range all {
		if c := one.(map[string]any); c["type"] == condition {
			return fmt.Sprintf("%s/%s %s", c["status"], c["reason"], c["message"])
		}
	}
	return ""
}

func (n *tenant) id(kind, name string) string {
	id, _, _ := unstructured.NestedString(n.live(kind, name).Object, "status", "id")
	return id
}

// of returns an object with only its kind, namespace and name.
func of(kind, namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	gvk := v1alpha1.GroupVersion.WithKind(kind)
	if kind == "Secret" || kind == "Namespace" {
		gvk = schema.GroupVersionKind{Version: "v1", Kind: kind}
	}
	object.SetGroupVersionKind(gvk)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// read reads an object from the API server, nil if there is none.
func read(ctx context.Context, c client.Client, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(object.GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), live); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return live, nil
}

// log returns Cardea's log.
func (w *world) log() string {
	content, err := os.ReadFile(w.cardea.LogPath)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// expectNoErrorsOfReconciles expects the operator to have logged something, and no reconcile to have ended in an error.
// Conflicts, missing rights and deletions are not errors.
func (w *world) expectNoErrorsOfReconciles(t *testing.T) {
	t.Helper()
	log := w.log()
	if !strings.Contains(log, `"Starting workers"`) {
		t.Errorf("the operator logged nothing:\n%s", log)
	}
	for line := range strings.Lines(log) {
		if strings.Contains(line, "Reconciler error") {
			t.Error(line)
		}
	}
}
