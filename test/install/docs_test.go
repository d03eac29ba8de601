package install

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// link finds what a page links to, without an anchor.
var link = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)

// Every file that a page links to exists.
func TestLinks(t *testing.T) {
	var pages []string
	for _, name := range []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"} {
		pages = append(pages, filepath.Join(root, name))
	}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") && entry.Name() != "resources.md" { // generated; its patterns look like links
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range link.FindAllStringSubmatch(string(content), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			found++
			if !exists(filepath.Join(filepath.Dir(page), match[1])) {
				t.Errorf("%s links to %s, which is not there", page, match[1])
			}
		}
	}
	if found < 50 {
		t.Errorf("%d links were found: the expression does not find them", found)
	}
}
