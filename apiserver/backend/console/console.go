// Package console serves the HTML pages of the backend listener: the page at its root, and the console.
package console

import (
	"bytes"
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"sync"

	"github.com/cardea-iam/cardea/apiserver/httpapi/asset"
)

//go:embed page
var embedded embed.FS

const (
	// Page is the path of the console.
	Page = "/console"
	// Assets is the path below which scripts and styles are.
	Assets = "/console/assets"
)

// Console serves the pages. All of them are static: the browser reads the displayed data from the backend API, with the
// user's key.
type Console struct {
	assets        *asset.Set
	welcome, page []byte
}

// New returns the Console. All servers of a process share it.
func New() (*Console, error) { return loaded() }

var loaded = sync.OnceValues(load)

func load() (*Console, error) {
	folder, err := fs.Sub(embedded, "page")
	if err != nil {
		return nil, err
	}
	assets, err := asset.New(Assets, asset.Theme(), folder)
	if err != nil {
		return nil, err
	}
	c := &Console{assets: assets}
	if c.welcome, err = c.render(folder, "welcome.html"); err != nil {
		return nil, err
	}
	c.page, err = c.render(folder, "console.html")
	return c, err
}

// render executes the template of a page, in which `asset` is the path of a file.
func (c *Console) render(folder fs.FS, name string) ([]byte, error) {
	page, err := template.New(name).Funcs(template.FuncMap{"asset": c.assets.Path}).ParseFS(folder, name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = page.Execute(&out, nil)
	return out.Bytes(), err
}

// ServeWelcome answers with the page that says what the listener is.
func (c *Console) ServeWelcome(w http.ResponseWriter, r *http.Request) {
	asset.SendPage(w, r, c.welcome)
}

// ServePage answers with the console.
func (c *Console) ServePage(w http.ResponseWriter, r *http.Request) {
	asset.SendPage(w, r, c.page)
}

// ServeAsset answers a request for a script or style, and reports whether the file exists.
func (c *Console) ServeAsset(w http.ResponseWriter, r *http.Request) bool {
	return c.assets.Serve(w, r)
}
