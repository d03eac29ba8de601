package scim

import "strings"

// Selection is which attributes of a resource a response has (RFC 7644, 3.9). id and schemas are in every one.
type Selection struct {
	only, without map[string]bool
}

// ReadSelection parses the parameters attributes and excludedAttributes: names separated by commas, each parameter at
// most MaxSelectionBytes. Unknown names are ignored. Both together are an Error of type invalidValue.
func ReadSelection(attributes, excluded string) (Selection, error) {
	if attributes != "" && excluded != "" {
		return Selection{}, refuse(InvalidValue, "attributes and excludedAttributes exclude each other; send one")
	}
	if len(attributes) > MaxSelectionBytes || len(excluded) > MaxSelectionBytes {
		return Selection{}, refuse(InvalidValue, "attributes and excludedAttributes have at most %d bytes", MaxSelectionBytes)
	}
	return Selection{readNames(attributes), readNames(excluded)}, nil
}

func readNames(list string) map[string]bool {
	if list == "" {
		return nil
	}
	names := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		for _, schema := range []string{UserSchema, GroupSchema} {
			name = strings.TrimPrefix(name, strings.ToLower(schema)+":")
		}
		if name != "" {
			names[name] = true
		}
	}
	return names
}

// Wants reports whether a response has an attribute, or a part of it.
func (s Selection) Wants(attribute string) bool {
	name := strings.ToLower(attribute)
	if name == "id" || name == "schemas" {
		return true
	}
	if s.only == nil {
		return !s.without[name]
	}
	if s.only[name] {
		return true
	}
	for other := range s.only {
		if strings.HasPrefix(other, name) && (other[len(name)] == '.' || other[len(name)] == ':') {
			return true
		}
	}
	return false
}

// wantsSub is Wants for a part of an attribute that is wanted.
func (s Selection) wantsSub(attribute, separator, sub string) bool {
	name := strings.ToLower(attribute)
	if s.only == nil {
		return !s.without[name+separator+strings.ToLower(sub)]
	}
	return s.only[name] || s.Wants(name+separator+sub)
}

// trim returns the selected parts of a canonical value. separator is between the names of the value and of its parts.
func (s Selection) trim(name, separator string, value any) any {
	if s.only == nil && s.without == nil {
		return value
	}
	switch v := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for sub, e := range v {
			if s.wantsSub(name, separator, sub) {
				kept[sub] = s.trimSub(name, separator, sub, e)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(v))
		for i, e := range v {
			kept[i] = s.trim(name, separator, e)
		}
		return kept
	default:
		return v
	}
}

// trimSub trims a part of a part: the manager of the enterprise extension.
func (s Selection) trimSub(name, separator, sub string, value any) any {
	if s.only[strings.ToLower(name)] {
		return value
	}
	return s.trim(name+separator+sub, ".", value)
}
