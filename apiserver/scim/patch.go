package scim

import (
	"strings"

	filter "github.com/scim2/filter-parser/v2"
)

// Patch is the operations of a PATCH (RFC 7644, 3.5.2).
type Patch struct {
	operations []operation
}

type operationKind string

const (
	addOperation     operationKind = "add"
	replaceOperation operationKind = "replace"
	removeOperation  operationKind = "remove"
)

type operation struct {
	kind operationKind
	path path
	// hasValue is false for a value that is absent or, in remove, null.
	value    any
	hasValue bool
}

// path is a parsed path of an operation: the attribute of a schema, with a filter of its values.
type path struct {
	given  string
	schema string
	// whole is a path that is empty or names only a schema.
	whole      bool
	name, sub  string
	expression filter.Expression
}

// ReadPatch parses the body of a PATCH: 1 to MaxOperations operations, otherwise an Error of type invalidSyntax or
// tooMany. op and the names of members are compared without regard to case. schemas may be absent.
func ReadPatch(body []byte) (Patch, error) {
	o, err := decode(body)
	if err != nil {
		return Patch{}, err
	}
	var given any
	for _, m := range o {
		switch strings.ToLower(m.name) {
		case "schemas":
			if !namesPatch(m.value) {
				return Patch{}, refuse(InvalidSyntax, "schemas: must contain %s", patchSchema)
			}
		case "operations":
			given = m.value
		}
	}
	list, _ := given.([]any)
	switch {
	case len(list) == 0:
		return Patch{}, refuse(InvalidSyntax, "Operations: must be an array with at least one operation")
	case len(list) > MaxOperations:
		return Patch{}, refuse(TooMany, "Operations: has %d operations; send at most %d", len(list), MaxOperations)
	}
	p := Patch{make([]operation, 0, len(list))}
	for i, v := range list {
		operation, err := readOperation(v)
		if err != nil {
			return Patch{}, at(i, err)
		}
		p.operations = append(p.operations, operation)
	}
	return p, nil
}

// namesPatch reports whether schemas is empty or contains that of PATCH.
func namesPatch(schemas any) bool {
	list, ok := schemas.([]any)
	if !ok || len(list) == 0 {
		return schemas == nil || ok
	}
	for _, v := range list {
		if s, ok := v.(string); ok && strings.EqualFold(s, patchSchema) {
			return true
		}
	}
	return false
}

// at adds the position of an operation to an error.
func at(index int, err error) error {
	if e, ok := err.(*Error); ok {
		return refuse(e.Type, "Operations[%d]: %s", index, e.Detail)
	}
	return err
}

func readOperation(value any) (operation, error) {
	given, ok := value.(object)
	if !ok {
		return operation{}, refuse(InvalidSyntax, "must be an object")
	}
	var o operation
	var target any
	for _, m := range given {
		switch strings.ToLower(m.name) {
		case "op":
			op, _ := m.value.(string)
			o.kind = operationKind(strings.ToLower(op))
		case "path":
			target = m.value
		case "value":
			o.value, o.hasValue = m.value, true
		}
	}
	switch o.kind {
	case addOperation, replaceOperation:
		if !o.hasValue {
			return operation{}, refuse(InvalidValue, "%s needs a value", o.kind)
		}
	case removeOperation:
		o.hasValue = o.value != nil
	default:
		return operation{}, refuse(InvalidSyntax, "op: must be add, replace or remove")
	}
	s, ok := target.(string)
	if !ok && target != nil {
		return operation{}, refuse(InvalidPath, "path: must be a string")
	}
	var err error
	o.path, err = parsePath(s)
	if err == nil && o.kind == removeOperation && o.path.whole && o.path.schema != EnterpriseSchema {
		return operation{}, refuse(NoTarget, "remove needs a path")
	}
	return o, err
}

