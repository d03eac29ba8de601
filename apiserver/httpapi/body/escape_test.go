package body

import (
	"strings"
	"testing"
)

func TestNamesInFaultsAreEscaped(t *testing.T) {
	o, err := Parse([]byte(`{"a\u001b[2J":1,"b\u202e":1,"b\u202e":2}`))
	if err != nil {
		t.Fatal(err)
	}
	o.Close()
	if told := o.Err().Error(); strings.ContainsAny(told, "\x1b\u202e") || !strings.Contains(told, "a\uFFFD[2J") {
		t.Errorf("%q", told)
	}
}
