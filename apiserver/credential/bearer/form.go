package bearer

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

// Form is the form of a bearer credential, derived only from its text. Nothing is verified.
type Form int

const (
	// APIKey is the form of every text that is not a token. Package apikey decides whether it is well formed.
	APIKey Form = iota
	// SessionToken is a JSON web token that is not an access token. It is from a Cardea session or from a declared issuer.
	SessionToken
	// AccessToken is a JSON web token with the type at+jwt (RFC 9068 2.1).
	AccessToken
	// OpaqueAccessToken is an access token that only this server can read.
	OpaqueAccessToken
)

// The number of dots of each form. No API key has a dot.
const (
	dotsOfJWT = 2
	// dotsOfOpaque counts the dot after the issuer, and two in the sealed part.
	dotsOfOpaque = 3
)

// Classify returns the form of a credential. No other code decides this.
func Classify(raw string) Form {
	switch strings.Count(raw, ".") {
	case dotsOfJWT:
		if isAccessToken(raw) {
			return AccessToken
		}
		return SessionToken
	case dotsOfOpaque:
		if _, err := opaqueIssuer(raw); err == nil {
			return OpaqueAccessToken
		}
	}
	return APIKey
}

// IsJWT reports whether a credential has the form of a JSON web token of any type. It is cheaper than Classify.
func IsJWT(raw string) bool { return strings.Count(raw, ".") == dotsOfJWT }

// isAccessToken reports whether the header of a JSON web token names the type of access tokens.
func isAccessToken(raw string) bool {
	head, _, _ := strings.Cut(raw, ".")
	text, err := base64.RawURLEncoding.DecodeString(head)
	var header struct {
		Type string `json:"typ"`
	}
	return err == nil && json.Unmarshal(text, &header) == nil && strings.EqualFold(header.Type, TypeAccessToken)
}

// opaqueIssuer returns the issuer that an opaque access token names.
func opaqueIssuer(raw string) (string, error) {
	head, _, _ := strings.Cut(raw, ".")
	issuer, err := base64.RawURLEncoding.DecodeString(head)
	return string(issuer), err
}

// StatedIssuer returns the issuer that an unverified token names, "" if it names none.
func StatedIssuer(raw string) string {
	switch strings.Count(raw, ".") {
	case dotsOfJWT:
		_, rest, _ := strings.Cut(raw, ".")
		payload, _, _ := strings.Cut(rest, ".")
		text, err := base64.RawURLEncoding.DecodeString(payload)
		var stated struct {
			Issuer string `json:"iss"`
		}
		if err == nil && json.Unmarshal(text, &stated) == nil {
			return stated.Issuer
		}
	case dotsOfOpaque:
		issuer, _ := opaqueIssuer(raw)
		return issuer
	}
	return ""
}