// parsePath parses a path. It does not look up its attribute.
func parsePath(given string) (path, error) {
	s := strings.Trim(given, " ")
	p := path{given: s}
	for _, schema := range []string{"", UserSchema, GroupSchema, EnterpriseSchema} {
		if strings.EqualFold(s, schema) {
			p.schema, p.whole = schema, true
			return p, nil
		}
	}
	if len(s) > MaxPathBytes {
		return path{}, refuse(InvalidPath, "path: is longer than %d bytes", MaxPathBytes)
	}
	if name, sub, dotted := strings.Cut(s, "."); isName(name) && (!dotted || isName(sub)) {
		p.name, p.sub = name, sub
		return p, nil
	}
	wrong := refuse(InvalidPath, "path: %s has a syntax error", shorten(s))
	prepared, ok := prepare(s)
	if !ok {
		return path{}, wrong
	}
	parsed, err := filter.ParsePath([]byte(prepared))
	if err != nil {
		return path{}, wrong
	}
	p.schema, p.name, p.sub = parsed.AttributePath.URI(), parsed.AttributePath.AttributeName, parsed.AttributePath.SubAttributeName()
	if p.expression = parsed.ValueExpression; p.expression != nil {
		if p.sub != "" {
			return path{}, wrong
		}
		p.sub = parsed.SubAttributeName()
	}
	return p, nil
}

// isName reports whether s is the name of an attribute (RFC 7643, 2.1).
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c != '-' && c != '_' && (c < '0' || c > '9')) && (i != 0 || c != '$' || len(s) == 1) {
			return false
		}
	}
	return s != ""
}

// target is what a path of a user leads to.
type target struct {
	// ignored targets are of unknown schemas, or are not stored.
	ignored   bool
	extension bool
	// attribute is nil for the whole extension.
	attribute *attribute
	sub       *attribute
	// selects chooses values of a multi-valued attribute. template is the value that fulfills it, nil if it is not a
	// conjunction of equalities.
	selects  *node
	template map[string]any
}

// resolve looks up the attribute of a path.
func (p path) resolve(s *schema) (target, error) {
	table, t := s, target{}
	switch {
	case p.schema == "" || strings.EqualFold(p.schema, s.id):
	case s == userSchema && strings.EqualFold(p.schema, EnterpriseSchema):
		table, t.extension = enterpriseSchema, true
	default:
		return target{ignored: true}, nil
	}
	if p.whole {
		return t, nil
	}
	unknown := refuse(InvalidPath, "path: %s is not an attribute of %s", shorten(p.given), table.name)
	if t.attribute = table.lookup(p.name); t.attribute == nil {
		return target{}, unknown
	}
	switch a := t.attribute; {
	case a.readOnly:
		return target{}, refuse(Mutability, "path: %s is read-only", a.label)
	case a.discarded:
		return target{ignored: true}, nil
	case p.sub != "":
		if t.sub = a.lookup(p.sub); t.sub == nil {
			return target{}, unknown
		}
	}
	if p.expression == nil {
		return t, nil
	}
	if !t.attribute.multi {
		return target{}, refuse(InvalidPath, "path: %s has one value; remove the filter", t.attribute.label)
	}
	var err error
	if t.selects, err = compile(p.expression, entryFields(t.attribute)); err != nil {
		return target{}, err
	}
	t.template = template(t.selects)
	return t, nil
}

// template returns the value that a conjunction of equalities describes, or nil.
func template(n *node) map[string]any {
	entry := map[string]any{}
	if !n.describe(entry) {
		return nil
	}
	return entry
}

func (n *node) describe(entry map[string]any) bool {
	if n.kind == andNode {
		return n.left.describe(entry) && n.right.describe(entry)
	}
	if n.kind != compareNode || n.operator != filter.EQ || n.operand.null {
		return false
	}
	var value any = n.operand.given
	if n.field.attribute.kind == booleanKind {
		value = n.operand.boolean
	}
	if other, ok := entry[n.field.attribute.name]; ok && other != value {
		return false
	}
	entry[n.field.attribute.name] = value
	return true
}
