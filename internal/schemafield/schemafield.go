// Package schemafield holds the fields with which AI tools describe the parameters of a request. Fields nest, which a
// Kubernetes schema cannot express, so this package reads and checks them in full.
package schemafield

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxDepth is how deep fields nest; a field without items and properties has depth 1.
const MaxDepth = 8

// Bounds of one field.
const (
	maxName        = 100
	maxTitle       = 200
	maxDescription = 2000
	maxFormat      = 100
	maxList        = 100
)

// Types are the allowed types of fields and items.
func Types() []string { return []string{"STRING", "INTEGER", "NUMBER", "BOOLEAN", "ARRAY", "OBJECT"} }

// Field is one field, in the form it is served in.
type Field struct {
	Name        string            `json:"name"`
	FieldType   string            `json:"field_type"`
	Required    bool              `json:"required"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	EnumValues  []json.RawMessage `json:"enum_values"`
	Format      string            `json:"format"`
	Minimum     *float64          `json:"minimum,omitempty"`
	Maximum     *float64          `json:"maximum,omitempty"`
	ItemsType   string            `json:"items_type"`
	ItemsSchema *Field            `json:"items_schema"`
	MinItems    *int64            `json:"min_items,omitempty"`
	MaxItems    *int64            `json:"max_items,omitempty"`
	Properties  []Field           `json:"properties"`
}

// declared is a field in the form it is declared in, camelCase as the YAML around it.
type declared struct {
	Name        string            `json:"name"`
	FieldType   string            `json:"fieldType"`
	Required    bool              `json:"required"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	EnumValues  []json.RawMessage `json:"enumValues"`
	Format      string            `json:"format"`
	Minimum     *float64          `json:"minimum"`
	Maximum     *float64          `json:"maximum"`
	ItemsType   string            `json:"itemsType"`
	ItemsSchema json.RawMessage   `json:"itemsSchema"`
	MinItems    *int64            `json:"minItems"`
	MaxItems    *int64            `json:"maxItems"`
	Properties  []json.RawMessage `json:"properties"`
}

// Parse reads a declared field and everything below it. The error names the path of the fault, which begins with path,
// and says how to fix it.
func Parse(path string, raw json.RawMessage) (Field, error) {
	return parse(path, raw, 1, true)
}

func parse(path string, raw json.RawMessage, depth int, named bool) (Field, error) {
	if depth > MaxDepth {
		return Field{}, fmt.Errorf("%s: nests deeper than %d levels: flatten it", path, MaxDepth)
	}
	var d declared
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return Field{}, fmt.Errorf("%s: is not a schema field: %w", path, err)
	}
	if err := d.check(path, named); err != nil {
		return Field{}, err
	}
	f := Field{
		Name: d.Name, FieldType: d.FieldType, Required: d.Required, Title: d.Title, Description: d.Description,
		EnumValues: nonNil(d.EnumValues), Format: d.Format, Minimum: d.Minimum, Maximum: d.Maximum, ItemsType: d.ItemsType,
		MinItems: d.MinItems, MaxItems: d.MaxItems, Properties: []Field{},
	}
	if len(d.ItemsSchema) > 0 && string(d.ItemsSchema) != "null" {
		items, err := parse(path+".itemsSchema", d.ItemsSchema, depth+1, false)
		if err != nil {
			return Field{}, err
		}
		f.ItemsSchema = &items
	}
	seen := map[string]bool{}
	for i, property := range d.Properties {
		at := fmt.Sprintf("%s.properties[%d]", path, i)
		child, err := parse(at, property, depth+1, true)
		if err != nil {
			return Field{}, err
		}
		if seen[child.Name] {
			return Field{}, fmt.Errorf("%s.name: %q is the name of another property: names are unique", at, child.Name)
		}
		seen[child.Name] = true
		f.Properties = append(f.Properties, child)
	}
	return f, nil
}

func (d *declared) check(path string, named bool) error {
	fault := func(member, format string, args ...any) error {
		return fmt.Errorf("%s.%s: %s", path, member, fmt.Sprintf(format, args...))
	}
	types := strings.Join(Types(), ", ")
	switch {
	case named && d.Name == "":
		return fault("name", "is required: name the field")
	case !slices.Contains(Types(), d.FieldType):
		return fault("fieldType", "must be one of %s", types)
	case d.ItemsType != "" && !slices.Contains(Types(), d.ItemsType):
		return fault("itemsType", "must be one of %s", types)
	case d.Minimum != nil && d.Maximum != nil && *d.Minimum > *d.Maximum:
		return fault("minimum", "is larger than maximum: exchange them")
	case d.MinItems != nil && (*d.MinItems < 0 || *d.MinItems > 1<<31-1):
		return fault("minItems", "must be from 0 to 2147483647")
	case d.MaxItems != nil && (*d.MaxItems < 0 || *d.MaxItems > 1<<31-1):
		return fault("maxItems", "must be from 0 to 2147483647")
	case d.MinItems != nil && d.MaxItems != nil && *d.MinItems > *d.MaxItems:
		return fault("minItems", "is larger than maxItems: exchange them")
	case len(d.EnumValues) > maxList:
		return fault("enumValues", "has %d values: at most %d are allowed", len(d.EnumValues), maxList)
	case len(d.Properties) > maxList:
		return fault("properties", "has %d fields: at most %d are allowed", len(d.Properties), maxList)
	}
	for _, text := range []struct {
		member, value string
		longest       int
	}{{"name", d.Name, maxName}, {"title", d.Title, maxTitle}, {"description", d.Description, maxDescription}, {"format", d.Format, maxFormat}} {
		if n := utf8.RuneCountInString(text.value); n > text.longest {
			return fault(text.member, "has %d characters: at most %d are allowed", n, text.longest)
		}
	}
	return nil
}

func nonNil(values []json.RawMessage) []json.RawMessage {
	if values == nil {
		return []json.RawMessage{}
	}
	return values
}
