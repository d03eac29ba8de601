package saml

import (
	"fmt"
	"strings"
	"testing"

	"github.com/beevik/etree"
)

// BenchmarkEvaluate evaluates one response of each shape.
func BenchmarkEvaluate(b *testing.B) {
	for _, s := range shapes {
		field := encode(answer{shape: s}.xml())
		b.Run(s.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r, err := ReadResponse(field)
				if err != nil {
					b.Fatal(err)
				}
				if _, err = r.Evaluate(expected()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRefuse refuses responses of an attacker that are as costly as the bounds allow.
func BenchmarkRefuse(b *testing.B) {
	attributes := ""
	for i := range 31 {
		attributes += fmt.Sprintf(` a%d=""`, i)
	}
	for name, wide := range map[string]string{
		"elements":   strings.Repeat("<y/>", 4900),
		"attributes": strings.Repeat("<y"+attributes+"/>", 155),
		"comments":   strings.Repeat("<!---->", 1000),
		"one text":   strings.Repeat("x", 240<<10),
	} {
		states := func(root *etree.Element) { at(root, "Assertion").AddChild(element("<x>" + wide + "</x>")) }
		xml := answer{shape: shapes[0], states: states, by: &keys().attacker}.xml()
		if len(xml) > MaxMessage {
			b.Fatalf("%s: %d bytes", name, len(xml))
		}
		field := encode(xml)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r, err := ReadResponse(field)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := r.Evaluate(expected()); err == nil {
					b.Fatal("accepted")
				}
			}
		})
	}
}

// BenchmarkParse reads documents that are as costly as the bounds allow: elements with attributes of prefixes. The
// document of 1 MiB is over the bounds.
func BenchmarkParse(b *testing.B) {
	declared, attributes := "", ""
	for i := range ownDeclarations {
		declared += fmt.Sprintf(` xmlns:n%d="urn:%d"`, i, i)
		attributes += fmt.Sprintf(` n%d:a=""`, i)
	}
	element := "<y" + attributes + "/>"
	for name, tc := range map[string]struct {
		bounds bounds
		bytes  int
	}{
		"message": {messageBounds, (messageBounds.attributes/ownDeclarations - 1) * len(element)}, "metadata": {metadataBounds, (metadataBounds.attributes/ownDeclarations - 1) * len(element)},
		"metadata over the bounds": {metadataBounds, MaxMetadata - 1<<10},
	} {
		raw := []byte("<x" + declared + ">" + strings.Repeat(element, tc.bytes/len(element)) + "</x>")
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if _, err := parse(raw, tc.bounds); (err == nil) != (tc.bytes < MaxMetadata-1<<10) {
					b.Fatal(err)
				}
			}
		})
	}
}
