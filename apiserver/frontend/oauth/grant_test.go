package oauth

import (
	"maps"
	"slices"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/users/consent"
)

// The token endpoint serves exactly the grant types that the metadata and the registration name.
func TestEveryGrantTypeIsServed(t *testing.T) {
	t.Parallel()
	var named []string
	for _, grant := range consent.GrantTypes {
		named = append(named, grant.Name)
	}
	slices.Sort(named)
	if served := slices.Sorted(maps.Keys(grants)); !slices.Equal(served, named) {
		t.Errorf("served %v, named %v", served, named)
	}
}
