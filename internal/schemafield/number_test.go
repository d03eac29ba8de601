package schemafield

import (
	"strings"
	"testing"
)

func TestNumbersThatFit(t *testing.T) {
	for number, want := range map[string]bool{
		"0": true, "-0": true, "0e999999": true, "1": true, "9007199254740993": true, "1.7976931348623157e308": true, "-1e308": true, "5e-324": true,
		strings.Repeat("9", 40): true, strings.Repeat("9", 41): false, "1e309": false, "-1e309": false, "1e999999": false, "1e-999999": false,
		"1E-400": false, "0.1000000000000000055": true,
	} {
		if Fits(number) != want {
			t.Errorf("%s: %v", number, !want)
		}
	}
}
