package saml

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"
)

func TestRightResponsesAreAccepted(t *testing.T) {
	t.Parallel()
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			got, err := evaluate(answer{shape: s}.xml(), expected())
			if err != nil {
				t.Fatal(err)
			}
			want := &Assertion{
				ID: "_assertion", ExpiresAt: now.Add(6 * time.Minute), Issuer: testIDP, Subject: testSubject,
				NameID:       NameID{testSubject, FormatPersistent, "q", testSP},
				SessionIndex: "session-1", SessionEndsAt: now.Add(8 * time.Hour), AuthenticatedAt: now.Add(-2 * time.Minute),
				ClassRef:   "urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport",
				Attributes: map[string][]string{"mail": {testSubject}, "givenName": {"Ann"}, "sn": {"Lee"}, "groups": {"eng", "ops"}},
				Signer:     keys().idp.cert,
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
			if got.Email("") != testSubject || got.FirstName("") != "Ann" || got.LastName("") != "Lee" || got.Email("groups") != "eng" || got.Email("absent") != "" {
				t.Error("other names of attributes are read")
			}
			claims := map[string]any{
				"mail": []any{testSubject}, "givenName": []any{"Ann"}, "sn": []any{"Lee"}, "groups": []any{"eng", "ops"}, "issuer": testIDP, "subject": testSubject,
			}
			if !reflect.DeepEqual(got.Claims(), claims) {
				t.Errorf("the claims are %v", got.Claims())
			}
		})
	}
}

// rightSignatures are ways to sign with an RSA key.
func rightSignatures() map[string]signatureOptions {
	return map[string]signatureOptions{
		"no KeyInfo":                      {keyInfo: "-"},
		"KeyInfo with a name alone":       {keyInfo: `<ds:KeyInfo><ds:KeyName>k</ds:KeyName></ds:KeyInfo>`},
		"RSA with SHA-384":                {method: dsig.RSASHA384SignatureMethod, digest: "http://www.w3.org/2001/04/xmldsig-more#sha384"},
		"RSA with SHA-512":                {method: dsig.RSASHA512SignatureMethod, digest: "http://www.w3.org/2001/04/xmlenc#sha512"},
		"prefixes of the inclusive form":  {prefixes: "xs xsi"},
		"the signature after its content": {last: true},
	}
}

// signedBy is how a response is signed, and when it is evaluated.
type signedBy struct {
	signs signatureOptions
	by    signer
	at    time.Duration
}

// All certificates of the metadata verify, an expired one too, and whatever KeyInfo says.
func TestSignaturesByEveryKeyOfTheMetadataAreAccepted(t *testing.T) {
	t.Parallel()
	k := keys()
	all := map[string]signedBy{
		"the next key":                      {by: k.next},
		"the next key without KeyInfo":      {signs: signatureOptions{keyInfo: "-"}, by: k.next},
		"P-256":                             {by: k.p256},
		"P-384":                             {signs: signatureOptions{method: dsig.ECDSASHA384SignatureMethod}, by: k.p384},
		"P-521":                             {signs: signatureOptions{method: dsig.ECDSASHA512SignatureMethod}, by: k.p521},
		"two years after it is not in time": {by: k.idp, at: 2 * 365 * 24 * time.Hour},
	}
	for name, signs := range rightSignatures() {
		all[name] = signedBy{signs: signs, by: k.idp}
	}
	for name, tc := range all {
		for _, s := range shapes {
			want := expected()
			want.Provider = provider(k.idp, k.next, k.p256, k.p384, k.p521)
			states := func(*etree.Element) {}
			if tc.at != 0 {
				want.Now = now.Add(tc.at)
				states = shift(tc.at)
			}
			got, err := evaluate(answer{shape: s, signs: tc.signs, by: &tc.by, states: states}.xml(), want)
			if err != nil || got.Subject != testSubject || !got.Signer.Equal(tc.by.cert) {
				t.Errorf("%s, %s: %+v, %v", name, s.name, got, err)
			}
		}
	}
}

// shift moves all times of a response, and keeps what follows the seconds.
func shift(by time.Duration) func(*etree.Element) {
	const seconds = "2006-01-02T15:04:05"
	return func(root *etree.Element) {
		_ = walk(root, func(el *etree.Element) error {
			for i, a := range el.Attr {
				if len(a.Value) < len(seconds) {
					continue
				}
				if when, err := time.Parse(seconds, a.Value[:len(seconds)]); err == nil {
					el.Attr[i].Value = when.Add(by).Format(seconds) + a.Value[len(seconds):]
				}
			}
			return nil
		})
	}
}

