// Package keyset reads JSON Web Key Sets (RFC 7517).
package keyset

import (
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

const (
	// MaxBytes is the length of the longest key set of a declared issuer or client, in bytes of JSON.
	MaxBytes = 64 << 10
	// MaxRegisteredBytes is MaxBytes for a client that registered itself.
	MaxRegisteredBytes = 32 << 10
	// MaxKeys is the largest number of keys in a set, whatever their use.
	MaxKeys = 32
	// minRSABits and maxRSABits bound the modulus of an RSA key.
	minRSABits, maxRSABits = 2048, 4096
	// keyBytes is a generous estimate of the memory that one parsed key takes without its strings. The largest key is
	// an RSA key of maxRSABits.
	keyBytes = 2 << 10
)

// Parse returns the public signature keys of a key set of at most maxBytes. The whole set is refused if it has more
// than MaxKeys keys or an RSA signature key outside of 2048 to 4096 bits. Certificates (x5c, x5u, x5t) are dropped:
// nothing verifies them.
func Parse(raw []byte, maxBytes int) (*jose.JSONWebKeySet, error) {
	if len(raw) > maxBytes {
		return nil, fmt.Errorf("is longer than %d bytes", maxBytes)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, fmt.Errorf("is no JSON Web Key Set: %w", err)
	}
	if len(set.Keys) > MaxKeys {
		return nil, fmt.Errorf("has %d keys; a set has at most %d", len(set.Keys), MaxKeys)
	}
	usable := jose.JSONWebKeySet{}
	for i, text := range set.Keys {
		key, err := ParseKey(text)
		if err != nil {
			return nil, fmt.Errorf("keys[%d] %w", i, err)
		}
		if key != nil {
			usable.Keys = append(usable.Keys, *key)
		}
	}
	if len(usable.Keys) == 0 {
		return nil, errors.New("holds no public signature key")
	}
	return &usable, nil
}

// ParseKey returns a public signature key, and nil for a key of another use. It refuses an RSA signature key outside of
// 2048 to 4096 bits. Certificates are dropped.
func ParseKey(raw []byte) (*jose.JSONWebKey, error) {
	var key jose.JSONWebKey
	if err := json.Unmarshal(raw, &key); err != nil {
		return nil, fmt.Errorf("is no JSON Web Key: %w", err)
	}
	if !key.IsPublic() || !key.Valid() || key.Use != "" && key.Use != "sig" {
		return nil, nil
	}
	if public, isRSA := key.Key.(*rsa.PublicKey); isRSA && (public.N.BitLen() < minRSABits || public.N.BitLen() > maxRSABits) {
		return nil, fmt.Errorf("is an RSA key of %d bits; use %d to %d", public.N.BitLen(), minRSABits, maxRSABits)
	}
	return &jose.JSONWebKey{Key: key.Key, KeyID: key.KeyID, Algorithm: key.Algorithm, Use: key.Use}, nil
}

// Bytes returns an upper estimate of the memory that a parsed set takes; nil takes none.
func Bytes(set *jose.JSONWebKeySet) (bytes int64) {
	if set == nil {
		return 0
	}
	for i := range set.Keys {
		bytes += int64(keyBytes + len(set.Keys[i].KeyID) + len(set.Keys[i].Algorithm))
	}
	return bytes
}

// Find returns the key with the id keyID. If keyID is empty, it returns the key of a set that has only one.
func Find(set *jose.JSONWebKeySet, keyID string) *jose.JSONWebKey {
	if set == nil {
		return nil
	}
	if keyID == "" && len(set.Keys) == 1 {
		return &set.Keys[0]
	}
	for i := range set.Keys {
		if set.Keys[i].KeyID == keyID && keyID != "" {
			return &set.Keys[i]
		}
	}
	return nil
}
