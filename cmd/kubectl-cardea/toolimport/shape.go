package toolimport

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// errTooLarge ends the conversion of an operation.
var errTooLarge = errors.New("it has too many schemas: leave it out with --include, or simplify it")

// shape is a schema without references and allOf.
type shape struct {
	types                      []string // without null; none: any
	title, description, format string
	enum                       []any // none: any value
	minimum, maximum           *bound
	minItems, maxItems         *float64
	items                      *place
	properties                 map[string]place
	required                   map[string]bool
	readOnly                   bool
	// open reports that the schema says that further members are allowed.
	open bool
	// words are the constraints that a field cannot express, as sentences.
	words []string
}

// bound is the minimum or maximum of a number.
type bound struct {
	value     float64
	exclusive bool
}

// merge returns the shape of a schema: what it refers to, and all parts of its allOf, together.
func (c *converter) merge(p place) (*shape, error) {
	if c.left--; c.left < 0 {
		return nil, errTooLarge
	}
	if p.parts != nil {
		return c.mergeAll(p, &shape{}, p.parts)
	}
	if isTrue(p.value) {
		return &shape{}, nil
	}
	node, isObject := p.value.(map[string]any)
	if !isObject {
		return nil, p.fault("it is no schema that accepts a value")
	}
	reference, refers := p.reference()
	if !refers {
		return c.mergeParts(p, node)
	}
	target, err := c.document.target(p, reference)
	if err != nil {
		return nil, err
	}
	base, err := c.merge(target)
	if err != nil {
		return nil, err
	}
	siblings := maps.Clone(node)
	delete(siblings, "$ref")
	if !c.document.modern { // 3.0: siblings of $ref are ignored; descriptions cannot do harm
		siblings = map[string]any{"title": node["title"], "description": node["description"]}
	}
	over, err := c.mergeParts(place{value: siblings, pointer: p.pointer, through: p.through}, siblings)
	if err != nil {
		return nil, err
	}
	return over.and(base, p)
}

