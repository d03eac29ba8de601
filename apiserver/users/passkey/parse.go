package passkey

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncbor"
)

// maxTransports bounds the transports of a credential. The standard knows six.
const maxTransports = 10

// strict only decodes canonical base64url without padding, as toJSON() writes it.
var strict = base64.RawURLEncoding.Strict()

// Assertion is a parsed answer to RequestOptions that was not verified.
type Assertion struct {
	// CredentialID has 1 to 1,023 bytes.
	CredentialID []byte
	// UserHandle is nil if the authenticator sent none, else at most 64 bytes.
	UserHandle []byte

	client                               client
	clientJSON, authenticator, signature []byte
	data                                 protocol.AuthenticatorData
}

// Attestation is a parsed answer to CreationOptions that was not verified.
type Attestation struct {
	// CredentialID has 1 to 1,023 bytes.
	CredentialID []byte
	// Transports are sorted, each once.
	Transports []string

	client client
	data   protocol.AuthenticatorData
}

// client is what the browser states (Web Authentication 5.8.1).
type client struct {
	kind, origin           string
	challenge              []byte
	crossOrigin, topOrigin bool
}

// credential is a PublicKeyCredential in JSON. Browsers add members, so unknown ones are ignored.
type credential struct {
	ID       jsontext.Value `json:"id"`
	RawID    jsontext.Value `json:"rawId"`
	Type     jsontext.Value `json:"type"`
	Response jsontext.Value `json:"response"`
}

type response struct {
	ClientDataJSON    jsontext.Value `json:"clientDataJSON"`
	AuthenticatorData jsontext.Value `json:"authenticatorData"`
	Signature         jsontext.Value `json:"signature"`
	UserHandle        jsontext.Value `json:"userHandle"`
	AttestationObject jsontext.Value `json:"attestationObject"`
	Transports        jsontext.Value `json:"transports"`
}

