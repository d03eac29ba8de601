package saml

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/beevik/etree"
)

// filled returns a document of a size in bytes.
func filled(size int) []byte {
	const before, after = "<a>", "</a>"
	return []byte(before + strings.Repeat("x", size-len(before)-len(after)) + after)
}

func TestDocumentsWithinTheBoundsAreRead(t *testing.T) {
	t.Parallel()
	many := func(n int, form string) string {
		all := ""
		for i := range n {
			all += fmt.Sprintf(form, i)
		}
		return "<a" + all + "/>"
	}
	// wide has elements of 25 attributes, and one more attribute for each of rest.
	wide := func(elements int, rest string) string {
		return "<b" + rest + ">" + strings.Repeat(many(25, ` a%d=""`), elements) + "</b>"
	}
	declarations := func(n int) string {
		all, inside := "", ""
		for i := range n {
			all += fmt.Sprintf(`<a xmlns:n%d="urn:x">`, i)
			if i%8 == 7 || i == n-1 { // depth is bounded too
				all = strings.ReplaceAll(all, "><a", "")
			}
		}
		inside = strings.Repeat("</a>", strings.Count(all, "<a"))
		return all + inside
	}
	for name, tc := range map[string]struct {
		accepted, refused string
	}{
		"bytes":                      {string(filled(MaxMessage)), string(filled(MaxMessage + 1))},
		"depth":                      {strings.Repeat("<a>", 32) + strings.Repeat("</a>", 32), strings.Repeat("<a>", 33) + strings.Repeat("</a>", 33)},
		"elements":                   {"<a>" + strings.Repeat("<b/>", 4999) + "</a>", "<a>" + strings.Repeat("<b/>", 5000) + "</a>"},
		"attributes of an element":   {many(32, ` a%d=""`), many(33, ` a%d=""`)},
		"attributes":                 {wide(200, ""), wide(200, ` c=""`)},
		"attributes with namespaces": {wide(199, ` xmlns="urn:x"`), wide(200, ` xmlns="urn:x"`)},
		"comments":                   {"<a>" + strings.Repeat("<!---->", 1000) + "</a>", "<a>" + strings.Repeat("<!---->", 1001) + "</a>"},
		"declarations":               {declarations(24), declarations(25)},
		"bytes of a namespace":       {namespaced(256, "<n:y/>"), namespaced(257, "<n:y/>")},
	} {
		if _, err := parse([]byte(tc.accepted), messageBounds); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, err := parse([]byte(tc.refused), messageBounds)
		expectFault(t, name, got, err, ReasonXML)
	}
	for name, tc := range map[string]struct{ accepted, refused string }{
		"attributes of metadata":                 {wide(800, ""), wide(800, ` c=""`)},
		"attributes of an element of metadata":   {many(32, ` a%d=""`), many(33, ` a%d=""`)},
		"declarations of an element of metadata": {many(24, ` xmlns:n%d="urn:x"`), many(25, ` xmlns:n%d="urn:x"`)},
	} {
		if _, err := parse([]byte(tc.accepted), metadataBounds); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, err := parse([]byte(tc.refused), metadataBounds)
		expectFault(t, name, got, err, ReasonXML)
	}
	for name, xml := range map[string]string{
		"a declaration":                         `<?xml version="1.0"?><a/>`,
		"a declaration of UTF-8":                `<?xml version="1.0" encoding="UTF-8" standalone="no"?><a/>`,
		"an encoding in lower":                  `<?xml version="1.0" encoding="utf-8"?><a/>`,
		"a byte order mark":                     "\ufeff<a/>",
		"comments around":                       "<!-- x --><a/>\n<!-- y -->\n",
		"the entities of XML":                   "<a b='&quot;'>&lt;&gt;&amp;&apos;&#x41;&#66;</a>",
		"CDATA":                                 "<a><![CDATA[<!DOCTYPE x>]]></a>",
		"an undeclared default":                 `<a xmlns="urn:x"><b xmlns=""/></a>`,
		"attributes of one name":                `<a xmlns:x="urn:x" xmlns:y="urn:y" b="1" x:b="2" y:b="3"/>`,
		"xml:lang":                              `<a xml:lang="en"/>`,
		"a prefix declared twice":               `<a xmlns:x="urn:x"><x:b xmlns:x="urn:y"/></a>`,
		"a prefix of two namespaces":            `<a xmlns:x="urn:x" xmlns:y="urn:x"><b xmlns:y="urn:y"><c x:d="" y:d=""/></b></a>`,
		"an attribute in the default namespace": `<a xmlns="urn:x" xmlns:x="urn:x" b="" x:b=""/>`,
		"a declaration named ID":                `<a xmlns:ID="urn:x" ID=""/>`,
	} {
		if _, err := parse([]byte(xml), messageBounds); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// utf16Text returns a text in UTF-16 with a byte order mark.
func utf16Text(text string) string {
	raw := []byte{0xfe, 0xff}
	for _, unit := range utf16.Encode([]rune(text)) {
		raw = append(raw, byte(unit>>8), byte(unit))
	}
	return string(raw)
}

// refusedXML are documents that neither a message nor metadata may be. {at} is the address of a listener.
func refusedXML() map[string]string {
	laughs := `<!DOCTYPE l [<!ENTITY a "lol">`
	for i := range 10 {
		laughs += fmt.Sprintf(`<!ENTITY %c "%s">`, 'b'+i, strings.Repeat(fmt.Sprintf("&%c;", 'a'+i), 10))
	}
	return map[string]string{
		"nothing":                               "",
		"spaces":                                "  \n",
		"a comment alone":                       "<!-- x -->",
		"a DOCTYPE":                             `<!DOCTYPE a><a/>`,
		"a DOCTYPE in the element":              `<a><!DOCTYPE a></a>`,
		"laughs":                                laughs + `]><a>&k;</a>`,
		"an external entity":                    `<!DOCTYPE a [<!ENTITY x SYSTEM "http://{at}/x">]><a>&x;</a>`,
		"a file":                                `<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><a>&x;</a>`,
		"a parameter entity":                    `<!DOCTYPE a [<!ENTITY % x SYSTEM "http://{at}/x"> %x;]><a/>`,
		"an external DTD":                       `<!DOCTYPE a SYSTEM "http://{at}/a.dtd"><a/>`,
		"an entity without a DOCTYPE":           `<a>&x;</a>`,
		"an entity in an attribute":             `<a b="&x;"/>`,
		"another directive":                     `<!ELEMENT a EMPTY><a/>`,
		"a processing instruction":              `<a><?php x?></a>`,
		"a processing instruction before":       `<?xml-stylesheet href="http://{at}/x"?><a/>`,
		"a processing instruction after":        `<a/><?x y?>`,
		"a second declaration":                  `<?xml version="1.0"?><?xml version="1.0"?><a/>`,
		"a declaration after a space":           ` <?xml version="1.0"?><a/>`,
		"a declaration in the element":          `<a><?xml version="1.0"?></a>`,
		"version 1.1":                           `<?xml version="1.1"?><a/>`,
		"UTF-16":                                utf16Text("<a/>"),
		"UTF-16 with a declaration":             utf16Text(`<?xml version="1.0" encoding="UTF-16"?><a/>`),
		"a stated UTF-16":                       `<?xml version="1.0" encoding="UTF-16"?><a/>`,
		"a stated Latin-1":                      `<?xml version="1.0" encoding="ISO-8859-1"?><a/>`,
		"a stated UTF-7":                        `<?xml version="1.0" encoding="UTF-7"?><a/>`,
		"invalid UTF-8":                         "<a>\xff</a>",
		"invalid UTF-8 in a comment":            "<a><!-- \xff --></a>",
		"overlong UTF-8":                        "<a>\xc0\xbc</a>",
		"a surrogate in UTF-8":                  "<a>\xed\xa0\x80</a>",
		"a NUL":                                 "<a>\x00</a>",
		"a reference to NUL":                    "<a>&#0;</a>",
		"a control character":                   "<a>\x08</a>",
		"two roots":                             "<a/><b/>",
		"text before":                           "x<a/>",
		"text after":                            "<a/>x",
		"no end":                                "<a>",
		"no beginning":                          "</a>",
		"another end":                           "<a></b>",
		"another prefix at the end":             `<x:a xmlns:x="urn:x" xmlns:y="urn:x"></y:a>`,
		"crossed ends":                          "<a><b></a></b>",
		"a name that begins with a colon":       "<:a/>",
		"a name that ends with a colon":         "<a:/>",
		"a name with two colons":                `<a:b:c xmlns:a="urn:x"/>`,
		"an attribute that begins with colon":   `<a :b="c"/>`,
		"an attribute that ends with a colon":   `<a b:="c"/>`,
		"an attribute with two colons":          `<a x:b:c="d" xmlns:x="urn:x"/>`,
		"an undeclared prefix":                  "<x:a/>",
		"an undeclared prefix of an attribute":  `<a x:b="c"/>`,
		"a prefix after its element":            `<a><b xmlns:x="urn:x"/><x:c/></a>`,
		"an attribute twice":                    `<a b="1" b="2"/>`,
		"an attribute twice by its namespace":   `<a xmlns:x="urn:x" xmlns:y="urn:x" x:b="1" y:b="2"/>`,
		"an attribute twice by xml":             `<a xmlns:x="http://www.w3.org/XML/1998/namespace" x:lang="" xml:lang=""/>`,
		"an attribute twice by an inner prefix": `<a xmlns:x="urn:x" xmlns:y="urn:y"><b xmlns:y="urn:x"><c x:d="" y:d=""/></b></a>`,
		"an attribute twice after a prefix":     `<a xmlns:x="urn:x" xmlns:y="urn:x"><b xmlns:y="urn:y"/><b x:c="" y:c=""/></a>`,
		"a prefix of an inner element":          `<a><b xmlns:x="urn:x" xmlns:y="urn:y"/><b y:c=""/></a>`,
		"a declaration twice":                   `<a xmlns:x="urn:x" xmlns:x="urn:y"/>`,
		"a default twice":                       `<a xmlns="urn:x" xmlns="urn:y"/>`,
		"a relative namespace":                  `<a xmlns:x="1"/>`,
		"a relative namespace in a path":        `<a xmlns:x="../x"/>`,
		"a relative default":                    `<a xmlns="x"/>`,
		"an empty namespace of a prefix":        `<a xmlns:x=""/>`,
		"a scheme alone":                        `<a xmlns:x="urn:"/>`,
		"the prefix xml":                        `<a xmlns:xml="urn:x"/>`,
		"the prefix xmlns":                      `<a xmlns:xmlns="urn:x"/>`,
		"an ID in a namespace":                  `<a xmlns:x="urn:x" x:Id="a"/>`,
		"an attribute without quotes":           `<a b=c/>`,
		"an attribute without a value":          `<a b/>`,
		"a comment with hyphens":                `<a><!-- a -- b --></a>`,
		"the end of CDATA in a text":            `<a>]]></a>`,
	}
}

// The listener shows that no document makes a request.
func TestDangerousDocumentsAreRefused(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 100)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				close(asked)
				return
			}
			asked <- struct{}{}
			_ = c.Close()
		}
	}()
	for name, xml := range refusedXML() {
		raw := []byte(strings.ReplaceAll(xml, "{at}", listener.Addr().String()))
		for _, b := range []bounds{messageBounds, metadataBounds} {
			got, err := parse(raw, b)
			expectFault(t, name, got, err, ReasonXML)
		}
		got, err := ReadResponse(encode(raw))
		expectFault(t, name, got, err, ReasonXML)
		_, err = ParseMetadata(raw, MetadataWanted{Now: now})
		expectFault(t, name, nil, err, ReasonXML)
		_, err = ReadLogoutRequest(encode(raw), LogoutExpected{URL: testSLO, Provider: provider(), Now: now})
		expectFault(t, name, nil, err, ReasonXML)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	for range asked {
		t.Error("a document made a request")
	}
}

