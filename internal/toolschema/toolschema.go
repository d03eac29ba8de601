// Package toolschema turns the declared schema fields of AI tools into JSON Schema (2020-12), and checks arguments and
// answers against it. The schemas have a plain form that every known client of the Model Context Protocol reads: one
// object, without $ref, anyOf and oneOf.
package toolschema

import (
	"encoding/json"

	"github.com/cardea-iam/cardea/internal/schemafield"
)

// maxSafeInteger is the largest integer that every JSON reader keeps exact.
const maxSafeInteger = 1<<53 - 1

// Schema is a JSON Schema as it is served.
type Schema struct {
	Type                 string            `json:"type,omitempty"`
	Title                string            `json:"title,omitempty"`
	Description          string            `json:"description,omitempty"`
	Enum                 []json.RawMessage `json:"enum,omitempty"`
	Format               string            `json:"format,omitempty"`
	Minimum              *float64          `json:"minimum,omitempty"`
	Maximum              *float64          `json:"maximum,omitempty"`
	Items                *Schema           `json:"items,omitempty"`
	MinItems             *int64            `json:"minItems,omitempty"`
	MaxItems             *int64            `json:"maxItems,omitempty"`
	Properties           *Properties       `json:"properties,omitempty"`
	Required             []string          `json:"required,omitempty"`
	AdditionalProperties *bool             `json:"additionalProperties,omitempty"`
}

// Properties are the members of an object in declared order, which JSON objects of Go maps would lose.
type Properties struct {
	Names   []string
	Schemas map[string]*Schema
}

// MarshalJSON writes the members in their order.
func (p *Properties) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, name := range p.Names {
		if i > 0 {
			out = append(out, ',')
		}
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(p.Schemas[name])
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, key...), ':'), value...)
	}
	return append(out, '}'), nil
}

// Object returns the schema of an object that has exactly the given fields. Of two fields with one name, the first
// counts.
func Object(fields []schemafield.Field) *Schema {
	closed := false
	s := &Schema{Type: "object", Properties: &Properties{Schemas: map[string]*Schema{}}, AdditionalProperties: &closed}
	for _, f := range fields {
		if s.Properties.Schemas[f.Name] != nil {
			continue
		}
		s.Properties.Names = append(s.Properties.Names, f.Name)
		s.Properties.Schemas[f.Name] = Of(f)
		if f.Required {
			s.Required = append(s.Required, f.Name)
		}
	}
	return s
}

// Of returns the schema of a field.
func Of(f schemafield.Field) *Schema {
	var s *Schema
	switch f.FieldType {
	case "OBJECT":
		if s = (&Schema{Type: "object"}); len(f.Properties) > 0 {
			s = Object(f.Properties)
		}
	case "ARRAY":
		s = &Schema{Type: "array", MinItems: f.MinItems, MaxItems: f.MaxItems}
		switch {
		case f.ItemsSchema != nil:
			s.Items = Of(*f.ItemsSchema)
		case f.ItemsType != "":
			s.Items = Of(schemafield.Field{FieldType: f.ItemsType})
		}
	default:
		s = scalar(f)
	}
	s.Title, s.Description, s.Format = f.Title, f.Description, f.Format
	s.Enum = f.EnumValues
	return s
}

// scalar returns the schema of a text, number or truth value. Integers are bounded to those that every JSON reader
// keeps exact.
func scalar(f schemafield.Field) *Schema {
	s := &Schema{Minimum: f.Minimum, Maximum: f.Maximum}
	switch f.FieldType {
	case "INTEGER":
		s.Type = "integer"
		if s.Minimum == nil {
			s.Minimum = new(float64(-maxSafeInteger))
		}
		if s.Maximum == nil {
			s.Maximum = new(float64(maxSafeInteger))
		}
	case "NUMBER":
		s.Type = "number"
	case "BOOLEAN":
		s.Type = "boolean"
	default:
		s.Type = "string"
	}
	return s
}
