package apiserver_test

import (
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
)

// source returns the source code of this folder: the files that return OAuth error codes, or all others.
func source(t *testing.T, oauth bool) (text string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || speaksOAuth(path) != oauth {
			return err
		}
		raw, err := os.ReadFile(path)
		text += string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// speaksOAuth reports whether a file of this folder returns OAuth error codes.
func speaksOAuth(path string) bool {
	return strings.HasPrefix(path, filepath.Join("frontend", "oauth")) || strings.HasPrefix(path, filepath.Join("users", "consent"))
}

func page(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// docs/errors.md has an addressable row for each code of the source, with its status, and no other rows.
func TestErrorCodesAreDocumented(t *testing.T) {
	statuses := map[string]int{}
	for status := 400; status < 600; status++ {
		if name := strings.NewReplacer(" ", "", "-", "").Replace(http.StatusText(status)); name != "" {
			statuses["Status"+name] = status
		}
	}
	want := map[string][]int{}
	add := func(code string, status int) {
		if !slices.Contains(want[code], status) {
			want[code] = append(want[code], status)
		}
	}
	text := source(t, false)
	for _, found := range regexp.MustCompile(`http\.(Status\w+), "([A-Z][A-Z_]{4,})"`).FindAllStringSubmatch(text, -1) {
		add(found[2], statuses[found[1]])
	}
	for _, found := range regexp.MustCompile(`apierror\.Bad\("([A-Z_]+)"`).FindAllStringSubmatch(text, -1) {
		add(found[1], http.StatusBadRequest)
	}
	for _, status := range []int{400, 401, 403, 404, 405, 409, 413, 415, 429, 500, 503} {
		add(apierror.DefaultCode(status), status)
	}
	if len(want) < 60 {
		t.Fatalf("%d codes were found", len(want))
	}
	rows := map[string]string{}
	for _, found := range regexp.MustCompile("(?m)^\\| <a id=\"([A-Z_]+)\"></a>`([A-Z_]+)` \\| ([0-9, ]+) \\| .{10,} \\|$").FindAllStringSubmatch(page(t, "errors.md"), -1) {
		if found[1] != found[2] || rows[found[1]] != "" {
			t.Errorf("the row of %s has another anchor, or occurs twice", found[2])
		}
		rows[found[1]] = found[3]
	}
	for _, code := range slices.Sorted(maps.Keys(want)) {
		slices.Sort(want[code])
		if says := strings.ReplaceAll(strings.Trim(fmt.Sprint(want[code]), "[]"), " ", ", "); rows[code] != says {
			t.Errorf("docs/errors.md: the row of %s says %q, want %q", code, rows[code], says)
		}
		delete(rows, code)
	}
	for code := range rows {
		t.Errorf("docs/errors.md: no source file returns %s", code)
	}
}

// docs/errors.md has an addressable row, without statuses, for each OAuth error code of the source, and no other rows.
func TestOAuthErrorCodesAreDocumented(t *testing.T) {
	text := source(t, true)
	rows := regexp.MustCompile("(?m)^\\| <a id=\"([a-z_]+)\"></a>`([a-z_]+)` \\| .{10,} \\|$").FindAllStringSubmatch(page(t, "errors.md"), -1)
	documented := map[string]bool{}
	for _, row := range rows {
		documented[row[1]] = true
		if row[1] != row[2] {
			t.Errorf("the row of %s has another anchor", row[2])
		}
		// Decisions return these three.
		decided := row[1] == "permission_denied" || row[1] == "rate_limited" || row[1] == "insufficient_user_authentication"
		if code := row[1]; !strings.Contains(text, `"`+code+`"`) && !decided {
			t.Errorf("docs/errors.md: no source file returns %s", code)
		}
	}
	coded := regexp.MustCompile(`Code: "([a-z_]+)"|pollAgain\("([a-z_]+)"|= "(authorization_pending)"|"([a-z]+_required|access_denied|invalid_[a-z_]+|unsupported_[a-z_]+|unauthorized_client)"`).FindAllStringSubmatch(text, -1)
	if len(coded) < 20 {
		t.Fatalf("%d codes were found", len(coded))
	}
	for _, found := range coded {
		if code := strings.Join(found[1:], ""); !documented[code] {
			t.Errorf("docs/errors.md has no row of %s", code)
		}
	}
}

// Each reason of a condition has one place that can be linked to.
func TestConditionReasonsAreDocumented(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "api", "v1alpha1", "conditions.go"))
	if err != nil {
		t.Fatal(err)
	}
	reasons := regexp.MustCompile(`(?m)^\tReason\w+ += "(\w+)"$`).FindAllStringSubmatch(string(raw), -1)
	if len(reasons) < 25 {
		t.Fatalf("%d reasons were found", len(reasons))
	}
	text := page(t, "operations.md")
	for _, found := range reasons {
		place := regexp.MustCompile(`<a id="reason-` + strings.ToLower(found[1]) + `"></a>` + "`?" + found[1] + "\\b")
		if n := len(place.FindAllString(text, -1)); n != 1 {
			t.Errorf("docs/operations.md has %d anchors of %s, want 1", n, found[1])
		}
	}
}
