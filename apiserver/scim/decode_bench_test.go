package scim

import (
	"strings"
	"testing"
)

// BenchmarkReadLargestBodies reads the most expensive bodies of a mebibyte.
func BenchmarkReadLargestBodies(b *testing.B) {
	for name, body := range map[string]string{
		"user":  `{"userName":"a","schemas":["` + strings.Repeat(`x","`, 200<<10) + `y"]}`,
		"patch": `{"Operations":[` + strings.Repeat(`{"op":"add","path":"nickName","value":"x"},`, 9999) + `{"op":"add","path":"nickName","value":"y"}]}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if name == "user" {
					if _, err := ReadUser([]byte(body)); err != nil {
						b.Fatal(err)
					}
				} else if _, err := ReadPatch([]byte(body)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
