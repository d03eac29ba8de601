package connection

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/objectwatch"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/seal"
)

func newRing(t *testing.T) *seal.Keyring {
	t.Helper()
	file := filepath.Join(t.TempDir(), "root-key")
	if err := os.WriteFile(file, bytes.Repeat([]byte{1}, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	ring, err := seal.Load([]string{file})
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func TestContentOfAConnectionOfTypeSAML(t *testing.T) {
	t.Parallel()
	ring := newRing(t)
	configMap := func(text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "globex"}, Data: map[string]string{"metadata.xml": text}}
	}
	for name, row := range map[string]struct {
		inactive bool
		ring     *seal.Keyring
		hosts    []v1alpha1.Hostname
		given    *corev1.ConfigMap
		keys     int
		metadata string
		reason   string
		message  string
	}{
		"everything":                   {ring: ring, hosts: []v1alpha1.Hostname{"id.acme.example"}, given: configMap("<xml/>"), keys: 1, metadata: "<xml/>"},
		"no host":                      {ring: ring, given: configMap("<xml/>"), keys: 1, metadata: "<xml/>"},
		"no root key":                  {given: configMap("<xml/>"), reason: v1alpha1.ReasonRootKeyMissing, message: "spec.saml: "},
		"no ConfigMap":                 {ring: ring, reason: v1alpha1.ReasonConfigMapNotFound, message: `there is no ConfigMap "globex" with key "metadata.xml"`},
		"a ConfigMap without the key":  {ring: ring, given: &corev1.ConfigMap{ObjectMeta: configMap("").ObjectMeta}, reason: v1alpha1.ReasonConfigMapNotFound, message: "create it"},
		"empty metadata":               {ring: ring, given: configMap(""), reason: v1alpha1.ReasonInvalid, message: `the value of ConfigMap "globex", key "metadata.xml", is empty`},
		"1 MiB":                        {ring: ring, given: configMap(strings.Repeat("x", 1<<20)), keys: 1, metadata: strings.Repeat("x", 1<<20)},
		"more than 1 MiB":              {ring: ring, given: configMap(strings.Repeat("x", 1<<20+1)), reason: v1alpha1.ReasonInvalid, message: "has more than 1 MiB"},
		"inactive":                     {inactive: true, given: configMap("<xml/>"), metadata: "<xml/>"},
		"inactive without a ConfigMap": {inactive: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := fake.NewClientBuilder()
			if row.given != nil {
				cluster = cluster.WithObjects(row.given)
			}
			opts := Options{Client: cluster.Build(), Secrets: &objectwatch.Watch{}, ConfigMaps: &objectwatch.Watch{}, Keyring: row.ring, Clock: time.Now, Random: rand.Reader}
			c := &v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "globex"}}
			c.Spec.Slug, c.Spec.Type, c.Spec.Active = "globex", v1alpha1.ConnectionTypeSAML, ptr.To(!row.inactive)
			c.Spec.SAML = &v1alpha1.SAMLProvider{MetadataConfigMapRef: &v1alpha1.ConfigMapKeyReference{Name: "globex", Key: "metadata.xml"}}
			deployment := &v1alpha1.IdentityDeployment{Spec: v1alpha1.IdentityDeploymentSpec{FrontendHosts: row.hosts}}
			prepared, err := opts.samlContent(t.Context(), engine.Preparation[*v1alpha1.Connection]{Object: c, ID: 7, Refs: engine.ResolvedRefs{"spec.deploymentRef": deployment}})
			if (c.Status.EntityID != "") != (len(row.hosts) > 0) || len(c.Status.ACSURLs) != len(row.hosts) || (c.Status.MetadataURL != "") != (len(row.hosts) > 0) {
				t.Errorf("what to register: %+v", c.Status)
			}
			if row.reason != "" {
				if got := reasonOf(err); got != row.reason || !strings.Contains(err.Error(), row.message) {
					t.Errorf("got %v, want %s with %q", err, row.reason, row.message)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := prepared.Value.(document.Connection).SAML
			if len(got.Keys) != row.keys || got.Metadata != row.metadata || got.ServiceEntityID == "" {
				t.Errorf("got %d keys, metadata of %d bytes, entity ID %q", len(got.Keys), len(got.Metadata), got.ServiceEntityID)
			}
		})
	}
}

// reasonOf returns the reason of an error for users, "" for any other.
func reasonOf(err error) string {
	var waiting *engine.WaitingError
	var terminal *engine.TerminalError
	switch {
	case errors.As(err, &waiting):
		return waiting.Reason
	case errors.As(err, &terminal):
		return terminal.Reason
	}
	return ""
}
