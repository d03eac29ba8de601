package phone

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, region := range map[string]string{
		// The ranges of +1 do not distinguish mobile numbers; area codes identify countries.
		"+12025550123": "US", "+14155552671": "US", "+17875551234": "PR", "+16135550123": "CA", "+18764256789": "JM", "+18095551234": "DO",
		"+4915112345678": "DE", "+33612345678": "FR", "+447400123456": "GB", "+447781123456": "GG", "+447624123456": "IM", "+393123456789": "IT",
		"+77012345678": "KZ", "+79161234567": "RU", "+5491123456789": "AR", "+528112345678": "MX", "+919876543210": "IN", "+85291234567": "HK",
		" +14155552671\t": "US",

		"": "", "+": "", "14155552671": "", "0014155552671": "", "+1 415 555 2671": "", "+1-415-555-2671": "", "+1(415)5552671": "", "+1.415.555.2671": "",
		"+1415555267": "", "+141555526711": "", "+14155552671abc": "", "+1415555CALL": "", "+14155552671;ext=3": "", "+14155552671x3": "", "tel:+14155552671": "",
		"＋14155552671": "", "+１４１５５５５２６７１": "", "+١٤١٥٥٥٥٢٦٧١": "", "++14155552671": "", "+14155552671\n+14155552672": "", "+1415555\u200b2671": "",
		"+0123456789": "", "+999123456789": "", "+1234567890123456": "",
		"+447700900123":  "", // reserved for films
		"+4407400123456": "", // with a trunk prefix
		"+442079460000":  "", // fixed line
		"+4930123456":    "", // fixed line
		"+445612345678":  "", // VoIP
		"+447010123456":  "", // personal number
		"+18005551234":   "", // toll-free
		"+498001234567":  "", // toll-free
		"+80012345678":   "", // toll-free of no country
		"+19005551234":   "", // premium
		"+33899123456":   "", // premium
		"+449098790123":  "", // premium
		"+979123456789":  "", // premium of no country
		"+110":           "", // short
		"+4470":          "", // short
		// Twilio's magic numbers are personal numbers (+1 500): tests send to them directly, and no account can have
		// one.
		"+15005550001": "", "+15005550002": "", "+15005550003": "", "+15005550004": "", "+15005550006": "", "+15005550009": "",
	} {
		got, err := Parse(text, nil)
		if region == "" && err == nil || region != "" && (err != nil || got != Number{E164: strings.TrimSpace(text), Region: region}) {
			t.Errorf("Parse(%q) = %v, %v; want region %q", text, got, err, region)
		}
	}
}

func TestAllowedRegions(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		allowed *[]string
		number  string
		want    bool
	}{
		"absent is all":        {nil, "+4915112345678", true},
		"empty is none":        {&[]string{}, "+14155552671", false},
		"listed":               {&[]string{"DE", "US"}, "+14155552671", true},
		"not listed":           {&[]string{"US"}, "+4915112345678", false},
		"Canada is not the US": {&[]string{"US"}, "+16135550123", false},
		"Jamaica neither":      {&[]string{"US"}, "+18764256789", false},
	} {
		if _, err := Parse(tt.number, tt.allowed); (err == nil) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// For any input, an error does not repeat the input, and an accepted number is the trimmed input.
func TestParseOfAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`\+[0-9]{1,17}`)).Draw(t, "text")
		number, err := Parse(text, nil)
		if err == nil && number.E164 != strings.TrimSpace(text) {
			t.Fatalf("%q became %q", text, number.E164)
		}
		if err != nil && len(text) > 6 && strings.Contains(err.Error(), text) {
			t.Fatalf("the error holds the number: %v", err)
		}
	})
}

// FuzzParse: a number that is accepted is in E.164 form and parses to the same number again; an error never contains
// the input.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"+12025550123", " +4915112345678 ", "+1", "tel:+12025550123", "+１２０２５５５０１２３", "+12025550123;ext=1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, typed string) {
		number, err := Parse(typed, nil)
		if err != nil {
			if text := strings.TrimSpace(typed); len(text) > 6 && strings.Contains(err.Error(), text) {
				t.Fatalf("%q is echoed: %v", typed, err)
			}
			return
		}
		again, err := Parse(number.E164, &[]string{number.Region})
		if err != nil || again != number || !form.MatchString(number.E164) {
			t.Fatalf("%q became %+v, then %+v, %v", typed, number, again, err)
		}
	})
}
