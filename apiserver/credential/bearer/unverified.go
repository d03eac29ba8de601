// Package bearer reads tokens: the form of a credential, the claims of a token before its verification, and the tokens
// that OAuth apps issue. No other package splits a token.
package bearer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxLength is the longest token, in bytes.
const MaxLength = 16 << 10

// TypeLogoutToken is the type of logout tokens (OpenID Connect Back-Channel Logout 1.0, 2.4).
const TypeLogoutToken = "logout+jwt"

// Accepted are the algorithms that issuers may use. Each issuer declares some of them.
var Accepted = []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.EdDSA}

// forbiddenHeaders would let a token bring its own key, or change what is verified.
var forbiddenHeaders = []string{"jwk", "jku", "x5u", "x5c", "crit", "b64"}

// strict only decodes canonical base64url, so that no token has two spellings.
var strict = base64.RawURLEncoding.Strict()

// ErrForm stands for every reason why a text is not a token of the accepted form.
var ErrForm = errors.New("the token does not have the accepted form")

// Token is a parsed token that was not verified.
type Token struct {
	Raw       string
	Signature *jose.JSONWebSignature
	// Algorithm and KeyID are from the header, "" if absent.
	Algorithm, KeyID string
	// AccessToken reports that the header has the type of access tokens (RFC 9068).
	AccessToken bool
	// Claims are the registered claims; Payload has all claims.
	Claims  jwt.Claims
	Payload map[string]any
}

// Parse parses a token of the accepted form, with the claims that select its issuer. It returns ErrForm for every other
// text.
func Parse(raw string) (*Token, error) { return parse(raw, "JWT", TypeAccessToken) }

// ParseLogout is Parse for the logout token of a provider, which has the type logout+jwt, JWT or none (OpenID Connect
// Back-Channel Logout 1.0, 2.4).
func ParseLogout(raw string) (*Token, error) { return parse(raw, "JWT", TypeLogoutToken) }

// parse parses a token that has no type or one of some types. It refuses tokens for other purposes (RFC 8725 3.11).
func parse(raw string, types ...string) (*Token, error) {
	if len(raw) > MaxLength || !IsJWT(raw) {
		return nil, ErrForm
	}
	header, err := readHeader(raw[:strings.IndexByte(raw, '.')], types)
	if err != nil {
		return nil, err
	}
	if _, err := strict.DecodeString(raw[strings.LastIndexByte(raw, '.')+1:]); err != nil {
		return nil, ErrForm
	}
	signature, err := jose.ParseSignedCompact(raw, Accepted)
	if err != nil {
		return nil, ErrForm
	}
	t := &Token{Raw: raw, Signature: signature}
	t.Algorithm, _ = header["alg"].(string)
	t.KeyID, _ = header["kid"].(string)
	stated, _ := header["typ"].(string)
	t.AccessToken = strings.EqualFold(stated, TypeAccessToken)
	payload := signature.UnsafePayloadWithoutVerification()
	if t.Payload, err = decodeObject(payload); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(payload, &t.Claims); err != nil {
		return nil, ErrForm
	}
	if t.Claims.Issuer == "" || len(t.Claims.Audience) == 0 || len(t.Claims.Audience) > 32 {
		return nil, ErrForm
	}
	return t, nil
}

func readHeader(encoded string, types []string) (map[string]any, error) {
	raw, err := strict.DecodeString(encoded)
	if err != nil {
		return nil, ErrForm
	}
	header, err := decodeObject(raw)
	if err != nil {
		return nil, err
	}
	for _, name := range forbiddenHeaders {
		if _, found := header[name]; found {
			return nil, ErrForm
		}
	}
	if kid, found := header["kid"]; found {
		if _, ok := kid.(string); !ok {
			return nil, ErrForm
		}
	}
	if !acceptedType(header, types) {
		return nil, ErrForm
	}
	return header, nil
}

// acceptedType reports whether a token's type is one of types, or absent.
func acceptedType(header map[string]any, types []string) bool {
	sent, found := header["typ"]
	name, _ := sent.(string)
	return !found || slices.ContainsFunc(types, func(accepted string) bool { return strings.EqualFold(name, accepted) })
}

// decodeObject decodes one JSON object without duplicate members, which two readers might understand differently.
func decodeObject(raw []byte) (map[string]any, error) {
	if err := uniqueNames(raw); err != nil {
		return nil, ErrForm
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return nil, ErrForm
	}
	return object, nil
}

// uniqueNames returns an error unless raw is one JSON value without duplicate members at any depth.
func uniqueNames(raw []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.ReadValue(); err != nil {
		return err
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return ErrForm
	}
	return nil
}
