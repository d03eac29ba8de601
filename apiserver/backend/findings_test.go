package backend

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
)

// cluster is a Kubernetes API that holds rate-limit schemes and settings by name.
type cluster struct {
	mu      sync.Mutex
	objects map[string]string // JSON by name
	// forbid is how many calls are still forbidden.
	forbid int
	// leaving is, by name, how often an object is still read before it is gone.
	leaving map[string]int
	created []client.Object
}

func newCluster() *cluster { return &cluster{objects: map[string]string{}, leaving: map[string]int{}} }

// put stores a scheme; meta, if not nil, changes its metadata.
func (k *cluster) put(name, slug string, meta func(*metav1.ObjectMeta)) {
	obj := &v1alpha1.RateLimitScheme{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1", Generation: 1},
		Spec:       v1alpha1.RateLimitSchemeSpec{DeploymentRef: v1alpha1.DeploymentReference{Name: "acme"}, Slug: v1alpha1.Slug(slug)},
	}
	if meta != nil {
		meta(&obj.ObjectMeta)
	}
	raw, _ := json.Marshal(obj)
	k.objects[name] = string(raw)
}

func (k *cluster) refused() error {
	if k.forbid == 0 {
		return nil
	}
	k.forbid--
	return apierrors.NewForbidden(schemeResource, "free", errors.New("RBAC is not ready"))
}

func (k *cluster) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refused(); err != nil {
		return err
	}
	raw, found := k.objects[key.Name]
	if left, leaving := k.leaving[key.Name]; leaving {
		if left == 0 {
			delete(k.objects, key.Name)
			delete(k.leaving, key.Name)
			found = false
		}
		k.leaving[key.Name]--
	}
	if !found {
		return apierrors.NewNotFound(schemeResource, key.Name)
	}
	return json.Unmarshal([]byte(raw), obj)
}

func (k *cluster) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refused(); err != nil {
		return err
	}
	if _, taken := k.objects[obj.GetName()]; taken {
		return apierrors.NewAlreadyExists(schemeResource, obj.GetName())
	}
	obj.SetUID(types.UID("uid-" + obj.GetName()))
	obj.SetResourceVersion("1")
	obj.SetGeneration(1)
	raw, _ := json.Marshal(obj)
	k.objects[obj.GetName()] = string(raw)
	k.created = append(k.created, obj)
	return nil
}

func (k *cluster) Patch(_ context.Context, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refused(); err != nil {
		return err
	}
	return json.Unmarshal([]byte(k.objects[obj.GetName()]), obj)
}

func (k *cluster) Delete(_ context.Context, obj client.Object, _ ...client.DeleteOption) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refused(); err != nil {
		return err
	}
	delete(k.objects, obj.GetName())
	return nil
}

const schemesPath = "/api-auth/rate-limit-schemes"

func newBody(slug string) string {
	return `{"slug":"` + slug + `","name":"N","rules":[{"unit":"day","duration":1,"max_requests":1}]}`
}

func TestConflictNamesOwnerOfAnnotation(t *testing.T) {
	const annotation = `{"f:metadata":{"f:annotations":{"f:kubectl.kubernetes.io/last-applied-configuration":{}}}}`
	obj := managed(applied(`{"spec":{"displayName":"x"}}`),
		entry("cardea-http", "", `{"f:spec":{"f:displayName":{}}}`), entry("argocd-controller", "", annotation))
	items, err := conflicts(obj, []change{{field: "/name", path: "displayName", value: "y"}})
	if err != nil || len(items) != 1 || items[0].Manager != "argocd-controller" {
		t.Errorf("got %+v, %v", items, err)
	}
	if err := refuseForeign(obj); err == nil || !strings.Contains(err.Error(), "argocd-controller") || strings.Contains(err.Error(), "kubectl") {
		t.Errorf("got %v", err)
	}
}

