package scim

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// object is a JSON object in the order of its members. Of members with the same name, without regard to case, the last
// one counts.
type object []member

type member struct {
	name  string
	value any
}

// decode parses a body that consists of one JSON object. The values are nil, bool, string, json.Number, []any and
// object.
func decode(body []byte) (object, error) {
	if !utf8.Valid(body) {
		return nil, refuse(InvalidSyntax, "the body is not UTF-8")
	}
	if depth(body) > maxDepth {
		return nil, refuse(InvalidSyntax, "the body is nested deeper than %d levels", maxDepth)
	}
	if !json.Valid(body) {
		return nil, refuse(InvalidSyntax, "the body is not one JSON value")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	tree, err := decodeValue(d)
	if err != nil {
		return nil, err
	}
	o, ok := tree.(object)
	if !ok {
		return nil, refuse(InvalidSyntax, "the body is not a JSON object")
	}
	return o, nil
}

// depth returns the deepest nesting of brackets outside of strings.
func depth(body []byte) int {
	level, deepest, quoted := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}

func decodeValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, refuse(InvalidSyntax, "the body is not JSON")
	}
	switch t := token.(type) {
	case string:
		return t, checkString(t)
	case json.Delim:
		if t == '{' {
			return decodeObject(d)
		}
		return decodeArray(d)
	default:
		return t, nil
	}
}

func decodeObject(d *json.Decoder) (any, error) {
	o := object{}
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil, refuse(InvalidSyntax, "the body is not JSON")
		}
		if err := checkString(name); err != nil {
			return nil, err
		}
		value, err := decodeValue(d)
		if err != nil {
			return nil, err
		}
		o = append(o, member{name, value})
	}
	_, err := d.Token()
	return o, err
}

func decodeArray(d *json.Decoder) (any, error) {
	list := []any{}
	for d.More() {
		value, err := decodeValue(d)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := d.Token()
	return list, err
}

// checkString refuses NUL, which PostgreSQL cannot store in a text.
func checkString(s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return refuse(InvalidValue, "a string contains the character U+0000")
	}
	return nil
}
