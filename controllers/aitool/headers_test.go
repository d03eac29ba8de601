package aitool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/objectwatch"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/translation"
)

// ring returns a keyring whose keys have the given fills, the first seals.
func ring(t *testing.T, fills ...string) *seal.Keyring {
	t.Helper()
	var files []string
	for _, fill := range fills {
		file := filepath.Join(t.TempDir(), "root-key")
		if err := os.WriteFile(file, []byte(strings.Repeat(fill, 32)), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	loaded, err := seal.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// carrier is a Secret that is shared with deployment acme.
func carrier(value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "carrier", Labels: map[string]string{v1alpha1.LabelDeployment: "acme"}, Annotations: map[string]string{}},
		Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{"token": []byte(value)},
	}
}

func findOrder() *v1alpha1.AITool {
	tool := &v1alpha1.AITool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "find-order"}}
	tool.Spec.DeploymentRef.Name, tool.Spec.Type = "acme", v1alpha1.AIToolTypeAPI
	tool.Spec.Endpoint = ptr.To(v1alpha1.URL("https://API.acme.example:8443/orders/{number}?q={q}"))
	tool.Spec.Headers = []v1alpha1.ToolHeader{
		{Name: "X-Plain", Value: ptr.To("seen")},
		{Name: "Authorization", ValueFrom: &v1alpha1.HeaderValueSource{SecretKeyRef: v1alpha1.SecretKeyReference{Name: "carrier", Key: "token"}}},
	}
	return tool
}

// prepare returns the sealed value of findOrder's secret header, and what its preparation reports.
func prepare(t *testing.T, keys *seal.Keyring, id int64, objects ...*corev1.Secret) (sealed string, leftOut *engine.WaitingError, err error) {
	t.Helper()
	reader := fake.NewClientBuilder()
	for _, object := range objects {
		reader = reader.WithObjects(object)
	}
	tool := findOrder()
	content, err := translation.AITool(tool)
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Client: reader.Build(), Secrets: &objectwatch.Watch{}, Keyring: keys}
	leftOut, err = sealHeaders(t.Context(), opts, engine.Preparation[*v1alpha1.AITool]{Object: tool, ID: id}, &content)
	if content.Headers[0].Sealed != "" || content.Headers[1].Value != "" {
		t.Errorf("the headers are %+v", content.Headers)
	}
	return content.Headers[1].Sealed, leftOut, err
}

func TestValueOfAHeaderIsSealedForItsToolAndHeader(t *testing.T) {
	keys := ring(t, "a")
	sealed, leftOut, err := prepare(t, keys, 7, carrier("Bearer hush-canary\n"))
	if err != nil || leftOut != nil || strings.Contains(sealed, "hush") {
		t.Fatalf("got %q, %v, %v", sealed, leftOut, err)
	}
	if again, _, _ := prepare(t, keys, 7, carrier("Bearer hush-canary")); again != sealed {
		t.Error("equal values are sealed differently, so that each reconcile writes")
	}
	if value, err := keys.Open(document.SealedToolHeader, document.ToolHeaderID(ids.Format(7), "Authorization"), sealed); err != nil || string(value) != "Bearer hush-canary" {
		t.Errorf("opened %q, %v", value, err)
	}
	for _, other := range []string{document.ToolHeaderID(ids.Format(8), "Authorization"), document.ToolHeaderID(ids.Format(7), "X-Plain")} {
		if _, err := keys.Open(document.SealedToolHeader, other, sealed); err == nil {
			t.Errorf("the value opens for %s", other)
		}
	}
	rotated, _, _ := prepare(t, ring(t, "b", "a"), 7, carrier("Bearer hush-canary"))
	if key, _ := seal.KeyOf(rotated); rotated == sealed || key != ring(t, "b").IDs()[0] {
		t.Errorf("after a rotation of the root key, key %s seals", key)
	}
}

