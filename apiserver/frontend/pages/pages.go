// Package pages serves what people see in a browser: pages to sign in, sign up, and look after their account and
// organizations. It is a client of the end-user API, which it asks in process: whatever a page does is a documented
// operation, so that a tenant can build pages of its own. It knows the configuration (which deployment a host is, and
// how its pages look) and no store.
package pages

import (
	"crypto/rand"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/httpapi/asset"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/seal"
)

// Options are what the pages need.
type Options struct {
	Snapshots *snapshot.Follower
	// API is the end-user API. Requests that are not for a page go there as they are.
	API http.Handler
	// Keyring is what the keys of forms and of the pages' cookie are derived from. Where it is empty they are random, and
	// forms end with the process.
	Keyring *seal.Keyring
	Clock   func() time.Time
	// Random makes nonces; default crypto/rand.
	Random  io.Reader
	Log     logr.Logger
	Metrics *httpapi.Metrics
}

// Pages serves pages, and passes on what is for the API.
type Pages struct {
	Options
	*wording
	keys   *keys
	router *httpapi.Router
	assets *assets
}

// New returns the handler of the end-user listener: pages before the API.
func New(opts Options) (*Pages, error) {
	if opts.Random == nil {
		opts.Random = rand.Reader
	}
	p := &Pages{Options: opts}
	var err error
	if p.keys, err = newKeys(opts.Keyring, opts.Random); err != nil {
		return nil, err
	}
	if p.wording, err = loadWording(); err != nil {
		return nil, err
	}
	if p.assets, err = loadAssets(); err != nil {
		return nil, err
	}
	p.router = httpapi.New(p.unrouted)
	for path, page := range pages {
		p.route(path, page)
	}
	return p, nil
}

// route registers a page under the methods that it takes.
func (p *Pages) route(path string, page page) {
	handle := func(_ http.ResponseWriter, r *http.Request) {
		v := visitOf(r)
		if r.Method == http.MethodPost && !isForm(r) {
			v.passOn() // a path can be a page's and an operation's
			return
		}
		v.serve(r, page)
	}
	p.Metrics.Expect("GET " + path)
	p.router.HandleFunc("GET "+path, handle)
	if page.post != nil {
		p.Metrics.Expect("POST " + path)
		p.router.HandleFunc("POST "+path, handle)
	}
}

// Handler serves pages and their assets: GET requests of browsers whose Accept names text/html, and forms that browsers
// post. Deployments whose pages are disabled have none.
func (p *Pages) Handler(r *http.Request) (http.Handler, bool) {
	tenant, loaded := p.tenant(r)
	if tenant != nil && tenant.Settings.EffectivePages().Disabled {
		return nil, false
	}
	if tenant != nil && strings.HasPrefix(r.URL.Path, assetsPath) {
		return p.assetAt(r, tenant)
	}
	shows := asset.WantsPage(r)
	posts := r.Method == http.MethodPost && (isForm(r) || asset.NamesHTML(r))
	if !shows && !posts {
		return nil, false
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, tenant, loaded) }), true
}

// serve serves a page.
func (p *Pages) serve(w http.ResponseWriter, r *http.Request, tenant *account.Tenant, loaded bool) {
	v := p.visit(w, r, tenant)
	r = r.WithContext(withVisit(r.Context(), v))
	v.r = r
	defer v.End(r, v)
	switch {
	case !loaded:
		failure(v, http.StatusServiceUnavailable, "starting")
	case tenant == nil:
		failure(v, http.StatusNotFound, "unknown_host")
	default:
		p.router.ServeHTTP(v, r)
	}
}

// tenant returns the deployment of a request's host, nil if there is none. loaded reports whether the configuration is
// loaded.
func (p *Pages) tenant(r *http.Request) (tenant *account.Tenant, loaded bool) {
	select {
	case <-p.Snapshots.Loaded():
	default:
		return nil, false
	}
	configuration := p.Snapshots.Current()
	entry, found := configuration.ByHost(site.Host(r))
	if !found {
		return nil, true
	}
	return account.NewTenant(configuration, entry), true
}

// unrouted handles paths without a page: those of the API, and unknown ones.
func (p *Pages) unrouted(_ http.ResponseWriter, r *http.Request, allow string) {
	v := visitOf(r)
	switch {
	case r.Method == http.MethodPost && allow != "" && isForm(r):
		v.Header().Set("Allow", allow)
		failure(v, http.StatusMethodNotAllowed, "method")
	case r.Method == http.MethodPost:
		p.API.ServeHTTP(v.ResponseWriter, r)
	default:
		v.passOn()
	}
}

// isForm reports that a browser posts a form.
func isForm(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && r.Method == http.MethodPost && media == "application/x-www-form-urlencoded"
}
