// Package relyingparty decides which domain the passkeys of a deployment belong to, and from which origins browsers let
// pages use them (WebAuthn Level 3, 5.1.3 and 5.11).
package relyingparty

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// MaxLabels is how many registrable labels browsers accept at least in a list of related origins (WebAuthn Level 3,
// 5.11.1). They may ignore the origins of further labels.
const MaxLabels = 5

// localhost may be a relying party, although it has no registrable domain: browsers treat it as a secure context.
const localhost = "localhost"

// ID returns the id of a deployment's relying party: the declared one, otherwise the first host that is not an IP
// address, for which browsers have no passkeys; "" if there is neither.
func ID(declared string, hosts []string) string {
	if i := slices.IndexFunc(hosts, func(host string) bool { return !isAddress(host) }); declared == "" && i >= 0 {
		return hosts[i]
	}
	return declared
}

// Validate returns an error for a host name that cannot be a declared relying party: an IP address or a part of one,
// and a public suffix other than localhost.
func Validate(id string) error {
	if isAddress(id) {
		return fmt.Errorf("%q is no domain name: browsers use passkeys for domain names only", id)
	}
	if id != localhost && isPublicSuffix(id) {
		return fmt.Errorf("%q is a public suffix, below which different owners register names, so browsers refuse it: use your own domain", id)
	}
	return nil
}

// Origins returns the origins whose pages may use the passkeys, each once: the origins of a deployment's hosts, then
// the allowed ones. A nil originOf means https with the default port.
func Origins(hosts, allowed []string, originOf func(host string) string) []string {
	if originOf == nil {
		originOf = func(host string) string { return "https://" + host }
	}
	var origins []string
	for _, host := range hosts {
		origins = append(origins, originOf(host))
	}
	for _, origin := range allowed {
		if !slices.Contains(origins, origin) {
			origins = append(origins, origin)
		}
	}
	return origins
}

// Contains reports whether an origin lies within a relying party: its host is the id, or a name below an id that is not
// a public suffix. Browsers let pages of such an origin use the passkeys without any list.
func Contains(id, origin string) bool {
	host := hostOf(origin)
	return host == id || strings.HasSuffix(host, "."+id) && !isPublicSuffix(id) && !isAddress(host)
}

// Related splits the origins outside a relying party. Pages of related origins can use the passkeys if the relying
// party lists them (List). Pages of unusable origins cannot, because their hosts have no registrable domain.
func Related(id string, origins []string) (related, unusable []string) {
	for _, origin := range origins {
		switch {
		case Contains(id, origin):
		case label(origin) == "":
			unusable = append(unusable, origin)
		default:
			related = append(related, origin)
		}
	}
	return related, unusable
}

// Labels returns the registrable labels of origins, each once: `acme` for https://login.acme.co.uk.
func Labels(origins []string) []string {
	var labels []string
	for _, origin := range origins {
		if l := label(origin); l != "" && !slices.Contains(labels, l) {
			labels = append(labels, l)
		}
	}
	return labels
}

// Path is where the host of a relying party serves List (WebAuthn Level 3, 5.11).
const Path = "/.well-known/webauthn"

// List returns the JSON that lets pages of related origins use the passkeys.
func List(origins []string) []byte {
	out, err := json.Marshal(struct {
		Origins []string `json:"origins"`
	}{append([]string{}, origins...)})
	if err != nil {
		panic(err) // strings are always marshaled
	}
	return out
}

// hostOf returns the host of an origin, "" if it is malformed.
func hostOf(origin string) string {
	u, err := url.Parse(origin)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// label returns the first label of an origin's registrable domain, "" if it has none.
func label(origin string) string {
	host := hostOf(origin)
	if isAddress(host) {
		return ""
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(domain, ".")
	return first
}

func isPublicSuffix(host string) bool {
	suffix, _ := publicsuffix.PublicSuffix(host)
	return suffix == host
}

// isAddress reports whether a host is an IP address, or ends like one: no top-level domain is a number.
func isAddress(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last != "" && strings.Trim(last, "0123456789") == ""
}
