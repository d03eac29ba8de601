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

// bounds bound a document. The canonical form copies the declarations in scope for each element, so they are bounded
// too.
type bounds struct{ bytes, depth, elements, attributes, declarations int }

var (
	messageBounds  = bounds{bytes: MaxMessage, depth: 32, elements: 5000, attributes: 64, declarations: 24}
	metadataBounds = bounds{bytes: MaxMetadata, depth: 32, elements: 20_000, attributes: 64, declarations: 64}
)

// maxComments bounds the comments of a document. The canonical form removes each in a time that grows with their
// number.
const maxComments = 1000

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

type scanner struct {
	bounds
	stack    []open
	declared []xml.Attr // the declarations in scope: prefix, namespace
	elements int
	comments int
	begun    bool
}

func scan(raw []byte, b bounds) error {
	decoder := xml.NewDecoder(bytes.NewReader(raw)) // without a CharsetReader, it refuses other declared encodings
	s := scanner{bounds: b}
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
		s.declared = s.declared[:s.stack[len(s.stack)-1].declared]
		s.stack = s.stack[:len(s.stack)-1]
	}
	return nil
}

func (s *scanner) element(t xml.StartElement) error {
	s.elements++
	switch {
	case len(s.stack) == 0 && s.begun:
		return fault(ReasonXML, "several root elements", "one")
	case s.elements > s.bounds.elements:
		return fault(ReasonXML, "more elements", fmt.Sprintf("at most %d elements", s.bounds.elements))
	case len(s.stack) >= s.depth:
		return fault(ReasonXML, "deeper elements", fmt.Sprintf("a depth of at most %d", s.depth))
	case len(t.Attr) > s.attributes:
		return fault(ReasonXML, "more attributes", fmt.Sprintf("at most %d attributes of an element", s.attributes))
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

// declare adds the namespaces that an element declares.
func (s *scanner) declare(t xml.StartElement) error {
	before := len(s.declared)
	for _, a := range t.Attr {
		isDefault := a.Name.Space == "" && a.Name.Local == "xmlns"
		if a.Name.Space != "xmlns" && !isDefault {
			continue
		}
		declaration := xml.Attr{Value: a.Value}
		if !isDefault {
			declaration.Name.Local = a.Name.Local
		}
		switch {
		case declaration.Name.Local == "xml", declaration.Name.Local == "xmlns",
			!absolute.MatchString(a.Value) && !(isDefault && a.Value == ""):
			return fault(ReasonXML, "the namespace "+a.Value, "an absolute URI")
		case len(s.declared) >= s.declarations:
			return fault(ReasonXML, "more namespaces", fmt.Sprintf("at most %d namespaces in scope", s.declarations))
		case slices.ContainsFunc(s.declared[before:], func(d xml.Attr) bool { return d.Name == declaration.Name }):
			return fault(ReasonXML, "a namespace that is declared twice", "")
		}
		s.declared = append(s.declared, declaration)
	}
	return nil
}

// names checks an element's name and its attributes' names: declared prefixes, and no attribute twice.
func (s *scanner) names(t xml.StartElement) error {
	if _, known := s.namespace(t.Name.Space); !known || strings.ContainsRune(t.Name.Local, ':') {
		return fault(ReasonXML, "an element's name without a declared prefix", "")
	}
	for i, a := range t.Attr {
		if a.Name.Space == "xmlns" {
			continue
		}
		if _, known := s.namespace(a.Name.Space); !known {
			return fault(ReasonXML, "an attribute's name without a declared prefix", "")
		}
		switch {
		case strings.ContainsRune(a.Name.Local, ':'):
			return fault(ReasonXML, "an attribute's name with a colon", "")
		case a.Name.Space != "" && strings.EqualFold(a.Name.Local, "ID"):
			return fault(ReasonXML, "an ID in a namespace", "the attribute ID")
		}
		for _, b := range t.Attr[:i] {
			if b.Name.Local == a.Name.Local && s.same(a.Name.Space, b.Name.Space) {
				return fault(ReasonXML, "an attribute that is there twice", "")
			}
		}
	}
	return nil
}

// same reports whether two prefixes of attributes are of one namespace. An attribute without a prefix has none.
func (s *scanner) same(a, b string) bool {
	if a == "" || b == "" {
		return a == b
	}
	first, _ := s.namespace(a)
	second, _ := s.namespace(b)
	return first == second
}

// namespace returns the namespace of a prefix. It reports false if the prefix is not declared.
func (s *scanner) namespace(prefix string) (string, bool) {
	for _, d := range slices.Backward(s.declared) {
		if d.Name.Local == prefix {
			return d.Value, true
		}
	}
	switch prefix {
	case "":
		return "", true
	case "xml":
		return "http://www.w3.org/XML/1998/namespace", true
	}
	return "", false
}