// mergeParts returns the shape of a schema's own keywords and of its parts.
func (c *converter) mergeParts(p place, node map[string]any) (*shape, error) {
	out, err := c.own(p, node)
	if err != nil {
		return nil, err
	}
	if out, err = c.mergeAll(p, out, p.member("allOf").items()); err != nil {
		return nil, err
	}
	for _, keyword := range []string{"oneOf", "anyOf"} {
		if node[keyword] == nil {
			continue
		}
		choices := slices.DeleteFunc(p.member(keyword).items(), isNull)
		if len(choices) != 1 {
			return nil, p.fault("%s cannot be expressed", keyword)
		}
		if out, err = c.mergeAll(p, out, choices); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *converter) mergeAll(p place, out *shape, parts []place) (*shape, error) {
	for _, part := range parts {
		other, err := c.merge(part)
		if err != nil {
			return nil, err
		}
		if out, err = out.and(other, p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// isNull reports whether a schema accepts null only.
func isNull(p place) bool { return objectOf(p.value)["type"] == "null" }

// own returns the shape of a schema's own keywords.
func (c *converter) own(p place, node map[string]any) (*shape, error) {
	out := &shape{
		title: stringOf(node["title"]), description: stringOf(node["description"]), format: stringOf(node["format"]),
		readOnly: isTrue(node["readOnly"]), minItems: numberOf(node["minItems"]), maxItems: numberOf(node["maxItems"]),
		minimum: boundOf(node["minimum"], node["exclusiveMinimum"]), maximum: boundOf(node["maximum"], node["exclusiveMaximum"]),
	}
	switch stated := node["type"].(type) {
	case string:
		out.types = []string{stated}
	case []any:
		for _, one := range stated {
			out.types = append(out.types, stringOf(one))
		}
	}
	if out.types = slices.DeleteFunc(out.types, func(one string) bool { return one == "null" }); node["type"] != nil && len(out.types) == 0 {
		return nil, p.fault("it accepts no value but null")
	}
	if values, has := node["enum"].([]any); has {
		if out.enum = slices.DeleteFunc(slices.Clone(values), func(value any) bool { return value == nil }); len(out.enum) == 0 {
			return nil, p.fault("its enum has no value")
		}
	}
	if value, has := node["const"]; has {
		out.enum = []any{value}
	}
	for _, keyword := range []string{"prefixItems", "$dynamicRef"} {
		if node[keyword] != nil {
			return nil, p.fault("%s cannot be expressed", keyword)
		}
	}
	for _, keyword := range []string{"not", "if", "dependentSchemas", "dependentRequired", "patternProperties", "propertyNames", "contains"} {
		if node[keyword] != nil {
			c.detail(p.fault("%s is left out: the tool accepts more", keyword))
		}
	}
	if node["items"] != nil {
		items := p.member("items")
		out.items = &items
	}
	out.readMembers(p, node)
	out.words = wordsOf(node)
	return out, nil
}

// readMembers reads the keywords about the members of objects.
func (s *shape) readMembers(p place, node map[string]any) {
	if properties, has := node["properties"].(map[string]any); has {
		s.properties = map[string]place{}
		for name := range properties {
			s.properties[name] = p.member("properties").member(name)
		}
	}
	if names, has := node["required"].([]any); has {
		s.required = map[string]bool{}
		for _, name := range names {
			s.required[stringOf(name)] = true
		}
	}
	_, isSchema := node["additionalProperties"].(map[string]any)
	s.open = isSchema || isTrue(node["additionalProperties"])
}

func numberOf(value any) *float64 {
	number, is := value.(json.Number)
	if !is {
		return nil
	}
	parsed, err := number.Float64()
	if err != nil {
		return nil
	}
	return &parsed
}

// boundOf returns a bound: exclusive is true or false in version 3.0, and a number of its own in version 3.1.
func boundOf(value, exclusive any) *bound {
	if own := numberOf(exclusive); own != nil {
		return &bound{*own, true}
	}
	number := numberOf(value)
	if number == nil {
		return nil
	}
	return &bound{*number, isTrue(exclusive)}
}

// wordsOf returns the constraints of a schema that a field cannot express, as sentences for its description.
func wordsOf(node map[string]any) []string {
	var words []string
	add := func(keyword, format string) {
		value, has := node[keyword]
		text, isText := value.(string)
		if raw, err := json.Marshal(value); has && err == nil && (!isText || keyword == "default") {
			text = string(raw)
		}
		if text != "" {
			words = append(words, fmt.Sprintf(format, oneLine(text, maxQuoted)))
		}
	}
	add("default", "Default: %s.")
	add("minLength", "Minimum length: %s.")
	add("maxLength", "Maximum length: %s.")
	add("pattern", "Pattern: %s")
	add("multipleOf", "A multiple of %s.")
	if isTrue(node["uniqueItems"]) {
		words = append(words, "No item twice.")
	}
	return words
}

// and returns the shape of values that two shapes accept. Texts of the first one count.
func (s *shape) and(other *shape, p place) (*shape, error) {
	out := *s
	if out.title == "" {
		out.title = other.title
	}
	if out.description == "" {
		out.description = other.description
	}
	if out.format == "" {
		out.format = other.format
	}
	if out.types = intersect(s.types, other.types); s.types != nil && other.types != nil && len(out.types) == 0 {
		return nil, p.fault("its parts have different types: %s", oneLine(strings.Join(append(s.types, other.types...), ", "), maxQuoted))
	}
	if out.enum = common(s.enum, other.enum); s.enum != nil && other.enum != nil && len(out.enum) == 0 {
		return nil, p.fault("its parts have no value of their enums in common")
	}
	out.minimum = tighter(s.minimum, other.minimum, func(a, b float64) bool { return a > b })
	out.maximum = tighter(s.maximum, other.maximum, func(a, b float64) bool { return a < b })
	out.minItems, out.maxItems = larger(s.minItems, other.minItems), smaller(s.maxItems, other.maxItems)
	switch {
	case out.items == nil:
		out.items = other.items
	case other.items != nil:
		out.items = both(*s.items, *other.items)
	}
	out.properties = maps.Clone(s.properties)
	for name, one := range other.properties {
		if out.properties == nil {
			out.properties = map[string]place{}
		}
		if own, has := out.properties[name]; has {
			one = *both(own, one)
		}
		out.properties[name] = one
	}
	out.required = maps.Clone(s.required)
	for name := range other.required {
		if out.required == nil {
			out.required = map[string]bool{}
		}
		out.required[name] = true
	}
	out.readOnly, out.open = s.readOnly || other.readOnly, s.open || other.open
	out.words = slices.Concat(s.words, other.words)
	return &out, nil
}

// both returns the place of a value that two schemas describe.
func both(a, b place) *place {
	if a.pointer == b.pointer && a.parts == nil && b.parts == nil {
		return &a
	}
	return &place{pointer: a.pointer, parts: []place{a, b}}
}

// intersect returns the types that both lists have. Integers are numbers. nil: any type.
func intersect(a, b []string) []string {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	var out []string
	for _, one := range a {
		switch {
		case slices.Contains(b, one):
			out = append(out, one)
		case one == "number" && slices.Contains(b, "integer"), one == "integer" && slices.Contains(b, "number"):
			out = append(out, "integer")
		}
	}
	return out
}

// common returns the values that both lists have. nil: any value.
func common(a, b []any) []any {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return slices.DeleteFunc(slices.Clone(a), func(value any) bool {
		return !slices.ContainsFunc(b, func(other any) bool { return reflect.DeepEqual(value, other) })
	})
}

func tighter(a, b *bound, stricter func(a, b float64) bool) *bound {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case stricter(b.value, a.value) || a.value == b.value && b.exclusive:
		return b
	}
	return a
}

func larger(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

func smaller(a, b *float64) *float64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}
