package openapi

import (
	"fmt"
	"html/template"
	"slices"
	"sort"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

type pageView struct {
	Title, Version, Description string
	Operations                  []operationView
	Schemas                     []schemaView
}

type operationView struct {
	ID, Method, Path, Summary, Description, Permission, Body string
	Parameters                                               []memberView
	Answers                                                  []memberView
}

type schemaView struct {
	Name, Description, Type string
	Members                 []memberView
}

type memberView struct {
	Name, Type, Description, Link string
	Required                      bool
}

func newOperationView(method, path string, item *openapi3.PathItem, op *openapi3.Operation) operationView {
	view := operationView{
		ID: op.OperationID, Method: method, Path: path, Summary: op.Summary, Description: op.Description, Permission: strings.Join(permissions(op), " or "),
	}
	for _, parameter := range append(slices.Clone(item.Parameters), op.Parameters...) {
		p := parameter.Value
		view.Parameters = append(view.Parameters, memberView{
			Name: p.Name + " (" + p.In + ")", Type: typeOf(p.Schema), Description: p.Description, Required: p.Required,
		})
	}
	if op.RequestBody != nil {
		content := op.RequestBody.Value.Content.Get("application/json")
		if content == nil {
			content = op.RequestBody.Value.Content.Get(MediaTypeLines)
		}
		view.Body = shortRef(content.Schema.Ref)
	}
	for status, response := range op.Responses.Map() {
		answer := memberView{Name: status, Description: *response.Value.Description}
		if content := response.Value.Content.Get("application/json"); content != nil {
			answer.Link = shortRef(content.Schema.Ref)
		}
		view.Answers = append(view.Answers, answer)
	}
	sort.Slice(view.Answers, func(i, j int) bool { return view.Answers[i].Name < view.Answers[j].Name })
	return view
}

func newSchemaView(name string, schema *openapi3.Schema) schemaView {
	view := schemaView{Name: name, Description: schema.Description, Type: typeOf(&openapi3.SchemaRef{Value: schema})}
	for member, ref := range schema.Properties {
		m := memberView{Name: member, Type: typeOf(ref), Description: ref.Value.Description, Required: slices.Contains(schema.Required, member)}
		if ref.Ref != "" {
			m.Link = shortRef(ref.Ref)
		} else if ref.Value.Items != nil && ref.Value.Items.Ref != "" {
			m.Link = shortRef(ref.Value.Items.Ref)
		}
		view.Members = append(view.Members, m)
	}
	sort.Slice(view.Members, func(i, j int) bool { return view.Members[i].Name < view.Members[j].Name })
	return view
}

// typeOf says a type in words: "string (date-time) or null, one of a, b".
func typeOf(ref *openapi3.SchemaRef) string {
	s := ref.Value
	words := strings.Join(s.Type.Slice(), " or ")
	if s.Type.Is("array") {
		words = "array of " + typeOf(s.Items)
	}
	if s.Format != "" {
		words += " (" + s.Format + ")"
	}
	if len(s.Enum) > 0 {
		values := make([]string, len(s.Enum))
		for i, value := range s.Enum {
			values[i] = fmt.Sprint(value)
		}
		words += ", one of " + strings.Join(values, ", ")
	}
	return words
}

var pageTemplate = template.Must(template.New("docs").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem; color: #1b1f24; background: #fff; }
h1, h2, h3 { line-height: 1.2; } h3 { margin-top: 2.5rem; }
code, .path { font-family: ui-monospace, monospace; font-size: .93em; }
.method { display: inline-block; min-width: 4.5rem; font-weight: 700; color: #0a5a8a; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1rem; } th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid #d9dee3; }
p.text { white-space: pre-line; } nav a { display: block; text-decoration: none; }
@media (prefers-color-scheme: dark) { body { color: #e6e9ec; background: #14171a; } th, td { border-color: #363c42; } a, .method { color: #7cc4f2; } }
</style>
</head>
<body>
<h1>{{.Title}} <small>{{.Version}}</small></h1>
<p class="text">{{.Description}}</p>
<p>For backends: <a href="/docs">page</a>, <a href="/openapi.json">document</a>. For end users: <a href="/end-user/docs">page</a>, <a href="/end-user/openapi.json">document</a>.</p>
<nav>{{range .Operations}}<a href="#{{.ID}}"><span class="method">{{.Method}}</span> <span class="path">{{.Path}}</span> {{.Summary}}</a>
{{end}}</nav>
<h2>Operations</h2>
{{range .Operations}}<h3 id="{{.ID}}"><span class="method">{{.Method}}</span> <span class="path">{{.Path}}</span></h3>
<p><strong>{{.Summary}}.</strong>{{if .Permission}} Permission: <code>{{.Permission}}</code>.{{end}}{{if .Body}} Body: <a href="#{{.Body}}">{{.Body}}</a>.{{end}}</p>
{{if .Description}}<p class="text">{{.Description}}</p>{{end}}
{{if .Parameters}}<table><tr><th>Parameter</th><th>Type</th><th>Meaning</th></tr>
{{range .Parameters}}<tr><td><code>{{.Name}}</code>{{if .Required}} *{{end}}</td><td>{{.Type}}</td><td>{{.Description}}</td></tr>
{{end}}</table>{{end}}
<table><tr><th>Answer</th><th>Body</th><th>Meaning</th></tr>
{{range .Answers}}<tr><td>{{.Name}}</td><td>{{if .Link}}<a href="#{{.Link}}">{{.Link}}</a>{{end}}</td><td>{{.Description}}</td></tr>
{{end}}</table>
{{end}}<h2>Schemas</h2>
{{range .Schemas}}<h3 id="{{.Name}}">{{.Name}}</h3>
<p>{{.Description}} <em>{{.Type}}</em></p>
{{if .Members}}<table><tr><th>Member (* required)</th><th>Type</th><th>Meaning</th></tr>
{{range .Members}}<tr><td><code>{{.Name}}</code>{{if .Required}} *{{end}}</td><td>{{if .Link}}<a href="#{{.Link}}">{{end}}{{.Type}}{{if .Link}}</a>{{end}}</td><td>{{.Description}}</td></tr>
{{end}}</table>{{end}}
{{end}}</body>
</html>
`))
