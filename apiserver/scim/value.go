package scim

import (
	"maps"
	"strings"
	"unicode"
)

// read returns a value of JSON in canonical form: string, bool, map[string]any for a complex attribute, []any of those
// for a multi-valued one. It returns nil for a value that unassigns the attribute: null, an empty array, an object
// without known sub-attributes, an empty externalId.
func (a *attribute) read(value any) (any, error) {
	switch {
	case value == nil:
		return nil, nil
	case a.multi:
		list, err := a.readList(value)
		if len(list) == 0 {
			return nil, err
		}
		return list, err
	case a.kind == complexKind:
		entry, err := a.readEntry(value)
		if len(entry) == 0 {
			return nil, err
		}
		return entry, err
	case a.kind == booleanKind:
		return a.readBoolean(value)
	default:
		return a.readText(value)
	}
}

func (a *attribute) readText(value any) (any, error) {
	s, ok := value.(string)
	switch {
	case !ok:
		return nil, refuse(InvalidValue, "%s: must be a string", a.label)
	case len(s) > MaxUserBytes || a.short && len(s) > MaxNameBytes:
		return nil, refuse(InvalidValue, "%s: is too long; use at most %d bytes", a.label, a.limit())
	case a.short && strings.ContainsFunc(s, unicode.IsControl):
		return nil, refuse(InvalidValue, "%s: contains a control character", a.label)
	case a.required && strings.TrimSpace(s) == "":
		return nil, refuse(InvalidValue, "%s: is empty", a.label)
	case a.common && s == "":
		return nil, nil
	}
	return s, nil
}

func (a *attribute) limit() int {
	if a.short {
		return MaxNameBytes
	}
	return MaxUserBytes
}

// readBoolean accepts the words true and false in any case, which Entra sends as strings.
func (a *attribute) readBoolean(value any) (any, error) {
	if b, ok := value.(bool); ok {
		return b, nil
	}
	if s, ok := value.(string); ok {
		if b, ok := word(s); ok {
			return b, nil
		}
	}
	return nil, refuse(InvalidValue, "%s: must be true or false", a.label)
}

func word(s string) (value, ok bool) {
	return strings.EqualFold(s, "true"), strings.EqualFold(s, "true") || strings.EqualFold(s, "false")
}

// readList reads an array, or a single value as an array of one.
func (a *attribute) readList(value any) ([]any, error) {
	given, ok := value.([]any)
	if !ok {
		given = []any{value}
	}
	if len(given) > maxValues {
		return nil, refuse(InvalidValue, "%s: has more than %d values", a.label, maxValues)
	}
	var list []any
	primary := false
	for _, v := range given {
		if v == nil {
			continue
		}
		entry, err := a.readEntry(v)
		if err != nil {
			return nil, err
		}
		if len(entry) == 0 {
			continue
		}
		if entry["primary"] == true {
			if primary {
				return nil, a.primaries()
			}
			primary = true
		}
		list = append(list, entry)
	}
	return list, nil
}

func (a *attribute) primaries() *Error {
	return refuse(InvalidValue, "%s: has more than one primary value", a.label)
}

func (a *attribute) readEntry(value any) (map[string]any, error) {
	o, err := a.entryObject(value)
	if err != nil {
		return nil, err
	}
	entry := map[string]any{}
	return entry, a.merge(entry, o)
}

// entryObject returns one value of an attribute as an object. A string stands for the sub-attribute value:
// {"manager": "7"}, {"roles": ["admin"]}.
func (a *attribute) entryObject(value any) (object, error) {
	if s, ok := value.(string); ok && a.lookup("value") != nil {
		return object{{"value", s}}, nil
	}
	o, ok := value.(object)
	if !ok {
		return nil, refuse(InvalidValue, "%s: must be an object", a.label)
	}
	return o, nil
}

// merge sets the sub-attributes that an object names. null removes one.
func (a *attribute) merge(entry map[string]any, o object) error {
	for _, m := range o {
		sub := a.lookup(m.name)
		if sub == nil {
			continue
		}
		v, err := sub.read(m.value)
		if err != nil {
			return err
		}
		put(entry, sub.name, v)
	}
	return nil
}

// put sets a value, or removes it if it is nil.
func put(entry map[string]any, name string, value any) {
	if value == nil {
		delete(entry, name)
		return
	}
	entry[name] = value
}

// clone returns a deep copy of a canonical value.
func clone(value any) any {
	switch v := value.(type) {
	case map[string]any:
		return cloneMap(v)
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = clone(e)
		}
		return list
	default:
		return v
	}
}

func cloneMap(m map[string]any) map[string]any {
	c := maps.Clone(m)
	for k, v := range c {
		c[k] = clone(v)
	}
	return c
}

// weigh returns about the size of a value of JSON, in bytes.
func weigh(value any) int {
	switch v := value.(type) {
	case string:
		return len(v) + 2
	case []any:
		n := 2
		for _, e := range v {
			n += weigh(e) + 1
		}
		return n
	case object:
		n := 2
		for _, m := range v {
			n += len(m.name) + weigh(m.value) + 4
		}
		return n
	default:
		return 5
	}
}
