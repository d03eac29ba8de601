// Package keyset reads JSON Web Key Sets (RFC 7517).
package keyset

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// Parse reads a key set and keeps its public signature keys.
func Parse(raw []byte) (*jose.JSONWebKeySet, error) {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, fmt.Errorf("is no JSON Web Key Set: %w", err)
	}
	usable := jose.JSONWebKeySet{}
	for _, key := range set.Keys {
		if key.IsPublic() && key.Valid() && (key.Use == "" || key.Use == "sig") {
			usable.Keys = append(usable.Keys, key)
		}
	}
	if len(usable.Keys) == 0 {
		return nil, errors.New("holds no public signature key")
	}
	return &usable, nil
}

// Find returns the key with an id; a token that names none fits a set of one key.
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
