package toolimport

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

const (
	// maxMembers is how many properties and enum values a field has.
	maxMembers = 100
	// maxName is the maximum length of a field's name, in characters.
	maxName = 100
	// maxNumber is the largest number that a bound may be.
	maxNumber = 1<<53 - 1
	maxItems  = 1<<31 - 1
)

// field is a schema field as it is declared.
type field struct {
	Name        string             `json:"name,omitempty"`
	FieldType   v1alpha1.FieldType `json:"fieldType"`
	Required    bool               `json:"required,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	EnumValues  []any              `json:"enumValues,omitempty"`
	Format      string             `json:"format,omitempty"`
	Minimum     *float64           `json:"minimum,omitempty"`
	Maximum     *float64           `json:"maximum,omitempty"`
	ItemsType   v1alpha1.FieldType `json:"itemsType,omitempty"`
	ItemsSchema *field             `json:"itemsSchema,omitempty"`
	MinItems    *int64             `json:"minItems,omitempty"`
	MaxItems    *int64             `json:"maxItems,omitempty"`
	Properties  []*field           `json:"properties,omitempty"`
}

// scalar reports whether values of the field have a text in a URL or a header.
func (f *field) scalar() bool {
	return f.FieldType != v1alpha1.FieldTypeArray && f.FieldType != v1alpha1.FieldTypeObject
}

// declared returns a field in the form of the API.
func (f *field) declared() (out v1alpha1.SchemaField, err error) {
	raw, err := json.Marshal(f)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(raw, &out)
}

// field returns the field of a schema at a depth, nil for one that only responses have. The error is a fault, or
// errTooLarge.
func (c *converter) field(name string, p place, depth int) (*field, error) {
	s, err := c.merge(p)
	if err != nil {
		return nil, err
	}
	if s.readOnly {
		return nil, nil
	}
	if name == "" || len([]rune(name)) > maxName || visible(name) != name {
		return nil, p.fault("its name is no name of 1 to %d visible characters", maxName)
	}
	f := &field{Name: name, Title: oneLine(s.title, maxTitle), Format: oneLine(s.format, maxFormat)}
	if f.FieldType, err = s.fieldType(p); err != nil {
		return nil, err
	}
	switch f.FieldType {
	case v1alpha1.FieldTypeObject:
		err = c.addProperties(f, s, p, depth)
	case v1alpha1.FieldTypeArray:
		err = c.addItems(f, s, p, depth)
	case v1alpha1.FieldTypeInteger, v1alpha1.FieldTypeNumber:
		c.addBounds(f, s, p)
	}
	if err == nil {
		err = c.addEnum(f, s, p)
	}
	f.Description = lines(strings.Join(slices.Concat(nonEmpty(s.description), s.words), " "), maxFieldDescription)
	return f, err
}

func nonEmpty(text string) []string {
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	return []string{text}
}

// fieldType returns the type of a shape. A schema without a type has the one that its keywords and values imply.
func (s *shape) fieldType(p place) (v1alpha1.FieldType, error) {
	types := s.types
	if types == nil {
		switch {
		case s.properties != nil || s.open:
			types = []string{"object"}
		case s.items != nil:
			types = []string{"array"}
		default:
			types = typesOf(s.enum)
		}
	}
	if len(types) == 2 && slices.Contains(types, "integer") && slices.Contains(types, "number") {
		types = []string{"number"}
	}
	if len(types) == 0 {
		return "", p.fault("it has no type")
	}
	if len(types) > 1 {
		return "", p.fault("it has several types")
	}
	word := v1alpha1.FieldType(strings.ToUpper(types[0]))
	if !slices.Contains(schemafield.Types(), string(word)) || types[0] != strings.ToLower(types[0]) {
		return "", p.fault("it has the unknown type %s", quoted(types[0]))
	}
	return word, nil
}

// typesOf returns the types of values, each once.
func typesOf(values []any) (types []string) {
	for _, value := range values {
		word := "object"
		switch v := value.(type) {
		case string:
			word = "string"
		case bool:
			word = "boolean"
		case json.Number:
			word = "number"
			if integral(v) {
				word = "integer"
			}
		}
		if !slices.Contains(types, word) {
			types = append(types, word)
		}
	}
	return types
}

func integral(n json.Number) bool {
	_, err := n.Int64()
	return err == nil
}

// addProperties adds the members of an object: the required ones first, and by their names.
func (c *converter) addProperties(f *field, s *shape, p place, depth int) error {
	if len(s.properties) > 0 && depth >= schemafield.MaxDepth {
		c.detail(p.fault("its members are left out, because fields nest to a depth of %d: the tool accepts any object", schemafield.MaxDepth))
		return nil
	}
	for _, name := range s.names() {
		one := s.properties[name]
		property, err := c.field(name, one, depth+1)
		switch {
		case err != nil && (errors.Is(err, errTooLarge) || s.required[name]):
			return c.because(p, name, err)
		case err != nil:
			c.leaveOut(err)
			continue
		case property == nil:
			continue
		}
		property.Required = s.required[name]
		if len(f.Properties) == maxMembers {
			if property.Required {
				return p.fault("it requires more than %d members", maxMembers)
			}
			c.detail(p.fault("its members after the first %d are left out, from %s", maxMembers, quoted(name)))
			break
		}
		f.Properties = append(f.Properties, property)
	}
	if s.open && len(f.Properties) > 0 {
		c.detail(p.fault("members beyond properties are left out"))
	}
	return nil
}

// because returns the error of a schema whose required member cannot be expressed.
func (c *converter) because(p place, name string, err error) error {
	var cause *fault
	if !errors.As(err, &cause) {
		return err
	}
	return &fault{cause.pointer, fmt.Sprintf("%s, and the member %s is required", cause.text, quoted(name))}
}

// names returns the names of a shape's properties: the required ones first, each part in the order of names.
func (s *shape) names() []string {
	var required, others []string
	for name := range s.properties {
		if s.required[name] {
			required = append(required, name)
		} else {
			others = append(others, name)
		}
	}
	slices.Sort(required)
	slices.Sort(others)
	return append(required, others...)
}

// addItems adds what the items of a list are.
func (c *converter) addItems(f *field, s *shape, p place, depth int) error {
	f.MinItems, f.MaxItems = count(s.minItems), count(s.maxItems)
	if f.MinItems != nil && f.MaxItems != nil && *f.MinItems > *f.MaxItems {
		return p.fault("minItems is larger than maxItems")
	}
	if s.items == nil {
		return nil
	}
	items, err := c.field("items", *s.items, depth+1)
	if err != nil || items == nil {
		return err
	}
	items.Name = ""
	if reflect.DeepEqual(*items, field{FieldType: items.FieldType}) {
		f.ItemsType = items.FieldType
		return nil
	}
	if depth >= schemafield.MaxDepth {
		c.detail(p.fault("its items are left out, because fields nest to a depth of %d: the tool accepts any items", schemafield.MaxDepth))
		return nil
	}
	f.ItemsSchema = items
	return nil
}

func count(n *float64) *int64 {
	if n == nil || *n != math.Trunc(*n) || *n < 0 || *n > maxItems {
		return nil
	}
	whole := int64(*n)
	return &whole
}

// addBounds adds minimum and maximum. Exclusive bounds of integers become inclusive; those of other numbers become
// words.
func (c *converter) addBounds(f *field, s *shape, p place) {
	add := func(b *bound, step float64, word string) *float64 {
		if b == nil || math.Abs(b.value) >= maxNumber {
			return nil
		}
		value := b.value
		if b.exclusive && f.FieldType == v1alpha1.FieldTypeInteger && value == math.Trunc(value) {
			value += step
		} else if b.exclusive {
			s.words = append(s.words, fmt.Sprintf("%s than %s.", word, strconv.FormatFloat(value, 'g', -1, 64)))
		}
		return &value
	}
	f.Minimum, f.Maximum = add(s.minimum, 1, "More"), add(s.maximum, -1, "Less")
	if f.Minimum != nil && f.Maximum != nil && *f.Minimum > *f.Maximum {
		f.Minimum, f.Maximum = nil, nil
		c.detail(p.fault("minimum and maximum are left out, because minimum is larger"))
	}
}

// addEnum adds the values of the field's type.
func (c *converter) addEnum(f *field, s *shape, p place) error {
	if s.enum == nil {
		return nil
	}
	if !f.scalar() || len(s.enum) > maxMembers {
		c.detail(p.fault("enum is left out: a field has at most %d values, and lists and objects have none", maxMembers))
		return nil
	}
	for _, value := range s.enum {
		if !f.accepts(value) {
			c.detail(p.fault("a value of enum is left out, because it is no %s", f.FieldType))
			continue
		}
		if !slices.Contains(f.EnumValues, value) {
			f.EnumValues = append(f.EnumValues, value)
		}
	}
	if len(f.EnumValues) == 0 {
		return p.fault("its enum has no value of the type %s", f.FieldType)
	}
	return nil
}

// accepts reports whether a value has the field's type.
func (f *field) accepts(value any) bool {
	switch v := value.(type) {
	case string:
		return f.FieldType == v1alpha1.FieldTypeString
	case bool:
		return f.FieldType == v1alpha1.FieldTypeBoolean
	case json.Number:
		return f.FieldType == v1alpha1.FieldTypeNumber || f.FieldType == v1alpha1.FieldTypeInteger && integral(v)
	}
	return false
}
