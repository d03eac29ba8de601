package totp

import (
	"errors"
	"fmt"
	"image/color"
	"strings"

	"github.com/boombuler/barcode/qr"
)

// quietZone is the width of the light border of a QR code, in modules (ISO/IEC 18004 5.3.8).
const quietZone = 4

// ErrTooLong means that a URI does not fit into a QR code.
var ErrTooLong = errors.New("the URI does not fit into a QR code")

// SVG returns a QR code of a URI as an SVG element: dark modules on white in every color scheme, one unit for each
// module, without scripts and references. The reader's page sets the size. The error is ErrTooLong, from about 2,300
// bytes on.
func SVG(uri string) (string, error) {
	matrix, err := qr.Encode(uri, qr.M, qr.Auto)
	if err != nil {
		return "", ErrTooLong // the library's error may contain the URI, and so the secret
	}
	width := matrix.Bounds().Dx()
	var path strings.Builder
	for y := range width {
		for x := 0; x < width; {
			run := 0
			for x+run < width && matrix.At(x+run, y) == color.Black {
				run++
			}
			if run > 0 {
				fmt.Fprintf(&path, "M%d %dh%dv1h-%dz", x+quietZone, y+quietZone, run, run)
			}
			x += max(run, 1)
		}
	}
	size := width + 2*quietZone
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="QR code" shape-rendering="crispEdges">`+
		`<rect width="%d" height="%d" fill="#fff"/><path fill="#000" d="%s"/></svg>`, size, size, size, size, path.String()), nil
}
