package terminal

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestClean(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"plain", "Acme – Bücher ✓", "Acme – Bücher ✓"},
		{"escape sequence", "a\x1b[2Jb", `a\u001b[2Jb`},
		{"eight-bit control sequence", "a\u009b2Jb", `a\u009b2Jb`},
		{"operating system command", "\x1b]0;title\a", `\u001b]0;title\u0007`},
		{"direction", "user\u202etxt.exe", `user\u202etxt.exe`},
		{"invisible", "ad\u200bmin", `ad\u200bmin`},
		{"beyond the basic plane", "a\U000e0041", `a\udb40\udc41`},
		{"line breaks", "one\ntwo\r\nthree\tfour", "one two  three four"},
		{"no UTF-8", "a\xffb", `a\ufffdb`},
	} {
		if got := Clean(tc.text); got != tc.want {
			t.Errorf("%s: Clean(%q) = %q, want %q", tc.name, tc.text, got, tc.want)
		}
	}
}

func TestCleanJSONStaysTheSameValue(t *testing.T) {
	want := map[string]string{"name": "a\u009b2J\u202e\x7f\U000e0041 b\n"}
	text, err := json.MarshalIndent(want, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	cleaned := CleanJSON(text)
	for _, r := range cleaned {
		if hostile(r) && r != '\n' {
			t.Errorf("%U is in %q", r, cleaned)
		}
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(cleaned), &got); err != nil {
		t.Fatal(err)
	}
	if got["name"] != want["name"] {
		t.Errorf("read back %q, want %q", got["name"], want["name"])
	}
}

func TestYAMLStaysTheSameValue(t *testing.T) {
	long := strings.Repeat("word ", 60)
	for _, text := range []string{
		"a\u009b2J\x1b[1m\x7f\U000e0041 b\n", "user\u202etxt.exe", "ad\u200bmin", "\ufeffbegins", "two\nlines\u2066 and\u2069\nmore\n", "tab\tand\nlines",
		"\u2028", "a\u0085b", `ends with \` + "\u200b", `says "\x01mark"`, "mark\u200bmark0", "\x01mark", long + "\u202e" + long, " \u200b ", "# \u200b", "\u00ad", "no \ufffd text",
		"plain", "Bücher ✓", "two\nlines\n", "yes", "12", "", long,
	} {
		want := map[string]any{"name": text, "of" + text: []any{text, 12.5, true, nil, map[string]any{text: text}}}
		written, err := YAML(want)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		for _, r := range string(written) {
			if hostile(r) && r != '\n' {
				t.Errorf("%U is in %q", r, written)
			}
		}
		var got map[string]any
		if err := yaml.Unmarshal(written, &got); err != nil {
			t.Errorf("%q: %v in %s", text, err, written)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("read back %q, want %q, of %s", got, want, written)
		}
	}
}

// Harmless text is not changed: blocks stay blocks, and numbers keep their digits.
func TestYAMLOfPlainTextIsPlain(t *testing.T) {
	written, err := YAML(map[string]any{"id": json.Number("9007199254740993"), "text": "two\nlines\n", "word": "Bücher"})
	if want := "id: 9007199254740993\ntext: |\n  two\n  lines\nword: Bücher\n"; err != nil || string(written) != want {
		t.Errorf("got %s (%v), want %s", written, err, want)
	}
}

func TestTableCleansAndAligns(t *testing.T) {
	var b strings.Builder
	if err := Table(&b, []string{"NAME", "STATE"}, [][]string{{"é\x1b[1m", "on"}, {"b", "off"}}); err != nil {
		t.Fatal(err)
	}
	const want = "NAME         STATE\né\\u001b[1m   on\nb            off\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestBar(t *testing.T) {
	for _, tc := range []struct {
		value, most int64
		want        string
	}{{0, 8, ""}, {8, 8, "██"}, {4, 8, "█"}, {5, 8, "█▎"}, {1, 1000, "▏"}, {9, 8, "██"}, {1, 0, ""}} {
		if got := Bar(tc.value, tc.most, 2); got != tc.want {
			t.Errorf("Bar(%d, %d) = %q, want %q", tc.value, tc.most, got, tc.want)
		}
	}
}

func TestStyleIsForTerminals(t *testing.T) {
	if got := (Style{}).Bad("x"); got != "x" {
		t.Errorf("without colours: %q", got)
	}
	if got := (Style{Colour: true}).Bad("x"); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("with colours: %q", got)
	}
}
