package bearer

import (
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/internal/document"
)

// issued are the algorithms with which Cardea's own authorization servers sign.
var issued = []jose.SignatureAlgorithm{jose.ES256, jose.RS256}

// VerifySigned verifies the signature of a token by one of an OAuth app's keys, and decodes its claims into claims, a
// pointer. typ is the required type in the header. It returns the id of the key. It refuses signatures of an expired
// key, because other parties may know that key by now. It does not check times in the claims.
func VerifySigned(raw, typ string, keys []document.SigningKey, now time.Time, claims any) (keyID string, ok bool) {
	parsed, err := jwt.ParseSigned(raw, issued)
	if err != nil || len(parsed.Headers) != 1 || parsed.Headers[0].ExtraHeaders[jose.HeaderType] != typ {
		return "", false
	}
	header := parsed.Headers[0]
	for _, key := range keys {
		var public jose.JSONWebKey
		if key.ID != header.KeyID || !valid(key, now) || public.UnmarshalJSON(key.Public) != nil || public.Algorithm != header.Algorithm {
			continue
		}
		return key.ID, parsed.Claims(public.Key, claims) == nil
	}
	return "", false
}

// valid reports whether a key's signatures are accepted at a time.
func valid(key document.SigningKey, now time.Time) bool {
	return key.ExpiresAt == nil || now.Before(*key.ExpiresAt)
}

// validID reports whether keys has a key with an id whose signatures are accepted at a time.
func validID(keys []document.SigningKey, id string, now time.Time) bool {
	for _, key := range keys {
		if key.ID == id {
			return valid(key, now)
		}
	}
	return false
}