func TestCreatedResourceNamesItsDeployment(t *testing.T) {
	k := newCluster()
	backend := serve(t, k)
	if answer := backend.send("POST", schemesPath, newBody("new")); answer.Code != 200 {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	if answer := backend.send("PATCH", "/settings/b2b-settings", `{"enabled":true}`); answer.Code != 200 {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	if len(k.created) != 2 {
		t.Fatalf("created %v", k.created)
	}
	for _, obj := range k.created {
		owners := obj.GetOwnerReferences()
		if len(owners) != 1 {
			t.Fatalf("owners %+v", owners)
		}
		owner := owners[0]
		if owner.Kind != "IdentityDeployment" || owner.Name != "acme" || owner.UID != "uid-1" || owner.APIVersion != "iam.cardea.dev/v1alpha1" {
			t.Errorf("owner %+v", owner)
		}
		if owner.BlockOwnerDeletion != nil || owner.Controller != nil {
			t.Errorf("the deletion of a deployment must not wait for resources that HTTP created: %+v", owner)
		}
	}
}

func TestResourceCreatedUnderOtherNameIsFound(t *testing.T) {
	k := newCluster()
	k.put("acme.new", "squatter", nil)
	if answer := serve(t, k).send("POST", schemesPath, newBody("new")); answer.Code != 200 {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	// Neither of these two servers has the resource in its snapshot, and neither served the POST.
	for _, method := range []string{"PATCH", "DELETE"} {
		want := map[string]int{"PATCH": 200, "DELETE": 204}[method]
		if answer := serve(t, k).send(method, schemesPath+"/new", `{"name":"Other"}`); answer.Code != want {
			t.Errorf("%s: %d %s", method, answer.Code, answer.Body)
		}
	}
	if _, stays := k.objects["acme.new"]; !stays || len(k.objects) != 1 {
		t.Errorf("left are %v", k.objects)
	}
}

func TestSlugIsFreeAfterSchemeDeletion(t *testing.T) {
	leaving := func(m *metav1.ObjectMeta) {
		now := metav1.Now()
		m.DeletionTimestamp, m.Finalizers = &now, []string{"iam.cardea.dev/finalizer"}
	}
	t.Run("under its own name", func(t *testing.T) {
		k := newCluster()
		k.put("acme.gone", "gone", leaving)
		k.leaving["acme.gone"] = 3
		if answer := serve(t, k).send("POST", schemesPath, newBody("gone")); answer.Code != 200 {
			t.Errorf("%d %s", answer.Code, answer.Body)
		}
	})
	t.Run("where this server still serves it", func(t *testing.T) {
		k := newCluster()
		k.put("free", "free", leaving)
		k.leaving["free"] = 3
		if answer := serve(t, k).send("POST", schemesPath, newBody("free")); answer.Code != 200 {
			t.Errorf("%d %s", answer.Code, answer.Body)
		}
	})
	t.Run("not while it stays", func(t *testing.T) {
		k := newCluster()
		k.put("free", "free", nil)
		answer := serve(t, k).send("POST", schemesPath, newBody("free"))
		if answer.Code != 409 || !strings.Contains(answer.Body.String(), `\"free\" is taken`) || !strings.Contains(answer.Body.String(), `"field":"/slug"`) {
			t.Errorf("%d %s", answer.Code, answer.Body)
		}
	})
}

func TestForbiddenWriteIsRetried(t *testing.T) {
	k := newCluster()
	k.put("free", "free", nil)
	k.forbid = 3
	if answer := serve(t, k).send("PATCH", freePath, `{"name":"Other"}`); answer.Code != 200 {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	k.forbid = 1000
	answer := serve(t, k).send("PATCH", freePath, `{"name":"Another"}`)
	if answer.Code != 503 || !strings.Contains(answer.Body.String(), "may still be starting") {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	if 1000-k.forbid > 6 {
		t.Errorf("asked %d times", 1000-k.forbid)
	}
	terminating := apierrors.NewForbidden(schemeResource, "free", errors.New("the namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = append(terminating.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	asked := 0
	if err := (patient{slots: egress.NewSlots(writeBounds, time.Now)}).try(context.Background(), "acme", func() error { asked++; return terminating }); err == nil || asked != 1 {
		t.Errorf("a namespace that ends: asked %d times, %v", asked, err)
	}
}

func TestConfigurationWritesAreAudited(t *testing.T) {
	k := newCluster()
	k.put("free", "free", nil)
	backend := serve(t, k)
	audits := func() []string {
		t.Helper()
		db, err := sql.Open("sqlite", backend.path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		rows, err := db.Query("SELECT actor, action, object FROM audit ORDER BY action")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var lines []string
		for rows.Next() {
			var actor, action, object string
			if err := rows.Scan(&actor, &action, &object); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, actor+" "+action+" "+object)
		}
		return lines
	}
	for _, write := range [][3]string{
		{"POST", schemesPath, newBody("new")}, {"PATCH", freePath, `{"name":"Other"}`}, {"PATCH", freePath, `{}`}, {"DELETE", schemesPath + "/new", ""},
		{"PATCH", "/settings/b2b", `{"enabled":true}`},
	} {
		if answer := backend.send(write[0], write[1], write[2]); answer.Code >= 300 {
			t.Fatalf("%v: %d %s", write, answer.Code, answer.Body)
		}
	}
	who := "key:" + backend.keyID + " "
	want := []string{
		who + "b2b_settings.created b2b_settings:acme", who + "rate_limit_scheme.created rate_limit_scheme:new",
		who + "rate_limit_scheme.deleted rate_limit_scheme:new", who + "rate_limit_scheme.updated rate_limit_scheme:free",
	}
	if got := audits(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if err := backend.rows.Close(); err != nil {
		t.Fatal(err)
	}
	if answer := backend.send("POST", schemesPath, newBody("more")); answer.Code != 200 {
		t.Errorf("without the store: %d %s", answer.Code, answer.Body)
	}
}
