package saml

import (
	"bytes"
	"testing"

	"github.com/beevik/etree"
)

// replace returns a response with another text in its XML, which is signed before the replacement. Comments and CDATA
// do not change the canonical form, so the signature stays valid.
func replaced(s shape, old, by string) []byte {
	return bytes.Replace(answer{shape: s}.xml(), []byte(old), []byte(by), 1)
}

// A comment or a CDATA section that an attacker adds to a signed text does not cut it (VU#475445).
func TestTextsAreReadWhole(t *testing.T) {
	t.Parallel()
	for _, s := range shapes {
		if s.encrypts {
			continue // the attacker cannot change the text
		}
		for name, tc := range map[string]struct{ old, by string }{
			"a comment in NameID":            {">" + testSubject + "</saml:NameID>", ">ann@globex.example<!---->" + "</saml:NameID>"},
			"a comment before the domain":    {">" + testSubject + "</saml:NameID>", ">ann@<!-- x -->globex.example</saml:NameID>"},
			"CDATA in NameID":                {">" + testSubject + "</saml:NameID>", "><![CDATA[ann@]]>globex.example</saml:NameID>"},
			"CDATA and comments in NameID":   {">" + testSubject + "</saml:NameID>", "><![CDATA[an]]><!--a--><![CDATA[n@]]><!--b-->globex.example</saml:NameID>"},
			"a reference in NameID":          {">" + testSubject + "</saml:NameID>", ">&#97;nn&#x40;globex.example</saml:NameID>"},
			"a comment in an attribute":      {">ann@globex.example</saml:AttributeValue>", ">ann@<!---->globex.example</saml:AttributeValue>"},
			"CDATA in an attribute":          {">ann@globex.example</saml:AttributeValue>", "><![CDATA[ann@globex.example]]></saml:AttributeValue>"},
			"a comment in Audience":          {testSP + "</saml:Audience>", testSP[:20] + "<!--x-->" + testSP[20:] + "</saml:Audience>"},
			"CDATA in Audience":              {testSP + "</saml:Audience>", "<![CDATA[" + testSP + "]]></saml:Audience>"},
			"a comment in Issuer":            {testIDP + "</saml:Issuer>", testIDP[:9] + "<!--x-->" + testIDP[9:] + "</saml:Issuer>"},
			"CDATA in Issuer":                {testIDP + "</saml:Issuer>", "<![CDATA[" + testIDP + "]]></saml:Issuer>"},
			"a comment in the digest":        {"<ds:DigestValue>", "<ds:DigestValue><!--x-->"},
			"a comment in the signature":     {"<ds:SignatureValue>", "<ds:SignatureValue><!--x-->"},
			"spaces around the signature":    {"<ds:SignatureValue>", "<ds:SignatureValue>\n   \t"},
			"a declaration of XML before it": {"<samlp:Response", "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<samlp:Response"},
			"a byte order mark before it":    {"<samlp:Response", "\ufeff<samlp:Response"},
		} {
			got, err := evaluate(replaced(s, tc.old, tc.by), expected())
			if err != nil || got.Subject != testSubject || got.Attributes["mail"][0] != testSubject {
				t.Errorf("%s, %s: %+v, %v", s.name, name, got, err)
			}
		}
	}
}

// Texts that the identity provider signed with a comment in them are read whole as well.
func TestSignedTextsWithCommentsAreReadWhole(t *testing.T) {
	t.Parallel()
	comment := func(tag string) func(*etree.Element) {
		return func(root *etree.Element) {
			el := at(root, tag)
			whole := el.Text()
			el.SetText("")
			el.CreateText(whole[:4])
			el.CreateComment("x")
			el.CreateCData(whole[4:])
		}
	}
	for _, s := range shapes {
		for _, tag := range []string{"NameID", "AttributeValue", "Audience", "Issuer", "AuthnContextClassRef"} {
			got, err := evaluate(answer{shape: s, states: comment(tag)}.xml(), expected())
			if err != nil || got.Subject != testSubject || got.Attributes["mail"][0] != testSubject || len(got.ClassRef) < 40 {
				t.Errorf("%s, %s: %+v, %v", s.name, tag, got, err)
			}
		}
	}
}

// An element in a text is not passed over: the text before it could be another user's.
func TestTextsWithElementsAreRefused(t *testing.T) {
	t.Parallel()
	for _, s := range shapes {
		for tag, reason := range map[string]string{"NameID": ReasonSubject, "Audience": ReasonAudience, "Issuer": ReasonIssuer} {
			states := func(root *etree.Element) { at(at(root, "Assertion"), tag).CreateElement("x") }
			refused(t, s.name+", "+tag, answer{shape: s, states: states}.xml(), expected(), reason)
		}
	}
}
