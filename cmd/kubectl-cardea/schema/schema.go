// Package schema compares the kinds of an API server with the kinds of this program.
package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// Difference are the fields that only one side has, as Kind.path.
type Difference struct {
	// Absent are the fields that the API server does not know: its kinds are older.
	Absent []string
	// New are the fields that this program does not know: the API server's kinds are newer.
	New []string
}

// node is the part of an OpenAPI schema about fields.
type node struct {
	Properties           map[string]node `json:"properties"`
	Items                *node           `json:"items"`
	AdditionalProperties json.RawMessage `json:"additionalProperties"`
	Kinds                []struct {
		Group   string `json:"group"`
		Version string `json:"version"`
		Kind    string `json:"kind"`
	} `json:"x-kubernetes-group-version-kind"`
}

// Compare reads the OpenAPI v3 document of the group and version.
func Compare(document []byte) (Difference, error) {
	var read struct {
		Components struct {
			Schemas map[string]node `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &read); err != nil {
		return Difference{}, fmt.Errorf("the API server's OpenAPI document cannot be read: %w", err)
	}
	served := map[string]node{}
	for _, schema := range read.Components.Schemas {
		for _, id := range schema.Kinds {
			if id.Group == v1alpha1.GroupVersion.Group && id.Version == v1alpha1.GroupVersion.Version {
				served[id.Kind] = schema
			}
		}
	}
	var d Difference
	for _, info := range v1alpha1.Kinds {
		schema, found := served[info.Kind]
		if !found {
			d.Absent = append(d.Absent, info.Kind)
			continue
		}
		typ := reflect.TypeOf(info.New()).Elem()
		for _, part := range []string{"Spec", "Status"} {
			field, _ := typ.FieldByName(part)
			d.compare(info.Kind+"."+strings.ToLower(part), field.Type, schema.Properties[strings.ToLower(part)])
		}
	}
	slices.Sort(d.Absent)
	slices.Sort(d.New)
	return d, nil
}

// compare descends both sides while they have fields. It does not compare types of other packages, which are
// Kubernetes' own.
func (d *Difference) compare(path string, typ reflect.Type, schema node) {
	switch typ.Kind() {
	case reflect.Pointer:
		d.compare(path, typ.Elem(), schema)
	case reflect.Slice:
		if schema.Items != nil {
			d.compare(path+"[]", typ.Elem(), *schema.Items)
		}
	case reflect.Struct:
		if typ.PkgPath() != reflect.TypeFor[v1alpha1.APIKey]().PkgPath() || typ == reflect.TypeFor[v1alpha1.JSON]() {
			return
		}
		fields := map[string]reflect.Type{}
		collect(typ, fields)
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			property, found := schema.Properties[name]
			if !found {
				d.Absent = append(d.Absent, path+"."+name)
				continue
			}
			d.compare(path+"."+name, fields[name], property)
		}
		for name := range schema.Properties {
			if _, known := fields[name]; !known {
				d.New = append(d.New, path+"."+name)
			}
		}
	}
}

// collect adds the fields of a struct by their JSON names, those of inlined structs among them.
func collect(typ reflect.Type, into map[string]reflect.Type) {
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name != "":
			into[name] = field.Type
		case field.Anonymous:
			collect(field.Type, into)
		}
	}
}
