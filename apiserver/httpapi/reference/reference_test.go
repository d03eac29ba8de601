package reference

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func TestRendererIsTheNamedVersion(t *testing.T) {
	sums, err := os.ReadFile("swaggerui/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(sums)), "\n")
	for _, line := range lines {
		want, name, _ := strings.Cut(line, "  ")
		content, err := fs.ReadFile(swaggerUI, "swaggerui/"+name)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != want {
			t.Errorf("%s is not what was vendored: %s", name, got)
		}
	}
	if entries, _ := fs.ReadDir(swaggerUI, "swaggerui"); len(entries) != len(lines) {
		t.Errorf("%d files are served, %d have a checksum", len(entries), len(lines))
	}
}

func TestPageLinksItsDocumentAndOthers(t *testing.T) {
	pages, err := New([]Document{
		{Name: "Mine", Page: Page, JSON: "/openapi.json"}, {Name: "Theirs", Page: "/other/docs", JSON: "/other/openapi.json", Elsewhere: "Tried <elsewhere>."},
	}, Link{Name: "Console", Path: "/console"})
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) string {
		w := httptest.NewRecorder()
		pages.ServePage(w, httptest.NewRequest("GET", path, nil))
		return w.Body.String()
	}
	mine, theirs := get("/docs"), get("/other/docs")
	for _, want := range []string{`data-document="/openapi.json" data-try>`, `<a href="/docs" aria-current="page">Mine</a>`, `<a href="/other/docs">Theirs</a>`, `<a href="/console">Console</a>`} {
		if !strings.Contains(mine, want) {
			t.Errorf("no %s in %s", want, mine)
		}
	}
	for _, want := range []string{`data-document="/other/openapi.json">`, `<a href="/other/docs" aria-current="page">Theirs</a>`, "Tried &lt;elsewhere&gt;."} {
		if !strings.Contains(theirs, want) {
			t.Errorf("no %s in %s", want, theirs)
		}
	}
	for _, path := range pages.assets.Paths() {
		if !strings.HasPrefix(path, Assets+"/") {
			t.Errorf("%s is not below %s", path, Assets)
		}
		w := httptest.NewRecorder()
		if !pages.ServeAsset(w, httptest.NewRequest("GET", path, nil)) || w.Code != 200 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	for _, page := range []string{mine, theirs} {
		for _, inline := range []string{"<style", "<script>", "onclick", "style=", "http://", "https://"} {
			if strings.Contains(page, inline) {
				t.Errorf("%s is in a page", inline)
			}
		}
	}
}
