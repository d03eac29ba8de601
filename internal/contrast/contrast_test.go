package contrast

import (
	"math"
	"testing"
)

// The ratios of well-known pairs, as common contrast checkers print them.
func TestRatio(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want float64
	}{
		{"#000000", "#ffffff", 21},
		{"#ffffff", "#000000", 21},
		{"#ffffff", "#ffffff", 1},
		{"#777777", "#ffffff", 4.48},
		{"#767676", "#ffffff", 4.54},
		{"#0000ff", "#ffffff", 8.59},
		{"#ff0000", "#ffffff", 4.00},
		{"#1D4ED8", "#ffffff", 6.70},
	} {
		a, err := Parse(tc.a)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Parse(tc.b)
		if err != nil {
			t.Fatal(err)
		}
		if got := Ratio(a, b); math.Abs(got-tc.want) > 0.005 {
			t.Errorf("%s on %s: %.3f, want %.2f", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, written := range []string{"", "#", "#fff", "123456", "#12345", "#1234567", "#12345g", "#+12345", "# 12345", "red", "#12_456"} {
		if c, err := Parse(written); err == nil {
			t.Errorf("%q is %v", written, c)
		}
	}
	c, err := Parse("#0aFf10")
	if err != nil || c != (Colour{10, 255, 16}) || c.String() != "#0aff10" {
		t.Errorf("%v, %v", c, err)
	}
}

// Every colour has a shade towards white that can be read on a dark surface, and one towards black on a light one; a
// colour that can be read already stays.
func TestToward(t *testing.T) {
	dark, black := Colour{24, 26, 32}, Colour{}
	for r := 0; r < 256; r += 17 {
		for g := 0; g < 256; g += 17 {
			for b := 0; b < 256; b += 17 {
				c := Colour{uint8(r), uint8(g), uint8(b)}
				if shade := Toward(c, White, dark); Ratio(shade, dark) < Minimum {
					t.Fatalf("%v on %v: %v", c, dark, shade)
				}
				if shade := Toward(c, black, White, Colour{246, 247, 249}); Ratio(shade, Colour{246, 247, 249}) < Minimum {
					t.Fatalf("%v on white: %v", c, shade)
				}
				if Ratio(c, dark) >= Minimum && Toward(c, White, dark) != c {
					t.Fatalf("%v can be read, and was changed", c)
				}
			}
		}
	}
}
