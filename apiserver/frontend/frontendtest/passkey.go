package frontendtest

import (
	"github.com/descope/virtualwebauthn"

	"github.com/cardea-iam/cardea/apiserver/users/passkey"
)

// NewCredential returns a new credential of P-256. The library omits leading zeros of coordinates, which makes one of
// 128 keys malformed (RFC 9053 7.1.1): those are replaced.
func NewCredential() virtualwebauthn.Credential {
	for {
		if key := virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2); passkey.ValidateKey(key.Key.AttestationData()) == nil {
			return key
		}
	}
}
