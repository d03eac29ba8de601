package upstream

import (
	stdjson "encoding/json"
	"regexp"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/cardea-iam/cardea/internal/keyset"
)

const (
	// maxKeys is the largest number of keys in a provider's set, whatever their use. Some providers publish the keys of
	// all their regions.
	maxKeys = 128
	// maxKeyID bounds the id of a key, in bytes.
	maxKeyID = 512
)

// keySet has the public signature keys of a provider.
type keySet struct {
	set jose.JSONWebKeySet
	// issuers are those that Microsoft states for keys, by the index of the key; "" for any issuer.
	issuers []string
}

// key is a key as a provider publishes it. The certificates are not read: nothing verifies them.
type key struct {
	Type   string `json:"kty"`
	ID     string `json:"kid,omitzero"`
	Use    string `json:"use,omitzero"`
	Alg    string `json:"alg,omitzero"`
	Curve  string `json:"crv,omitzero"`
	N      string `json:"n,omitzero"`
	E      string `json:"e,omitzero"`
	X      string `json:"x,omitzero"`
	Y      string `json:"y,omitzero"`
	Issuer string `json:"issuer,omitzero"`
	// Private and Symmetric are the members of secret keys.
	Private   jsontext.Value `json:"d,omitzero"`
	Symmetric jsontext.Value `json:"k,omitzero"`
}

// parseKeys reads a key set. It refuses sets with secret keys, with two keys of one id, or with too many or unusable
// keys. It leaves out keys that are not for signatures, and those of types and curves that no accepted algorithm uses.
// The error is a *failure.
func parseKeys(text string) (*keySet, error) {
	var stated struct {
		Keys []key `json:"keys"`
	}
	if err := json.Unmarshal([]byte(text), &stated); err != nil {
		return nil, fail(invalidMetadata, "the key set is no valid JSON Web Key Set")
	}
	if len(stated.Keys) > maxKeys {
		return nil, fail(invalidMetadata, "the key set has %d keys; a set has at most %d", len(stated.Keys), maxKeys)
	}
	parsed, seen := &keySet{}, map[[2]string]bool{}
	for i := range stated.Keys {
		k := &stated.Keys[i]
		switch {
		case k.Private != nil || k.Symmetric != nil || k.Type == "oct":
			return nil, fail(invalidMetadata, "keys[%d] of the key set is secret: the provider must publish public keys alone, and replace this one", i)
		case k.Use != "" && k.Use != "sig" || !supported(k):
			continue
		case len(k.ID) > maxKeyID || len(k.Issuer) > maxURL:
			return nil, fail(invalidMetadata, "keys[%d] of the key set has a kid or an issuer that is too long", i)
		case k.ID != "" && seen[[2]string{k.ID, k.Issuer}]:
			return nil, fail(invalidMetadata, "the key set has two keys of the kid %q", clip(k.ID, 100))
		}
		seen[[2]string{k.ID, k.Issuer}] = true
		public, err := k.public()
		if err != nil {
			return nil, fail(invalidMetadata, "keys[%d] of the key set %v", i, err)
		}
		if public == nil {
			continue
		}
		parsed.set.Keys = append(parsed.set.Keys, *public)
		parsed.issuers = append(parsed.issuers, k.Issuer)
	}
	if len(parsed.set.Keys) == 0 {
		return nil, fail(invalidMetadata, "the key set has no public signature key")
	}
	return parsed, nil
}

// supported reports whether an accepted algorithm uses keys of a type and curve. RFC 7517 5: others are ignored.
func supported(k *key) bool {
	switch k.Type {
	case "RSA":
		return true
	case "EC":
		return k.Curve == "P-256"
	case "OKP":
		return k.Curve == "Ed25519"
	}
	return false
}

// public returns the key itself, nil for one that cannot be used.
func (k *key) public() (*jose.JSONWebKey, error) {
	bare := *k
	bare.Issuer, bare.Private, bare.Symmetric = "", nil, nil
	text, err := stdjson.Marshal(bare)
	if err != nil {
		return nil, err
	}
	return keyset.ParseKey(text)
}

// find returns the key with an id that serves an issuer, nil if there is none. Without an id, it returns the key of an
// issuer that has only one.
func (s *keySet) find(issuer, keyID string) *jose.JSONWebKey {
	fitting := jose.JSONWebKeySet{}
	for i := range s.set.Keys {
		switch {
		case s.issuers[i] == issuer && s.set.Keys[i].KeyID == keyID && keyID != "":
			return &s.set.Keys[i] // before one that serves several issuers
		case serves(s.issuers[i], issuer):
			fitting.Keys = append(fitting.Keys, s.set.Keys[i])
		}
	}
	return keyset.Find(&fitting, keyID)
}

// tenant matches the id of a tenant of Microsoft.
var tenant = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// serves reports whether a key for which a set states an issuer serves tokens of an issuer.
func serves(stated, issuer string) bool {
	before, after, several := strings.Cut(stated, tenantPlaceholder)
	if !several {
		return stated == "" || stated == issuer
	}
	id, found := strings.CutPrefix(issuer, before)
	if !found {
		return false
	}
	id, found = strings.CutSuffix(id, after)
	return found && tenant.MatchString(id)
}

// bytes returns an upper estimate of the memory of a set.
func (s *keySet) bytes() int64 {
	total := keyset.Bytes(&s.set)
	for _, issuer := range s.issuers {
		total += int64(len(issuer) + 16)
	}
	return total
}
