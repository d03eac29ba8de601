package account_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cardea-iam/cardea/apiserver/users/account"
)

func TestSlug(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":                             "",
		"   ":                          "",
		"!?":                           "",
		"日本":                           "",
		"Acme":                         "acme",
		"Acme Corp., Ltd.":             "acme-corp-ltd",
		"--Acme--":                     "acme",
		"Crème Brûlée":                 "creme-brulee",
		"ÅNGSTRÖM":                     "angstrom",
		"ﬁne":                          "fine",
		"a\u0301":                      "a",
		"a\x00b\nc":                    "a-b-c",
		"a/../b":                       "a-b",
		"4 you":                        "4-you",
		"a 日本 b":                       "a-b",
		"\xffbroken\xfe":               "broken",
		strings.Repeat("x", 100):       strings.Repeat("x", 48),
		strings.Repeat("x", 47) + " y": strings.Repeat("x", 47),
		strings.Repeat("x", 46) + " y": strings.Repeat("x", 46) + "-y",
		strings.Repeat("a ", 50):       strings.TrimSuffix(strings.Repeat("a-", 24), "-"),
	} {
		if got := account.Slug(name); got != want {
			t.Errorf("Slug(%q) = %q, want %q", name, got, want)
		}
	}
}

var label = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`)

func checkSlug(t interface{ Fatalf(string, ...any) }, name string) {
	slug := account.Slug(name)
	if !label.MatchString(slug) || len(slug) > 48 {
		t.Fatalf("Slug(%q) = %q, %d bytes", name, slug, len(slug))
	}
	if again := account.Slug(slug); again != slug {
		t.Fatalf("Slug(%q) = %q, whose own slug is %q", name, slug, again)
	}
}

func TestSlugIsEmptyOrDNSLabelAndIdempotent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		checkSlug(t, rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z0-9 -]{30,70}`)).Draw(t, "name"))
	})
}

func FuzzSlug(f *testing.F) {
	for _, seed := range []string{"", "Acme", "--", strings.Repeat("x", 47) + " yz", strings.Repeat("ǆ", 30), "\xff\x00İ", "ﷺ"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) { checkSlug(t, name) })
}
