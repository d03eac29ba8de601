package pages

import (
	"strings"
	"testing"
)

// line returns an argument as the page shows it: hidden characters in angle brackets, and what is no text in braces.
func line(a argument) string {
	show := func(parts []textPart) (out string) {
		for _, p := range parts {
			if p.Hidden {
				out += "<" + p.Text + ">"
			} else {
				out += p.Text
			}
		}
		return out
	}
	var names []string
	for _, name := range a.Member {
		names = append(names, show(name))
	}
	value := show(a.Value)
	if !a.Text {
		value = "{" + value + "}"
	}
	return strings.Join(names, " › ") + " = " + value
}

func TestEveryArgumentIsShown(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{}`:                          "",
		`{"number":"1007","n":12.50}`: "number = 1007|n = {12.50}",
		`{"a":null,"b":true,"c":"","d":[],"e":{},"f":"null"}`: "a = {null}|b = {true}|c = |d = {[]}|e = {{}}|f = null",
		`{"items":[{"id":1},{"id":"x"},[2]]}`:                 "items › 1 › id = {1}|items › 2 › id = x|items › 3 › 1 = {2}",
		`{"a › b":1,"1":2,"":3,"q\"\\":4}`:                    `"a › b" = {1}|"1" = {2}|"" = {3}|"q\"\\" = {4}`,
		`{"to":"abc\u202ecba\u200b\u2028\nx\ty"}`:             "to = abc<U+202E>cba<U+200B><U+2028>\nx<U+0009>y",
		`{"tag":"\udb40\udc41","nbsp":"a\u00a0b","ע":"שלום"}`: "tag = <U+E0041>|nbsp = a<U+00A0>b|ע = שלום",
		`{"big":123456789012345678901234567890}`:              "big = {123456789012345678901234567890}",
	} {
		found, err := argumentsOf([]byte(raw))
		if err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		var lines []string
		for _, a := range found {
			lines = append(lines, line(a))
		}
		if got := strings.Join(lines, "|"); got != want {
			t.Errorf("%s is shown as\n%q, want\n%q", raw, got, want)
		}
	}
	for _, raw := range []string{``, `{`, `{"a":1} {}`, `{"a":}`} {
		if _, err := argumentsOf([]byte(raw)); err == nil {
			t.Errorf("%q was accepted", raw)
		}
	}
}
