package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// dialect is a draft of JSON Schema that both editors and kubeconform support.
const dialect = "http://json-schema.org/draft-07/schema#"

// writeSchemas makes the JSON Schema of each kind from its CRD, and writes it into config/schemas, where kubeconform
// looks for it.
// It also writes all.json for editors, which validates each document by its kind. None of them contains the API
// server's CEL rules.
func writeSchemas(config string) error {
	folder := filepath.Join(config, "schemas")
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(folder, v1alpha1.GroupVersion.Group), 0o755); err != nil {
		return err
	}
	all := []any{}
	for _, kind := range v1alpha1.Kinds {
		schema, err := schemaOf(filepath.Join(config, "crd", "bases", v1alpha1.GroupVersion.Group+"_"+kind.Resource+".yaml"), kind.Kind)
		if err != nil {
			return err
		}
		file := filepath.Join(v1alpha1.GroupVersion.Group, strings.ToLower(kind.Kind)+"_"+v1alpha1.GroupVersion.Version+".json")
		if err := writeJSON(filepath.Join(folder, file), schema); err != nil {
			return err
		}
		all = append(all, object{
			"if":   object{"required": []string{"apiVersion", "kind"}, "properties": object{"apiVersion": object{"const": v1alpha1.GroupVersion.String()}, "kind": object{"const": kind.Kind}}},
			"then": object{"$ref": filepath.ToSlash(file)},
		})
	}
	return writeJSON(filepath.Join(folder, "all.json"), object{
		"$schema": dialect, "title": "Cardea's kinds; documents of other kinds pass", "type": "object", "allOf": all,
	})
}

// object is a JSON object.
type object = map[string]any

// schemaOf returns the JSON Schema of a kind, made from its CRD in file.
func schemaOf(file, kind string) (object, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct{ OpenAPIV3Schema object }
			}
		}
	}
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(crd.Spec.Versions) != 1 || crd.Spec.Versions[0].Name != v1alpha1.GroupVersion.Version {
		return nil, errors.New(file + ": one version is expected, " + v1alpha1.GroupVersion.Version)
	}
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	translate(schema)
	schema["$schema"], schema["title"] = dialect, kind
	properties := schema["properties"].(object)
	properties["apiVersion"].(object)["const"], properties["kind"].(object)["const"] = v1alpha1.GroupVersion.String(), kind
	schema["required"] = []string{"apiVersion", "kind", "metadata", "spec"}
	return schema, nil
}

// translate turns a structural schema of Kubernetes into a JSON Schema that refuses unknown fields, in place.
func translate(schema object) {
	_, open := schema["x-kubernetes-preserve-unknown-fields"]
	for name := range schema {
		if strings.HasPrefix(name, "x-kubernetes-") {
			delete(schema, name)
		}
	}
	if text, ok := schema["description"].(string); ok {
		schema["description"] = strings.Join(strings.Fields(text), " ")
	}
	properties, _ := schema["properties"].(object)
	for _, property := range properties {
		translate(property.(object))
	}
	for _, member := range []string{"items", "additionalProperties"} {
		if inner, ok := schema[member].(object); ok {
			translate(inner)
		}
	}
	if _, maps := schema["additionalProperties"]; len(properties) > 0 && !open && !maps {
		schema["additionalProperties"] = false
	}
}

func writeJSON(path string, value any) error {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}
