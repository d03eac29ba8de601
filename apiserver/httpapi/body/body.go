// Package body reads JSON request bodies strictly and returns all faults at once: wrong types, missing, unknown and
// duplicate members, each with its JSON pointer.
package body

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
)

const (
	// maxDepth bounds nesting: no body of this API is deeper.
	maxDepth = 32
	// maxValues bounds how many values a body may hold, members and elements of every level.
	maxValues = 10_000
	// maxFaults bounds the listed faults, so that a response is not many times as long as the request.
	maxFaults = 100
)

// faults collects the faults of a body.
type faults struct {
	items []apierror.Fault
	at    map[string]bool
	// more counts the faults that are not listed.
	more int
}

func (f *faults) add(at, format string, args ...any) {
	if f.at == nil {
		f.at = map[string]bool{}
	}
	f.at[at] = true
	if len(f.items) == maxFaults {
		f.more++
		return
	}
	f.items = append(f.items, apierror.Fault{Pointer: at, Message: fmt.Sprintf(format, args...)})
}

// Object reads the members of one JSON object. Reading marks a member as known; Close records the others as faults. A
// member's value is parsed when it is read, so an unread member costs nothing.
type Object struct {
	faults  *faults
	pointer string
	members []member // in order, each once
	// nil for few members, which are searched linearly
	index map[string]int
	// asked are the names that were read, some of them twice.
	asked []string
}

type member struct {
	name  string
	value jsontext.Value
	known bool
}

// fewMembers is the number of members up to which a linear search is faster than a map.
const fewMembers = 24

// find returns the position of a member, -1 if it was not sent.
func (o *Object) find(name string) int {
	if o.index != nil {
		if at, found := o.index[name]; found {
			return at
		}
		return -1
	}
	for i := range o.members {
		if o.members[i].name == name {
			return i
		}
	}
	return -1
}

// add adds a member that was not sent before.
func (o *Object) add(m member) {
	o.members = append(o.members, m)
	if o.index != nil {
		o.index[m.name] = len(o.members) - 1
		return
	}
	if len(o.members) > fewMembers {
		o.index = make(map[string]int, 2*fewMembers)
		for i := range o.members {
			o.index[o.members[i].name] = i
		}
	}
}

// Fault adds a fault at a member of the object, or at the object itself for "".
func (o *Object) Fault(member, format string, args ...any) {
	o.faults.add(o.at(member), format, args...)
}

// Faulty reports whether a fault was added at a member.
func (o *Object) Faulty(member string) bool { return o.faults.at[o.at(member)] }

func (o *Object) at(member string) string {
	if member == "" {
		return o.pointer
	}
	return o.pointer + "/" + member
}

// Close records unknown members as faults. Call it after reading all known ones.
func (o *Object) Close() {
	known := ""
	for i := range o.members {
		if o.members[i].known {
			continue
		}
		if known == "" {
			slices.Sort(o.asked)
			known = strings.Join(slices.Compact(o.asked), ", ")
		}
		o.Fault(escape(o.members[i].name), "is not a member of this object: remove it; known members are %s", known)
	}
}

// Err returns a 400 with the faults of the whole body, at most a hundred, or nil if there is none.
func (o *Object) Err() error {
	if len(o.faults.items) == 0 {
		return nil
	}
	if o.faults.more > 0 {
		return apierror.Invalid(append(slices.Clone(o.faults.items), apierror.Fault{Message: fmt.Sprintf("and %d more faults", o.faults.more)})...)
	}
	return apierror.Invalid(o.faults.items...)
}

// ask returns the position of a member like find, and marks the member as known.
func (o *Object) ask(name string) int {
	at := o.find(name)
	switch {
	case at >= 0 && o.members[at].known:
		return at
	case at >= 0:
		o.members[at].known = true
	case len(o.asked) > 0 && o.asked[len(o.asked)-1] == name:
		return at
	case o.asked == nil:
		o.asked = make([]string, 0, 16)
	}
	o.asked = append(o.asked, name)
	return at
}

// value returns the value of a member, which must have been sent.
func (o *Object) value(name string) jsontext.Value { return o.members[o.find(name)].value }

// Has reports whether a member was sent, also as null.
func (o *Object) Has(name string) bool {
	return o.ask(name) >= 0
}

// IsNull reports whether a member was sent as null.
func (o *Object) IsNull(name string) bool {
	return o.Has(name) && o.value(name).Kind() == 'n'
}

// Require adds a fault if a member was not sent.
func (o *Object) Require(name string) bool {
	if !o.Has(name) {
		o.Fault(name, "is required: send it")
		return false
	}
	return true
}

// take returns the value of a member of a kind. It returns nil if the member is absent, and nil with a fault if the
// member is null or of another kind.
func (o *Object) take(name string, kind jsontext.Kind, want string) jsontext.Value {
	if !o.Has(name) {
		return nil
	}
	v := o.value(name)
	if v.Kind() != kind {
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
	return textOf(v), true
}

// Bool returns a boolean member.
func (o *Object) Bool(name string) (value, ok bool) {
	if !o.Has(name) {
		return false, false
	}
	v := o.value(name)
	if v.Kind() != 't' && v.Kind() != 'f' {
		o.Fault(name, "must be true or false, not %s", describe(v))
		return false, false
	}
	return v.Kind() == 't', true
}

// Integer returns an integer member: a JSON number without fraction and exponent that fits 64 bits.
func (o *Object) Integer(name string) (int64, bool) {
	v := o.take(name, '0', "an integer")
	if v == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		o.Fault(name, "must be an integer that fits 64 bits, without fraction and exponent")
		return 0, false
	}
	return n, true
}

// Strings returns a member that is an array of strings. An element that is not a string is a fault, and "" in the
// result.
func (o *Object) Strings(name string) ([]string, bool) {
	v := o.take(name, '[', "an array of strings")
	if v == nil {
		return nil, false
	}
	elements := elementsOf(v)
	out, whole := make([]string, len(elements)), true
	for i, element := range elements {
		if element.Kind() != '"' {
			o.Fault(fmt.Sprintf("%s/%d", name, i), "must be a string, not %s", describe(element))
			whole = false
			continue
		}
		out[i] = textOf(element)
	}
	return out, whole
}

// Object returns a member that is an object.
func (o *Object) Object(name string) (*Object, bool) {
	v := o.take(name, '{', "an object")
	if v == nil {
		return nil, false
	}
	return newObject(v, o.at(name), o.faults), true
}

// Raw returns a member that is an object, as JSON without blanks.
func (o *Object) Raw(name string) ([]byte, bool) {
	v := o.take(name, '{', "an object")
	if v == nil {
		return nil, false
	}
	v = v.Clone()
	if err := v.Compact(); err != nil {
		o.Fault(name, "must be an object")
		return nil, false
	}
	return v, true
}

// Objects returns a member that is an array of objects. An element that is not an object is a fault, and is left out.
func (o *Object) Objects(name string) ([]*Object, bool) {
	v := o.take(name, '[', "an array of objects")
	if v == nil {
		return nil, false
	}
	elements := elementsOf(v)
	out := make([]*Object, 0, len(elements))
	for i, element := range elements {
		at := fmt.Sprintf("%s/%d", name, i)
		if element.Kind() != '{' {
			o.Fault(at, "must be an object, not %s", describe(element))
			continue
		}
		out = append(out, newObject(element, o.pointer+"/"+at, o.faults))
	}
	return out, len(out) == len(elements)
}
