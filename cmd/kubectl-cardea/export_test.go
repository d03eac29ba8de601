package main

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// An export lists what it does not contain: in YAML as comments, for JSON on standard error.
func TestAnExportSaysWhatItLeavesOut(t *testing.T) {
	key := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "iam.cardea.dev/v1alpha1", "kind": "APIKey", "metadata": map[string]any{"name": "web", "namespace": "acme"},
		"spec": map[string]any{"secretTemplate": map[string]any{}},
	}}
	saml := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "iam.cardea.dev/v1alpha1", "kind": "Connection", "metadata": map[string]any{"name": "globex", "namespace": "acme"},
		"spec": map[string]any{"type": "SAML", "saml": map[string]any{"metadataURL": "https://globex.example/metadata"}},
	}}
	resources := []*unstructured.Unstructured{key, saml}
	var text, list, beside strings.Builder
	if err := writeExport(&text, "acme", resources); err != nil {
		t.Fatal(err)
	}
	if err := printJSON(surroundings{out: &list, err: &beside}, "acme", resources); err != nil {
		t.Fatal(err)
	}
	if !json.Valid([]byte(list.String())) {
		t.Errorf("no JSON: %s", list.String())
	}
	preamble, _, _ := strings.Cut(text.String(), "---\n")
	for _, part := range []string{
		"API keys and OAuth clients that were created over HTTP", "OAuth clients that registered themselves", "cardea backup", "- the Secret of APIKey/web", "- Secret globex-saml-keys: copy it",
		"- RoleBinding cardea-operator-secrets",
	} {
		if !strings.Contains(preamble, part) || !strings.Contains(beside.String(), part) {
			t.Errorf("%q is missing in one of the outputs: %s%s", part, preamble, beside.String())
		}
	}
	for line := range strings.Lines(preamble) {
		if !strings.HasPrefix(line, "# ") {
			t.Errorf("no comment: %q", line)
		}
	}
	if strings.Contains(beside.String(), "#") {
		t.Errorf("marked as YAML: %s", beside.String())
	}
}
