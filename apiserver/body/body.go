// Package body reads JSON request bodies strictly and tells every fault at once: wrong types, missing, unknown and
// duplicate members, each by its JSON pointer.
package body

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cardea-iam/cardea/apiserver/problem"
)

// maxDepth bounds nesting: no body of ours is deeper, and a parser must not be led on.
const maxDepth = 32

// maxFaults bounds how many faults are told: an answer must not be many times as long as the request.
const maxFaults = 100

// faults are what is wrong with a body.
type faults struct {
	items []problem.Item
	at    map[string]bool
	// more is how many were found and not told.
	more int
}

func (f *faults) add(at, format string, args ...any) {
	f.at[at] = true
	if len(f.items) == maxFaults {
		f.more++
		return
	}
	f.items = append(f.items, problem.Item{Field: at, Message: fmt.Sprintf(format, args...)})
}

// value is a parsed JSON value.
type value struct {
	kind     jsontext.Kind
	text     string // of a string, or the literal of a number
	members  map[string]*value
	names    []string // of members, in order
	elements []*value
}

// Object reads the members of one JSON object. Reading marks a member as known; Close tells the rest as faults.
type Object struct {
	faults  *faults
	pointer string
	value   *value
	known   map[string]bool
}

// Parse reads a body that must be one JSON object. The error is a Problem with status 400.
func Parse(raw []byte) (*Object, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))
	found := &faults{at: map[string]bool{}}
	v, err := parse(dec, "", 0, found)
	if err == nil {
		if _, err = dec.ReadToken(); err == io.EOF {
			err = nil
		} else if err == nil {
			err = fmt.Errorf("there is more after the object")
		}
	}
	if err != nil {
		return nil, problem.New(400, "the body is not valid JSON: %s at byte %d: send one JSON object", reason(err), dec.InputOffset())
	}
	if v.kind != '{' {
		return nil, problem.New(400, "the body is %s: send one JSON object", describe(v))
	}
	return &Object{faults: found, value: v, known: map[string]bool{}}, nil
}

func reason(err error) string {
	text := err.Error()
	if _, after, found := strings.Cut(text, "jsontext: "); found {
		text = after
	}
	if text == "EOF" || strings.Contains(text, "unexpected EOF") {
		return "it ends too early"
	}
	// The position is told once, by the caller, and the value never: it may be somebody's secret.
	text, _, _ = strings.Cut(text, " after offset")
	text, _, _ = strings.Cut(text, " within ")
	return text
}

func parse(dec *jsontext.Decoder, pointer string, depth int, found *faults) (*value, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it nests deeper than %d levels", maxDepth)
	}
	token, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	v := &value{kind: token.Kind()}
	switch v.kind {
	case '"', '0':
		v.text = token.String()
	case '{':
		return v, parseMembers(dec, v, pointer, depth, found)
	case '[':
		for dec.PeekKind() != ']' {
			element, err := parse(dec, pointer+"/"+strconv.Itoa(len(v.elements)), depth+1, found)
			if err != nil {
				return nil, err
			}
			v.elements = append(v.elements, element)
		}
		_, err = dec.ReadToken()
	}
	return v, err
}

func parseMembers(dec *jsontext.Decoder, v *value, pointer string, depth int, found *faults) error {
	v.members = map[string]*value{}
	for dec.PeekKind() != '}' {
		token, err := dec.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		at := pointer + "/" + escape(name)
		member, err := parse(dec, at, depth+1, found)
		if err != nil {
			return err
		}
		if _, twice := v.members[name]; twice {
			found.add(at, "appears more than once: send it once")
			continue
		}
		v.members[name] = member
		v.names = append(v.names, name)
	}
	_, err := dec.ReadToken()
	return err
}

