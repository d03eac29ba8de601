package install

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// right is a question to the authorizer: verbs on a resource, written as in kubectl (resource.group/subresource), in a
// namespace ("" means all namespaces).
type right struct {
	verbs, resource, namespace, name string
}

// kinds are the plurals of all kinds.
var kinds = func() (plurals []string) {
	for _, info := range v1alpha1.Kinds {
		plurals = append(plurals, info.Resource)
	}
	return plurals
}()

func (r right) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s in %q", r.verbs, r.resource, r.name, r.namespace))
}

// ask returns the denied verbs and the allowed verbs.
func (r right) ask(ctx context.Context, c *cluster, user authorizationv1.SubjectAccessReviewSpec) (denied, allowed []string, err error) {
	full, subresource, _ := strings.Cut(r.resource, "/")
	resource := schema.ParseGroupResource(full)
	for _, verb := range strings.Split(r.verbs, ",") {
		review := &authorizationv1.SubjectAccessReview{Spec: user}
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Verb: verb, Group: resource.Group, Resource: resource.Resource, Subresource: subresource, Namespace: r.namespace, Name: r.name,
		}
		answer, err := c.admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return nil, nil, err
		}
		if answer.Status.Allowed {
			allowed = append(allowed, verb)
		} else {
			denied = append(denied, verb)
		}
	}
	return denied, allowed, nil
}

func serviceAccount(name string) authorizationv1.SubjectAccessReviewSpec {
	return authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + system + ":" + name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + system, "system:authenticated"},
	}
}

func testRights(t *testing.T, c *cluster) {
	operator := []right{
		{"get,list,watch,create,update,delete", "secrets", "acme", ""},
		{"create,patch", "events.events.k8s.io", "acme", ""},
		{"get", "namespaces", "", "kube-system"},
	}
	notOperator := []right{
		{"get,list,watch,create,update,delete", "secrets", "default", ""},
		{"get,list,watch,create,update,delete", "secrets", system, ""},
		{"list,watch", "secrets", "", ""},
		{"patch,deletecollection", "secrets", "acme", ""},
		{"get", "namespaces", "", "acme"},
		{"list,watch", "namespaces", "", ""},
		{"impersonate", "users", "", ""},
		{"get,list,create", "pods", "acme", ""},
	}
	for _, kind := range kinds {
		operator = append(operator,
			right{"get,list,watch,patch", kind + ".iam.cardea.dev", "", ""},
			right{"patch", kind + ".iam.cardea.dev/status", "", ""})
		notOperator = append(notOperator, right{"update,deletecollection", kind + ".iam.cardea.dev", "", ""})
	}
	server := []right{{"create", "tokenreviews.authentication.k8s.io", "", ""}}
	notServer := []right{
		{"get,list,watch,create,update,patch,delete,deletecollection", "secrets", "acme", ""},
		{"get,list,watch,create,update,patch,delete,deletecollection", "secrets", system, ""},
	}
	for _, info := range v1alpha1.Kinds {
		resource := info.Resource + ".iam.cardea.dev"
		others := []string{"list", "watch", "update", "deletecollection"} // never allowed to the server
		for _, verb := range []string{"create", "patch", "delete"} {
			if !slices.Contains(info.ServerVerbs, verb) {
				others = append(others, verb)
			}
		}
		server = append(server, right{strings.Join(info.ServerVerbs, ","), resource, "acme", ""})
		notServer = append(notServer, right{strings.Join(others, ","), resource, "acme", ""}, right{"get,patch,update", resource + "/status", "acme", ""})
	}
	lease := []right{
		{"get,update,patch", "leases.coordination.k8s.io", system, "cardea-operator"},
		{"create", "leases.coordination.k8s.io", system, ""},
	}
	notLease := []right{
		{"get,update,patch,delete", "leases.coordination.k8s.io", system, "another"},
		{"get,list,create", "leases.coordination.k8s.io", "kube-system", ""},
	}
	// A user with a built-in role of Kubernetes in a namespace.
	view := right{"get,list,watch", "", "acme", ""}
	edit := right{"create,update,patch,delete", "", "acme", ""}
	status := right{"update,patch", "/status", "acme", ""}
	of := func(r right) (rights []right) {
		for _, kind := range kinds {
			rights = append(rights, right{r.verbs, kind + ".iam.cardea.dev" + r.resource, r.namespace, r.name})
		}
		return rights
	}
	c.kubectl(t, "create", "rolebinding", "viewers", "--namespace=acme", "--clusterrole=view", "--user=viewer")
	c.kubectl(t, "create", "rolebinding", "editors", "--namespace=acme", "--clusterrole=edit", "--user=editor")

	for _, tc := range []struct {
		name        string
		user        authorizationv1.SubjectAccessReviewSpec
		can, cannot []right
	}{
		{"operator", serviceAccount("cardea-operator"), slices.Concat(operator, lease),
			slices.Concat(notOperator, notLease, of(right{"create,delete", "", "acme", ""}), server[:1])},
		{"server", serviceAccount("cardea-server"), server, slices.Concat(notServer, lease)},
		{"standalone", serviceAccount("cardea-standalone"), slices.Concat(operator, server), slices.Concat(notOperator, lease)},
		{"viewer", authorizationv1.SubjectAccessReviewSpec{User: "viewer"}, of(view), slices.Concat(of(edit), of(status))},
		{"editor", authorizationv1.SubjectAccessReviewSpec{User: "editor"}, slices.Concat(of(view), of(edit)), of(status)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, r := range tc.can {
				eventually(t, func() error {
					denied, _, err := r.ask(t.Context(), c, tc.user)
					if err == nil && len(denied) > 0 {
						err = fmt.Errorf("may not %v of %s", denied, r)
					}
					return err
				})
			}
			for _, r := range tc.cannot {
				if _, allowed, err := r.ask(t.Context(), c, tc.user); err != nil || len(allowed) > 0 {
					t.Errorf("may %v of %s (%v)", allowed, r, err)
				}
			}
		})
	}
}

