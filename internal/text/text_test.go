package text

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestName(t *testing.T) {
	for in, want := range map[string]string{
		"Free plan":                     "Free plan",
		"  Free plan\t":                 "Free plan",
		"名前":                            "名前",
		"👩\u200d👩\u200d👧":               "👩\u200d👩\u200d👧",
		strings.Repeat("ä", MaxName):    strings.Repeat("ä", MaxName),
		strings.Repeat("ä", MaxName+1):  "",
		"":                              "",
		" \t ":                          "",
		"two\nlines":                    "",
		"two\u2028lines":                "",
		"bell\a":                        "",
		"\u202egnp.exe":                 "",
		"zero\u200bwidth":               "",
		"word\u2060joiner":              "",
		"bom\ufeff!":                    "",
		"c1\u0085x":                     "",
		"isolate\u2067x":                "",
		string([]byte{0xff, 'a', 0xfe}): "",
	} {
		got, err := Name(in)
		if want == "" && err == nil || want != "" && (err != nil || got != want) {
			t.Errorf("Name(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestDescription(t *testing.T) {
	for in, want := range map[string]bool{
		"":                                    true,
		"line one\r\nline two":                true,
		strings.Repeat("x", MaxDescription):   true,
		strings.Repeat("x", MaxDescription+1): false,
		"tab\tstop":                           false,
		"\u2066isolate":                       false,
	} {
		if _, err := Description(in); (err == nil) != want {
			t.Errorf("Description(%q): %v", in, err)
		}
	}
}

// TestNamesAreInNormalFormC: texts that look the same are stored as the same text.
func TestNamesAreInNormalFormC(t *testing.T) {
	const composed, decomposed = "Zo\u00eb", "Zoe\u0308"
	for name, rule := range map[string]func(string) (string, error){"name": Name, "description": Description} {
		if got, err := rule(" " + decomposed + " "); err != nil || got != composed {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got, err := Name(strings.Repeat("e\u0308", MaxName)); err != nil || utf8.RuneCountInString(got) != MaxName {
		t.Errorf("%d characters as they are read: %v", MaxName, err)
	}
}
