// Package openapi contains the HTTP contract: backend.yaml, enduser.yaml and decision.yaml, one document per listener,
// are the only source. Types are generated from them, the server serves them, and their x-cardea-* extensions declare
// the requirements of each operation.
package openapi

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
)

//go:generate go tool -modfile=../../../hack/tools/go.mod oapi-codegen -config codegen.yaml backend.yaml
//go:generate go tool -modfile=../../../hack/tools/go.mod oapi-codegen -config enduserapi/codegen.yaml enduser.yaml

//go:embed backend.yaml
var backend []byte

//go:embed enduser.yaml
var endUser []byte

//go:embed decision.yaml
var decision []byte

// Document is the contract of one listener. It does not keep the parsed document, which takes megabytes.
type Document struct {
	spec   func() *openapi3.T
	json   []byte
	routes map[string]Route
}

// MediaTypeLines is the media type of JSON Lines.
const MediaTypeLines = "application/x-ndjson"

// Load returns the document of the backend listener, parsed and validated once. Callers must not change it.
func Load() (*Document, error) { return loadBackend() }

// LoadEndUser is Load for the end-user listener.
func LoadEndUser() (*Document, error) { return loadEndUser() }

// LoadDecision is Load for the decision listener.
func LoadDecision() (*Document, error) { return loadDecision() }

// The embedded documents never change, and parsing one takes a tenth of a second.
var (
	loadBackend  = sync.OnceValues(func() (*Document, error) { return load("backend.yaml", backend) })
	loadEndUser  = sync.OnceValues(func() (*Document, error) { return load("enduser.yaml", endUser) })
	loadDecision = sync.OnceValues(func() (*Document, error) { return load("decision.yaml", decision) })
)

func load(name string, source []byte) (*Document, error) {
	spec, err := parse(name, source)
	if err != nil {
		return nil, err
	}
	// The tests validate the examples against their schemas, so a starting server need not.
	if err := spec.Validate(context.Background(), openapi3.DisableExamplesValidation()); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	raw, err := spec.MarshalJSON()
	if err != nil {
		return nil, err
	}
	again := sync.OnceValue(func() *openapi3.T {
		spec, err := parse(name, source)
		if err != nil {
			panic(err) // it was parsed above
		}
		return spec
	})
	return &Document{spec: again, json: raw, routes: routesOf(spec)}, nil
}

func parse(name string, source []byte) (*openapi3.T, error) {
	spec, err := openapi3.NewLoader().LoadFromData(source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return spec, nil
}

// Spec parses the document with the first call, for tests that compare responses with it.
func (d *Document) Spec() *openapi3.T { return d.spec() }

// ServeJSON serves the document for machines.
func (d *Document) ServeJSON(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(d.json)
}
