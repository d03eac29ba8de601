// Package contrast decides whether a text is readable on a color, as WCAG 2.2 defines it (1.4.3, "relative luminance"
// and "contrast ratio"). The operator refuses unreadable brand colors, and the pages find a readable shade for their
// dark scheme.
package contrast

import (
	"fmt"
	"math"
	"strconv"
)

// Minimum is the ratio that text needs at least (WCAG 2.2, 1.4.3, level AA).
const Minimum = 4.5

// Colour is a colour of sRGB.
type Colour struct{ R, G, B uint8 }

// White is the colour of text on a brand's colour.
var White = Colour{255, 255, 255}

// Parse reads a colour as CSS writes it, `#rrggbb`, in either case.
func Parse(written string) (Colour, error) {
	if len(written) == 7 && written[0] == '#' {
		if n, err := strconv.ParseUint(written[1:], 16, 32); err == nil {
			return Colour{uint8(n >> 16), uint8(n >> 8), uint8(n)}, nil
		}
	}
	return Colour{}, fmt.Errorf("%q is not a colour: write # and six hexadecimal digits, such as #1d4ed8", written)
}

// String writes the colour as CSS does.
func (c Colour) String() string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

// Ratio returns the contrast of two colours, 1 to 21, in either order.
func Ratio(a, b Colour) float64 {
	light, dark := a.luminance(), b.luminance()
	if light < dark {
		light, dark = dark, light
	}
	return (light + 0.05) / (dark + 0.05)
}

func (c Colour) luminance() float64 {
	return 0.2126*linear(c.R) + 0.7152*linear(c.G) + 0.0722*linear(c.B)
}

// linear undoes the gamma of one channel.
func linear(channel uint8) float64 {
	c := float64(channel) / 255
	if c <= 0.04045 {
		return c / 12.92
	}
	return math.Pow((c+0.055)/1.055, 2.4)
}

// Toward returns the colour between c and target that is nearest to c and can be read on every surface. If no colour
// between them can be read on every surface, it returns target, even if target cannot be read either.
func Toward(c, target Colour, surfaces ...Colour) Colour {
	const steps = 100
	for step := range steps {
		mixed := Colour{mix(c.R, target.R, step, steps), mix(c.G, target.G, step, steps), mix(c.B, target.B, step, steps)}
		if readable(mixed, surfaces) {
			return mixed
		}
	}
	return target
}

func readable(c Colour, surfaces []Colour) bool {
	for _, surface := range surfaces {
		if Ratio(c, surface) < Minimum {
			return false
		}
	}
	return true
}

func mix(from, to uint8, step, steps int) uint8 {
	return uint8((int(from)*(steps-step) + int(to)*step) / steps)
}
