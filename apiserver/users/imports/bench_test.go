package imports

import (
	"testing"
	"time"
)

func BenchmarkReadSignIn(b *testing.B) {
	raw := Raw{1, []byte(`{"type":"signin","external_id":"s1234567","user":"u123456","signed_in_at":"2024-03-01T08:30:00.25+01:00","method":"password","ip_address":"192.0.2.17"}`)}
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		if line := Read(raw, now); line.Refused != nil {
			b.Fatal(line.Refused)
		}
	}
}
