// Package toolcall performs the HTTP call of an AI tool: it builds the request from the tool's declaration and
// validated arguments, sends it where the egress policy permits, and turns the response into bounded content. It
// knows no principals and no protocol of agents.
package toolcall

import (
	"net/url"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

// place is where an argument is sent.
type place int

const (
	inPath place = iota
	inQuery
	inBody
	inHeader
)

// Fields returns the members that a caller of a tool may send, in order: URL parameters, members of the body, headers,
// and the parameters that none of these name. A header with exactly one allowed value is a constant and not among them.
func Fields(t *document.AITool) []schemafield.Field {
	var fields []schemafield.Field
	for _, f := range placed(t) {
		if !f.constant() {
			fields = append(fields, f.Field)
		}
	}
	return fields
}

// placedField is a field with the place where its value is sent.
type placedField struct {
	schemafield.Field
	place place
}

func (f placedField) constant() bool { return f.place == inHeader && len(f.EnumValues) == 1 }

func placed(t *document.AITool) []placedField {
	var out []placedField
	seen := map[string]bool{}
	add := func(f schemafield.Field, at place) {
		if !seen[f.Name] {
			seen[f.Name] = true
			out = append(out, placedField{f, at})
		}
	}
	path, _, _ := strings.Cut(t.Endpoint, "?")
	for _, f := range t.URLParamsSchema {
		at := inQuery
		if strings.Contains(path, "{"+f.Name+"}") {
			at = inPath
		}
		add(f, at)
	}
	for _, f := range t.RequestBodySchema {
		add(f, inBody)
	}
	for _, f := range t.Authorization.CustomHeaders {
		add(f, inHeader)
	}
	for _, p := range t.Parameters {
		at := inBody
		switch {
		case strings.Contains(path, "{"+p.Name+"}"):
			at = inPath
		case slices.Contains([]string{"GET", "HEAD", "DELETE", "OPTIONS"}, t.Method):
			at = inQuery
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

// Invalid returns what of a tool cannot be called, "" if nothing.
func Invalid(t *document.AITool) string {
	if t.Endpoint == "" {
		return "the tool has no endpoint"
	}
	scheme, rest, _ := strings.Cut(t.Endpoint, "://")
	authority := rest
	if at := strings.IndexAny(rest, "/?#"); at >= 0 {
		authority = rest[:at]
	}
	parsed, err := url.Parse("https://" + authority)
	switch {
	case strings.ContainsAny(authority, "{}"):
		return "the endpoint has a placeholder in its host"
	case scheme != "https" && scheme != "http" || err != nil || parsed.Host == "":
		return "the endpoint is no http or https URL"
	case parsed.User != nil:
		return "the endpoint contains credentials"
	case strings.Contains(t.Endpoint, "#"):
		return "the endpoint has a fragment"
	}
	names := map[string]bool{}
	for _, f := range placed(t) {
		names[f.Name] = true
	}
	for _, name := range placeholders(t.Endpoint) {
		if !names[name] {
			return "the endpoint's placeholder {" + name + "} is no parameter"
		}
	}
	return ""
}

// placeholders returns the names of the placeholders of an endpoint.
func placeholders(endpoint string) (names []string) {
	for {
		_, after, found := strings.Cut(endpoint, "{")
		name, rest, closed := strings.Cut(after, "}")
		if !found || !closed {
			return names
		}
		names, endpoint = append(names, name), rest
	}
}
