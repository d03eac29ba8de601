package pages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// argument is one value of a call's arguments as the page shows it. Values inside lists and objects are arguments of
// their own, so that no value can imitate or reorder another one.
type argument struct {
	// Member is where the value is: the names and positions that lead to it.
	Member [][]textPart
	Value  []textPart
	// Text reports that the value is a text, rather than a number, true, false, null, or an empty list or object.
	Text bool
}

// textPart is a part of a text. A hidden part stands for one character that a reader cannot see, or that changes the
// order of others, by its number.
type textPart struct {
	Text   string
	Hidden bool
}

// argumentsOf returns the arguments in a JSON object, in its order.
func argumentsOf(raw []byte) ([]argument, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	l := &argumentList{decoder: decoder}
	if err := l.value(nil); err != nil {
		return nil, fmt.Errorf("the arguments of a call are no JSON: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("the arguments of a call end with more than one value")
	}
	return l.found, nil
}

type argumentList struct {
	decoder *json.Decoder
	found   []argument
}

func (l *argumentList) value(path []string) error {
	token, err := l.decoder.Token()
	if err != nil {
		return err
	}
	open, container := token.(json.Delim)
	if !container {
		text, isText := token.(string)
		if !isText {
			text = plain(token)
		}
		l.add(path, text, isText)
		return nil
	}
	n := 0
	for ; l.decoder.More(); n++ {
		name := strconv.Itoa(n + 1)
		if open == '{' {
			member, err := l.decoder.Token()
			if err != nil {
				return err
			}
			name = memberName(member.(string)) // the decoder accepts only texts there
		}
		if err := l.value(append(path[:len(path):len(path)], name)); err != nil {
			return err
		}
	}
	end, err := l.decoder.Token()
	if err == nil && n == 0 && len(path) > 0 {
		l.add(path, fmt.Sprintf("%v%v", open, end), false)
	}
	return err
}

func (l *argumentList) add(path []string, text string, isText bool) {
	a := argument{Value: visible(text), Text: isText}
	for _, name := range path {
		a.Member = append(a.Member, visible(name))
	}
	l.found = append(l.found, a)
}

// plain returns a number, true, false or null as JSON has it.
func plain(token json.Token) string {
	if token == nil {
		return "null"
	}
	return fmt.Sprint(token)
}

// memberName returns a member's name as part of a path: in quotes if it could be taken for several parts or a position.
func memberName(name string) string {
	simple := name != "" && !unicode.IsDigit(rune(name[0])) && !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-'
	})
	if simple {
		return name
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}

// visible splits a text at characters that are shown by their number.
func visible(s string) (parts []textPart) {
	begin := 0
	for at, r := range s {
		if !hides(r) {
			continue
		}
		if begin < at {
			parts = append(parts, textPart{Text: s[begin:at]})
		}
		parts = append(parts, textPart{Text: fmt.Sprintf("U+%04X", r), Hidden: true})
		begin = at + len(string(r))
	}
	if begin < len(s) {
		parts = append(parts, textPart{Text: s[begin:]})
	}
	return parts
}

// hides reports whether a character is not visible, or changes how others are shown: controls but line breaks, format
// characters (with bidirectional controls and tags), spaces that look like none or like others, fillers, unassigned.
func hides(r rune) bool {
	switch r {
	case '\n':
		return false
	case '\u115f', '\u1160', '\u2800', '\u3164', '\uffa0', '\u034f':
		return true
	}
	return !unicode.IsPrint(r) || unicode.Is(unicode.Variation_Selector, r)
}
