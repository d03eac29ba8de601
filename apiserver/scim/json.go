package scim

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
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
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	tree, err := decodeValue(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, errNotJSON
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

// errNotJSON refuses a body that is not exactly one JSON value.
var errNotJSON = refuse(InvalidSyntax, "the body is not one JSON value")

func decodeValue(d *jsontext.Decoder) (any, error) {
	token, err := d.ReadToken()
	if err != nil {
		return nil, errNotJSON
	}
	switch token.Kind() {
	case '"':
		t := token.String()
		return t, checkString(t)
	case '{':
		return decodeObject(d)
	case '[':
		return decodeArray(d)
	case '0':
		return json.Number(token.String()), nil
	case 't', 'f':
		return token.Bool(), nil
	}
	return nil, nil
}

func decodeObject(d *jsontext.Decoder) (any, error) {
	o := object{}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, errNotJSON
		}
		n := name.String()
		if err := checkString(n); err != nil {
			return nil, err
		}
		value, err := decodeValue(d)
		if err != nil {
			return nil, err
		}
		o = append(o, member{n, value})
	}
	return o, end(d)
}

func decodeArray(d *jsontext.Decoder) (any, error) {
	list := []any{}
	for d.PeekKind() != ']' {
		value, err := decodeValue(d)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, end(d)
}

// end reads the end of an object or array.
func end(d *jsontext.Decoder) error {
	if _, err := d.ReadToken(); err != nil {
		return errNotJSON
	}
	return nil
}

// checkString refuses NUL, which PostgreSQL cannot store in a text.
func checkString(s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return refuse(InvalidValue, "a string contains the character U+0000")
	}
	return nil
}
