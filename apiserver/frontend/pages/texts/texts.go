// Package texts holds what the pages say, in one catalogue per language: a file of keys and texts, named after the
// language. Texts have placeholders in braces. All catalogues have the same keys; a test compares them.
package texts

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"

	"golang.org/x/text/language"

	"github.com/cardea-iam/cardea/internal/text"
)

//go:embed *.json
var files embed.FS

// names are the languages, the one of everybody whose own is not there first.
var names = []string{"en", "de"}

// Languages returns the languages as BCP 47 writes them, the one of everybody else first.
func Languages() []string { return append([]string{}, names...) }

// Language is one catalogue.
type Language struct {
	// Name is the language as BCP 47 writes it.
	Name  string
	texts map[string]string
}

// Catalogues are all languages.
type Catalogues struct {
	languages []*Language
	matcher   language.Matcher
}

// Load reads the catalogues.
func Load() (*Catalogues, error) {
	c := &Catalogues{}
	tags := make([]language.Tag, len(names))
	for i, name := range names {
		raw, err := files.ReadFile(name + ".json")
		if err != nil {
			return nil, err
		}
		l := &Language{Name: name}
		if err := json.Unmarshal(raw, &l.texts); err != nil {
			return nil, fmt.Errorf("catalogue %s: %w", name, err)
		}
		if tags[i], err = language.Parse(name); err != nil {
			return nil, err
		}
		c.languages = append(c.languages, l)
	}
	c.matcher = language.NewMatcher(tags)
	return c, nil
}

// All returns the languages in their order.
func (c *Catalogues) All() []*Language { return c.languages }

// maxPreferences is how many bytes of a browser's wishes are looked at.
const maxPreferences = 256

// Choose returns the language that fits best: uiLocales, words as OpenID Connect's ui_locales has them, count before
// acceptLanguage, the header.
func (c *Catalogues) Choose(uiLocales, acceptLanguage string) *Language {
	if tags := parseLocales(uiLocales); len(tags) > 0 {
		if _, at, confidence := c.matcher.Match(tags...); confidence > language.No {
			return c.languages[at]
		}
	}
	if len(acceptLanguage) <= maxPreferences {
		if tags, _, err := language.ParseAcceptLanguage(acceptLanguage); err == nil {
			_, at, _ := c.matcher.Match(tags...)
			return c.languages[at]
		}
	}
	return c.languages[0]
}

func parseLocales(written string) (tags []language.Tag) {
	if len(written) > maxPreferences {
		return nil
	}
	for _, word := range strings.Fields(written) {
		if tag, err := language.Parse(word); err == nil {
			tags = append(tags, tag)
		}
	}
	return tags
}

// Has reports whether there is a text of a key.
func (l *Language) Has(key string) bool {
	_, found := l.texts[key]
	return found
}

// Text returns the text of a key, with its placeholders filled in: pairs are names and values. Values are isolated
// where they are written from right to left. A key that is not there is its own text.
func (l *Language) Text(key string, pairs ...string) string {
	sentence, found := l.texts[key]
	if !found {
		return key
	}
	if len(pairs) == 0 {
		return sentence
	}
	filled := make([]string, len(pairs)/2*2)
	for i := 0; i+1 < len(pairs); i += 2 {
		filled[i], filled[i+1] = "{"+pairs[i]+"}", text.Isolate(pairs[i+1])
	}
	return strings.NewReplacer(filled...).Replace(sentence)
}

// Count returns the text of a key for a number: that of key.one or key.other, in which {n} is the number.
func (l *Language) Count(key string, n int, pairs ...string) string {
	form := ".other"
	if n == 1 {
		form = ".one"
	}
	return l.Text(key+form, append(pairs, "n", fmt.Sprint(n))...)
}
