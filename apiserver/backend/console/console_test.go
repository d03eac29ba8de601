package console

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// sources returns the files of the folder page, by name.
func sources(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := fs.WalkDir(embedded, "page", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := embedded.ReadFile(path)
		found[strings.TrimPrefix(path, "page/")] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// texts returns the keys and texts of a language's catalog.
func texts(t *testing.T, source string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^  "([a-z0-9_.]+)": "(.*)",$`).FindAllStringSubmatch(source, -1) {
		if _, twice := found[line[1]]; twice {
			t.Errorf("%s is there twice", line[1])
		}
		found[line[1]] = line[2]
	}
	if lines := strings.Count(source, `": "`); lines != len(found) {
		t.Errorf("%d of %d lines are read", len(found), lines)
	}
	return found
}

// TestEveryKindIsKnown: the filter of resources and the manifests name every kind there is.
func TestEveryKindIsKnown(t *testing.T) {
	files := sources(t)
	_, list, _ := strings.Cut(files["resources.js"], "const kinds = [")
	list, _, _ = strings.Cut(list, "]")
	listed := map[string]bool{}
	for _, name := range regexp.MustCompile(`"(\w+)"`).FindAllStringSubmatch(list, -1) {
		listed[name[1]] = true
	}
	for _, info := range v1alpha1.Kinds {
		if !listed[info.Kind] {
			t.Errorf("resources.js does not list %s", info.Kind)
		}
		if !strings.Contains(files["manifests.js"], "\n  "+info.Kind+": [") {
			t.Errorf("manifests.js has no %s", info.Kind)
		}
	}
	if len(listed) != len(v1alpha1.Kinds) {
		t.Errorf("%d kinds are listed, and there are %d", len(listed), len(v1alpha1.Kinds))
	}
}

func TestEveryLanguageSaysTheSame(t *testing.T) {
	files := sources(t)
	english, german := texts(t, files["text-en.js"]), texts(t, files["text-de.js"])
	names := regexp.MustCompile(`\{\w+\}`)
	for key, text := range english {
		if german[key] == "" {
			t.Errorf("%s has no German text", key)
			continue
		}
		a, b := names.FindAllString(text, -1), names.FindAllString(german[key], -1)
		slices.Sort(a)
		slices.Sort(b)
		if !slices.Equal(a, b) {
			t.Errorf("%s: %v in English, %v in German", key, a, b)
		}
	}
	if len(german) != len(english) {
		t.Errorf("%d texts in German, %d in English", len(german), len(english))
	}
}

func TestEveryTextIsThereAndUsed(t *testing.T) {
	files := sources(t)
	known := texts(t, files["text-en.js"])
	used := map[string]bool{}
	for name, source := range files {
		if strings.HasPrefix(name, "text") {
			source = source[strings.LastIndex(source, "export const number")+1:]
		}
		for _, call := range regexp.MustCompile(`\bt\("([a-z0-9_.]+)"( \+)?`).FindAllStringSubmatch(source, -1) {
			key, computed := call[1], call[2] != ""
			if _, found := known[key]; !found && !computed {
				t.Errorf("%s uses the text %s, which does not exist", name, key)
			}
			for of := range known {
				if of == key || computed && strings.HasPrefix(of, key) {
					used[of] = true
				}
			}
		}
	}
	used["common.never"] = true // text.js itself uses it
	for key := range known {
		if !used[key] {
			t.Errorf("%s is not used", key)
		}
	}
}

// Users choose the names of accounts and resources, so no text is ever parsed as markup or as code.
func TestNothingIsParsedAsMarkup(t *testing.T) {
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|\beval\b|new Function|srcdoc|setHTML|localStorage|sessionStorage|document\.cookie|indexedDB`)
	for name, source := range sources(t) {
		if name == "api.js" { // stores the key for the tab, in one place, if the user chose that
			if got := strings.Count(source, "sessionStorage"); got != 1 {
				t.Errorf("api.js names sessionStorage %d times, want 1", got)
			}
			source = strings.ReplaceAll(source, "sessionStorage", "")
		}
		if found := forbidden.FindString(source); found != "" {
			t.Errorf("%s uses %s", name, found)
		}
		if strings.HasSuffix(name, ".html") {
			if found := regexp.MustCompile(`<style|style=|<script>|https?://|\son[a-z]+=`).FindString(source); found != "" {
				t.Errorf("%s has %s", name, found)
			}
		}
		if strings.HasSuffix(name, ".css") && strings.Contains(source, "url(") {
			t.Errorf("%s loads something", name)
		}
	}
}

func TestTheModulesImportEachOther(t *testing.T) {
	files := sources(t)
	for name, source := range files {
		for _, from := range regexp.MustCompile(`from "([^"]+)"`).FindAllStringSubmatch(source, -1) {
			if module := strings.TrimPrefix(from[1], "./"); files[module] == "" || module == from[1] {
				t.Errorf("%s imports %s", name, from[1])
			}
		}
	}
}

// weight is the largest permitted size of the compressed console, in bytes.
const weight = 60 << 10

func TestTheConsoleIsLight(t *testing.T) {
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	sum := 0
	for _, path := range c.assets.Paths() {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", path, nil)
		r.Header.Set("Accept-Encoding", "gzip")
		if !c.ServeAsset(w, r) {
			t.Fatal(path)
		}
		sum += w.Body.Len()
		unpacked, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := all.ReadFrom(unpacked); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d bytes, %d compressed", all.Len(), sum)
	if sum > weight {
		t.Errorf("%d bytes compressed, at most %d", sum, weight)
	}
}

func TestThePagesAreSentUnderTheirPolicy(t *testing.T) {
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	c.ServePage(w, httptest.NewRequest("GET", Page, nil))
	if !strings.Contains(w.Header().Get("Content-Security-Policy"), "script-src 'self'; style-src 'self'") || w.Header().Get("Cache-Control") != "no-store" {
		t.Error(w.Header())
	}
	for _, name := range []string{"tokens.css", "controls.css", "console.css", "console.js"} {
		if !strings.Contains(w.Body.String(), `"`+c.assets.Path(name)+`"`) {
			t.Errorf("the page does not load %s", name)
		}
	}
}
