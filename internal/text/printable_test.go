package text

import "testing"

func TestPrintable(t *testing.T) {
	const want = "a\uFFFD[2J\uFFFDb\uFFFD\uFFFD\u200Dé"
	if got := Printable("a\x1b[2J\u009bb\u202e\n\u200dé"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
