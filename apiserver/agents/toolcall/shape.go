package toolcall

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
	"github.com/cardea-iam/cardea/internal/toolschema"
)

// shape is what agents get of a tool's JSON response.
type shape struct {
	declared *document.ToolResponse
	// validator checks the shaped value, nil without a declared schema.
	validator *toolschema.Validator
}

// OutputSchema returns the schema of what agents get of a response, nil if the tool declares none.
func OutputSchema(r *document.ToolResponse) *toolschema.Schema {
	if r == nil || len(r.Schema) == 0 {
		return nil
	}
	object := toolschema.Object(r.Schema)
	if r.Array {
		return &toolschema.Schema{Type: "array", Items: object}
	}
	return object
}

// apply returns the declared part of a value, without the members that the schema does not name. It returns the failed
// result if the value contradicts the declaration.
func (s shape) apply(value any) (any, *Result) {
	if s.declared == nil {
		return value, nil
	}
	refuse := func(text string) (any, *Result) {
		refused := Failed(CodeInvalid, "The tool's answer does not have the declared form: %s. Say that the tool does not work as declared.", text)
		return nil, &refused
	}
	value, found := at(value, s.declared.Select)
	if !found {
		return refuse("it has nothing at " + s.declared.Select)
	}
	if s.validator == nil {
		return value, nil
	}
	value = named(value, schemafield.Field{FieldType: "OBJECT", Properties: s.declared.Schema})
	// The validator takes numbers as toolschema.Read returns them; the decoder here returned the same.
	if faults := s.validator.Faults(value); len(faults) > 0 {
		return refuse(Clean(faults[0]))
	}
	return value, nil
}

// at returns the value at a JSON pointer (RFC 6901), and reports whether there is one.
func at(value any, pointer string) (any, bool) {
	if pointer == "" {
		return value, true
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch v := value.(type) {
		case map[string]any:
			member, found := v[token]
			if !found {
				return nil, false
			}
			value = member
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) || strconv.Itoa(i) != token {
				return nil, false
			}
			value = v[i]
		default:
			return nil, false
		}
	}
	return value, true
}

// named returns a value with only the members that a field names. An object without properties keeps all of them.
func named(value any, f schemafield.Field) any {
	switch v := value.(type) {
	case []any:
		item := f
		if f.FieldType == "ARRAY" {
			if f.ItemsSchema == nil {
				return value
			}
			item = *f.ItemsSchema
		}
		for i := range v {
			v[i] = named(v[i], item)
		}
	case map[string]any:
		if len(f.Properties) == 0 {
			return value
		}
		out := make(map[string]any, len(f.Properties))
		for _, property := range f.Properties {
			if member, sent := v[property.Name]; sent {
				out[property.Name] = named(member, property)
			}
		}
		return out
	}
	return value
}

// encode returns a value as JSON without escapes for HTML.
func encode(value any) (string, error) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSuffix(text.String(), "\n"), err
}