// escape writes a member's name as a part of a JSON pointer (RFC 6901). An over-long name is shortened: it is echoed.
func escape(name string) string {
	if len(name) > 100 {
		name = strings.ToValidUTF8(name[:100], "") + "…"
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func describe(v *value) string {
	switch v.kind {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[':
		return "an array"
	}
	return "an object"
}

// Fault adds a fault at a member of the object, or at the object itself for "".
func (o *Object) Fault(member, format string, args ...any) {
	o.faults.add(o.at(member), format, args...)
}

// Faulty tells whether a fault was added at a member.
func (o *Object) Faulty(member string) bool { return o.faults.at[o.at(member)] }

func (o *Object) at(member string) string {
	if member == "" {
		return o.pointer
	}
	return o.pointer + "/" + member
}

// Close tells unknown members as faults, once all known ones were read.
func (o *Object) Close() {
	known := strings.Join(slices.Sorted(maps.Keys(o.known)), ", ")
	for _, name := range o.value.names {
		if !o.known[name] {
			o.Fault(escape(name), "is not a member of this object: remove it; known members are %s", known)
		}
	}
}

// Err returns a 400 with every fault found in the whole body, the first hundred of more, nil if there is none.
func (o *Object) Err() error {
	if len(o.faults.items) == 0 {
		return nil
	}
	if o.faults.more > 0 {
		return problem.Invalid(append(slices.Clone(o.faults.items), problem.Item{Message: fmt.Sprintf("and %d more faults", o.faults.more)})...)
	}
	return problem.Invalid(o.faults.items...)
}

// Has tells whether a member was sent, also as null.
func (o *Object) Has(name string) bool {
	o.known[name] = true
	_, sent := o.value.members[name]
	return sent
}

// IsNull tells whether a member was sent as null.
func (o *Object) IsNull(name string) bool {
	return o.Has(name) && o.value.members[name].kind == 'n'
}

// Require adds a fault if a member was not sent.
func (o *Object) Require(name string) bool {
	if !o.Has(name) {
		o.Fault(name, "is required: send it")
		return false
	}
	return true
}

// take returns a member of a kind. Absent is nil without a fault; null and other kinds are faults.
func (o *Object) take(name string, kind jsontext.Kind, want string) *value {
	if !o.Has(name) {
		return nil
	}
	v := o.value.members[name]
	if v.kind != kind {
		o.Fault(name, "must be %s, not %s", want, describe(v))
		return nil
	}
	return v
}

// String returns a string member. The second result is false if it is absent or no string.
func (o *Object) String(name string) (string, bool) {
	v := o.take(name, '"', "a string")
	if v == nil {
		return "", false
	}
	return v.text, true
}

// Bool returns a boolean member.
func (o *Object) Bool(name string) (value, ok bool) {
	if !o.Has(name) {
		return false, false
	}
	v := o.value.members[name]
	if v.kind != 't' && v.kind != 'f' {
		o.Fault(name, "must be true or false, not %s", describe(v))
		return false, false
	}
	return v.kind == 't', true
}

// Integer returns an integer member: a JSON number without fraction and exponent that fits 64 bits.
func (o *Object) Integer(name string) (int64, bool) {
	v := o.take(name, '0', "an integer")
	if v == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	if err != nil {
		o.Fault(name, "must be an integer that fits 64 bits, without fraction and exponent")
		return 0, false
	}
	return n, true
}

// Strings returns a member that is an array of strings. An element that is none is a fault and "".
func (o *Object) Strings(name string) ([]string, bool) {
	v := o.take(name, '[', "an array of strings")
	if v == nil {
		return nil, false
	}
	out, whole := make([]string, len(v.elements)), true
	for i, element := range v.elements {
		if element.kind != '"' {
			o.Fault(fmt.Sprintf("%s/%d", name, i), "must be a string, not %s", describe(element))
			whole = false
			continue
		}
		out[i] = element.text
	}
	return out, whole
}

// Objects returns a member that is an array of objects. An element that is none is a fault and left out.
func (o *Object) Objects(name string) ([]*Object, bool) {
	v := o.take(name, '[', "an array of objects")
	if v == nil {
		return nil, false
	}
	out := make([]*Object, 0, len(v.elements))
	for i, element := range v.elements {
		at := fmt.Sprintf("%s/%d", name, i)
		if element.kind != '{' {
			o.Fault(at, "must be an object, not %s", describe(element))
			continue
		}
		out = append(out, &Object{faults: o.faults, pointer: o.pointer + "/" + at, value: element, known: map[string]bool{}})
	}
	return out, len(out) == len(v.elements)
}
