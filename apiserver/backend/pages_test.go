package backend

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// opens requests a path as a browser does.
func (s served) opens(path string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", path, nil)
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	s.ServeHTTP(w, r)
	return w
}

var assetPath = regexp.MustCompile(`(?:src|href)="(/[a-z]+/assets/[^"]+)"`)

func TestPagesLoadTheirAssets(t *testing.T) {
	backend := serve(t, failing{})
	for _, path := range []string{"/", "/docs", "/end-user/docs", "/decision/docs", "/console"} {
		page := backend.opens(path)
		if page.Code != 200 || page.Header().Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(page.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %d %v", path, page.Code, page.Header())
		}
		loads := assetPath.FindAllStringSubmatch(page.Body.String(), -1)
		if len(loads) < 2 {
			t.Errorf("%s loads %v", path, loads)
		}
		for _, load := range loads {
			if got := backend.opens(load[1]); got.Code != 200 || !strings.Contains(got.Header().Get("Cache-Control"), "immutable") {
				t.Errorf("%s of %s: %d %v", load[1], path, got.Code, got.Header())
			}
		}
		for _, link := range regexp.MustCompile(`<a href="(/[^"]*)"`).FindAllStringSubmatch(page.Body.String(), -1) {
			if got := backend.opens(link[1]); got.Code != 200 {
				t.Errorf("%s leads to %s: %d", path, link[1], got.Code)
			}
		}
	}
	for _, path := range []string{"/docs/", "/console/", "/docs/assets", "/docs/assets/x/swagger-ui.css", "/console/assets/x/tokens.css"} {
		if got := backend.opens(path); got.Code != 404 || got.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s", path, got.Code, got.Body)
		}
	}
}

// At the root, browsers get a page and other clients a 404.
func TestRootIsNotFoundForAPIClients(t *testing.T) {
	backend := serve(t, failing{})
	for _, method := range []string{"GET", "POST", "DELETE"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, "/", nil)
		if method != "GET" {
			r.Header.Set("Accept", "text/html")
		}
		backend.ServeHTTP(w, r)
		if w.Code != 404 || !strings.Contains(w.Body.String(), `"request_id"`) {
			t.Errorf("%s /: %d %s", method, w.Code, w.Body)
		}
	}
}
