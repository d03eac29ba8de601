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

// form is E.164: ASCII digits only. The library would also accept digits of other scripts, letters and extensions.
var form = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)

// Parse reads a number in E.164 form, blanks around it allowed, that is a mobile number by its range, or may be one if
// ranges do not distinguish. allowed are the allowed regions; nil: all, empty: none. An error says how to fix it, and
// does not contain the number.
func Parse(text string, allowed *[]string) (Number, error) {
	text = strings.TrimSpace(text)
	if !form.MatchString(text) {
		return Number{}, errors.New("must be in international form: + and 7 to 15 digits, without blanks")
	}
	parsed, err := phonenumbers.Parse(text, "")
	// The library corrects a number with a trunk prefix, so the result differs from the number that was sent.
	if err != nil || !phonenumbers.IsValidNumber(parsed) || phonenumbers.Format(parsed, phonenumbers.E164) != text {
		return Number{}, errors.New("does not exist: check the country code and the digits")
	}
	switch phonenumbers.GetNumberType(parsed) {
	case phonenumbers.MOBILE, phonenumbers.FIXED_LINE_OR_MOBILE:
	default:
		return Number{}, errors.New("is no mobile number: it cannot receive texts")
	}
	number := Number{E164: text, Region: phonenumbers.GetRegionCodeForNumber(parsed)}
	if allowed != nil && !slices.Contains(*allowed, number.Region) {
		return Number{}, errors.New("belongs to a country to which text messages are not sent")
	}
	return number, nil
}