func TestValueOfAHeaderThatMayNotBeUsedIsLeftOut(t *testing.T) {
	const host = `"API.acme.example:8443": its annotation iam.cardea.dev/hosts`
	for name, tc := range map[string]struct {
		change func(*corev1.Secret)
		keys   []string
		want   string // reason and a part of the message; "" if the value is used
	}{
		"shared with the deployment": {change: func(*corev1.Secret) {}},
		"not shared":                 {change: func(s *corev1.Secret) { s.Labels = nil }, want: "SecretNotShared kubectl label secret carrier iam.cardea.dev/deployment=acme"},
		"shared with another":        {change: func(s *corev1.Secret) { s.Labels[v1alpha1.LabelDeployment] = "find-order" }, want: "SecretNotShared kubectl label"},
		"of another type":            {change: func(s *corev1.Secret) { s.Type = corev1.SecretTypeTLS }, want: "SecretNotShared is of type kubernetes.io/tls"},
		"its host":                   {change: func(s *corev1.Secret) { s.Annotations[v1alpha1.AnnotationHosts] = "other.example, api.acme.example" }},
		"its host and port":          {change: func(s *corev1.Secret) { s.Annotations[v1alpha1.AnnotationHosts] = "api.acme.example:8443" }},
		"another port":               {change: func(s *corev1.Secret) { s.Annotations[v1alpha1.AnnotationHosts] = "api.acme.example:443" }, want: "SecretNotShared " + host},
		"another host":               {change: func(s *corev1.Secret) { s.Annotations[v1alpha1.AnnotationHosts] = "acme.example" }, want: "SecretNotShared " + host},
		"no host":                    {change: func(s *corev1.Secret) { s.Annotations[v1alpha1.AnnotationHosts] = " ," }, want: "SecretNotShared " + host},
		"two lines":                  {change: func(s *corev1.Secret) { s.Data["token"] = []byte("hush-canary\nX-Other: hush-canary") }, want: "Invalid has more than one line"},
		"a control character":        {change: func(s *corev1.Secret) { s.Data["token"] = []byte("hush-canary\x00") }, want: "Invalid has characters other than visible ASCII"},
		"beyond ASCII":               {change: func(s *corev1.Secret) { s.Data["token"] = []byte("hush-canary-ü") }, want: "Invalid has characters other"},
		"a blank at the end":         {change: func(s *corev1.Secret) { s.Data["token"] = []byte("hush-canary ") }, want: "Invalid begins or ends with a blank"},
		"nothing":                    {change: func(s *corev1.Secret) { s.Data["token"] = nil }, want: "Invalid is empty"},
		"1024 bytes":                 {change: func(s *corev1.Secret) { s.Data["token"] = []byte(strings.Repeat("h", 1024)) }},
		"1025 bytes":                 {change: func(s *corev1.Secret) { s.Data["token"] = []byte(strings.Repeat("h", 1025)) }, want: "Invalid has more than 1024 bytes"},
		"no root key":                {change: func(*corev1.Secret) {}, keys: []string{}, want: "RootKeyMissing --root-key"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.keys == nil {
				tc.keys = []string{"a"}
			}
			secret := carrier("hush-canary")
			tc.change(secret)
			sealed, leftOut, err := prepare(t, ring(t, tc.keys...), 7, secret)
			if err != nil || (sealed == "") != (tc.want != "") || (leftOut == nil) != (tc.want == "") {
				t.Fatalf("got %q, %v, %v", sealed, leftOut, err)
			}
			if leftOut == nil {
				return
			}
			reason, part, _ := strings.Cut(tc.want, " ")
			if leftOut.Condition != v1alpha1.ConditionCredentialsReady || leftOut.Reason != reason || !strings.Contains(leftOut.Message, part) ||
				!strings.HasPrefix(leftOut.Message, "header Authorization: ") || strings.Contains(leftOut.Message, "hush") {
				t.Errorf("got %v, want %q", leftOut, tc.want)
			}
		})
	}
}

// A value that may no longer be used is withdrawn although another Secret is missing.
func TestMissingSecretKeepsNoValueThatMayNotBeUsed(t *testing.T) {
	unshared := carrier("hush-canary")
	unshared.Labels = nil
	tool := findOrder()
	tool.Spec.Headers = append([]v1alpha1.ToolHeader{
		{Name: "X-Missing", ValueFrom: &v1alpha1.HeaderValueSource{SecretKeyRef: v1alpha1.SecretKeyReference{Name: "missing", Key: "token"}}},
	}, tool.Spec.Headers...)
	content, err := translation.AITool(tool)
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Client: fake.NewClientBuilder().WithObjects(unshared).Build(), Secrets: &objectwatch.Watch{}, Keyring: ring(t, "a")}
	leftOut, err := sealHeaders(t.Context(), opts, engine.Preparation[*v1alpha1.AITool]{Object: tool, ID: 7}, &content)
	if err != nil || leftOut == nil || leftOut.Reason != v1alpha1.ReasonSecretNotShared {
		t.Errorf("got %v, %v", leftOut, err)
	}
}

func TestToolWaitsForAMissingSecret(t *testing.T) {
	other := carrier("hush-canary")
	other.Data = map[string][]byte{"other": []byte("hush-canary")}
	for name, secrets := range map[string][]*corev1.Secret{"none": nil, "without the key": {other}} {
		sealed, leftOut, err := prepare(t, ring(t), 7, secrets...)
		var waiting *engine.WaitingError
		if sealed != "" || leftOut != nil || !errors.As(err, &waiting) || waiting.Reason != v1alpha1.ReasonSecretNotFound {
			t.Errorf("%s: got %q, %v, %v", name, sealed, leftOut, err)
		}
	}
}
