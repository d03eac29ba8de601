package asset

import (
	"compress/gzip"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func folder(files map[string]string) fstest.MapFS {
	made := fstest.MapFS{}
	for name, content := range files {
		made[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return made
}

func TestFilesAreServedBelowTheirHash(t *testing.T) {
	first, err := New("/x/assets", folder(map[string]string{"a.js": "let a", "page.html": "<p>"}), folder(map[string]string{"b.css": "b {}"}))
	if err != nil {
		t.Fatal(err)
	}
	same, _ := New("/x/assets", folder(map[string]string{"b.css": "b {}", "a.js": "let a"}))
	other, _ := New("/x/assets", folder(map[string]string{"a.js": "let A"}), folder(map[string]string{"b.css": "b {}"}))
	if a, b := first.Path("a.js"), other.Path("a.js"); a == b {
		t.Errorf("other content has the same path: %s", a)
	}
	paths := first.Paths()
	slices.Sort(paths)
	if !slices.Equal(paths, []string{first.root + "a.js", first.root + "b.css"}) || !strings.HasPrefix(first.root, "/x/assets/") {
		t.Errorf("paths %v: a page is no asset", paths)
	}
	if len(same.Paths()) != 2 {
		t.Error(same.Paths())
	}
	if _, err := New("/x", folder(map[string]string{"a.js": "1"}), folder(map[string]string{"a.js": "2"})); err == nil {
		t.Error("two files of one name are accepted")
	}
}

func TestAssetIsImmutableAndTyped(t *testing.T) {
	content := strings.Repeat("let a = 1;\n", 100)
	s, err := New("/assets", folder(map[string]string{"a.js": content, "b.css": "b {}"}))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, coding string) (*httptest.ResponseRecorder, bool) {
		w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, nil)
		if coding != "" {
			r.Header.Set("Accept-Encoding", coding)
		}
		found := s.Serve(w, r)
		return w, found
	}
	for coding, compressed := range map[string]bool{"": false, "gzip": true, "br, GZIP;q=0.5": true, "gzip;q=0": false, "identity": false} {
		w, found := ask("GET", s.Path("a.js"), coding)
		if !found || w.Header().Get("Cache-Control") != Forever || w.Header().Get("Content-Type") != "text/javascript; charset=utf-8" || w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: %v %v", coding, found, w.Header())
		}
		body := io.Reader(w.Body)
		if got := w.Header().Get("Content-Encoding"); (got == "gzip") != compressed {
			t.Errorf("%q: encoding %q", coding, got)
		}
		if compressed {
			if w.Body.Len() >= len(content) {
				t.Errorf("%d bytes of %d", w.Body.Len(), len(content))
			}
			body, _ = gzip.NewReader(w.Body)
		}
		if got, err := io.ReadAll(body); err != nil || string(got) != content {
			t.Errorf("%q: %v, %d bytes", coding, err, len(got))
		}
	}
	if w, found := ask("HEAD", s.Path("b.css"), ""); !found || w.Body.Len() != 0 || w.Header().Get("Content-Length") != "4" {
		t.Error(found, w.Header(), w.Body)
	}
	for _, path := range []string{"/assets/a.js", "/assets/0000000000000000/a.js", s.root, s.root + "c.js", s.root + "../a.js", s.root + "%61.js"} {
		if _, found := ask("GET", path, ""); found {
			t.Errorf("%s is served", path)
		}
	}
}

func TestPagePolicyAllowsOnlyOwnAssets(t *testing.T) {
	w := httptest.NewRecorder()
	SendPage(w, httptest.NewRequest("GET", "/", nil), []byte("<p>hello"))
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
		"Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if w.Body.String() != "<p>hello" {
		t.Error(w.Body)
	}
}

func TestWantsPage(t *testing.T) {
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "application/json": false, "text/html": true, "application/xhtml+xml, Text/HTML;q=0.9, */*;q=0.8": true, "text/htmlx": false,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
		if got := WantsPage(r); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
	r := httptest.NewRequest("POST", "/", nil)
	r.Header.Set("Accept", "text/html")
	if WantsPage(r) {
		t.Error("a POST wants no page")
	}
}