// ParseAssertion parses the JSON of a credential of navigator.credentials.get. The error is a MalformedError.
func ParseAssertion(raw json.RawMessage) (*Assertion, error) {
	id, response, err := parse(raw)
	if err != nil {
		return nil, err
	}
	a := &Assertion{CredentialID: id}
	if a.clientJSON, a.client, err = clientData(response.ClientDataJSON); err != nil {
		return nil, err
	}
	if a.authenticator, err = decode("/response/authenticatorData", response.AuthenticatorData, MaxBytes); err != nil {
		return nil, err
	}
	if err := a.data.Unmarshal(a.authenticator); err != nil {
		return nil, &MalformedError{"/response/authenticatorData", "is not authenticator data: send what the authenticator returned"}
	}
	if a.signature, err = decode("/response/signature", response.Signature, MaxBytes); err != nil {
		return nil, err
	}
	if handle := response.UserHandle; len(handle) > 0 && handle.Kind() != 'n' && string(handle) != `""` {
		if a.UserHandle, err = decode("/response/userHandle", handle, maxUserHandleBytes); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// ParseAttestation parses the JSON of a credential of navigator.credentials.create. The error is a MalformedError. The
// attestation statement is not read.
func ParseAttestation(raw json.RawMessage) (*Attestation, error) {
	id, response, err := parse(raw)
	if err != nil {
		return nil, err
	}
	a := &Attestation{CredentialID: id}
	if _, a.client, err = clientData(response.ClientDataJSON); err != nil {
		return nil, err
	}
	const at = "/response/attestationObject"
	object, err := decode(at, response.AttestationObject, MaxBytes)
	if err != nil {
		return nil, err
	}
	var attestation struct {
		Format    string                  `cbor:"fmt"`
		Data      []byte                  `cbor:"authData"`
		Statement webauthncbor.RawMessage `cbor:"attStmt"`
	}
	if err := webauthncbor.Unmarshal(object, &attestation); err != nil || attestation.Format == "" || len(attestation.Statement) == 0 {
		return nil, &MalformedError{at, "is not an attestation object: send what the authenticator returned"}
	}
	if err := a.data.Unmarshal(attestation.Data); err != nil || !a.data.Flags.HasAttestedCredentialData() {
		return nil, &MalformedError{at, "has no authenticator data with a credential: send what the authenticator returned"}
	}
	a.Transports, err = transports(response.Transports)
	return a, err
}

// parse returns the id and the response of a credential.
func parse(raw json.RawMessage) ([]byte, *response, error) {
	if len(raw) > MaxBytes {
		return nil, nil, &MalformedError{"", fmt.Sprintf("is larger than %d bytes: send only the credential", MaxBytes)}
	}
	var c credential
	if err := jsonv2.Unmarshal(raw, &c); err != nil || jsontext.Value(raw).Kind() != '{' {
		return nil, nil, &MalformedError{"", "is not a JSON object: send the result of toJSON()"}
	}
	id, err := decode("/id", c.ID, MaxIDBytes)
	if err != nil {
		return nil, nil, err
	}
	if rawID, err := decode("/rawId", c.RawID, MaxIDBytes); err != nil {
		return nil, nil, err
	} else if string(rawID) != string(id) {
		return nil, nil, &MalformedError{"/rawId", "differs from id: send the same value"}
	}
	if kind, ok := text(c.Type); !ok || kind != string(protocol.PublicKeyCredentialType) {
		return nil, nil, &MalformedError{"/type", `must be "public-key"`}
	}
	r := &response{}
	if c.Response.Kind() != '{' {
		return nil, nil, &MalformedError{"/response", "must be an object"}
	}
	if err := jsonv2.Unmarshal(c.Response, r); err != nil {
		return nil, nil, &MalformedError{"/response", "must be an object"}
	}
	return id, r, nil
}

// text returns the text of a JSON string.
func text(value jsontext.Value) (string, bool) {
	if value.Kind() != '"' {
		return "", false
	}
	out, err := jsontext.AppendUnquote(nil, value)
	return string(out), err == nil
}

// decode returns the bytes of a member in base64url, 1 to a limit.
func decode(pointer string, value jsontext.Value, limit int) ([]byte, error) {
	if len(value) == 0 {
		return nil, &MalformedError{pointer, "is missing"}
	}
	encoded, ok := text(value)
	out, err := strict.DecodeString(encoded)
	// The decoder ignores line breaks.
	if !ok || err != nil || strings.ContainsAny(encoded, "\r\n") {
		return nil, &MalformedError{pointer, "must be base64url without padding"}
	}
	if len(out) == 0 || len(out) > limit {
		return nil, &MalformedError{pointer, fmt.Sprintf("must have 1 to %d bytes", limit)}
	}
	return out, nil
}

// clientData reads what the browser states. A challenge that is not base64url is no challenge.
func clientData(value jsontext.Value) ([]byte, client, error) {
	const at = "/response/clientDataJSON"
	raw, err := decode(at, value, MaxBytes)
	if err != nil {
		return nil, client{}, err
	}
	var data struct {
		Type        string         `json:"type"`
		Challenge   string         `json:"challenge"`
		Origin      string         `json:"origin"`
		CrossOrigin bool           `json:"crossOrigin"`
		TopOrigin   jsontext.Value `json:"topOrigin"`
	}
	if err := jsonv2.Unmarshal(raw, &data); err != nil || data.Type == "" || data.Challenge == "" || data.Origin == "" {
		return nil, client{}, &MalformedError{at, "has no type, challenge or origin: send what the browser returned"}
	}
	c := client{kind: data.Type, origin: data.Origin, crossOrigin: data.CrossOrigin, topOrigin: len(data.TopOrigin) > 0}
	if challenge, err := strict.DecodeString(data.Challenge); err == nil && !strings.ContainsAny(data.Challenge, "\r\n") {
		c.challenge = challenge
	}
	return raw, c, nil
}

// transports reads an optional list of transports. It keeps unknown ones, because browsers ignore them.
func transports(value jsontext.Value) ([]string, error) {
	const at = "/response/transports"
	if len(value) == 0 || value.Kind() == 'n' {
		return nil, nil
	}
	var names []string
	if err := jsonv2.Unmarshal(value, &names); err != nil || len(names) > maxTransports {
		return nil, &MalformedError{at, fmt.Sprintf("must be a list of at most %d transports", maxTransports)}
	}
	for i, name := range names {
		if name == "" || len(name) > 32 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return nil, &MalformedError{fmt.Sprintf("%s/%d", at, i), "must have 1 to 32 lower case letters, digits and dashes"}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
