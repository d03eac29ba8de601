package pages

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/cardea-iam/cardea/apiserver/httpapi/asset"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/contrast"
)

//go:embed assets/*
var assetFiles embed.FS

// assetsPath is the prefix of the paths of assets. After it come a name, a hash of the content and an extension:
// `style-<hash>.css`.
const assetsPath = "/assets/"

// file is an asset that pages load.
type file struct {
	path, media string
	plain, gzip []byte
}

// assets has the files that all deployments share, and the files that were generated for the brands of deployments.
type assets struct {
	style, script file
	brands        sync.Map // by brandKey
}

// brand has the files that are generated from a deployment's accent color and name.
type brand struct{ style, icon file }

type brandKey struct{ accent, initial string }

func newFile(name, extension, media string, plain []byte) file {
	sum := sha256.Sum256(plain)
	return file{
		path: assetsPath + name + "-" + hex.EncodeToString(sum[:8]) + "." + extension, media: media, plain: plain, gzip: asset.Compress(plain),
	}
}

func loadAssets() (*assets, error) {
	a := &assets{}
	for _, of := range []struct {
		to                     *file
		name, extension, media string
	}{{&a.style, "style", "css", "text/css; charset=utf-8"}, {&a.script, "script", "js", "text/javascript; charset=utf-8"}} {
		raw, err := assetFiles.ReadFile("assets/" + of.name + "." + of.extension)
		if err != nil {
			return nil, err
		}
		*of.to = newFile(of.name, of.extension, of.media, raw)
	}
	return a, nil
}

// absentAccent is the accent color of a deployment that declares none.
const absentAccent = "#2f4fc4"

// The background colors behind links: of the page and of cards, in the light and the dark theme. The style sheet has
// the same colors.
var (
	lightSurfaces = []contrast.Colour{{R: 0xff, G: 0xff, B: 0xff}, {R: 0xf4, G: 0xf5, B: 0xf8}}
	darkSurfaces  = []contrast.Colour{{R: 0x12, G: 0x15, B: 0x1a}, {R: 0x1b, G: 0x1f, B: 0x26}}
)

// brandOf returns the assets of a deployment's brand.
func (a *assets) brandOf(t *account.Tenant) *brand {
	key := brandKey{t.Settings.EffectivePages().AccentColor, initial(t.AppName())}
	if known, found := a.brands.Load(key); found {
		return known.(*brand)
	}
	accent, err := contrast.Parse(key.accent)
	if err != nil {
		accent, _ = contrast.Parse(absentAccent)
	}
	light, dark := contrast.Toward(accent, contrast.Colour{}, lightSurfaces...), contrast.Toward(accent, contrast.White, darkSurfaces...)
	style := fmt.Sprintf(":root{--accent:%s;--link:%s}@media(prefers-color-scheme:dark){:root{--link:%s}}\n", accent, light, dark)
	icon := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="%s"/>`+
		`<text x="16" y="22.5" text-anchor="middle" font-family="system-ui,sans-serif" font-size="19" font-weight="600" fill="#fff">%s</text></svg>`, accent, key.initial)
	made := &brand{}
	for _, of := range []struct {
		to                              *file
		name, extension, media, content string
	}{{&made.style, "brand", "css", "text/css; charset=utf-8", style}, {&made.icon, "icon", "svg", "image/svg+xml", icon}} {
		*of.to = newFile(of.name, of.extension, of.media, []byte(of.content))
	}
	known, _ := a.brands.LoadOrStore(key, made)
	return known.(*brand)
}

// initial returns the first letter or digit of a name in upper case, "" if there is none.
func initial(name string) string {
	for _, r := range name {
		if unicode.IsLetter(r) || unicode.IsNumber(r) {
			return string(unicode.ToUpper(r))
		}
	}
	return ""
}

// assetAt returns the handler of the asset that a request names, and reports whether there is one. A path with the hash
// of another server version or of an earlier brand gets the current content, uncached. While servers of two versions
// run, each may receive requests for assets of the other version.
func (p *Pages) assetAt(r *http.Request, t *account.Tenant) (http.Handler, bool) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil, false
	}
	brand := p.assets.brandOf(t)
	for _, a := range []*file{&p.assets.style, &p.assets.script, &brand.style, &brand.icon} {
		if a.named(r.URL.Path) {
			return http.HandlerFunc(a.serve), true
		}
	}
	return nil, false
}

// named reports whether a path names the asset, with any hash.
func (a *file) named(path string) bool {
	begin, end := strings.LastIndexByte(a.path, '-')+1, strings.LastIndexByte(a.path, '.')
	if len(path) != len(a.path) || path[:begin] != a.path[:begin] || path[end:] != a.path[end:] {
		return false
	}
	return strings.Trim(path[begin:end], "0123456789abcdef") == ""
}

func (a *file) serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", a.media)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Vary", "Accept-Encoding")
	header.Set("Cache-Control", "no-store")
	if r.URL.Path == a.path {
		header.Set("Cache-Control", asset.Forever)
	}
	content := a.plain
	if asset.AcceptsGzip(r) {
		content = a.gzip
		header.Set("Content-Encoding", "gzip")
	}
	header.Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(content) // an error means that the browser disconnected
}
