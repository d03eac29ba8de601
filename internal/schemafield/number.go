package schemafield

import (
	"math"
	"strconv"
	"strings"
)

// longestNumber is how many characters a number has at most.
const longestNumber = 40

// Fits reports whether a JSON number has a size with which exact arithmetic is fast: at most 40 characters, and the
// size of a float64. An exponent of six digits would make a number of a million digits.
func Fits(number string) bool {
	if len(number) > longestNumber {
		return false
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return false // beyond the largest float64
	}
	mantissa, _, _ := strings.Cut(strings.ToLower(number), "e")
	return math.Abs(value) >= math.SmallestNonzeroFloat64 || !strings.ContainsAny(mantissa, "123456789")
}
