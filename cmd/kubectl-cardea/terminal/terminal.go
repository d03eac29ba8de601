// Package terminal writes output for users: untrusted text cannot control the terminal, and only terminals get colors.
package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// hostile reports whether a character can control a terminal or hide text: controls (C0, DEL, C1), and the invisible
// characters of the format category, some of which change the direction of text.
func hostile(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError
}

// Clean returns text on one line with every hostile character written out, such as \u001b. Line breaks become blanks.
func Clean(text string) string {
	return clean(text, func(r rune) string {
		if r == '\n' || r == '\r' || r == '\t' {
			return " "
		}
		return escaped(r)
	})
}

// CleanJSON writes hostile characters of a JSON text as JSON's own escapes. encoding/json escapes only C0, and some
// terminals obey C1.
func CleanJSON(text []byte) string {
	return clean(string(text), func(r rune) string {
		if r == '\n' {
			return "\n" // between members: in a string it is escaped already
		}
		return escaped(r)
	})
}

// YAML writes a value as YAML, with hostile characters as YAML's own escapes, so that the value is unchanged when it is
// read. The YAML library writes most of them unescaped. A mark with a control character before each such text makes the
// library use double quotes, the only style with escapes. The mark is at the start, because the library escapes a whole
// text that begins with a byte order mark.
func YAML(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var decoded any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&decoded); err != nil {
		return nil, err
	}
	word := "mark"
	for strings.Contains(string(text), word) {
		word += "0"
	}
	marked, err := json.Marshal(markHostile(decoded, "\x01"+word))
	if err != nil {
		return nil, err
	}
	written, err := yaml.JSONToYAML([]byte(clean(string(marked), yamlEscape)))
	if err != nil {
		return nil, err
	}
	return []byte(clean(strings.ReplaceAll(string(written), `\x01`+word, ""), func(r rune) string {
		if r == '\n' {
			return "\n" // between lines: in double quotes it is escaped already
		}
		return yamlEscape(r)
	})), nil
}

func yamlEscape(r rune) string { return fmt.Sprintf(`\U%08x`, r) }

// markHostile puts a mark before every text, names of members included, with a hostile character that is no line break.
func markHostile(value any, mark string) any {
	switch v := value.(type) {
	case string:
		if strings.ContainsFunc(v, func(r rune) bool { return hostile(r) && r != '\n' }) {
			return mark + v
		}
	case []any:
		for i := range v {
			v[i] = markHostile(v[i], mark)
		}
	case map[string]any:
		marked := make(map[string]any, len(v))
		for name, member := range v {
			marked[markHostile(name, mark).(string)] = markHostile(member, mark)
		}
		return marked
	}
	return value
}

func escaped(r rune) string {
	if high, low := surrogates(r); high != 0 {
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// surrogates returns the surrogate pair of a character beyond the basic plane, or 0 for others.
func surrogates(r rune) (high, low rune) {
	if r < 0x10000 {
		return 0, 0
	}
	return 0xd800 + (r-0x10000)>>10, 0xdc00 + (r-0x10000)&0x3ff
}

func clean(text string, written func(rune) string) string {
	if strings.IndexFunc(text, hostile) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if hostile(r) {
			b.WriteString(written(r))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Style colors words. The zero Style adds no colors.
type Style struct{ Colour bool }

// Good is for good states.
func (s Style) Good(text string) string { return s.in("32", text) }

// Bad is for faults.
func (s Style) Bad(text string) string { return s.in("31", text) }

// Note is for notes.
func (s Style) Note(text string) string { return s.in("33", text) }

func (s Style) in(code, text string) string {
	if !s.Colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Table writes rows in columns. Every cell is cleaned.
func Table(w io.Writer, head []string, rows [][]string) error {
	widths := make([]int, len(head))
	cleaned := make([][]string, 0, len(rows)+1)
	for _, row := range append([][]string{head}, rows...) {
		line := make([]string, len(head))
		for i := range head {
			if i < len(row) {
				line[i] = Clean(row[i])
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(line[i]))
		}
		cleaned = append(cleaned, line)
	}
	for _, line := range cleaned {
		var b strings.Builder
		for i, cell := range line {
			b.WriteString(cell)
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+3))
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// eighths are the last characters of a bar, from 0 to 7 eighths of a column.
var eighths = []string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}

// Bar draws value as a part of most over width columns, in steps of an eighth of a column. A value above zero is always
// visible.
func Bar(value, most int64, width int) string {
	if value <= 0 || most <= 0 || width <= 0 {
		return ""
	}
	steps := int(float64(min(value, most)) / float64(most) * float64(width*8))
	steps = max(steps, 1)
	return strings.Repeat("█", steps/8) + eighths[steps%8]
}
