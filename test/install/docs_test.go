package install

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

var (
	// link matches the target of a link or a picture.
	link = regexp.MustCompile(`\]\(([^)\s]+)[^)]*\)`)
	// heading matches the text of a heading.
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?)[ #]*$`)
	// anchor matches an HTML anchor.
	anchor = regexp.MustCompile(`<a id="([^"]+)"`)
	// fence matches blocks of code, span matches code within a line: neither has links, headings or anchors.
	fence = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	span  = regexp.MustCompile("`[^`\n]*`")
	// named matches a link within a heading, of which only the text is part of the anchor.
	named = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// pages returns the repository's pages, as paths from its root.
func pages(t *testing.T) []string {
	t.Helper()
	found := []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "llms.txt"}
	err := fs.WalkDir(os.DirFS(root), "docs", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// read returns a page without its blocks of code.
func read(t *testing.T, page string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return fence.ReplaceAllString(string(content), "")
}

// slug returns the anchor that GitHub generates for a heading.
func slug(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, named.ReplaceAllString(text, "$1"))
}

// anchors returns the anchors of a page.
func anchors(content string) map[string]bool {
	found := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(content, -1) {
		base := slug(match[1])
		unique := base
		for i := 1; found[unique]; i++ {
			unique = fmt.Sprintf("%s-%d", base, i)
		}
		found[unique] = true
	}
	for _, match := range anchor.FindAllStringSubmatch(span.ReplaceAllString(content, ""), -1) {
		found[match[1]] = true
	}
	return found
}

// links returns the targets of a page's links within the repository, unchanged.
func links(content string) (targets []string) {
	for _, match := range link.FindAllStringSubmatch(span.ReplaceAllString(content, "code"), -1) {
		if !strings.Contains(match[1], "://") && !strings.HasPrefix(match[1], "mailto:") {
			targets = append(targets, match[1])
		}
	}
	return targets
}

func TestAnchorsAreGitHubs(t *testing.T) {
	got := anchors(strings.Join([]string{
		"# The `--root-key` flag, and [its](x.md) use", "## Sign-in: what's *kept*", "## Twice", "## Twice ##", "### snake_case & more", `| <a id="RATE_LIMITED"></a> |`,
	}, "\n"))
	want := []string{"the---root-key-flag-and-its-use", "sign-in-whats-kept", "twice", "twice-1", "snake_case--more", "RATE_LIMITED"}
	for _, name := range want {
		if !got[name] {
			t.Errorf("#%s is missing", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("anchors %v, want %v", got, want)
	}
}

// Every link of a page leads to an existing file, and to an existing anchor.
func TestLinks(t *testing.T) {
	all := map[string]map[string]bool{}
	for _, page := range pages(t) {
		all[page] = anchors(read(t, page))
	}
	files, places := 0, 0
	for page := range all {
		for _, target := range links(read(t, page)) {
			path, place, has := strings.Cut(target, "#")
			file := page
			if path != "" {
				files++
				file = filepath.Join(filepath.Dir(page), path)
			}
			if !exists(filepath.Join(root, file)) {
				t.Errorf("%s links to %s, which is not there", page, target)
				continue
			}
			known, isPage := all[file]
			switch {
			case !has:
			case !isPage:
				t.Errorf("%s links to a place of %s, which is no page with headings", page, target)
			default:
				places++
				if !known[place] {
					t.Errorf("%s links to %s, where no heading and no anchor is #%s", page, target, place)
				}
			}
		}
	}
	if files < 200 || places < 50 {
		t.Errorf("%d files and %d places were found: the expressions do not find them", files, places)
	}
}

// The README has one row for every kind, with a description and a version.
func TestReadmeDescribesEveryKind(t *testing.T) {
	content := read(t, "README.md")
	for _, info := range v1alpha1.Kinds {
		row := regexp.MustCompile("(?m)^\\| `" + info.Kind + "` \\| .{20,} \\| .*0\\.[0-9]+ \\|$")
		if found := len(row.FindAllString(content, -1)); found != 1 {
			t.Errorf("README.md has %d rows of %s with what it does and since when, want one", found, info.Kind)
		}
	}
}

// The README names the command that runs every test, make test.
func TestReadmeNamesTheTestCommand(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile("(?ms)^```sh$.*?^make test\\b.*?^```$").Match(content) {
		t.Error("README.md has no block of sh with make test")
	}
}

// The index lists every page of docs.
func TestEveryPageIsInTheIndex(t *testing.T) {
	const index = "docs/README.md"
	listed := map[string]bool{index: true}
	for _, target := range links(read(t, index)) {
		path, _, _ := strings.Cut(target, "#")
		listed[filepath.Join("docs", path)] = true
	}
	found := 0
	for _, page := range pages(t) {
		if !strings.HasPrefix(page, "docs/") {
			continue
		}
		found++
		if !listed[page] {
			t.Errorf("%s does not list %s; add a row with the task that the page is for", index, page)
		}
	}
	if found < 40 {
		t.Errorf("%d pages were found in docs", found)
	}
	if !strings.Contains(read(t, "README.md"), "]("+index+")") {
		t.Errorf("README.md does not link to %s", index)
	}
}

// llms.txt has the form of llmstxt.org, and lists every page once, with a description.
func TestEveryPageIsListedForMachines(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "llms.txt"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]int{}
	entry := regexp.MustCompile(`^- \[[^\]]+\]\(([^)]+)\): .{10,}$`)
	titles, summaries := 0, 0
	for number, line := range strings.Split(strings.TrimSpace(string(content)), "\n") {
		match := entry.FindStringSubmatch(line)
		switch {
		case match != nil:
			listed[match[1]]++
		case strings.HasPrefix(line, "# "):
			titles++
		case strings.HasPrefix(line, "> "):
			summaries++
		case strings.HasPrefix(line, "- "):
			t.Errorf("llms.txt:%d is no `- [name](path): what it is about`: %s", number+1, line)
		}
	}
	if titles != 1 || summaries != 1 {
		t.Errorf("%d titles and %d summaries, want one of each", titles, summaries)
	}
	for _, page := range pages(t) {
		if page != "llms.txt" && listed[page] != 1 {
			t.Errorf("llms.txt lists %s %d times", page, listed[page])
		}
	}
}
