// Package openapi holds the HTTP contract: openapi.yaml is the one source; types and routing are generated from it, the
// server serves it, and its x-cardea-* extensions say what each operation needs.
package openapi

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"sort"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

//go:generate go tool -modfile=../../hack/tools/go.mod oapi-codegen -config codegen.yaml openapi.yaml

//go:embed openapi.yaml
var source []byte

// Document is the parsed contract.
type Document struct {
	spec *openapi3.T
	json []byte
	page []byte
}

// Route is what an operation needs of a request.
type Route struct {
	// Permission is the built-in permission the credential must have.
	Permission string
	// Write tells that the operation changes resources.
	Write bool
	// HasBody tells that the operation reads a JSON body.
	HasBody bool
}

// Load parses and validates the embedded document.
func Load() (*Document, error) {
	spec, err := openapi3.NewLoader().LoadFromData(source)
	if err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	if err := spec.Validate(context.Background()); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	raw, err := spec.MarshalJSON()
	if err != nil {
		return nil, err
	}
	page, err := renderPage(spec)
	if err != nil {
		return nil, err
	}
	return &Document{spec: spec, json: raw, page: page}, nil
}

// Spec returns the parsed document, for tests that hold answers against it.
func (d *Document) Spec() *openapi3.T { return d.spec }

// Routes returns every operation of the backend listener by its "METHOD /path/{parameter}".
func (d *Document) Routes() map[string]Route {
	routes := map[string]Route{}
	for path, item := range d.spec.Paths.Map() {
		for method, op := range item.Operations() {
			if listenerOf(op) != "" {
				continue
			}
			permission, _ := op.Extensions["x-cardea-permission"].(string)
			write, _ := op.Extensions["x-cardea-write"].(bool)
			routes[method+" "+path] = Route{Permission: permission, Write: write, HasBody: op.RequestBody != nil}
		}
	}
	return routes
}

// EndUserListener is the x-cardea-listener of operations that the end-user listener serves; those of the backend listener have none.
const EndUserListener = "end-user"

func listenerOf(op *openapi3.Operation) string {
	listener, _ := op.Extensions["x-cardea-listener"].(string)
	return listener
}

// PathOf returns the path a request carries. In the document a fragment tells apart what two listeners serve under one path.
func PathOf(key string) string {
	path, _, _ := strings.Cut(key, "#")
	return path
}

// ServeJSON serves the document as /openapi.json.
func (d *Document) ServeJSON(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(d.json)
}

// ServePage serves the document for people, as one page that needs no other host.
func (d *Document) ServePage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_, _ = w.Write(d.page)
}

func renderPage(spec *openapi3.T) ([]byte, error) {
	var out bytes.Buffer
	view := pageView{Title: spec.Info.Title, Version: spec.Info.Version, Description: spec.Info.Description}
	for path, item := range spec.Paths.Map() {
		for method, op := range item.Operations() {
			view.Operations = append(view.Operations, newOperationView(method, path, item, op))
		}
	}
	sort.Slice(view.Operations, func(i, j int) bool {
		a, b := view.Operations[i], view.Operations[j]
		return cmp.Or(cmp.Compare(a.Listener, b.Listener), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method)) < 0
	})
	for name, schema := range spec.Components.Schemas {
		view.Schemas = append(view.Schemas, newSchemaView(name, schema.Value))
	}
	sort.Slice(view.Schemas, func(i, j int) bool { return view.Schemas[i].Name < view.Schemas[j].Name })
	err := pageTemplate.Execute(&out, view)
	return out.Bytes(), err
}

func shortRef(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }
