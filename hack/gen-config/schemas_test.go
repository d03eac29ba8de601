package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// documents returns the documents of a YAML text, as JSON values.
func documents(t *testing.T, text []byte) (values []any) {
	t.Helper()
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return values
		}
		if err != nil {
			t.Fatal(err)
		}
		raw, err := yaml.YAMLToJSON(document)
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
	}
}

// compile reads the schemas as they are in the repository.
func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "config", "schemas", "all.json"))
	if err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.NewCompiler().Compile(path)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestSchemasTakeTheSamples(t *testing.T) {
	schema, kinds := compile(t), map[string]bool{}
	files, err := filepath.Glob(filepath.Join("..", "..", "config", "samples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range documents(t, text) {
			if err := schema.Validate(value); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			kinds[value.(map[string]any)["kind"].(string)] = true
		}
	}
	for _, kind := range v1alpha1.Kinds {
		if !kinds[kind.Kind] {
			t.Errorf("no sample is a %s", kind.Kind)
		}
	}
}

func TestSchemasRefuseWhatTheAPIServerRefuses(t *testing.T) {
	schema := compile(t)
	const good = `{"apiVersion": "iam.cardea.dev/v1alpha1", "kind": "RateLimitScheme", "metadata": {"name": "free"},
		"spec": {"deploymentRef": {"name": "acme"}, "slug": "free", "rules": [{"unit": "minute", "duration": 1, "maxRequests": 60}]}}`
	for name, tc := range map[string]struct{ old, new, says string }{
		"good":                    {"", "", ""},
		"an unknown field":        {`"slug": "free"`, `"slug": "free", "colour": 1`, "colour"},
		"an unknown field inside": {`"duration": 1`, `"duration": 1, "burst": 3`, "burst"},
		"a value of no enum":      {`"minute"`, `"fortnight"`, "minute"},
		"a number too small":      {`"maxRequests": 60`, `"maxRequests": 0`, "minimum"},
		"a field missing":         {`"slug": "free", `, ``, "slug"},
		"of the wrong type":       {`"slug": "free"`, `"slug": 7`, "string"},
		"no spec":                 {`"spec"`, `"specs"`, "spec"},
		"another group's kind":    {"iam.cardea.dev/v1alpha1", "example.com/v1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(good, tc.old) {
				t.Fatal("nothing to replace")
			}
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.Replace(good, tc.old, tc.new, 1)))
			if err != nil {
				t.Fatal(err)
			}
			err = schema.Validate(value)
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, want %q", err, tc.says)
			}
		})
	}
}

// TestSchemasHoldNothingOfKubernetesOwn: editors do not know Kubernetes' x-kubernetes- extensions.
func TestSchemasHoldNothingOfKubernetesOwn(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "config", "schemas", "*", "*.json"))
	if err != nil || len(files) != len(v1alpha1.Kinds) {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), "x-kubernetes") || !json.Valid(raw) {
			t.Error(file)
		}
	}
}
