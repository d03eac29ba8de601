package texts

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func load(t *testing.T) *Catalogues {
	t.Helper()
	c, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

func placeholders(text string) []string {
	return slices.Sorted(slices.Values(placeholder.FindAllString(text, -1)))
}

// Every catalog has all keys, with the same placeholders.
func TestCataloguesSayTheSame(t *testing.T) {
	all := load(t).All()
	first := all[0]
	for _, l := range all {
		for key := range first.texts {
			if !l.Has(key) {
				t.Errorf("%s lacks %s", l.Name, key)
			}
		}
		for key, text := range l.texts {
			switch {
			case !first.Has(key):
				t.Errorf("%s has %s, which %s has not", l.Name, key, first.Name)
			case strings.TrimSpace(text) != text || text == "":
				t.Errorf("%s: %s is %q", l.Name, key, text)
			case !slices.Equal(placeholders(text), placeholders(first.texts[key])) && !strings.HasSuffix(key, ".one"):
				t.Errorf("%s: %s has the placeholders %v", l.Name, key, placeholders(text))
			}
		}
	}
}

// The catalogs have exactly the texts that templates and code use.
func TestEveryTextIsThereAndUsed(t *testing.T) {
	catalogue := load(t).All()[0]
	used := map[string]bool{}
	patterns := []*regexp.Regexp{
		regexp.MustCompile(`\(?\bt "([a-z_.A-Z]+)"`),
		regexp.MustCompile(`\.Text\("([a-z_.A-Z]+)"[,)]`),
		regexp.MustCompile(`"(keys\.[a-z]+)"`),
		regexp.MustCompile(`codePage\("([a-z_.]+)"`),
		regexp.MustCompile(`choices\((?:v, )?[a-z]+, "([a-z_.]+)"`),
	}
	prefixed := []struct{ pattern, prefix string }{
		{`\.redirect\("([a-z_]+)"`, "notice."}, {`notify\("([a-z_]+)"`, "notice."}, {`takeCode\((?:v, )?"[a-z_]+", "[a-z/-]+", "([a-z_]+)"`, "notice."}, {`notice(?:, back)? :?= "([a-z_]+)"`, "notice."}, {`notice[A-Z][a-z]+: "([a-z_]+)"`, "notice."}, {`onwardTold\(v, "([a-z_]+)"`, "notice."}, {`\bfailure\(\w+, [a-zA-Z.]+, "([a-z_]+)"`, "failure.#.heading"},
		{`\bkey :?= "([a-z_]+)"`, "failure.#.heading"}, {`\bfailure\(\w+, [a-zA-Z.]+, "([a-z_]+)"`, "failure.#.message"}, {`\bkey = "([a-z_]+)"`, "failure.#.message"},
	}
	counted := regexp.MustCompile(`\.Count\("([a-z_.]+)"`)
	files, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	templates, err := filepath.Glob("../templates/*.html")
	if err != nil || len(templates) == 0 {
		t.Fatal(err, templates)
	}
	for _, file := range append(files, templates...) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, pattern := range patterns {
			for _, found := range pattern.FindAllStringSubmatch(string(raw), -1) {
				used[found[1]] = true
			}
		}
		for _, p := range prefixed {
			for _, found := range regexp.MustCompile(p.pattern).FindAllStringSubmatch(string(raw), -1) {
				if whole := strings.Replace(p.prefix, "#", found[1], 1); whole != p.prefix {
					used[whole] = true
				} else {
					used[p.prefix+found[1]] = true
				}
			}
		}
		for _, found := range counted.FindAllStringSubmatch(string(raw), -1) {
			used[found[1]+".one"], used[found[1]+".other"] = true, true
		}
	}
	for key := range used {
		if !catalogue.Has(key) && !strings.HasSuffix(key, ".") {
			t.Errorf("%s is used, but not in the catalog", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(catalogue.texts)) {
		asked := strings.HasPrefix(key, "error.") || strings.HasPrefix(key, "invalid.") // built from the API's error codes and members
		if !used[key] && !asked {
			t.Errorf("no template and no code uses %s", key)
		}
	}
}

// unmet has the API's error codes that no page shows, and the reasons.
var unmet = map[string]string{
	"NOT_AUTHENTICATED":           "the page leads to the sign-in",
	"REAUTHENTICATION_REQUIRED":   "the page leads to the proof",
	"STEP_UP_REQUIRED":            "the page leads to the proof",
	"ENROLLMENT_REQUIRED":         "the page says which factor to add",
	"ACTIVE_ORGANIZATION_CHANGED": "the pages assert no organization",
	"ACTIVE_ACCOUNT_CHANGED":      "the page is shown again, for the account that is active by now",
	"VALIDATION_ERROR":            "each member has its own text",
}

// Every error code of the API either has a text or is in unmet. No text is for a code that the API does not have.
func TestEveryCodeHasWords(t *testing.T) {
	table, err := os.ReadFile("../../enduser/errors.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`http\.Status[A-Za-z]+, "([A-Z_]+)"|apierror\.Bad\("([A-Z_]+)"`).FindAllStringSubmatch(string(table), -1)
	if len(codes) < 40 {
		t.Fatalf("%d codes were found", len(codes))
	}
	for _, l := range load(t).All() {
		for _, found := range codes {
			code := found[1] + found[2]
			if _, never := unmet[code]; never == l.Has("error."+code) {
				t.Errorf("%s: %s: has a text: %t, shown by a page: %t", l.Name, code, l.Has("error."+code), !never)
			}
		}
	}
	files, err := filepath.Glob("../../enduser/*.go")
	if err != nil {
		t.Fatal(err)
	}
	source := ""
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source += string(raw)
	}
	for key := range load(t).All()[0].texts {
		if code, is := strings.CutPrefix(key, "error."); is && code == strings.ToUpper(code) && !strings.Contains(source, `"`+code+`"`) {
			t.Errorf("%s is for a code that the API does not have", key)
		}
	}
}

func TestChoose(t *testing.T) {
	c := load(t)
	for _, tc := range []struct{ locales, accept, want string }{
		{"", "", "en"},
		{"", "de", "de"},
		{"", "de-AT,de;q=0.9,en;q=0.8", "de"},
		{"", "fr-FR,fr;q=0.9,de;q=0.5,en;q=0.4", "de"},
		{"", "fr", "en"},
		{"", "en;q=0.1,de;q=0.9", "de"},
		{"", "*", "en"},
		{"", "not a header;;;", "en"},
		{"", strings.Repeat("de,", 200), "en"},
		{"de", "en", "de"},
		{"fr de", "en", "de"},
		{"de-CH", "en", "de"},
		{"fr", "de", "de"},
		{"<script>", "de", "de"},
		{strings.Repeat("de ", 200), "en", "en"},
	} {
		if got := c.Choose(tc.locales, tc.accept); got.Name != tc.want {
			t.Errorf("%q and %q: %s, want %s", tc.locales, tc.accept, got.Name, tc.want)
		}
	}
}

func TestText(t *testing.T) {
	l := &Language{Name: "x", texts: map[string]string{"a": "{n} of {m}", "b.one": "one", "b.other": "{n} more"}}
	for got, want := range map[string]string{
		l.Text("a", "n", "{m}", "m", "3"): "{m} of 3", // a placeholder in a value is not filled in
		l.Text("a"):                       "{n} of {m}",
		l.Text("missing"):                 "missing",
		l.Count("b", 1):                   "one",
		l.Count("b", 0):                   "0 more",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
