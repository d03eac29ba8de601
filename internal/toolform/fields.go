// Package toolform says which members the callers of an AI tool may send, where each is sent, and which declarations
// cannot be called. The operator reports such declarations, and servers do not list them to agents.
package toolform

import (
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

// Place is where an argument is sent.
type Place int

// The places of arguments.
const (
	InPath Place = iota
	InQuery
	InBody
	InHeader
)

// Fields returns the members that a caller of a tool may send, in order: URL parameters, members of the body, headers,
// and the parameters that none of these name. A header with exactly one allowed value is a constant and not among them.
func Fields(t *document.AITool) []schemafield.Field {
	var fields []schemafield.Field
	for _, f := range Placed(t) {
		if !f.Constant() {
			fields = append(fields, f.Field)
		}
	}
	return fields
}

// PlacedField is a field with the place where its value is sent.
type PlacedField struct {
	schemafield.Field
	Place Place
}

// Constant reports whether the field is a header with exactly one allowed value, which is sent and is no argument.
func (f PlacedField) Constant() bool { return f.Place == InHeader && len(f.EnumValues) == 1 }

// Placed returns the fields of a tool with the places where their values are sent, in the order of Fields. Of several
// fields with one name, the first counts. A signed call has what is not in a header or a placeholder in its body.
func Placed(t *document.AITool) []PlacedField {
	var out []PlacedField
	seen := map[string]bool{}
	add := func(f schemafield.Field, at Place) {
		if !seen[f.Name] {
			seen[f.Name] = true
			out = append(out, PlacedField{f, at})
		}
	}
	path, query, _ := strings.Cut(t.Endpoint, "?")
	for _, f := range t.URLParamsSchema {
		at := InQuery
		switch {
		case strings.Contains(path, "{"+f.Name+"}"):
			at = InPath
		case t.Signed() && !strings.Contains(query, "{"+f.Name+"}"):
			at = InBody
		}
		add(f, at)
	}
	for _, f := range t.RequestBodySchema {
		add(f, InBody)
	}
	for _, f := range t.Authorization.CustomHeaders {
		add(f, InHeader)
	}
	for _, p := range t.Parameters {
		at := InBody
		switch {
		case strings.Contains(path, "{"+p.Name+"}"):
			at = InPath
		case strings.Contains(query, "{"+p.Name+"}"), slices.Contains([]string{"GET", "HEAD", "DELETE", "OPTIONS"}, t.RequestMethod()):
			at = InQuery
		}
		add(schemafield.Field{Name: p.Name, FieldType: fieldType(p.Type), Required: p.Required}, at)
	}
	return out
}

// fieldType returns the type of a parameter, whose declaration has any word: a text, if the word is unknown.
func fieldType(word string) string {
	if upper := strings.ToUpper(word); slices.Contains(schemafield.Types(), upper) {
		return upper
	}
	return "STRING"
}

// Placeholders returns the names of the placeholders of a URL.
func Placeholders(address string) (names []string) {
	for {
		_, after, found := strings.Cut(address, "{")
		name, rest, closed := strings.Cut(after, "}")
		if !found || !closed {
			return names
		}
		names, address = append(names, name), rest
	}
}
