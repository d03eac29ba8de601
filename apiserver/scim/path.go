package scim

import (
	"regexp"
	"strings"

	filter "github.com/scim2/filter-parser/v2"
)

// path is a parsed path of an operation: the attribute of a schema, with a filter of its values.
type path struct {
	given  string
	schema string
	// whole is a path that is empty or names only a schema.
	whole      bool
	name, sub  string
	expression filter.Expression
}

// paths parses the paths of one PATCH. The parser of filters needs microseconds for each byte, so that it gets at most
// maxParsedPaths bytes; the paths that identity providers send do not need it.
type paths struct {
	parsed int
}

// maxParsedPaths bounds the paths of a PATCH that need the parser of filters, in bytes.
const maxParsedPaths = 64 << 10

// selectedByEquality is the usual path with a filter: emails[type eq "work"].value.
var selectedByEquality = regexp.MustCompile(
	`^([A-Za-z][A-Za-z0-9_-]*)\[ *(\$?[A-Za-z][A-Za-z0-9_-]*) +[eE][qQ] +"([^"\\\x00-\x1f]*)" *\](?:\.(\$?[A-Za-z][A-Za-z0-9_-]*))?$`)

// parse parses a path. It does not look up its attribute.
func (b *paths) parse(given string) (path, error) {
	s := strings.Trim(given, " ")
	p := path{given: s}
	if s == "" {
		p.whole = true
		return p, nil
	}
	if len(s) > MaxPathBytes {
		return path{}, refuse(InvalidPath, "path: is longer than %d bytes", MaxPathBytes)
	}
	for _, schema := range []string{UserSchema, GroupSchema, EnterpriseSchema} {
		if len(s) < len(schema) || !strings.EqualFold(s[:len(schema)], schema) {
			continue
		}
		if len(s) == len(schema) {
			p.schema, p.whole = schema, true
			return p, nil
		}
		if s[len(schema)] == ':' {
			p.schema, s = schema, s[len(schema)+1:]
			break
		}
	}
	if name, sub, dotted := strings.Cut(s, "."); isName(name) && (!dotted || isName(sub)) {
		p.name, p.sub = name, sub
		return p, nil
	}
	if m := selectedByEquality.FindStringSubmatch(s); m != nil {
		p.name, p.sub = m[1], m[4]
		p.expression = &filter.AttributeExpression{
			AttributePath: filter.AttributePath{AttributeName: m[2]}, Operator: filter.EQ, CompareValue: m[3],
		}
		return p, nil
	}
	return b.parseFilter(p, s)
}

// key parses a member's name of a value without a path. One with a syntax error is unknown: the path is empty.
func (b *paths) key(name string) (path, error) {
	p, err := b.parse(name)
	if e, ok := err.(*Error); ok && e.Type != TooMany {
		return path{}, nil
	}
	return p, err
}

// parseFilter parses the rest of a path after its schema, by the parser of filters.
func (b *paths) parseFilter(p path, rest string) (path, error) {
	wrong := refuse(InvalidPath, "path: %s has a syntax error", shorten(p.given))
	if b.parsed += len(rest); b.parsed > maxParsedPaths {
		return path{}, refuse(TooMany, "the paths with filters have more than %d bytes; send several requests", maxParsedPaths)
	}
	prepared, ok := prepare(rest)
	if !ok {
		return path{}, wrong
	}
	parsed, err := filter.ParsePath([]byte(prepared))
	if err != nil || p.schema != "" && parsed.AttributePath.URIPrefix != nil {
		return path{}, wrong
	}
	if p.schema == "" {
		p.schema = parsed.AttributePath.URI()
	}
	p.name, p.sub = parsed.AttributePath.AttributeName, parsed.AttributePath.SubAttributeName()
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
