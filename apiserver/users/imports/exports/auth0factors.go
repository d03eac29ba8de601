package exports

import (
	"encoding/json"
	"io"
	"time"

	"github.com/cardea-iam/cardea/internal/totp"
)

// auth0Kind has the members that distinguish a user from an authentication method. They are not decoded further,
// because a user may have members of the same names with any values.
type auth0Kind struct {
	Type  json.RawMessage `json:"type"`
	KeyID json.RawMessage `json:"key_id"`
}

// auth0Methods are the types of authentication methods, with what is left out of them: "" for none.
var auth0Methods = map[string]string{
	"passkey": "", "webauthn-roaming": "", "webauthn-platform": "", "password": "",
	"recovery-code": recoveryCodes, "push-notification": "a second factor by push notification", "guardian": "a second factor by push notification",
	"email": "a second factor by email", "email-verification": "a second factor by email",
	"totp":  "an authenticator app in the authentication methods, which do not contain its secret",
	"phone": "a number in the authentication methods, because numbers are read from mfa_factors",
}

// method returns the type of an authentication method, and whether the record is one: only users have identities.
func (k auth0Kind) method(identities int) (string, bool) {
	if identities > 0 {
		return "", false
	}
	var kind string
	if k.Type != nil && json.Unmarshal(k.Type, &kind) != nil {
		return "", false
	}
	_, known := auth0Methods[kind]
	return kind, known || k.KeyID != nil
}

// auth0Method is a line of an export of authentication methods.
type auth0Method struct {
	UserID       string    `json:"user_id"`
	Confirmed    *bool     `json:"confirmed"`
	KeyID        string    `json:"key_id"`
	PublicKey    string    `json:"public_key"`
	UserHandle   string    `json:"user_handle"`
	RelyingParty string    `json:"relying_party_identifier"`
	DeviceType   string    `json:"credential_device_type"`
	BackedUp     bool      `json:"credential_backed_up"`
	Transports   []string  `json:"transports"`
	Name         string    `json:"name"`
	CreatedAt    time.Time `json:"created_at"`
}

// auth0Passkeys writes the passkeys of the authentication methods in the files, after all users.
func auth0Passkeys(files []File, to *Lines) error {
	named := map[string]map[string]bool{}
	for _, f := range files {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		err := jsonLines(f, to, func(string) {}, func(raw *json.RawMessage) error {
			var kind struct {
				auth0Kind
				Identities []json.RawMessage `json:"identities"`
			}
			if json.Unmarshal(*raw, &kind) != nil {
				return nil // the pass of the users has reported it
			}
			name, isMethod := kind.method(len(kind.Identities))
			if !isMethod {
				return nil
			}
			return to.auth0Method(name, *raw, named)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// auth0Method writes a passkey. named are the digits that the passkeys of each user have.
func (l *Lines) auth0Method(kind string, raw []byte, named map[string]map[string]bool) error {
	var m auth0Method
	switch {
	case kind == "password":
		return nil
	case auth0Methods[kind] != "":
		l.leave(auth0Methods[kind])
		return nil
	case json.Unmarshal(raw, &m) != nil:
		l.leave(unreadableFactor)
		return nil
	case m.UserID == "":
		l.leave("a passkey or security key without user_id: add that member to its line")
		return nil
	case m.Confirmed != nil && !*m.Confirmed:
		l.leave("a second factor that its user has not confirmed")
		return nil
	case m.UserHandle == "":
		l.leave("a passkey or security key without user_handle")
		return nil
	}
	if named[m.UserID] == nil {
		named[m.UserID] = map[string]bool{}
	}
	c := credential{
		id: m.KeyID, publicKey: m.PublicKey, handle: decoded(m.UserHandle), relyingParty: m.RelyingParty, transports: m.Transports,
		secondFactorOnly: kind == "webauthn-roaming" || kind == "webauthn-platform", name: m.Name, created: m.CreatedAt,
	}
	if eligible := m.DeviceType == "multi_device"; eligible || m.DeviceType == "single_device" {
		c.backupEligible, c.backedUp = &eligible, eligible && m.BackedUp
	}
	return l.passkey(m.UserID, c, named[m.UserID])
}

// auth0Factors adds the second factors of a user's mfa_factors.
func (l *Lines) auth0Factors(r *auth0Record, p *person) {
	if len(r.Factors) == 0 {
		if len(r.Multifactor)+len(r.Guardian) > 0 {
			l.leave("a second factor that is not in mfa_factors")
		}
		return
	}
	var factors []json.RawMessage
	if json.Unmarshal(r.Factors, &factors) != nil {
		l.leave(unreadableFactor)
		return
	}
	for _, raw := range factors {
		var factor struct {
			TOTP  struct{ Secret string }
			Phone struct{ Value string }
			Email json.RawMessage
			Push  json.RawMessage
			Code  json.RawMessage `json:"recovery_code"`
		}
		if json.Unmarshal(raw, &factor) != nil {
			l.leave(unreadableFactor)
			continue
		}
		used := false
		if used = factor.TOTP.Secret != ""; used {
			p.authenticators = append(p.authenticators, authenticator{
				key: factorKey(len(p.authenticators)), secret: base32Secret(factor.TOTP.Secret), parameters: totp.Default(),
			})
		}
		if factor.Phone.Value != "" {
			used, p.phones = true, withText(p.phones, factor.Phone.Value)
		}
		for what, there := range map[string]bool{
			"a second factor by email": factor.Email != nil, "a second factor by push notification": factor.Push != nil, recoveryCodes: factor.Code != nil,
		} {
			if there {
				used = true
				l.leave(what)
			}
		}
		if !used {
			l.leave(otherFactor)
		}
	}
}
