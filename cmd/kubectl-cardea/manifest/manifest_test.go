package manifest

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/cause"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestCleanLeavesWhatAUserDeclares(t *testing.T) {
	got := Clean(object(t, `
apiVersion: iam.cardea.dev/v1alpha1
kind: RateLimitScheme
metadata:
  name: acme.burst
  namespace: acme
  uid: 6ad9
  resourceVersion: "77"
  generation: 3
  creationTimestamp: "2026-01-01T00:00:00Z"
  finalizers: [iam.cardea.dev/store]
  ownerReferences: [{apiVersion: iam.cardea.dev/v1alpha1, kind: IdentityDeployment, name: acme, uid: 1}]
  managedFields: [{manager: cardea-http}]
  labels:
    app.kubernetes.io/managed-by: cardea-http
    app.kubernetes.io/instance: acme-production
    kustomize.toolkit.fluxcd.io/name: acme
    team: payments
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    argocd.argoproj.io/tracking-id: x
    iam.cardea.dev/reconcile-requested-at: now
    iam.cardea.dev/rotate-at: "2026-01-01T00:00:00Z"
    iam.cardea.dev/former-people-accepted: "true"
    acme.example/owner: payments
spec:
  id: "7"
  slug: burst
  newerThanThisPlugin: {kept: true}
status: {id: "7"}
`))
	want := object(t, `
apiVersion: iam.cardea.dev/v1alpha1
kind: RateLimitScheme
metadata:
  name: acme.burst
  namespace: acme
  labels: {team: payments}
  annotations: {acme.example/owner: payments}
spec:
  id: "7"
  slug: burst
  newerThanThisPlugin: {kept: true}
`)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

func TestCleanKeepsALabelThatIsTheUsers(t *testing.T) {
	obj := object(t, "metadata: {name: a, namespace: b, labels: {app.kubernetes.io/managed-by: platform-team}}")
	if got := Clean(obj).GetLabels(); got[v1alpha1.LabelManagedBy] != "platform-team" {
		t.Errorf("labels %v", got)
	}
	obj.SetLabels(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByHTTP})
	if got := Clean(obj); got.GetLabels() != nil || strings.Contains(mustYAML(t, got), "labels") {
		t.Errorf("an empty map of labels is left: %v", got)
	}
}

func mustYAML(t *testing.T, obj *unstructured.Unstructured) string {
	t.Helper()
	text, err := yaml.Marshal(obj.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// tenants returns the resources of two tenants in one namespace.
func tenants(t *testing.T) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, line := range []string{
		"{kind: APIKey, metadata: {name: k}, spec: {appRef: {name: a}, existingSecretRef: {name: minted}}}",
		"{kind: AITool, metadata: {name: other}, spec: {deploymentRef: {name: globex}}}",
		"{kind: APIAuthApp, metadata: {name: b}, spec: {deploymentRef: {name: acme}}}",
		"{kind: APIAuthApp, metadata: {name: a}, spec: {deploymentRef: {name: acme}}}",
		"{kind: Connection, metadata: {name: s}, spec: {deploymentRef: {name: acme}, client: {clientID: x, clientSecretRef: {name: upstream, key: k}}}}",
		"{kind: Connection, metadata: {name: p}, spec: {deploymentRef: {name: acme}, client: {clientID: x, privateKeySecretRef: {name: pem, key: k}}}}",
		"{kind: Connection, metadata: {name: x}, spec: {deploymentRef: {name: acme}, type: SAML, saml: {metadataConfigMapRef: {name: metadata, key: k}}}}",
		"{kind: Directory, metadata: {name: d}, spec: {deploymentRef: {name: acme}, connectionRef: {name: s}, existingSecretRef: {name: scim}}}",
		"{kind: OAuthClient, metadata: {name: c}, spec: {oauthAppRef: {name: nobody}}}",
		"{kind: IdentityDeployment, metadata: {name: globex}, spec: {}}",
		`{kind: IdentityDeployment, metadata: {name: acme}, spec: {jwtIssuers: [{name: x, jwksConfigMapRef: {name: keys, key: k}}],
			email: {smtp: {passwordSecretRef: {name: mail, key: k}}}}}`,
	} {
		all = append(all, object(t, line))
	}
	return all
}

func names(resources []*unstructured.Unstructured) string {
	var found []string
	for _, obj := range resources {
		found = append(found, obj.GetKind()+"/"+obj.GetName())
	}
	return strings.Join(found, " ")
}

func TestOfFollowsParentsAndSortPutsThemFirst(t *testing.T) {
	mine := Of("acme", tenants(t))
	Sort(mine)
	if got, want := names(mine), "IdentityDeployment/acme APIAuthApp/a APIAuthApp/b APIKey/k Connection/p Connection/s Connection/x Directory/d"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := names(Of("nobody", tenants(t))); got != "" {
		t.Errorf("of no deployment: %s", got)
	}
}

func TestNeeds(t *testing.T) {
	secrets, configMaps := Needs(tenants(t))
	wantSecrets := map[string][]string{"minted": {"APIKey/k"}, "mail": {"IdentityDeployment/acme"}, "upstream": {"Connection/s"}, "pem": {"Connection/p"}, "scim": {"Directory/d"}}
	if !reflect.DeepEqual(secrets, wantSecrets) {
		t.Errorf("Secrets %v, want %v", secrets, wantSecrets)
	}
	if want := map[string][]string{"keys": {"IdentityDeployment/acme"}, "metadata": {"Connection/x"}}; !reflect.DeepEqual(configMaps, want) {
		t.Errorf("ConfigMaps %v, want %v", configMaps, want)
	}
}

// Needs recognizes references by the names of fields, and package cause by types. Both must agree on which fields name
// a Secret or a ConfigMap.
func TestNeedsKnowsEveryFieldThatNamesASecret(t *testing.T) {
	seen := map[reflect.Type]bool{}
	fields := 0
	var visit func(reflect.Type, string)
	visit = func(typ reflect.Type, field string) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice:
			visit(typ.Elem(), field)
		case reflect.Struct:
			kind := cause.ReferentOf(typ)
			if kind == cause.KindSecret || kind == cause.KindConfigMap {
				fields++
				secrets, configMaps := Needs([]*unstructured.Unstructured{{Object: map[string]any{"spec": map[string]any{field: map[string]any{"name": "x"}}}}})
				if len(secrets) != btoi(kind == cause.KindSecret) || len(configMaps) != btoi(kind == cause.KindConfigMap) {
					t.Errorf("%s, which names a %s, gives Secrets %v, ConfigMaps %v", field, kind, secrets, configMaps)
				}
				return
			}
			if seen[typ] || typ.PkgPath() != reflect.TypeFor[v1alpha1.APIKey]().PkgPath() {
				return
			}
			seen[typ] = true
			for i := range typ.NumField() {
				name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
				visit(typ.Field(i).Type, name)
			}
		}
	}
	for _, info := range v1alpha1.Kinds {
		visit(reflect.TypeOf(info.New()).Elem(), "")
	}
	if fields < 7 {
		t.Errorf("%d fields were checked, want at least 7", fields)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
