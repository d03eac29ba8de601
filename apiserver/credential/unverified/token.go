// Package unverified reads JSON web tokens as far as can be done before anybody vouches for them.
package unverified

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxLength is the longest token, in bytes.
const MaxLength = 16 << 10

// Accepted are the algorithms any issuer may use; each declares which of them.
var Accepted = []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.EdDSA}

// forbiddenHeaders would let a token bring its own key, or change what is verified.
var forbiddenHeaders = []string{"jwk", "jku", "x5u", "x5c", "crit", "b64"}

// strict reads base64url in its one spelling: no token has two.
var strict = base64.RawURLEncoding.Strict()

// ErrForm is every reason a text is no token of the accepted form; none is told.
var ErrForm = errors.New("the token has not the accepted form")

// Token is a token that was read but not verified.
type Token struct {
	Raw       string
	Signature *jose.JSONWebSignature
	// Algorithm and KeyID are what the header says, "" if it does not.
	Algorithm, KeyID string
	// Claims are the registered ones, and Payload is everything the token says.
	Claims  jwt.Claims
	Payload map[string]any
}

// Parse reads a token of the accepted form and the claims that decide who can verify it. Every other text is ErrForm.
func Parse(raw string) (*Token, error) {
	if len(raw) > MaxLength || strings.Count(raw, ".") != 2 {
		return nil, ErrForm
	}
	header, err := readHeader(raw[:strings.IndexByte(raw, '.')])
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

func readHeader(encoded string) (map[string]any, error) {
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
	if !acceptedType(header) {
		return nil, ErrForm
	}
	return header, nil
}

// acceptedType reports whether a token says that it is one for access, or says nothing: one made for another end, such as a
// logout token, is not accepted here (RFC 8725, 3.11).
func acceptedType(header map[string]any) bool {
	sent, found := header["typ"]
	if !found {
		return true
	}
	name, _ := sent.(string)
	return strings.EqualFold(name, "JWT") || strings.EqualFold(name, "at+jwt")
}

// decodeObject reads one JSON object without a member twice: two readers must not understand a token differently.
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

// uniqueNames returns an error unless raw is one JSON value without a member twice, at any depth.
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
