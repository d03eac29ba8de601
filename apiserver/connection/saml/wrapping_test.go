package saml

import (
	"strings"
	"testing"

	"github.com/beevik/etree"
)

// evil returns a copy of a response or assertion about another user, without signatures of its own.
func evil(el *etree.Element) *etree.Element {
	forged := detach(el)
	for _, signature := range children(forged, nsSignature, "Signature") {
		forged.RemoveChild(signature)
	}
	if a := at(forged, "Assertion"); a != nil {
		for _, signature := range children(a, nsSignature, "Signature") {
			a.RemoveChild(signature)
		}
		a.CreateAttr("ID", "_evil-assertion")
		at(a, "NameID").SetText(evilSubject)
	}
	forged.CreateAttr("ID", "_evil-"+el.Tag)
	return forged
}

// become makes an element another one.
func become(el, other *etree.Element) {
	el.Space, el.Tag, el.Attr = other.Space, other.Tag, other.Attr
	for len(el.Child) > 0 {
		el.RemoveChildAt(0)
	}
	for len(other.Child) > 0 {
		el.AddChild(other.Child[0])
	}
}

// take removes and returns the signature of an element.
func take(el *etree.Element) *etree.Element {
	signature := children(el, nsSignature, "Signature")[0]
	el.RemoveChild(signature)
	return signature
}

func wrapped(tag string, inside ...*etree.Element) *etree.Element {
	el := etree.NewElement(tag)
	if tag == "ds:Object" {
		el.CreateAttr("xmlns:ds", nsSignature)
	} else {
		el.CreateAttr("xmlns:samlp", nsProtocol)
		el.CreateAttr("xmlns:saml", nsAssertion)
	}
	for _, child := range inside {
		el.AddChild(child)
	}
	return el
}

// wrapping is an attack that wraps signed content (Somorovsky and others, On Breaking SAML, 2012).
type wrapping struct {
	name string
	// response reports that the attack uses the response's signature, otherwise the assertion's.
	response bool
	attack   func(root *etree.Element)
}

// onAssertion returns an attack on the signed assertion: it gets the response, the assertion, its forged copy and a
// copy of the original without the signature.
func onAssertion(do func(root, original, forged *etree.Element)) func(*etree.Element) {
	return func(root *etree.Element) {
		original := at(root, "Assertion")
		do(root, original, evil(original))
	}
}

