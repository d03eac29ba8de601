// Package toolimport turns the operations of OpenAPI documents, 3.0 and 3.1, into AITools. Documents are untrusted:
// nothing is fetched, and size, depth and work are bounded. Parts that an AITool cannot express are left out and
// reported.
package toolimport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	// MaxBytes is the maximum size of a document, in bytes.
	MaxBytes = 4 << 20
	// maxExpanded bounds a document after the aliases of YAML are written out, in bytes of JSON.
	maxExpanded = 16 << 20
	// maxLevels bounds how deep a document nests.
	maxLevels = 200
	// maxThrough bounds how many references lead to one schema.
	maxThrough = 100
)

// Document is an OpenAPI document.
type Document struct {
	root map[string]any
	// modern is true from version 3.1: a $ref may have siblings.
	modern bool
}

// Read reads a document, which is JSON or YAML.
func Read(text []byte) (*Document, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("the document has more than %d MiB: split it", MaxBytes>>20)
	}
	if !json.Valid(text) {
		converted, err := yaml.YAMLToJSON(text)
		if err != nil {
			return nil, fmt.Errorf("the document is neither JSON nor YAML: %w", err)
		}
		if text = converted; len(text) > maxExpanded {
			return nil, fmt.Errorf("the document has more than %d MiB with the aliases of YAML written out: use $ref instead", maxExpanded>>20)
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var root any
	if err := decoder.Decode(&root); err != nil {
		return nil, fmt.Errorf("the document cannot be read: %w", err)
	}
	d := &Document{}
	var isObject bool
	if d.root, isObject = root.(map[string]any); !isObject {
		return nil, errors.New("the document is no object: name a file with an OpenAPI document")
	}
	if deeper(root, maxLevels) {
		return nil, fmt.Errorf("the document nests deeper than %d levels: flatten it", maxLevels)
	}
	version := stringOf(d.root["openapi"])
	switch {
	case strings.HasPrefix(version, "3.0."):
	case strings.HasPrefix(version, "3.1."):
		d.modern = true
	case d.root["swagger"] != nil:
		return nil, errors.New("the document is of version 2 (swagger): convert it to OpenAPI 3 first")
	default:
		return nil, errors.New("the document has no member openapi with a version 3.0 or 3.1")
	}
	return d, nil
}

// deeper reports whether a value nests deeper than a number of levels.
func deeper(value any, levels int) bool {
	if levels == 0 {
		return true
	}
	switch v := value.(type) {
	case map[string]any:
		for _, member := range v {
			if deeper(member, levels-1) {
				return true
			}
		}
	case []any:
		for _, item := range v {
			if deeper(item, levels-1) {
				return true
			}
		}
	}
	return false
}

// place is a value of the document.
type place struct {
	value any
	// pointer is where the value is: a JSON pointer (RFC 6901) as a URI fragment, in the form that $ref has.
	pointer string
	// through are the references that led to it.
	through []string
	// parts are the places of one member in several schemas of an allOf. value is unused then.
	parts []place
}

// member returns the place of an object's member.
func (p place) member(name string) place {
	return place{value: objectOf(p.value)[name], pointer: p.pointer + "/" + escape(name), through: p.through}
}

// items returns the places of a list's items.
func (p place) items() []place {
	list, _ := p.value.([]any)
	var out []place
	for i, value := range list {
		out = append(out, place{value: value, pointer: p.pointer + "/" + strconv.Itoa(i), through: p.through})
	}
	return out
}

// fault is something in the document that cannot be expressed.
type fault struct{ pointer, text string }

// Error implements error.
func (f *fault) Error() string { return f.text }

func (p place) fault(format string, args ...any) error {
	return &fault{p.pointer, fmt.Sprintf(format, args...)}
}

// reference returns the reference of a place that is one.
func (p place) reference() (string, bool) {
	value, found := objectOf(p.value)["$ref"]
	if !found {
		return "", false
	}
	return stringOf(value), true
}

// target returns the place that a reference names.
func (d *Document) target(p place, reference string) (place, error) {
	for _, earlier := range p.through {
		if earlier == reference {
			return place{}, p.fault("%s refers to itself", quoted(reference))
		}
	}
	if len(p.through) == maxThrough {
		return place{}, p.fault("more than %d references lead to it", maxThrough)
	}
	inside, isInside := strings.CutPrefix(reference, "#")
	pointer, err := url.PathUnescape(inside)
	if !isInside || err != nil || pointer != "" && pointer[0] != '/' {
		return place{}, p.fault("%s is not in this document: bundle the documents into one first", quoted(reference))
	}
	found := place{value: d.root, pointer: "#"}
	if pointer != "" {
		for step := range strings.SplitSeq(pointer[1:], "/") {
			if found = found.step(strings.NewReplacer("~1", "/", "~0", "~").Replace(step)); found.value == nil {
				return place{}, p.fault("%s is not in this document", quoted(reference))
			}
		}
	}
	found.through = append(p.through[:len(p.through):len(p.through)], reference)
	return found, nil
}

// step returns the place of a member or an item. Its value is nil if there is none.
func (p place) step(name string) place {
	if list, isList := p.value.([]any); isList {
		next := place{pointer: p.pointer + "/" + escape(name)}
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(list) {
			next.value = list[i]
		}
		return next
	}
	return p.member(name)
}

// resolved returns a place, or the place to which it refers.
func (d *Document) resolved(p place) (place, error) {
	for {
		reference, is := p.reference()
		if !is {
			return p, nil
		}
		next, err := d.target(p, reference)
		if err != nil {
			return place{}, err
		}
		p = next
	}
}

func escape(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// objectOf returns a value that is an object, else nil, which has no members.
func objectOf(value any) map[string]any {
	object, _ := value.(map[string]any)
	return object
}

func stringOf(value any) string {
	text, _ := value.(string)
	return text
}

func isTrue(value any) bool { return value == true }
