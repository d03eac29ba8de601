package schema

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// document returns the part of an API server's OpenAPI document that Compare reads, made from our CRDs. change can
// alter the specs before.
func document(t *testing.T, change func(kind string, spec map[string]any)) []byte {
	t.Helper()
	schemas := map[string]any{}
	for _, info := range v1alpha1.Kinds {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "crd", "bases", "iam.cardea.dev_"+info.Resource+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Versions []struct {
					Schema struct {
						OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
					} `json:"schema"`
				} `json:"versions"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		schema["x-kubernetes-group-version-kind"] = []any{map[string]any{"group": "iam.cardea.dev", "version": "v1alpha1", "kind": info.Kind}}
		change(info.Kind, schema["properties"].(map[string]any)["spec"].(map[string]any)["properties"].(map[string]any))
		schemas["dev.cardea.iam."+info.Kind] = schema
	}
	text, err := json.Marshal(map[string]any{"components": map[string]any{"schemas": schemas}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestOurOwnKindsDoNotDiffer(t *testing.T) {
	d, err := Compare(document(t, func(string, map[string]any) {}))
	if err != nil || len(d.Absent)+len(d.New) > 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestOlderAndNewerKinds(t *testing.T) {
	d, err := Compare(document(t, func(kind string, spec map[string]any) {
		switch kind {
		case v1alpha1.KindAPIKey:
			delete(spec, "allowedCIDRs")
			spec["favouriteColour"] = map[string]any{"type": "string"}
		case v1alpha1.KindRateLimitScheme:
			delete(spec["rules"].(map[string]any)["items"].(map[string]any)["properties"].(map[string]any), "mode")
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"APIKey.spec.allowedCIDRs", "RateLimitScheme.spec.rules[].mode"}; !slices.Equal(d.Absent, want) {
		t.Errorf("absent %v, want %v", d.Absent, want)
	}
	if want := []string{"APIKey.spec.favouriteColour"}; !slices.Equal(d.New, want) {
		t.Errorf("new %v, want %v", d.New, want)
	}
}

func TestAKindThatIsNotServed(t *testing.T) {
	d, err := Compare([]byte(`{}`))
	if err != nil || len(d.Absent) != len(v1alpha1.Kinds) {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := Compare([]byte(`<html>`)); err == nil {
		t.Error("no error for a document that is not JSON")
	}
}