// In a namespace with its RoleBinding, the operator has RBAC rights on every Secret. The admission policy restricts it
// to changing its own Secrets.
func testSecrets(t *testing.T, c *cluster) {
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}}
	if _, err := c.admin.CoreV1().Secrets("acme").Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cardea-operator", "cardea-standalone"} {
		t.Run(name, func(t *testing.T) { operatorOnSecrets(t, c, c.as(t, name)) })
	}
	t.Run("others are not held up", func(t *testing.T) {
		if err := c.admin.CoreV1().Secrets("acme").Delete(t.Context(), "foreign", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("cardea-server", func(t *testing.T) {
		_, err := c.as(t, "cardea-server").CoreV1().Secrets("acme").List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("list: %v, want a refusal", err)
		}
	})
}

func operatorOnSecrets(t *testing.T, c *cluster, operator kubernetes.Interface) {
	ctx, secrets := t.Context(), operator.CoreV1().Secrets("acme")
	uid := c.kubectl(t, "get", "apikey", "acme-backend-key", "--namespace=acme", "-o", "jsonpath={.metadata.uid}")
	own := func() *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name: "own", Labels: map[string]string{"app.kubernetes.io/managed-by": "cardea"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "iam.cardea.dev/v1alpha1", Kind: "APIKey", Name: "acme-backend-key", UID: types.UID(uid),
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false),
			}},
		}}
	}
	// The policy takes effect a moment after its creation.
	eventually(t, func() error {
		unlabelled := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "unlabelled"}}
		_, err := secrets.Create(ctx, unlabelled, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return wantDenied("creation without the label", err)
	})

	// If the API server checks ownerReferences, the operator's need no additional right, because they do not block
	// deletion.
	blocking := own()
	blocking.OwnerReferences[0].BlockOwnerDeletion = ptr.To(true)
	if _, err := secrets.Create(ctx, blocking, metav1.CreateOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "blockOwnerDeletion") {
		t.Errorf("creation with a blocking ownerReference: %v, want a refusal", err)
	}
	created, err := secrets.Create(ctx, own(), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create its own: %v", err)
	}
	created.Data = map[string][]byte{"api-key": []byte("changed")}
	if created, err = secrets.Update(ctx, created, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("update its own: %v", err)
	}
	for _, labels := range []map[string]string{nil, {}, {"app.kubernetes.io/managed-by": "somebody"}} {
		disowned := created.DeepCopy()
		disowned.Labels = labels
		_, err = secrets.Update(ctx, disowned, metav1.UpdateOptions{})
		report(t, wantDenied(fmt.Sprintf("update to labels %v", labels), err))
	}
	if err := secrets.Delete(ctx, "own", metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete its own: %v", err)
	}

	foreign, err := secrets.Get(ctx, "foreign", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("read a Secret to adopt: %v", err)
	}
	foreign.Data = map[string][]byte{"api-key": []byte("changed")}
	_, err = secrets.Update(ctx, foreign, metav1.UpdateOptions{})
	report(t, wantDenied("update of a foreign Secret", err))
	foreign.Labels = map[string]string{"app.kubernetes.io/managed-by": "cardea"}
	_, err = secrets.Update(ctx, foreign, metav1.UpdateOptions{})
	report(t, wantDenied("capture of a foreign Secret", err))
	report(t, wantDenied("deletion of a foreign Secret", secrets.Delete(ctx, "foreign", metav1.DeleteOptions{})))

	elsewhere := own()
	elsewhere.OwnerReferences = nil
	if _, err := operator.CoreV1().Secrets("default").Create(ctx, elsewhere, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("create in a namespace that is not bound: %v, want a refusal", err)
	}
}

