package domainname

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	label := strings.Repeat("a", 63)
	for _, tt := range []struct{ in, want, fault string }{
		{in: "acme.example", want: "acme.example"},
		{in: " Acme.Example\t", want: "acme.example"},
		{in: "mail.acme.co.uk", want: "mail.acme.co.uk"},
		{in: "xn--mnchen-3ya.de", want: "xn--mnchen-3ya.de"},
		{in: "ab--c.example", want: "ab--c.example"},
		{in: "1.acme.example", want: "1.acme.example"},
		{in: label + ".example", want: label + ".example"},

		{in: "", fault: "blank"},
		{in: " \t", fault: "blank"},
		{in: "example", fault: "one label"},
		{in: "acme.example.", fault: "ends with a dot"},
		{in: ".", fault: "ends with a dot"},
		{in: ".acme.example", fault: "label"},
		{in: "acme..example", fault: "label"},
		{in: "*.acme.example", fault: "wildcard"},
		{in: "*", fault: "wildcard"},
		{in: "-acme.example", fault: "label"},
		{in: "acme-.example", fault: "label"},
		{in: "ac_me.example", fault: "label"},
		{in: "ac me.example", fault: "label"},
		{in: "acme.example\n", fault: "label"},
		{in: "acme\x00.example", fault: "label"},
		{in: label + "a.example", fault: "label"},
		{in: strings.Repeat("a.", 115) + "example", fault: "characters"},
		{in: "192.0.2.1", fault: "IP address"},
		{in: "2001:db8::1", fault: "URL"},
		{in: "acme.1", fault: "number"},
		{in: "ada@acme.example", fault: "URL"},
		{in: "https://acme.example", fault: "URL"},
		{in: "com", fault: "one label"},
		{in: "co.uk", fault: "public suffix"},
		{in: "github.io", fault: "public suffix"},
		{in: "xn--p1ai.", fault: "ends with a dot"},
		{in: "münchen.de", fault: "xn--"},
		{in: "\u0430cme.example", fault: "xn--"},
		{in: "\uff41cme.example", fault: "xn--"},
		{in: "\u212aelvin.example", fault: "xn--"},
		{in: "acme\u3002example", fault: "xn--"},
		{in: "acme\u200d.example", fault: "xn--"},
		{in: "xn--a.example", fault: "xn--"},
		{in: "xn--acme-.example", fault: "label"},
		{in: "xn--xn--0-b0a.example", fault: "xn--"}, // an A-label of an A-label
		{in: "xn--acme-wtd.example", fault: "xn--"},
		{in: "xn--ls8h\xff.example", fault: "xn--"},
	} {
		got, err := Parse(tt.in)
		if tt.fault == "" && (err != nil || got != tt.want) {
			t.Errorf("Parse(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
		}
		if tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)) {
			t.Errorf("Parse(%q) = %q, %v; want an error with %q", tt.in, got, err, tt.fault)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"acme.example", "xn--mnchen-3ya.de", "*.acme.example", "co.uk", "192.0.2.1", "acme.example.", "\u0430cme.example", "xn--a.example", "a..b", "-a.b", "acme.1", "XN--MNCHEN-3YA.DE",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		domain, err := Parse(in)
		if err != nil {
			return
		}
		if again, err := Parse(domain); err != nil || again != domain {
			t.Errorf("Parse(%q) = %q, and Parse of that is %q, %v", in, domain, again, err)
		}
		if !isASCII(in) || domain != strings.ToLower(strings.Trim(in, " \t")) {
			t.Errorf("Parse(%q) = %q, which is another name", in, domain)
		}
		// A-labels are the only form of what they stand for: names that browsers show alike are equal.
		shown, err := labels.ToUnicode(domain)
		if again, againErr := labels.ToASCII(shown); err != nil || againErr != nil || again != domain {
			t.Errorf("Parse(%q) = %q, which is shown as %q, and that is %q", in, domain, shown, again)
		}
		if len(domain) > MaxLength || !strings.Contains(domain, ".") || strings.ContainsFunc(domain, func(r rune) bool { return r != '.' && outsideLabels(r) }) {
			t.Errorf("Parse(%q) = %q, which has no form of a domain", in, domain)
		}
	})
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > '~' })
}
