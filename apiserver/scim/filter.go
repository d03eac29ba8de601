package scim

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	filter "github.com/scim2/filter-parser/v2"
)

// Filter is a filter of a list (RFC 7644, 3.4.2.2). Strings are compared without regard to case, except id, externalId
// and members.value. ne holds where eq does not. Against null, eq holds for attributes without a value.
type Filter struct {
	root *node
}

// ParseUserFilter parses a filter of users, of at most MaxFilterBytes. It returns an Error of type invalidFilter for a
// syntax error, an unknown attribute, and an operator that the attribute does not have.
func ParseUserFilter(text string) (*Filter, error) { return parseFilter(text, userSchema) }

// ParseGroupFilter is ParseUserFilter for groups: id, externalId, displayName, meta, and members with eq and ne.
func ParseGroupFilter(text string) (*Filter, error) { return parseFilter(text, groupSchema) }

func parseFilter(text string, s *schema) (*Filter, error) {
	if len(text) > MaxFilterBytes {
		return nil, refuse(InvalidFilter, "the filter is longer than %d bytes", MaxFilterBytes)
	}
	prepared, ok := prepare(strings.Trim(text, " "))
	if !ok {
		return nil, refuse(InvalidFilter, "the filter is not UTF-8 or is nested deeper than %d parentheses", maxDepth)
	}
	expression, err := filter.ParseFilter([]byte(prepared))
	if err != nil {
		return nil, refuse(InvalidFilter, "the filter %s has a syntax error", shorten(text))
	}
	root, err := compile(expression, resourceFields(s))
	if err != nil {
		return nil, err
	}
	return &Filter{root}, nil
}

// prepare bounds the nesting of parentheses, for which the parser needs quadratic time, and writes the digits of \u
// escapes in upper case, which is the only form that the parser knows.
func prepare(s string) (string, bool) {
	if !utf8.ValidString(s) {
		return "", false
	}
	b := []byte(s)
	level, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
			if i+4 < len(b) && b[i] == 'u' {
				copy(b[i+1:i+5], strings.ToUpper(string(b[i+1:i+5])))
			}
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '(':
			if level++; level > maxDepth {
				return "", false
			}
		case c == ')':
			level--
		}
	}
	return string(b), true
}

// nodeKind is the kind of a node of a filter.
type nodeKind int

const (
	andNode nodeKind = iota
	orNode
	notNode
	compareNode
	// entryNode holds if its left node holds for one value of a multi-valued attribute.
	entryNode
)

type node struct {
	kind        nodeKind
	left, right *node
	field       field
	operator    filter.CompareOperator
	operand     operand
}

// field is an attribute and one of its sub-attributes, if any.
type field struct {
	extension bool
	attribute *attribute
	sub       *attribute
}

// leaf is the attribute with the values that are compared.
func (f field) leaf() *attribute {
	if f.sub != nil {
		return f.sub
	}
	return f.attribute
}

// operand is the value of a comparison: null, a string (folded unless the attribute is exact), a boolean or a time.
type operand struct {
	null    bool
	text    string
	given   string
	boolean bool
	time    time.Time
}

// fieldsOf resolves the attributes of a filter. inside returns the fields of one value of a multi-valued attribute.
type fieldsOf struct {
	resolve func(filter.AttributePath) (field, error)
	inside  func(*attribute) fieldsOf
}

func unknownField(path filter.AttributePath) error {
	return refuse(InvalidFilter, "the attribute %s is unknown or cannot be filtered", shorten(path.String()))
}

// resourceFields are the fields of a user or a group.
func resourceFields(s *schema) fieldsOf {
	resolve := func(path filter.AttributePath) (field, error) {
		table, extension := s, false
		if path.URIPrefix != nil && !strings.EqualFold(path.URI(), s.id) {
			if s != userSchema || !strings.EqualFold(path.URI(), EnterpriseSchema) {
				return field{}, unknownField(path)
			}
			table, extension = enterpriseSchema, true
		}
		a := table.lookup(path.AttributeName)
		if a == nil || a.discarded || a.readOnly && !a.common {
			return field{}, unknownField(path)
		}
		f := field{extension: extension, attribute: a}
		if path.SubAttribute != nil {
			if f.sub = a.lookup(path.SubAttributeName()); f.sub == nil {
				return field{}, unknownField(path)
			}
		}
		return f, nil
	}
	return fieldsOf{resolve, entryFields}
}

