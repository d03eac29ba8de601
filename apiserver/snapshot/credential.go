package snapshot

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/permission"
)

// App is the content of an APIAuthApp, prepared for requests.
type App struct {
	document.APIAuthApp
	// Ceiling is the set of permissions that a key of the app can have at most.
	Ceiling permission.Set
}

// Credential is a key's permissions and address ranges, prepared for requests.
type Credential struct {
	Permissions permission.Set
	allowed     []netip.Prefix
}

// AllowsFrom reports whether the key is accepted from an address. A key without ranges is accepted from any address.
func (c Credential) AllowsFrom(address netip.Addr) bool {
	address = address.Unmap()
	return len(c.allowed) == 0 || slices.ContainsFunc(c.allowed, func(p netip.Prefix) bool { return p.Contains(address) })
}

func newCredential(key *document.APIKey) (Credential, error) {
	c := Credential{Permissions: permission.NewSet(key.Permissions)}
	for _, text := range key.AllowedCIDRs {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			// If the range were skipped, a key with only this range would be accepted from any address.
			return Credential{}, fmt.Errorf("allowed CIDR %q: %w", text, err)
		}
		c.allowed = append(c.allowed, prefix.Masked())
	}
	return c, nil
}
