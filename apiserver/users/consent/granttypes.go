package consent

import (
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// Names of grant types in the protocol.
const (
	// GrantCode is the grant type of authorization codes (RFC 6749 4.1.3).
	GrantCode = "authorization_code"
	// GrantRefresh is the grant type of refresh tokens (RFC 6749 6).
	GrantRefresh = "refresh_token"
	// GrantCredentials is the grant type of clients that act for themselves (RFC 6749 4.4).
	GrantCredentials = "client_credentials"
	// GrantDevice is the grant type of devices (RFC 8628 3.4).
	GrantDevice = "urn:ietf:params:oauth:grant-type:device_code"
)

// GrantType is a grant type of the token endpoint.
type GrantType struct {
	// Name is the value of grant_type, and Declared the value in grantTypes of an OAuthClient.
	Name     string
	Declared v1alpha1.GrantType
	// ByUser reports whether a user grants the access. Such a grant type needs a frontend host, and clients that
	// register themselves may use it. A client uses the other grant types for itself, so only a client that
	// authenticates may have them.
	ByUser bool
}

// GrantTypes are all grant types. Registration and the server metadata read them here; package oauth serves each.
var GrantTypes = []GrantType{
	{Name: GrantCode, Declared: v1alpha1.GrantTypeAuthorizationCode, ByUser: true},
	{Name: GrantRefresh, Declared: v1alpha1.GrantTypeRefreshToken, ByUser: true},
	{Name: GrantCredentials, Declared: v1alpha1.GrantTypeClientCredentials},
	{Name: GrantDevice, Declared: v1alpha1.GrantTypeDeviceCode, ByUser: true},
}

// GrantTypeNamed returns the grant type with a name, and false if there is none.
func GrantTypeNamed(name string) (GrantType, bool) {
	i := slices.IndexFunc(GrantTypes, func(g GrantType) bool { return g.Name == name })
	if i < 0 {
		return GrantType{}, false
	}
	return GrantTypes[i], true
}

// grantTypeNames lists the names of grant types for a message: of those that a user grants, or of all.
func grantTypeNames(all bool) string {
	var names []string
	for _, grant := range GrantTypes {
		if all || grant.ByUser {
			names = append(names, grant.Name)
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
