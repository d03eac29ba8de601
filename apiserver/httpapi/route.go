// Package httpapi routes requests for every listener. It matches the escaped path, refuses other methods with the
// methods of the path, and never redirects.
package httpapi

import (
	"net/http"
	"path"
	"strings"
)

// Router routes to handlers by the patterns of http.ServeMux.
type Router struct {
	// mux serves requests. Requests without a route go to unrouted, so that a request is matched once.
	mux *http.ServeMux
	// bare has the same routes and no fallback. It knows the methods of a path.
	bare *http.ServeMux
	// refuse responds to requests without a route. allow lists the methods of the path, "" if there is no such path.
	refuse func(w http.ResponseWriter, r *http.Request, allow string)
}

// New returns a Router that uses refuse for requests without a route.
func New(refuse func(w http.ResponseWriter, r *http.Request, allow string)) *Router {
	router := &Router{mux: http.NewServeMux(), bare: http.NewServeMux(), refuse: refuse}
	router.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = ""
		router.unrouted(w, r)
	})
	return router
}

// HandleFunc registers a handler for a pattern.
func (router *Router) HandleFunc(pattern string, handler http.HandlerFunc) {
	router.mux.HandleFunc(pattern, handler)
	router.bare.HandleFunc(pattern, handler)
}

// ServeHTTP routes a request.
func (router *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !routable(r) {
		router.unrouted(w, r)
		return
	}
	router.mux.ServeHTTP(w, r)
}

// routable reports whether the mux may handle a request. It would clean some paths and redirect, but a redirect doubles
// the request and loses the body of a write.
func routable(r *http.Request) bool {
	escaped := r.URL.EscapedPath()
	return r.Method != http.MethodConnect && strings.HasPrefix(escaped, "/") && (escaped == "/" || path.Clean(escaped) == escaped)
}

func (router *Router) unrouted(w http.ResponseWriter, r *http.Request) {
	router.refuse(w, r, router.Allow(r))
}

// Allow returns the methods of a request's path if the request's own is not among them, else "".
func (router *Router) Allow(r *http.Request) string {
	if !routable(r) {
		return ""
	}
	handler, pattern := router.bare.Handler(r)
	if pattern != "" {
		return ""
	}
	probe := &headerProbe{header: http.Header{}}
	handler.ServeHTTP(probe, r)
	if probe.status != http.StatusMethodNotAllowed {
		return ""
	}
	return probe.header.Get("Allow")
}

// headerProbe receives a response of the mux without sending it.
type headerProbe struct {
	header http.Header
	status int
}

func (p *headerProbe) Header() http.Header         { return p.header }
func (p *headerProbe) Write(b []byte) (int, error) { return len(b), nil }
func (p *headerProbe) WriteHeader(status int)      { p.status = status }
