package asset

import (
	"net/http"
	"strconv"
	"strings"
)

// policy allows a page to load its own scripts, styles and pictures and to connect to its own listener. No page is
// framed, posts a form, or has an inline script or style.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// SendPage answers with a page of the backend or decision listener, under a policy that allows only its own assets.
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
		_, _ = w.Write(page) // fails only if the client is disconnected
	}
}

// WantsPage reports whether a user opened a path in a browser: the method is GET or HEAD, and Accept names HTML.
func WantsPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && NamesHTML(r)
}

// NamesHTML reports whether a request accepts HTML explicitly, with a weight above 0. Browsers do; programs accept
// anything, or JSON.
func NamesHTML(r *http.Request) bool { return names(r.Header.Values("Accept"), "text/html") }

// names reports whether a list header names the wanted value with a weight above 0 (RFC 9110 12.4.2).
func names(header []string, wanted string) bool {
	for _, taken := range strings.Split(strings.Join(header, ","), ",") {
		name, parameters, _ := strings.Cut(taken, ";")
		if !strings.EqualFold(strings.TrimSpace(name), wanted) {
			continue
		}
		weight := 1.0
		for parameter := range strings.SplitSeq(parameters, ";") {
			if q, is := strings.CutPrefix(strings.TrimSpace(parameter), "q="); is {
				if written, err := strconv.ParseFloat(q, 64); err == nil {
					weight = written
				}
			}
		}
		if weight > 0 {
			return true
		}
	}
	return false
}
