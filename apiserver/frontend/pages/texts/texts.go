// Package texts has the texts of the pages, in one catalog per language: a file of keys and texts, named after the
// language. Texts have placeholders in braces. All catalogs have the same keys; a test compares them.
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

// names are the languages, the default language first.
var names = []string{"en", "de"}

// Languages returns the languages as BCP 47 tags, the default language first.
func Languages() []string { return append([]string{}, names...) }

// Language is the catalog of one language.
type Language struct {
	// Name is the language as a BCP 47 tag.
	Name  string
	texts map[string]string
}

// Catalogues has the catalogs of all languages.
type Catalogues struct {
	languages []*Language
	matcher   language.Matcher
}

// Load reads the catalogs.
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

// maxPreferences is the maximum length of a list of preferred languages, in bytes. Longer lists are ignored.
const maxPreferences = 256

// Choose returns the language that fits best. uiLocales (tags separated by spaces, as in the ui_locales of OpenID
// Connect) takes precedence over acceptLanguage (the Accept-Language header).
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

// Has reports whether the catalog has a text for a key.
func (l *Language) Has(key string) bool {
	_, found := l.texts[key]
	return found
}

// Text returns the text for a key, with its placeholders filled in. pairs are names and values of placeholders. A value
// that is written from right to left is isolated from the text around it. For an unknown key, Text returns the key.
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

// Count returns the text for key.one if n is 1, else the text for key.other. It fills in n for {n}.
func (l *Language) Count(key string, n int, pairs ...string) string {
	form := ".other"
	if n == 1 {
		form = ".one"
	}
	return l.Text(key+form, append(pairs, "n", fmt.Sprint(n))...)
}