// entryFields are the fields of one value of an attribute.
func entryFields(a *attribute) fieldsOf {
	return fieldsOf{resolve: func(path filter.AttributePath) (field, error) {
		sub := a.lookup(path.AttributeName)
		if sub == nil || path.URIPrefix != nil || path.SubAttribute != nil {
			return field{}, unknownField(path)
		}
		return field{attribute: sub}, nil
	}}
}

func compile(expression filter.Expression, fields fieldsOf) (*node, error) {
	switch e := expression.(type) {
	case *filter.AttributeExpression:
		return compileComparison(e, fields)
	case *filter.ValuePath:
		f, err := fields.resolve(e.AttributePath)
		if err != nil {
			return nil, err
		}
		if fields.inside == nil || f.sub != nil || !f.attribute.multi {
			return nil, refuse(InvalidFilter, "%s: has no values to select with brackets", f.leaf().label)
		}
		inner, err := compile(e.ValueFilter, fields.inside(f.attribute))
		if err != nil {
			return nil, err
		}
		return checkMembers(&node{kind: entryNode, field: f, left: inner})
	case *filter.NotExpression:
		inner, err := compile(e.Expression, fields)
		if err != nil {
			return nil, err
		}
		return &node{kind: notNode, left: inner}, nil
	case *filter.LogicalExpression:
		left, err := compile(e.Left, fields)
		if err != nil {
			return nil, err
		}
		right, err := compile(e.Right, fields)
		if err != nil {
			return nil, err
		}
		kind := andNode
		if e.Operator == filter.OR {
			kind = orNode
		}
		return &node{kind: kind, left: left, right: right}, nil
	default:
		return nil, refuse(InvalidFilter, "the filter has an unknown expression")
	}
}

func compileComparison(e *filter.AttributeExpression, fields fieldsOf) (*node, error) {
	f, err := fields.resolve(e.AttributePath)
	if err != nil {
		return nil, err
	}
	if f.leaf().kind == complexKind && e.Operator != filter.PR {
		if f.sub = f.attribute.lookup("value"); f.sub == nil {
			return nil, refuse(InvalidFilter, "%s: is complex; compare one of its sub-attributes", f.attribute.label)
		}
	}
	n := &node{kind: compareNode, field: f, operator: e.Operator}
	if e.Operator != filter.PR {
		if n.operand, err = newOperand(f.leaf(), e.Operator, e.CompareValue); err != nil {
			return nil, err
		}
	}
	return checkMembers(n)
}

// checkMembers allows only the comparisons of members that a store answers without reading all of them.
func checkMembers(n *node) (*node, error) {
	if n.field.attribute.label != "members" {
		return n, nil
	}
	compared := n
	if n.kind == entryNode {
		compared = n.left
	}
	equality := compared.operator == filter.EQ || compared.operator == filter.NE
	if compared.kind != compareNode || compared.field.leaf().label != "members.value" || !equality || compared.operand.null {
		return nil, refuse(InvalidFilter, "members: compare members.value with eq or ne")
	}
	return &node{kind: compareNode, field: field{attribute: n.field.attribute, sub: compared.field.leaf()}, operator: compared.operator, operand: compared.operand}, nil
}

// newOperand reads the value of a comparison for an attribute.
func newOperand(a *attribute, operator filter.CompareOperator, value any) (operand, error) {
	equality := operator == filter.EQ || operator == filter.NE
	ordered := equality || operator == filter.GT || operator == filter.GE || operator == filter.LT || operator == filter.LE
	wrong := refuse(InvalidFilter, "%s: cannot be compared by %s with this value", a.label, operator)
	if value == nil {
		if !equality {
			return operand{}, wrong
		}
		return operand{null: true}, nil
	}
	if b, ok := value.(bool); ok {
		if a.kind != booleanKind || !equality {
			return operand{}, wrong
		}
		return operand{boolean: b}, nil
	}
	raw, ok := value.(string)
	if !ok {
		return operand{}, wrong
	}
	// The parser returns the characters between the quotes.
	var s string
	if err := json.Unmarshal([]byte(`"`+raw+`"`), &s); err != nil || checkString(s) != nil {
		return operand{}, wrong
	}
	switch a.kind {
	case booleanKind:
		b, ok := word(s)
		if !ok || !equality {
			return operand{}, wrong
		}
		return operand{boolean: b}, nil
	case dateTimeKind:
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil || !ordered {
			return operand{}, wrong
		}
		return operand{time: t.Truncate(time.Millisecond)}, nil
	default:
		return operand{text: a.fold(s), given: s}, nil
	}
}

// fold returns the form of a string in which it is compared.
func (a *attribute) fold(s string) string {
	if a.exact {
		return s
	}
	return strings.ToLower(s)
}