func TestSubjectIsANameThatStays(t *testing.T) {
	t.Parallel()
	nameID := func(change func(*etree.Element)) func(*etree.Element) {
		return func(root *etree.Element) { change(at(root, "NameID")) }
	}
	setText := func(value string) func(*etree.Element) {
		return nameID(func(el *etree.Element) { el.SetText(value) })
	}
	rename := func(value string) func(*etree.Element) {
		return func(root *etree.Element) { at(root, "Attribute").CreateAttr("Name", value) }
	}
	for name, tc := range map[string]struct {
		states    func(*etree.Element)
		attribute string
		want      string // "" for a fault
	}{
		"a NameID":                              {nil, "", testSubject},
		"an attribute":                          {nil, "sn", "Lee"},
		"an attribute beside a transient":       {nameID(func(el *etree.Element) { el.CreateAttr("Format", FormatTransient) }), "sn", "Lee"},
		"an attribute without NameID":           {func(root *etree.Element) { at(root, "Subject").RemoveChild(at(root, "NameID")) }, "sn", "Lee"},
		"a NameID of 255 bytes":                 {setText(strings.Repeat("n", 255)), "", strings.Repeat("n", 255)},
		"an attribute named subject":            {rename("subject"), "", testSubject},
		"a transient NameID":                    {nameID(func(el *etree.Element) { el.CreateAttr("Format", FormatTransient) }), "", ""},
		"no NameID":                             {func(root *etree.Element) { at(root, "Subject").RemoveChild(at(root, "NameID")) }, "", ""},
		"two NameIDs":                           {func(root *etree.Element) { at(root, "Subject").AddChild(at(root, "NameID").Copy()) }, "", ""},
		"an empty NameID":                       {setText(""), "", ""},
		"a NameID of 256 bytes":                 {setText(strings.Repeat("n", 256)), "", ""},
		"a NameID with a space before it":       {setText(" " + testSubject), "", ""},
		"a NameID with a line end after it":     {setText(testSubject + "\n"), "", ""},
		"a NameID with a tab in it":             {setText("a\tb"), "", ""},
		"a NameID with an element in it":        {nameID(func(el *etree.Element) { el.CreateElement("x") }), "", ""},
		"an attribute that is absent":           {nil, "uid", ""},
		"an attribute with several values":      {nil, "groups", ""},
		"an attribute whose value has elements": {func(root *etree.Element) { at(root, "AttributeValue").CreateElement("x") }, "mail", ""},
		"an attribute whose value is nil":       {func(root *etree.Element) { at(root, "AttributeValue").CreateAttr("xsi:nil", "true") }, "mail", ""},
		"an attribute that is there twice":      {rename("sn"), "sn", ""},
	} {
		want := expected()
		want.SubjectAttribute = tc.attribute
		xml := answer{shape: shapes[0], states: tc.states}.xml()
		if tc.want == "" {
			got, err := evaluate(xml, want)
			expectFault(t, name, got, err, "")
		} else if got, err := evaluate(xml, want); err != nil || got.Subject != tc.want || got.Claims()["subject"] != tc.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A NameID that is out of bounds is refused, and left out if an attribute is the subject.
func TestNameIDIsBounded(t *testing.T) {
	t.Parallel()
	part := func(name string, size int) func(*etree.Element) {
		return func(root *etree.Element) { at(root, "NameID").CreateAttr(name, strings.Repeat("n", size)) }
	}
	value := func(size int) func(*etree.Element) {
		return func(root *etree.Element) { at(root, "NameID").SetText(strings.Repeat("n", size)) }
	}
	for name, tc := range map[string]struct{ accepted, refused func(*etree.Element) }{
		"value":           {value(255), value(256)},
		"Format":          {part("Format", 1024), part("Format", 1025)},
		"NameQualifier":   {part("NameQualifier", 1024), part("NameQualifier", 1025)},
		"SPNameQualifier": {part("SPNameQualifier", 1024), part("SPNameQualifier", 1025)},
	} {
		right, wrong := answer{shape: shapes[0], states: tc.accepted}.xml(), answer{shape: shapes[0], states: tc.refused}.xml()
		if got, err := evaluate(right, expected()); err != nil || got.NameID == (NameID{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		refused(t, name, wrong, expected(), ReasonSubject)
		want := expected()
		want.SubjectAttribute = "sn"
		if got, err := evaluate(right, want); err != nil || got.Subject != "Lee" || got.NameID == (NameID{}) {
			t.Errorf("%s beside an attribute: %+v, %v", name, got, err)
		}
		if got, err := evaluate(wrong, want); err != nil || got.Subject != "Lee" || got.NameID != (NameID{}) {
			t.Errorf("%s out of bounds beside an attribute: %+v, %v", name, got, err)
		}
	}
}

func TestDefaultNamesOfAttributes(t *testing.T) {
	t.Parallel()
	a := &Assertion{NameID: NameID{Value: "n@globex.example", Format: FormatEmailAddress}}
	if a.Email("") != "n@globex.example" || a.Email("mail") != "" {
		t.Error("a NameID of the format emailAddress is not the address")
	}
	a.NameID.Format = FormatPersistent
	for _, names := range [][]string{emailNames, firstNameNames, lastNameNames} {
		for i := range names {
			a.Attributes = map[string][]string{}
			for _, name := range names[i:] {
				a.Attributes[name] = []string{name}
			}
			read := []string{a.Email(""), a.FirstName(""), a.LastName("")}
			if !slices.Contains(read, names[i]) {
				t.Errorf("%v are read as %q", names[i:], read)
			}
		}
	}
	a.Attributes = map[string][]string{"mail": {strings.Repeat("m", 256)}}
	if a.Email("") != "" {
		t.Error("a long address is read")
	}
}

func TestUnsolicitedResponsesAreRecognizedWithoutEvaluation(t *testing.T) {
	t.Parallel()
	for _, s := range shapes {
		for name, change := range map[string]func(*etree.Element){
			"without InResponseTo": func(root *etree.Element) { root.RemoveAttr("InResponseTo") },
			"empty":                func(root *etree.Element) { root.CreateAttr("InResponseTo", "") },
		} {
			r, err := ReadResponse(encode(answer{shape: s, states: change}.xml()))
			if err != nil || !r.Unsolicited() || r.Issuer != testIDP {
				t.Fatalf("%s, %s: %+v, %v", s.name, name, r, err)
			}
			for _, request := range []string{"", testRequest} {
				want := expected()
				want.RequestID = request
				got, err := r.Evaluate(want)
				expectFault(t, name, got, err, ReasonInResponseTo)
			}
		}
	}
	r, err := ReadResponse(encode(answer{shape: shapes[0]}.xml()))
	if err != nil || r.Unsolicited() || r.InResponseTo != testRequest {
		t.Errorf("%+v, %v", r, err)
	}
}
