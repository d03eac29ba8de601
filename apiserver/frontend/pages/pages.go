// Package pages serves the web pages on which users sign in, sign up, and manage their account and organizations. The
// package is a client of the end-user API, which it calls in process: every action of a page is a documented operation,
// so that tenants can build their own pages. It reads the configuration (the deployment of a host, and the look of its
// pages), and does not access a store.
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

// Options configures Pages.
type Options struct {
	Snapshots *snapshot.Follower
	// API is the end-user API. Requests that are not for a page are forwarded to it unchanged.
	API http.Handler
	// Keyring derives the keys of form tokens and of the pages' cookie. If it is empty, the keys are random, and form
	// tokens and cookies become invalid when the process ends.
	Keyring *seal.Keyring
	Clock   func() time.Time
	// Random is the source of nonces, and of keys without a keyring; default crypto/rand.
	Random  io.Reader
	Log     logr.Logger
	Metrics *httpapi.Metrics
}

// Pages serves pages, and forwards other requests to the API.
type Pages struct {
	Options
	*wording
	keys   *keys
	router *httpapi.Router
	assets *assets
}

// New returns the part of the end-user listener that serves pages.
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
			v.passOn() // an operation of the API may have the same path
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

// Handler implements frontend.Part. It serves assets, GET and HEAD requests whose Accept header names text/html, and
// POST requests with a form or such an Accept header. If the deployment's pages are disabled, it serves only the paths
// of connections, if the deployment has pages of its own.
func (p *Pages) Handler(r *http.Request) (http.Handler, bool) {
	tenant, loaded := p.tenant(r)
	if handler, serves := p.connectionPages(tenant, r); serves {
		return handler, true
	}
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

// isForm reports whether a request posts a form.
func isForm(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && r.Method == http.MethodPost && media == "application/x-www-form-urlencoded"
}
