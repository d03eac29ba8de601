package engine

import (
	"math/bits"
	"strings"
)

// matcher returns the rules of a program that match a request, as a mask of their positions. Rules that match every
// path are always in the mask. For a request, exact paths take one lookup, and prefixes one for each segment of its
// path, up to the most segments of a prefix.
type matcher struct {
	always   masks
	exact    map[string]*masks
	prefixes map[string]*masks
	// segments is the most segments that any prefix has.
	segments int
}

// masks are the rules of one path pattern: those for any method, and those for each single method.
type masks struct {
	any      uint64
	byMethod [methods]uint64
}

const methods = 9

// methodNames are the methods that a pattern can name, by their position in masks.
var methodNames = [methods]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}

// methodIndex is a method's position in masks, -1 for one that no pattern can name.
func methodIndex(method string) int {
	switch method {
	case "GET":
		return methodGET
	case "HEAD":
		return methodHEAD
	case "POST":
		return 2
	case "PUT":
		return 3
	case "PATCH":
		return 4
	case "DELETE":
		return 5
	case "OPTIONS":
		return 6
	case "TRACE":
		return 7
	case "CONNECT":
		return 8
	}
	return -1
}

const (
	methodGET  = 0
	methodHEAD = 1
)

// of returns the rules of the pattern for a method. Frameworks serve HEAD by the handler of GET, at its cost, so a HEAD
// counts as a GET unless a rule names HEAD for the pattern.
func (m *masks) of(method int) uint64 {
	switch {
	case method < 0:
		return m.any
	case method == methodHEAD && m.byMethod[methodHEAD] == 0:
		method = methodGET
	}
	return m.any | m.byMethod[method]
}

func (m *masks) add(method int, rule uint64) {
	if method < 0 {
		m.any |= rule
		return
	}
	m.byMethod[method] |= rule
}

// add makes a rule match an endpoint pattern, which internal/scheme has found valid: `*`, an exact path, or a prefix
// that ends in `/*`, each optionally after a method.
func (m *matcher) add(pattern string, rule uint64) {
	method := -1
	if name, path, found := strings.Cut(pattern, " "); found {
		method, pattern = methodIndex(name), path
	}
	prefix, isPrefix := strings.CutSuffix(pattern, "*")
	switch {
	case prefix == "" || prefix == "/" && isPrefix: // `*` and `/*`: every path begins with a slash
		m.always.add(method, rule)
	case isPrefix:
		m.segments = max(m.segments, strings.Count(prefix, "/"))
		add(&m.prefixes, prefix, method, rule)
	default:
		add(&m.exact, pattern, method, rule)
	}
}

func add(to *map[string]*masks, path string, method int, rule uint64) {
	if *to == nil {
		*to = map[string]*masks{}
	}
	of := (*to)[path]
	if of == nil {
		of = &masks{}
		(*to)[path] = of
	}
	of.add(method, rule)
}

// match returns the rules that match a method and a canonical path.
func (m *matcher) match(method, path string) uint64 {
	index := methodIndex(method)
	mask := m.always.of(index)
	if m.exact != nil {
		if found, ok := m.exact[path]; ok {
			mask |= found.of(index)
		}
	}
	seen := 0
	for i := 0; i < len(path) && seen < m.segments; i++ {
		if path[i] != '/' {
			continue
		}
		seen++
		if found, ok := m.prefixes[path[:i+1]]; ok {
			mask |= found.of(index)
		}
	}
	return mask
}

// widest returns the largest number of rules that match one request.
func (m *matcher) widest() (most int) {
	at := func(path string) {
		for _, method := range methodNames {
			most = max(most, bits.OnesCount64(m.match(method, path)))
		}
	}
	at("")
	for path := range m.exact {
		at(path)
	}
	for prefix := range m.prefixes {
		at(prefix)
	}
	return most
}
