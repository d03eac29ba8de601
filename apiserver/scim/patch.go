package scim

import "strings"

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
	p, parser := Patch{make([]operation, 0, len(list))}, paths{}
	for i, v := range list {
		operation, err := readOperation(v, &parser)
		if err != nil {
			return Patch{}, at(i, err)
		}
		p.operations = append(p.operations, operation)
	}
	return p, nil
}

// namesPatch reports whether schemas is empty or contains that of PATCH.
func namesPatch(schemas any) bool {
	if s, ok := schemas.(string); ok {
		schemas = []any{s}
	}
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

func readOperation(value any, parser *paths) (operation, error) {
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
	o.path, err = parser.parse(s)
	if err == nil && o.kind == removeOperation && o.path.whole && o.path.schema != EnterpriseSchema {
		return operation{}, refuse(NoTarget, "remove needs a path")
	}
	return o, err
}
