package saml

import (
	"regexp"
	"strings"

	"github.com/beevik/etree"
)

// identifier matches an ID that a reference can name.
var identifier = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,256}$`)

// is reports whether an element has a name.
func is(el *etree.Element, space, tag string) bool {
	return el.Tag == tag && el.NamespaceURI() == space
}

// attribute returns an attribute without a namespace, "" if it is absent. Methods of etree also match attributes of
// any namespace.
func attribute(el *etree.Element, name string) string {
	value, _ := lookup(el, name)
	return value
}

func lookup(el *etree.Element, name string) (string, bool) {
	for _, a := range el.Attr {
		if a.Space == "" && a.Key == name {
			return a.Value, true
		}
	}
	return "", false
}

// children returns the children of an element that have a name.
func children(el *etree.Element, space, tag string) (found []*etree.Element) {
	for _, token := range el.Child {
		if child, ok := token.(*etree.Element); ok && is(child, space, tag) {
			found = append(found, child)
		}
	}
	return found
}

// only returns the child of an element that has a name, nil if there is none. The error is a *connection.Fault: there
// are several.
func only(el *etree.Element, space, tag string) (*etree.Element, error) {
	found := children(el, space, tag)
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	return nil, fault(ReasonStructure, "several elements "+tag+" in "+el.Tag, "one")
}

// required returns the child of an element that has a name.
func required(el *etree.Element, space, tag string) (*etree.Element, error) {
	found, err := only(el, space, tag)
	if err == nil && found == nil {
		return nil, fault(ReasonStructure, el.Tag+" without "+tag, "one element "+tag)
	}
	return found, err
}

// text returns the whole text of an element, across comments and CDATA. It reports false if the element has others in
// it. The method Text of etree returns the text before the first comment.
func text(el *etree.Element) (string, bool) {
	var whole strings.Builder
	for _, token := range el.Child {
		switch t := token.(type) {
		case *etree.CharData:
			whole.WriteString(t.Data)
		case *etree.Element:
			return "", false
		}
	}
	return whole.String(), true
}

// word returns the text of an element without spaces around it, "" if the element has others in it.
func word(el *etree.Element) string {
	whole, _ := text(el)
	return strings.Trim(whole, " \t\r\n")
}

// child returns the word of the only child that has a name, "" if it is absent.
func child(el *etree.Element, space, tag string) (string, error) {
	found, err := only(el, space, tag)
	if err != nil || found == nil {
		return "", err
	}
	return word(found), nil
}

// compact returns the text of an element that has base64, without white space.
func compact(el *etree.Element) string {
	whole, _ := text(el)
	return strings.Join(strings.Fields(whole), "")
}

// walk calls do for an element and all elements in it.
func walk(el *etree.Element, do func(*etree.Element) error) error {
	if err := do(el); err != nil {
		return err
	}
	for _, token := range el.Child {
		if below, ok := token.(*etree.Element); ok {
			if err := walk(below, do); err != nil {
				return err
			}
		}
	}
	return nil
}

// detach returns a copy of an element that declares all namespaces in scope.
func detach(el *etree.Element) *etree.Element {
	detached := el.Copy()
	for up := el.Parent(); up != nil; up = up.Parent() {
		for _, a := range up.Attr {
			if (a.Space == "xmlns" || a.Space == "" && a.Key == "xmlns") && !declares(detached, a) {
				detached.Attr = append(detached.Attr, etree.Attr{Space: a.Space, Key: a.Key, Value: a.Value})
			}
		}
	}
	return detached
}

func declares(el *etree.Element, declaration etree.Attr) bool {
	for _, a := range el.Attr {
		if a.Space == declaration.Space && a.Key == declaration.Key {
			return true
		}
	}
	return false
}

// structure checks where assertions and signatures are in a message or an assertion, and that no ID is there twice.
// The error is a *connection.Fault.
//   - An Assertion or EncryptedAssertion is a child of a Response, and nowhere else.
//   - A Signature is a child of the root or of the assertion, at most one of each.
func structure(root *etree.Element) error {
	ids := map[string]bool{}
	assertions := 0
	signed := map[*etree.Element]bool{}
	return walk(root, func(el *etree.Element) error {
		for _, a := range el.Attr {
			if !strings.EqualFold(a.Key, "ID") || a.Space != "" {
				continue
			}
			if ids[a.Value] {
				return fault(ReasonStructure, "an ID that is there twice", "different IDs")
			}
			ids[a.Value] = true
		}
		switch el.Tag {
		case "Response", "LogoutRequest":
			if el != root {
				return fault(ReasonStructure, el.Tag+" in "+el.Parent().Tag, "one message")
			}
		case "Assertion", "EncryptedAssertion":
			if assertions++; el == root {
				break
			}
			if assertions > 1 || el.Parent() != root || root.Tag != "Response" || el.NamespaceURI() != nsAssertion {
				return fault(ReasonStructure, el.Tag+" in "+el.Parent().Tag+", or another one", "one assertion, in Response")
			}
		case "Signature":
			parent := el.Parent()
			if el == root || parent != root && (parent.Parent() != root || root.Tag != "Response" || parent.Tag != "Assertion") ||
				signed[parent] || el.NamespaceURI() != nsSignature {
				return fault(ReasonStructure, "Signature in another element, or another one", "one signature of the message or the assertion, in it")
			}
			signed[parent] = true
		}
		return nil
	})
}