func wrappings() []wrapping {
	return []wrapping{
		{"1: the response in its signature, in a forged response", true, func(root *etree.Element) {
			original, forged := root.Copy(), evil(root)
			signature := take(original)
			signature.AddChild(original)
			forged.InsertChildAt(1, signature)
			become(root, forged)
		}},
		{"2: the response before its signature, in a forged response", true, func(root *etree.Element) {
			original, forged := root.Copy(), evil(root)
			signature := take(original)
			forged.InsertChildAt(1, signature)
			forged.InsertChildAt(1, original)
			become(root, forged)
		}},
		{"3: a forged assertion before the assertion", false, onAssertion(func(root, original, forged *etree.Element) {
			root.InsertChildAt(original.Index(), forged)
		})},
		{"a forged assertion after the assertion", false, onAssertion(func(root, _, forged *etree.Element) { root.AddChild(forged) })},
		{"4: the assertion in a forged assertion", false, onAssertion(func(root, original, forged *etree.Element) {
			root.RemoveChild(original)
			root.AddChild(forged)
			forged.AddChild(original)
		})},
		{"5: the signature in a forged assertion, the assertion at the end", false, onAssertion(func(root, original, forged *etree.Element) {
			root.RemoveChild(original)
			forged.InsertChildAt(1, take(original))
			root.AddChild(forged)
			root.AddChild(original)
		})},
		{"6: the assertion in its signature, in a forged assertion", false, onAssertion(func(root, original, forged *etree.Element) {
			root.RemoveChild(original)
			signature := take(original)
			signature.AddChild(original)
			forged.InsertChildAt(1, signature)
			root.AddChild(forged)
		})},
		{"7: a forged assertion in Extensions", false, onAssertion(func(root, _, forged *etree.Element) {
			root.InsertChildAt(1, wrapped("samlp:Extensions", forged))
		})},
		{"the assertion in Extensions, a forged one in its place", false, onAssertion(func(root, original, forged *etree.Element) {
			root.RemoveChild(original)
			root.InsertChildAt(1, wrapped("samlp:Extensions", original))
			root.AddChild(forged)
		})},
		{"8: the assertion in an Object of its signature, in a forged assertion", false, onAssertion(func(root, original, forged *etree.Element) {
			root.RemoveChild(original)
			signature := take(original)
			signature.AddChild(wrapped("ds:Object", original))
			forged.InsertChildAt(1, signature)
			root.AddChild(forged)
		})},
		{"the assertion in Advice of a forged assertion", false, onAssertion(func(root, original, forged *etree.Element) {
			root.RemoveChild(original)
			forged.AddChild(wrapped("saml:Advice", original))
			root.AddChild(forged)
		})},
		{"the assertion in Advice of a forged assertion with its signature", false, onAssertion(func(root, original, forged *etree.Element) {
			root.RemoveChild(original)
			forged.InsertChildAt(1, take(original))
			forged.AddChild(wrapped("saml:Advice", original))
			root.AddChild(forged)
		})},
		{"a forged assertion with the same ID and the signature", false, onAssertion(func(root, original, forged *etree.Element) {
			forged.CreateAttr("ID", original.SelectAttrValue("ID", ""))
			forged.InsertChildAt(1, take(original))
			root.InsertChildAt(original.Index(), forged)
		})},
		{"a forged assertion with the same ID alone", false, onAssertion(func(root, original, forged *etree.Element) {
			forged.CreateAttr("ID", original.SelectAttrValue("ID", ""))
			root.InsertChildAt(original.Index(), forged)
		})},
		{"a changed assertion with its signature", false, onAssertion(func(_, original, _ *etree.Element) {
			at(original, "NameID").SetText(evilSubject)
		})},
		{"a second subject in the assertion", false, onAssertion(func(_, original, forged *etree.Element) {
			original.InsertChildAt(1, at(forged, "Subject").Copy())
		})},
		{"an assertion in AttributeValue", false, onAssertion(func(root, original, forged *etree.Element) {
			root.RemoveChild(original)
			at(forged, "AttributeValue").AddChild(original)
			root.AddChild(forged)
		})},
		{"an assertion of another namespace", false, onAssertion(func(root, _, forged *etree.Element) {
			forged.Space = ""
			forged.CreateAttr("xmlns", "urn:oasis:names:tc:SAML:1.0:assertion")
			root.AddChild(forged)
		})},
		{"another response in the response", false, func(root *etree.Element) { root.AddChild(evil(root)) }},
	}
}

// Wrapping attacks on signed content are refused in every shape. In an encrypted response, the attacker encrypts what
// it forged, because the certificate is public.
func TestWrappedSignaturesAreRefused(t *testing.T) {
	t.Parallel()
	for _, s := range shapes {
		for _, w := range wrappings() {
			a := answer{shape: s, attack: w.attack}
			switch {
			case w.response && !s.response, !w.response && s.encrypts && s.response:
				continue // there is no such signature, or nothing that the attacker can change
			case !w.response && !s.assertion:
				a.signs, a.shape.assertion, a.shape.response = signatureOptions{}, true, true // it is an attack on both signatures
			case !w.response && s.encrypts:
				a.inside, a.attack = w.attack, nil
			}
			refused(t, s.name+", "+w.name, a.xml(), expected(), "")
		}
	}
}

