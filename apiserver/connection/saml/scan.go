package saml

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/beevik/etree"
	roundtrip "github.com/mattermost/xml-roundtrip-validator"
)

// bounds bound a document. attributes are all attributes of the document, with declarations. The canonical form copies
// the declarations in scope for each element, so they are bounded too.
type bounds struct{ bytes, depth, elements, attributes, declarations int }

var (
	messageBounds  = bounds{bytes: MaxMessage, depth: 32, elements: 5000, attributes: 5000, declarations: 24}
	metadataBounds = bounds{bytes: MaxMetadata, depth: 32, elements: 20_000, attributes: 20_000, declarations: 64}
)

// ownAttributes and ownDeclarations bound the attributes of one element, and the namespaces that it declares.
const ownAttributes, ownDeclarations = 32, 24

// maxComments bounds the comments of a document. The canonical form removes each in a time that grows with their
// number.
const maxComments = 1000

// maxNamespace bounds a namespace, in bytes. The canonical form repeats it at each element that uses it, so that a
// message with one long namespace would have a canonical form of a gigabyte.
const maxNamespace = 256

// absolute matches the beginning of an absolute URI. Canonical XML does not define relative namespaces.
var absolute = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:.`)

// parse scans a document within bounds, and reads it. The error is a *connection.Fault. The scan accepts UTF-8
// without DOCTYPE, processing instructions, repeated attributes, and names or namespaces that Go and other
// implementations read differently.
func parse(raw []byte, b bounds) (*etree.Element, error) {
	if len(raw) > b.bytes {
		return nil, fault(ReasonXML, fmt.Sprintf("%d bytes", len(raw)), fmt.Sprintf("at most %d bytes", b.bytes))
	}
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	if !utf8.Valid(raw) {
		return nil, fault(ReasonXML, "another encoding", "UTF-8")
	}
	if err := scan(raw, b); err != nil {
		return nil, err
	}
	doc := etree.NewDocument()
	doc.ReadSettings.MaxDepth = b.depth + 1
	if err := doc.ReadFromBytes(raw); err != nil || doc.Root() == nil {
		return nil, fault(ReasonXML, "no XML document", "")
	}
	return doc.Root(), nil
}

// open is an element whose end was not read, with the number of declarations in scope before it.
type open struct {
	name     xml.Name
	declared int
}

// namespace is the number of a namespace, whose text is hashed once, where it is declared.
type namespace int

// noNamespace is that of names without a namespace, and xmlNamespace that of the prefix xml.
const (
	noNamespace namespace = iota
	xmlNamespace
)

// declaration is a declared prefix, and what the prefix was before: known is false if it was not declared.
type declaration struct {
	prefix string
	before namespace
	known  bool
}

// qualified is the name of an attribute, by its namespace.
type qualified struct {
	namespace namespace
	local     string
}

type scanner struct {
	bounds
	stack    []open
	declared []declaration // the declarations in scope
	// prefixes has the namespace of each prefix in scope, and numbers the number of each namespace of the document.
	prefixes map[string]namespace
	numbers  map[string]namespace
	seen     map[qualified]struct{} // the attributes of one element
	elements int
	all      int // the attributes of the document
	comments int
	begun    bool
}

func newScanner(b bounds) *scanner {
	return &scanner{
		bounds: b, seen: map[qualified]struct{}{}, prefixes: map[string]namespace{"": noNamespace, "xml": xmlNamespace},
		numbers: map[string]namespace{"": noNamespace, "http://www.w3.org/XML/1998/namespace": xmlNamespace},
	}
}

func scan(raw []byte, b bounds) error {
	decoder := xml.NewDecoder(bytes.NewReader(raw)) // without a CharsetReader, it refuses other declared encodings
	s := newScanner(b)
	for {
		start := decoder.InputOffset()
		token, err := decoder.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return syntax(err)
		}
		if err := s.token(token, start); err != nil {
			return err
		}
	}
	if len(s.stack) > 0 || s.elements == 0 {
		return fault(ReasonXML, "an incomplete document", "")
	}
	return nil
}

// syntax returns the fault of a decoder's error, without the document's text.
func syntax(err error) error {
	var at *xml.SyntaxError
	if errors.As(err, &at) {
		return fault(ReasonXML, fmt.Sprintf("not well-formed, in line %d", at.Line), "UTF-8, with the entities of XML alone")
	}
	return fault(ReasonXML, "another encoding or version", "XML 1.0 in UTF-8")
}

func (s *scanner) token(token xml.Token, start int64) error {
	switch t := token.(type) {
	case xml.Directive:
		return fault(ReasonXML, "a DOCTYPE or another directive", "a document without it")
	case xml.ProcInst:
		if t.Target != "xml" || start != 0 {
			return fault(ReasonXML, "a processing instruction", "a document without it")
		}
	case xml.Comment:
		if s.comments++; s.comments > maxComments {
			return fault(ReasonXML, "more comments", fmt.Sprintf("at most %d comments", maxComments))
		}
	case xml.CharData:
		if len(s.stack) == 0 && len(bytes.TrimSpace(t)) > 0 {
			return fault(ReasonXML, "text outside of the root element", "")
		}
	case xml.StartElement:
		return s.element(t)
	case xml.EndElement:
		if len(s.stack) == 0 || s.stack[len(s.stack)-1].name != t.Name {
			return fault(ReasonXML, "an end tag without its element", "")
		}
		s.undeclare(s.stack[len(s.stack)-1].declared)
		s.stack = s.stack[:len(s.stack)-1]
	}
	return nil
}

func (s *scanner) element(t xml.StartElement) error {
	s.elements++
	s.all += len(t.Attr)
	switch {
	case len(s.stack) == 0 && s.begun:
		return fault(ReasonXML, "several root elements", "one")
	case s.elements > s.bounds.elements:
		return fault(ReasonXML, "more elements", fmt.Sprintf("at most %d elements", s.bounds.elements))
	case len(s.stack) >= s.depth:
		return fault(ReasonXML, "deeper elements", fmt.Sprintf("a depth of at most %d", s.depth))
	case s.all > s.attributes:
		return fault(ReasonXML, "more attributes", fmt.Sprintf("at most %d attributes", s.attributes))
	}
	if err := few(t); err != nil {
		return err
	}
	// Of all tokens, names alone do not survive Go's round trip (CVE-2020-29509 and its kin). A check takes 5 KiB.
	if err := roundtrip.CheckToken(t); err != nil {
		return fault(ReasonXML, "a name that implementations read differently", "")
	}
	s.begun = true
	s.stack = append(s.stack, open{t.Name, len(s.declared)})
	if err := s.declare(t); err != nil {
		return err
	}
	return s.names(t)
}

// few checks the number of an element's attributes and declarations.
func few(t xml.StartElement) error {
	declarations := 0
	for _, a := range t.Attr {
		if isDeclaration(a) {
			declarations++
		}
	}
	switch {
	case len(t.Attr)-declarations > ownAttributes:
		return fault(ReasonXML, "more attributes of an element", fmt.Sprintf("at most %d attributes of an element", ownAttributes))
	case declarations > ownDeclarations:
		return fault(ReasonXML, "more namespaces of an element", fmt.Sprintf("at most %d namespaces of an element", ownDeclarations))
	}
	return nil
}

// isDeclaration reports whether an attribute declares a namespace.
func isDeclaration(a xml.Attr) bool {
	return a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns"
}

// declare adds the namespaces that an element declares.
func (s *scanner) declare(t xml.StartElement) error {
	before := len(s.declared)
	for _, a := range t.Attr {
		if !isDeclaration(a) {
			continue
		}
		isDefault, prefix := a.Name.Space == "", ""
		if !isDefault {
			prefix = a.Name.Local
		}
		switch {
		case len(a.Value) > maxNamespace:
			return fault(ReasonXML, fmt.Sprintf("a namespace of %d bytes", len(a.Value)), fmt.Sprintf("at most %d bytes", maxNamespace))
		case prefix == "xml", prefix == "xmlns", !absolute.MatchString(a.Value) && !(isDefault && a.Value == ""):
			return fault(ReasonXML, "the namespace "+a.Value, "an absolute URI")
		case len(s.declared) >= s.declarations:
			return fault(ReasonXML, "more namespaces", fmt.Sprintf("at most %d namespaces in scope", s.declarations))
		case slices.ContainsFunc(s.declared[before:], func(d declaration) bool { return d.prefix == prefix }):
			return fault(ReasonXML, "a namespace that is declared twice", "")
		}
		number, known := s.numbers[a.Value]
		if !known {
			number = namespace(len(s.numbers))
			s.numbers[a.Value] = number
		}
		d := declaration{prefix: prefix}
		d.before, d.known = s.prefixes[prefix]
		s.declared = append(s.declared, d)
		s.prefixes[prefix] = number
	}
	return nil
}

// undeclare removes all declarations but a number of them from the scope.
func (s *scanner) undeclare(most int) {
	for _, d := range slices.Backward(s.declared[most:]) {
		if d.known {
			s.prefixes[d.prefix] = d.before
		} else {
			delete(s.prefixes, d.prefix)
		}
	}
	s.declared = s.declared[:most]
}

// names checks an element's name and its attributes' names: declared prefixes, and no attribute twice. An attribute
// without a prefix has no namespace.
func (s *scanner) names(t xml.StartElement) error {
	if _, known := s.prefixes[t.Name.Space]; !known || strings.ContainsRune(t.Name.Local, ':') {
		return fault(ReasonXML, "an element's name without a declared prefix", "")
	}
	clear(s.seen)
	for _, a := range t.Attr {
		if a.Name.Space == "xmlns" {
			continue
		}
		name := qualified{noNamespace, a.Name.Local}
		if a.Name.Space != "" {
			var known bool
			if name.namespace, known = s.prefixes[a.Name.Space]; !known {
				return fault(ReasonXML, "an attribute's name without a declared prefix", "")
			}
		}
		_, repeated := s.seen[name]
		switch {
		case strings.ContainsRune(a.Name.Local, ':'):
			return fault(ReasonXML, "an attribute's name with a colon", "")
		case a.Name.Space != "" && strings.EqualFold(a.Name.Local, "ID"):
			return fault(ReasonXML, "an ID in a namespace", "the attribute ID")
		case repeated:
			return fault(ReasonXML, "an attribute that is there twice", "")
		}
		s.seen[name] = struct{}{}
	}
	return nil
}
