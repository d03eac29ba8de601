// Package reference serves the HTTP contract as pages, one per document, rendered by Swagger UI. Readers can try the
// operations of the page's own listener.
package reference

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"net/http"
	"sync"

	"github.com/cardea-iam/cardea/apiserver/httpapi/asset"
)

//go:embed swaggerui/swagger-ui-bundle.js swaggerui/swagger-ui.css
var swaggerUI embed.FS

//go:embed page
var own embed.FS

// Document is a document that readers can choose.
type Document struct {
	// Name is the name in the chooser.
	Name string
	// Page is the path of its page, and JSON that of the document itself.
	Page, JSON string
	// Elsewhere says where to try the document's operations if they are on another listener, because a browser cannot
	// try them on this page. It is empty for the page's own listener.
	Elsewhere string
}

// Pages are the pages of one listener's documents.
type Pages struct {
	assets *asset.Set
	pages  map[string][]byte
}

// pageView is the data of the page template.
type pageView struct {
	Document
	Documents []Document
	Links     []Link
	// The paths of the page's assets.
	Tokens, Style, BundleStyle, Script, Bundle string
}

// Link leads from the page to another page of the listener.
type Link struct{ Name, Path string }

const (
	// Page is the path of the page of a listener's own document.
	Page = "/docs"
	// Assets is the path below which the pages' scripts and styles are.
	Assets = "/docs/assets"
)

// New returns the pages of a listener's documents. Each page has links to the other pages, and the additional links.
func New(documents []Document, links ...Link) (*Pages, error) {
	assets, err := loadedAssets()
	if err != nil {
		return nil, err
	}
	shown, err := template.ParseFS(own, "page/page.html")
	if err != nil {
		return nil, err
	}
	p := &Pages{assets: assets, pages: map[string][]byte{}}
	for _, document := range documents {
		var out bytes.Buffer
		err := shown.Execute(&out, pageView{
			Document: document, Documents: documents, Links: links, Tokens: assets.Path("tokens.css"), Script: assets.Path("reference.js"), Bundle: assets.Path("swagger-ui-bundle.js"),
			Style: assets.Path("reference.css"), BundleStyle: assets.Path("swagger-ui.css"),
		})
		if err != nil {
			return nil, err
		}
		p.pages[document.Page] = out.Bytes()
	}
	return p, nil
}

// loadedAssets returns the files of the pages. All listeners and servers of a process share them.
var loadedAssets = sync.OnceValues(func() (*asset.Set, error) {
	vendored, err1 := fs.Sub(swaggerUI, "swaggerui")
	page, err2 := fs.Sub(own, "page")
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return asset.New(Assets, asset.Theme(), vendored, page)
})

// ServePage responds with the page at a request's path, which must be that of a document.
func (p *Pages) ServePage(w http.ResponseWriter, r *http.Request) {
	asset.SendPage(w, r, p.pages[r.URL.EscapedPath()])
}

// ServeAsset responds to a request for a script or style. It returns false without a response if there is none.
func (p *Pages) ServeAsset(w http.ResponseWriter, r *http.Request) bool {
	return p.assets.Serve(w, r)
}