func wantDenied(what string, err error) error {
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "Cardea's operator may") {
		return nil
	}
	return fmt.Errorf("%s: %v, want the policy's refusal", what, err)
}

func report(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// serverWrites are the kinds that the server may change in the Kubernetes API, with the verbs. The list is written by
// hand, so that a wider right in the table of kinds needs a second decision here.
var serverWrites = map[string][]string{
	"ratelimitschemes": {"create", "patch", "delete"}, "b2bsettings": {"create", "patch", "delete"}, "apiauthapps": {"create", "patch", "delete"},
	"oauthapps": {"patch"}, "oauthscopes": {"patch"},
}

// No role contains a wildcard or a right to extend rights, and the server has exactly the listed rights.
func TestRoles(t *testing.T) {
	for _, folder := range append([]string{"local", "samples"}, installs...) {
		for _, object := range render(t, folder) {
			if kind := object.GetKind(); kind != "Role" && kind != "ClusterRole" {
				continue
			}
			var role rbacv1.ClusterRole
			convert(t, object.Object, &role)
			for _, rule := range role.Rules {
				for _, word := range slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.ResourceNames, rule.NonResourceURLs) {
					if strings.Contains(word, "*") || slices.Contains([]string{"escalate", "bind", "impersonate"}, word) {
						t.Errorf("%s: %s grants %q", folder, role.Name, word)
					}
				}
			}
			if role.Name == "cardea-server" {
				var want []rbacv1.PolicyRule
				for _, kind := range kinds {
					verbs := []string{"get"}
					if may, writes := serverWrites[kind]; writes {
						verbs = append(verbs, may...)
					}
					want = append(want, rbacv1.PolicyRule{APIGroups: []string{"iam.cardea.dev"}, Resources: []string{kind}, Verbs: verbs})
				}
				want = append(want, rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}})
				if fmt.Sprint(role.Rules) != fmt.Sprint(want) {
					t.Errorf("%s: the server may %v, want %v", folder, role.Rules, want)
				}
			}
		}
	}
}

// The bindings of roles to subjects, in the whole cluster and in namespaces.
func TestBindings(t *testing.T) {
	want := map[string][]string{
		"default": {
			"ClusterRoleBinding cardea-operator: cardea-operator",
			"ClusterRoleBinding cardea-server: cardea-server",
			"RoleBinding cardea-operator-leader: cardea-operator",
		},
		"default-standalone": {
			"ClusterRoleBinding cardea-operator: cardea-standalone",
			"ClusterRoleBinding cardea-server: cardea-standalone",
		},
		"samples": {
			"RoleBinding cardea-operator-secrets: cardea-operator",
			"RoleBinding cardea-operator-secrets: cardea-standalone",
		},
	}
	for folder, wanted := range want {
		var got []string
		for _, object := range render(t, folder) {
			if !strings.HasSuffix(object.GetKind(), "RoleBinding") {
				continue
			}
			var binding rbacv1.ClusterRoleBinding
			convert(t, object.Object, &binding)
			for _, subject := range binding.Subjects {
				if subject.Kind != "ServiceAccount" || subject.Namespace != system {
					t.Errorf("%s: %s binds %v", folder, binding.Name, subject)
				}
				got = append(got, fmt.Sprintf("%s %s: %s", object.GetKind(), binding.RoleRef.Name, subject.Name))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, wanted) {
			t.Errorf("%s: %q, want %q", folder, got, wanted)
		}
	}
}
