// Package phone reads phone numbers that can receive texts.
package phone

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// Number is a phone number that can receive texts.
type Number struct {
	// E164 is the number in international form, with `+` and without blanks.
	E164 string
	// Region is libphonenumber's: two capital letters (ISO 3166-1), or 001 for numbers of no country, such as satellite
	// phones.
	Region string
}

// form is E.164: ASCII digits only, while the library would also read other scripts', letters and extensions.
var form = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)

// Parse reads a number in E.164 form, blanks around it allowed, that is a mobile one by its range, or may be one where
// ranges do not tell. allowed are the regions it may be of; nil: all, empty: none. An error says how to mend it, and does
// not hold the number.
func Parse(text string, allowed *[]string) (Number, error) {
	text = strings.TrimSpace(text)
	if !form.MatchString(text) {
		return Number{}, errors.New("must be in international form: + and 7 to 15 digits, without blanks")
	}
	parsed, err := phonenumbers.Parse(text, "")
	// A number with a trunk prefix is mended by the library, and so is not the one that was sent.
	if err != nil || !phonenumbers.IsValidNumber(parsed) || phonenumbers.Format(parsed, phonenumbers.E164) != text {
		return Number{}, errors.New("is no number that exists: check the country code and the digits")
	}
	switch phonenumbers.GetNumberType(parsed) {
	case phonenumbers.MOBILE, phonenumbers.FIXED_LINE_OR_MOBILE:
	default:
		return Number{}, errors.New("is no mobile number: it cannot receive texts")
	}
	number := Number{E164: text, Region: phonenumbers.GetRegionCodeForNumber(parsed)}
	if allowed != nil && !slices.Contains(*allowed, number.Region) {
		return Number{}, errors.New("is of a country that texts are not sent to")
	}
	return number, nil
}
