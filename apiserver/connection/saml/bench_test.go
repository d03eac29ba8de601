package saml

import "testing"

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
