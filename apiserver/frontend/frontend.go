// Package frontend is the end-user listener: it routes each request to the authorization server of an app, to a hosted
// page, or to the end-user API.
package frontend

import "net/http"

// Part serves some requests of the listener.
type Part interface {
	// Handler returns the handler of a request, and reports whether the part serves the request.
	Handler(r *http.Request) (http.Handler, bool)
}

// New returns the handler of the listener. The first part that serves a request handles it. The API handles all other
// requests.
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