// In a response that is otherwise right, each of these is refused before a signature is verified.
func TestDangerousPartsOfRightResponsesAreRefused(t *testing.T) {
	t.Parallel()
	for _, s := range shapes {
		right := string(answer{shape: s}.xml())
		for name, xml := range map[string]string{
			"a DOCTYPE":                `<!DOCTYPE x>` + right,
			"a DOCTYPE with an entity": `<!DOCTYPE x [<!ENTITY s "` + evilSubject + `">]>` + right,
			"an instruction before":    `<?x y?>` + right,
			"an instruction in it":     strings.Replace(right, "<samlp:Status>", "<?x y?><samlp:Status>", 1),
			"another root":             right + right,
			"a relative namespace":     strings.Replace(right, "<samlp:Status>", `<samlp:Status xmlns:x="1">`, 1),
			"invalid UTF-8":            right + "\xff",
			"UTF-16":                   utf16Text(right),
		} {
			refused(t, s.name+", "+name, []byte(xml), expected(), ReasonXML)
		}
		refused(t, s.name+", 257 KiB", []byte(right+strings.Repeat(" ", 257<<10-len(right))), expected(), ReasonForm)
		if _, err := evaluate([]byte(right+strings.Repeat(" ", MaxMessage-len(right))), expected()); err != nil {
			t.Errorf("%s, 256 KiB: %v", s.name, err)
		}
	}
}