// Each of these is refused by a rule of its own, which the reason names.
func TestStructureOfResponses(t *testing.T) {
	t.Parallel()
	s := shapes[0]
	for name, tc := range map[string]struct {
		change func(root *etree.Element)
		reason string
	}{
		"no assertion":   {func(root *etree.Element) { root.RemoveChild(at(root, "Assertion")) }, ReasonStructure},
		"two assertions": {func(root *etree.Element) { root.AddChild(evil(at(root, "Assertion"))) }, ReasonStructure},
		"an assertion of SAML 1": {func(root *etree.Element) {
			at(root, "Assertion").CreateAttr("xmlns:saml", "urn:oasis:names:tc:SAML:1.0:assertion")
		}, ReasonStructure},
		"another root":            {func(root *etree.Element) { root.Tag = "ArtifactResponse" }, ReasonStructure},
		"another namespace":       {func(root *etree.Element) { root.CreateAttr("xmlns:samlp", "urn:other") }, ReasonStructure},
		"two issuers":             {func(root *etree.Element) { root.AddChild(at(root, "Issuer").Copy()) }, ReasonStructure},
		"two statuses":            {func(root *etree.Element) { root.AddChild(at(root, "Status").Copy()) }, ReasonStructure},
		"the same ID":             {func(root *etree.Element) { root.CreateAttr("ID", "_assertion") }, ReasonStructure},
		"the same ID as Id":       {func(root *etree.Element) { at(root, "Status").CreateAttr("Id", "_assertion") }, ReasonStructure},
		"a signature in Status":   {func(root *etree.Element) { at(root, "Status").AddChild(at(root, "Signature").Copy()) }, ReasonStructure},
		"a second signature":      {func(root *etree.Element) { at(root, "Assertion").AddChild(at(root, "Signature").Copy()) }, ReasonStructure},
		"a signature of no part":  {func(root *etree.Element) { root.AddChild(element(`<Signature/>`)) }, ReasonStructure},
		"an ID in a namespace":    {func(root *etree.Element) { root.CreateAttr("saml:ID", "_other") }, ReasonXML},
		"an xml:id":               {func(root *etree.Element) { root.CreateAttr("xml:id", "_assertion") }, ReasonXML},
		"a LogoutRequest in it":   {func(root *etree.Element) { root.AddChild(element(`<LogoutRequest/>`)) }, ReasonStructure},
		"an encrypted one beside": {func(root *etree.Element) { root.AddChild(element(`<EncryptedAssertion xmlns="` + nsAssertion + `"/>`)) }, ReasonStructure},
	} {
		refused(t, name, answer{shape: s, attack: tc.change}.xml(), expected(), tc.reason)
	}
	for name, change := range map[string]func(*etree.Element){
		"no subject":        func(root *etree.Element) { at(root, "Assertion").RemoveChild(at(root, "Subject")) },
		"two subjects":      func(root *etree.Element) { at(root, "Assertion").AddChild(at(root, "Subject").Copy()) },
		"no statement":      func(root *etree.Element) { at(root, "Assertion").RemoveChild(at(root, "AuthnStatement")) },
		"two statements":    func(root *etree.Element) { at(root, "Assertion").AddChild(at(root, "AuthnStatement").Copy()) },
		"no conditions":     func(root *etree.Element) { at(root, "Assertion").RemoveChild(at(root, "Conditions")) },
		"two conditions":    func(root *etree.Element) { at(root, "Assertion").AddChild(at(root, "Conditions").Copy()) },
		"two confirmations": func(root *etree.Element) { at(root, "Subject").AddChild(at(root, "SubjectConfirmation").Copy()) },
		"no context":        func(root *etree.Element) { at(root, "AuthnStatement").RemoveChild(at(root, "AuthnContext")) },
	} {
		for _, s := range shapes {
			refused(t, s.name+", "+name, answer{shape: s, states: change}.xml(), expected(), ReasonStructure)
		}
	}
	refused(t, "an attribute without a name", answer{shape: s, states: func(root *etree.Element) { at(root, "Attribute").RemoveAttr("Name") }}.xml(), expected(), ReasonAttribute)
	refused(t, "a long session index", answer{shape: s, states: func(root *etree.Element) {
		at(root, "AuthnStatement").CreateAttr("SessionIndex", strings.Repeat("x", 256))
	}}.xml(), expected(), ReasonSession)
}

// The content of an encrypted assertion has the structure of an assertion, also if the response alone is signed.
func TestStructureOfEncryptedAssertions(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(root *etree.Element){
		"the ID of the response":    func(root *etree.Element) { at(root, "Assertion").CreateAttr("ID", "_response") },
		"an ID that is there twice": func(root *etree.Element) { at(root, "Subject").CreateAttr("Id", "_assertion") },
		"an assertion in Advice": func(root *etree.Element) {
			el := at(root, "Assertion")
			el.AddChild(wrapped("saml:Advice", evil(el)))
		},
	} {
		for _, s := range shapes {
			if s.encrypts {
				refused(t, s.name+", "+name, answer{shape: s, states: change}.xml(), expected(), ReasonDecryption)
			}
		}
	}
}
