package exports

import (
	"encoding/json"
	"time"

	"github.com/cardea-iam/cardea/internal/totp"
)

// keycloakAlgorithms maps the algorithms of Keycloak's one-time codes.
var keycloakAlgorithms = map[string]totp.Algorithm{"": totp.SHA1, "HmacSHA1": totp.SHA1, "HmacSHA256": totp.SHA256, "HmacSHA512": totp.SHA512}

// keycloakFactor adds a credential that is not a password.
func (l *Lines) keycloakFactor(c keycloakCredential, p *person) {
	switch c.Type {
	case "otp":
		l.keycloakOTP(c, p)
	case "webauthn", "webauthn-passwordless":
		l.keycloakPasskey(c, p)
	case "recovery-authn-codes":
		l.leave(recoveryCodes)
	default:
		l.leave(otherFactor)
	}
}

// keycloakOTP adds an authenticator app. Keycloak uses the bytes of the secret's text, unless secretEncoding is BASE32.
func (l *Lines) keycloakOTP(c keycloakCredential, p *person) {
	var secret struct{ Value string }
	data := struct {
		SubType        string
		Digits, Period int
		Algorithm      string
		SecretEncoding string
	}{Digits: 6, Period: 30}
	if json.Unmarshal([]byte(c.SecretData), &secret) != nil || json.Unmarshal([]byte(c.CredentialData), &data) != nil {
		l.leave(unreadableFactor)
		return
	}
	if data.SubType == "hotp" {
		l.leave(hotpApp)
		return
	}
	a := authenticator{
		key: c.ID, secret: []byte(secret.Value), name: c.label(), created: c.created(),
		parameters: totp.Parameters{Algorithm: keycloakAlgorithms[data.Algorithm], Digits: data.Digits, Period: time.Duration(data.Period) * time.Second},
	}
	if a.key == "" {
		a.key = factorKey(len(p.authenticators))
	}
	switch data.SecretEncoding {
	case "":
	case "BASE32":
		a.secret = base32Secret(secret.Value)
	default:
		a.secret = nil
	}
	p.authenticators = append(p.authenticators, a)
}

// keycloakPasskey adds a passkey, or a security key that is only a second factor. Keycloak's user handle is the user's
// id.
func (l *Lines) keycloakPasskey(c keycloakCredential, p *person) {
	var data struct {
		CredentialID string `json:"credentialId"`
		PublicKey    string `json:"credentialPublicKey"`
		Counter      int64
		Transports   []string
	}
	if json.Unmarshal([]byte(c.CredentialData), &data) != nil {
		l.leave(unreadableFactor)
		return
	}
	p.passkeys = append(p.passkeys, credential{
		id: data.CredentialID, publicKey: data.PublicKey, handle: []byte(p.id), signCount: data.Counter, transports: data.Transports,
		secondFactorOnly: c.Type == "webauthn", name: c.label(), created: c.created(),
	})
}

// label returns the name that the user gave a credential, "" if there is none.
func (c keycloakCredential) label() string {
	var label string
	_ = json.Unmarshal(c.UserLabel, &label) // a label of another form counts as none
	return label
}

// created returns when the credential was created, zero if the export does not contain it.
func (c keycloakCredential) created() time.Time {
	var created int64
	_ = json.Unmarshal(c.CreatedDate, &created) // as above
	return millis(created)
}
