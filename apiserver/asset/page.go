package asset

import (
	"net/http"
	"strings"
)

// policy is what a page may do: load its own scripts, styles and pictures and speak to its own listener. No page of ours is framed, posts
// a form, or has a script or style within.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// SendPage answers with a page of the backend or decision listener, under a policy that leaves it nothing but its own assets.
func SendPage(w http.ResponseWriter, r *http.Request, page []byte) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Frame-Options", "DENY")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	if r.Method != http.MethodHead {
		_, _ = w.Write(page) // the client is gone
	}
}

// WantsPage tells whether a request comes from somebody who opened the path in a browser: it names HTML among what it takes.
func WantsPage(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	for _, accepted := range strings.Split(strings.Join(r.Header.Values("Accept"), ","), ",") {
		kind, _, _ := strings.Cut(accepted, ";")
		if strings.EqualFold(strings.TrimSpace(kind), "text/html") {
			return true
		}
	}
	return false
}
