package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestGoodTypesHaveNoFault(t *testing.T) {
	expectNone(t, filepath.Join("testdata", "good"))
}

func TestOurTypesHaveNoFault(t *testing.T) {
	expectNone(t, filepath.Join("..", "..", "api", "v1alpha1"))
}

func expectNone(t *testing.T, folder string) {
	t.Helper()
	faults, err := lint(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
}

func TestEveryRuleCanFail(t *testing.T) {
	path := filepath.Join("testdata", "bad", "types.go")
	faults, err := lint(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	found := map[int][]string{}
	for _, f := range faults {
		found[f.position.Line] = append(found[f.position.Line], f.message)
	}
	for line, want := range wants(t, path) {
		if got := found[line]; len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s:%d: faults %q, want one with %q", path, line, got, want)
		}
		delete(found, line)
	}
	for line, unexpected := range found {
		t.Errorf("%s:%d: unexpected %q", path, line, unexpected)
	}
}

// wants returns the `// want "..."` comments of a file by line. A fault is reported at the first line of its
// declaration, which is the line of the comment.
func wants(t *testing.T, path string) map[int]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	found := map[int]string{}
	scanner := bufio.NewScanner(file)
	for line := 1; scanner.Scan(); line++ {
		if _, quoted, ok := strings.Cut(scanner.Text(), "// want "); ok {
			text, err := strconv.Unquote(quoted)
			if err != nil {
				t.Fatalf("%s:%d: %v", path, line, err)
			}
			found[line] = text
		}
	}
	return found
}

func TestAMissingFolderIsAnError(t *testing.T) {
	if _, err := lint(filepath.Join("testdata", "none")); err == nil {
		t.Error("no error")
	}
}