func TestFormsOfMessages(t *testing.T) {
	t.Parallel()
	right := answer{shape: shapes[0]}.xml()
	var deflated bytes.Buffer
	w, err := flate.NewWriter(&deflated, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = w.Write(right); err != nil || w.Close() != nil {
		t.Fatal("not compressed")
	}
	for name, tc := range map[string]struct{ field, reason string }{
		"compressed":        {encode(deflated.Bytes()), ReasonXML},
		"base64url":         {strings.NewReplacer("+", "-", "/", "_").Replace(encode(append(right, []byte("<!-- \u00ff\u00ff\u00ff -->\xff\xfe")...))), ReasonForm},
		"base64 in base64":  {encode([]byte(encode(right))), ReasonXML},
		"no base64":         {string(right), ReasonForm},
		"nothing":           {"", ReasonXML},
		"385 KiB":           {strings.Repeat("A", 385<<10), ReasonForm},
		"half of an octet":  {encode(right)[:11], ReasonForm},
		"text after base64": {encode(right) + "=!", ReasonForm},
	} {
		got, err := ReadResponse(tc.field)
		expectFault(t, name, got, err, tc.reason)
	}
	lines := encode(right)
	for i := 76; i < len(lines); i += 78 {
		lines = lines[:i] + "\r\n" + lines[i:]
	}
	if r, err := ReadResponse(lines); err != nil || r.Issuer != testIDP {
		t.Errorf("lines of base64: %v", err)
	}
	if _, err := base64.StdEncoding.DecodeString(lines); err != nil {
		t.Fatal(err)
	}
}

// namespaced returns an element with a namespace of a size in bytes around a text, which can use its prefix n.
func namespaced(size int, inside string) string {
	return `<x xmlns:n="urn:` + strings.Repeat("x", size-len("urn:")) + `">` + inside + "</x>"
}

// Documents at the bounds that are costly to canonicalize stay within the memory of one response.
func TestCostlyDocumentsStayBounded(t *testing.T) {
	unused, attributes := "", ""
	for i := range 16 {
		unused += fmt.Sprintf(` xmlns:n%d="urn:%d%s"`, i, i, strings.Repeat("x", 200))
		attributes += fmt.Sprintf(` n%d:a=""`, i)
	}
	const elements, most = 4800, 256 // MiB: with the race detector, pools keep less than half as much
	for name, tc := range map[string]struct {
		inside, reason string
		unsigned       bool // it takes too long to sign
	}{
		"unused namespaces":                            {"<x" + unused + ">" + strings.Repeat("<y/>", elements) + "</x>", "", false},
		"a namespace that many elements use":           {namespaced(85, strings.Repeat("<n:y/>", elements)), "", false},
		"a canonical form beyond the bound":            {namespaced(maxNamespace, strings.Repeat("<n:y/>", elements)), ReasonXML, false},
		"namespaces that many attributes use":          {"<x" + unused + ">" + strings.Repeat("<y"+attributes+"/>", elements/16) + "</x>", ReasonXML, false},
		"a namespace of 20 KiB that many elements use": {namespaced(20<<10, strings.Repeat("<n:y/>", elements)), ReasonXML, true},
	} {
		made, change := answer{shape: shapes[2]}, func(root *etree.Element) { at(root, "Assertion").AddChild(element(tc.inside)) }
		if tc.unsigned {
			made.attack = change
		} else {
			made.states = change
		}
		xml := made.xml()
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		got, err := evaluate(xml, expected())
		runtime.ReadMemStats(&after)
		if tc.reason != "" {
			expectFault(t, name, got, err, tc.reason)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > most {
			t.Errorf("%s: one response allocates %d MiB in total", name, used)
		} else {
			t.Logf("%s: %d MiB", name, used)
		}
	}
}
