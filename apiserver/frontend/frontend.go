// Package frontend is the end-user listener: it routes each request to the authorization server of an app, to a hosted
// page, or to the end-user API.
package frontend

import "net/http"

// Part serves some requests of the listener.
type Part interface {
	// Handler returns what serves a request, and reports whether the part serves it.
	Handler(r *http.Request) (http.Handler, bool)
}

// New returns the handler of the listener: the first part that serves a request does, and the API serves all others.
func New(api http.Handler, parts ...Part) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, part := range parts {
			if handler, serves := part.Handler(r); serves {
				handler.ServeHTTP(w, r)
				return
			}
		}
		api.ServeHTTP(w, r)
	})
}
