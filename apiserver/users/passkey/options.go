package passkey

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
)

// timeout is how long browsers wait for an authenticator, in milliseconds.
const timeout = 300_000

// Kind is the kind of a new credential.
type Kind string

// The kinds.
const (
	// KindPasskey signs in alone: it is discoverable, and the authenticator verifies its user.
	KindPasskey Kind = "passkey"
	// KindSecurityKey is only a second factor, for keys without room or PIN.
	KindSecurityKey Kind = "security_key"
)

// Descriptor names a credential in options.
type Descriptor struct {
	ID         []byte
	Transports []string
}

// User is the account of a new credential, as authenticators display it.
type User struct {
	// Handle identifies the account to the authenticator: NewUserHandle, or that of the account's newest credential.
	Handle            []byte
	Name, DisplayName string
}

// NewUserHandle returns 32 random bytes.
func NewUserHandle(random io.Reader) ([]byte, error) {
	handle := make([]byte, UserHandleBytes)
	if _, err := io.ReadFull(random, handle); err != nil {
		return nil, fmt.Errorf("random user handle: %w", err)
	}
	return handle, nil
}

// RequestOptions returns the options for navigator.credentials.get in the standard's JSON form
// (PublicKeyCredential.parseRequestOptionsFromJSON). Without allowed credentials, the authenticator offers its
// discoverable ones. Without requireUV, authenticators are asked not to verify the user.
func RequestOptions(rp RelyingParty, challenge []byte, allowed []Descriptor, requireUV bool) (json.RawMessage, error) {
	options := protocol.PublicKeyCredentialRequestOptions{
		Challenge:          challenge,
		Timeout:            timeout,
		RelyingPartyID:     rp.ID,
		AllowedCredentials: descriptors(allowed),
		UserVerification:   verification(requireUV),
	}
	return json.Marshal(options)
}

// CreationOptions returns the options for navigator.credentials.create in the standard's JSON form
// (PublicKeyCredential.parseCreationOptionsFromJSON). The authenticator refuses if it holds an excluded credential.
func CreationOptions(rp RelyingParty, challenge []byte, user User, kind Kind, excluded []Descriptor) (json.RawMessage, error) {
	resident, discoverable := protocol.ResidentKeyRequirementRequired, kind == KindPasskey
	if !discoverable {
		resident = protocol.ResidentKeyRequirementDiscouraged
	}
	options := protocol.PublicKeyCredentialCreationOptions{
		RelyingParty: protocol.RelyingPartyEntity{CredentialEntity: protocol.CredentialEntity{Name: rp.Name}, ID: rp.ID},
		User: protocol.UserEntity{
			CredentialEntity: protocol.CredentialEntity{Name: user.Name},
			DisplayName:      user.DisplayName,
			ID:               protocol.URLEncodedBase64(user.Handle),
		},
		Challenge:             challenge,
		Timeout:               timeout,
		CredentialExcludeList: descriptors(excluded),
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			RequireResidentKey: &discoverable,
			ResidentKey:        resident,
			UserVerification:   verification(discoverable),
		},
		Attestation: protocol.PreferNoAttestation,
	}
	for _, algorithm := range []int64{algorithmEdDSA, algorithmES256, algorithmRS256} {
		options.Parameters = append(options.Parameters, protocol.CredentialParameter{
			Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.COSEAlgorithmIdentifier(algorithm),
		})
	}
	return json.Marshal(options)
}

func verification(required bool) protocol.UserVerificationRequirement {
	if required {
		return protocol.VerificationRequired
	}
	return protocol.VerificationDiscouraged
}

func descriptors(credentials []Descriptor) []protocol.CredentialDescriptor {
	var out []protocol.CredentialDescriptor
	for _, credential := range credentials {
		descriptor := protocol.CredentialDescriptor{Type: protocol.PublicKeyCredentialType, CredentialID: credential.ID}
		for _, transport := range credential.Transports {
			descriptor.Transport = append(descriptor.Transport, protocol.AuthenticatorTransport(transport))
		}
		out = append(out, descriptor)
	}
	return out
}
