// Package domainname validates the domains of organizations: those that Connection resources declare, and those that
// organizations prove.
package domainname

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// Challenge begins the name of the record that proves a domain; the domain follows.
const Challenge = "_cardea-challenge."

const (
	// MaxLength is the maximum length of a domain, in characters: the name of its record has at most 253. maxLabel is that
	// of a label (RFC 1035 2.3.4).
	MaxLength = 253 - len(Challenge)
	maxLabel  = 63
)

// labels validates A-labels (RFC 5890). Parse checks hyphens: names such as ab--c.example exist.
var labels = idna.New(idna.ValidateLabels(true), idna.BidiRule(), idna.CheckHyphens(false))

// Parse returns a domain in lower case, or an error that says how to fix it. A domain is one exact name of a host with
// at least two labels, of which those in another script are A-labels. Wildcards, addresses, trailing dots and public
// suffixes are refused, and so are characters beyond ASCII: nothing is mapped, so that no look-alike becomes another
// name.
func Parse(s string) (string, error) {
	if strings.ContainsFunc(s, func(r rune) bool { return r > '~' }) { // before ToLower, which maps U+212A to k
		return "", errors.New("has characters of another script: write it as registries list it (xn--...)")
	}
	domain := strings.ToLower(strings.Trim(s, " \t"))
	switch {
	case domain == "":
		return "", errors.New("must not be blank: write a domain such as acme.example")
	case len(domain) > MaxLength:
		return "", fmt.Errorf("has %d characters: a domain has at most %d", len(domain), MaxLength)
	case strings.Contains(domain, "*"):
		return "", errors.New("is a wildcard: write one exact domain; each subdomain is proven by itself")
	case strings.HasSuffix(domain, "."):
		return "", errors.New("ends with a dot: write it without")
	case strings.ContainsAny(domain, "@:/"):
		return "", errors.New("is an address or a URL: write its domain alone, such as acme.example")
	}
	if _, err := netip.ParseAddr(domain); err == nil {
		return "", errors.New("is an IP address: write a domain such as acme.example")
	}
	if err := form(domain); err != nil {
		return "", err
	}
	return domain, Check(domain)
}

// form checks that a domain has the form of a host's name (RFC 1123 2.1), with at least two labels. No top-level domain
// is a number.
func form(domain string) error {
	all := strings.Split(domain, ".")
	if len(all) < 2 {
		return errors.New("has one label: write a domain such as acme.example")
	}
	for _, label := range all {
		if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' || strings.ContainsFunc(label, outsideLabels) {
			return fmt.Errorf("has a label that is not 1 to %d letters, digits and inner hyphens: write a domain such as acme.example", maxLabel)
		}
	}
	if last := all[len(all)-1]; strings.Trim(last, "0123456789") == "" {
		return errors.New("ends with a number, like an IP address: write a domain such as acme.example")
	}
	return nil
}

func outsideLabels(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-')
}

// Check validates a domain that has the form of one, in lower case. The error says how to fix it.
func Check(domain string) error {
	if !valid(domain) {
		return errors.New("has an invalid label for a name in another script: write it as registries list it (xn--...)")
	}
	if suffix, _ := publicsuffix.PublicSuffix(domain); suffix == domain {
		return errors.New("is a public suffix, below which everyone can register domains: write the organization's own domain")
	}
	return nil
}

// valid reports whether the A-labels of a domain are valid and the only form of what they stand for: two names that
// browsers show alike would otherwise differ.
func valid(domain string) bool {
	if _, err := labels.ToASCII(domain); err != nil {
		return false
	}
	shown, err := labels.ToUnicode(domain)
	if err != nil {
		return false
	}
	again, err := labels.ToASCII(shown)
	return err == nil && again == domain
}
