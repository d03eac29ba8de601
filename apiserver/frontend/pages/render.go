package pages

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cardea-iam/cardea/apiserver/frontend/pages/texts"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/text"
)

//go:embed templates/*.html
var templateFiles embed.FS

// parts are the templates that every page includes.
var parts = []string{"templates/base.html", "templates/parts.html"}

// wording has the texts and templates of pages.
type wording struct {
	texts     *texts.Catalogues
	templates map[string]map[string]parsing // by language and name
}

// parsing returns a page's template. It parses the page with its first use, because the templates of all pages are half
// of the memory of a server that only makes decisions, and each garbage collection reads all of it.
type parsing func() (*template.Template, error)

// loadWording reads the embedded texts and lists the templates, once per process for all its servers.
var loadWording = sync.OnceValues(func() (*wording, error) {
	catalogues, err := texts.Load()
	if err != nil {
		return nil, err
	}
	w := &wording{texts: catalogues, templates: map[string]map[string]parsing{}}
	for _, language := range catalogues.All() {
		if w.templates[language.Name], err = templatesIn(language); err != nil {
			return nil, err
		}
	}
	return w, nil
})

// templatesIn returns the pages in one language, by their names.
func templatesIn(language *texts.Language) (map[string]parsing, error) {
	files, err := templateFiles.ReadDir("templates")
	if err != nil {
		return nil, err
	}
	out := map[string]parsing{}
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".html")
		out[name] = sync.OnceValues(func() (*template.Template, error) {
			page, err := template.New("parts").Funcs(functions(language)).ParseFS(templateFiles, append(slices.Clone(parts), path.Join("templates", file.Name()))...)
			if err != nil {
				return nil, fmt.Errorf("page %s: %w", name, err)
			}
			return page, nil
		})
	}
	return out, nil
}

// functions returns the functions of templates in a language. For example, t returns a text by its key, and field an
// input of a form.
func functions(language *texts.Language) template.FuncMap {
	return template.FuncMap{
		"t":      language.Text,
		"count":  func(key string, n int) string { return language.Count(key, n) },
		"date":   func(at time.Time) string { return at.Format(language.Text("format.date")) },
		"time":   func(at time.Time) string { return at.UTC().Format(language.Text("format.time")) },
		"rfc":    func(at time.Time) string { return at.UTC().Format(time.RFC3339) },
		"field":  newField,
		"tick":   newBox,
		"grant":  grantOf,
		"choice": newChoice,
		"named":  func(m enduserapi.MemberAccount) bool { return m.FirstName != "" || m.LastName != "" },
		// Templates show every name with one of these two functions.
		"isolate": text.Isolate, "printable": text.Printable,
		"person": text.Person,
	}
}

// render sends the page with a name. own is the data of the page itself.
func (v *visit) render(name, title string, own any) error {
	raw, err := v.compose(name, title, own)
	if err != nil {
		return err
	}
	v.send(v.status, raw)
	return nil
}

func (v *visit) compose(name, title string, own any) ([]byte, error) {
	parse, found := v.templates[v.text.Name][name]
	if !found {
		return nil, fmt.Errorf("there is no page %q", name)
	}
	page, err := parse()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := page.ExecuteTemplate(&out, "base", v.view(title, own)); err != nil {
		return nil, fmt.Errorf("page %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// send sends a page.
func (v *visit) send(status int, raw []byte) {
	v.sendHeader()
	header := v.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Language", v.text.Name)
	header.Set("Content-Length", strconv.Itoa(len(raw)))
	v.WriteHeader(status)
	if v.r.Method != http.MethodHead {
		_, _ = v.Write(raw) // an error means that the browser disconnected
	}
}

// sendHeader sets the headers of every page. They forbid caching, also for the back button, and framing. They permit
// only the page's own assets and the declared logo.
func (v *visit) sendHeader() {
	header := v.Header()
	v.api.passCookies(header)
	v.saveState(header)
	header.Set("Cache-Control", "no-store")
	header.Add("Vary", "Accept, Accept-Language, Cookie")
	header.Set("Content-Security-Policy", v.contentPolicy())
	header.Set("X-Frame-Options", "DENY")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin") // no-referrer makes browsers send `Origin: null` with forms
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Permissions-Policy", "publickey-credentials-get=(self), publickey-credentials-create=(self)")
	if v.tenant != nil && v.secure() {
		header.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// contentPolicy returns the page's Content-Security-Policy. form-action includes the declared origins, because it also
// applies to redirects after a form. It is omitted if such a redirect may lead to a client of an authorization server,
// because a client may be at any origin.
func (v *visit) contentPolicy() string {
	images, targets := "'self'", "'self'"
	if v.tenant != nil {
		if logo, err := url.Parse(v.tenant.Settings.EffectivePages().LogoURL); err == nil && logo.Host != "" {
			images += " " + logo.Scheme + "://" + logo.Host
		}
		for _, origin := range v.tenant.Settings.AllowedOrigins {
			targets += " " + origin
		}
	}
	forms := "; form-action " + targets
	if authorizes(v) {
		forms = ""
	}
	return "default-src 'none'; style-src 'self'; script-src 'self'; img-src " + images + forms + "; frame-ancestors 'none'; base-uri 'none'"
}
