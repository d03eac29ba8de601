package exports

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/factors"
	"github.com/cardea-iam/cardea/apiserver/users/passkey"
	"github.com/cardea-iam/cardea/internal/text"
	"github.com/cardea-iam/cardea/internal/totp"
)

// authenticator is an authenticator app.
type authenticator struct {
	// key identifies the app among those of the user, in each conversion. It must not be derived from the secret.
	key        string
	secret     []byte
	parameters totp.Parameters
	name       string
	// created is zero if the export does not contain it.
	created time.Time
}

// credential is a passkey or a security key.
type credential struct {
	// id and publicKey are base64 of either alphabet. publicKey is a COSE_Key.
	id, publicKey string
	handle        []byte
	// relyingParty is "" if the export does not contain it.
	relyingParty string
	signCount    int64
	// backupEligible is nil if the export does not contain it.
	backupEligible             *bool
	backedUp, secondFactorOnly bool
	transports                 []string
	name                       string
	created                    time.Time
}

// The bounds of a passkey line.
const (
	maxUserHandle = 64
	maxSignCount  = 1<<32 - 1
	maxTransports = 8
	maxTransport  = 32
)

// The texts about second factors that are left out. No text contains a part of the export.
const (
	unusableApp      = "an authenticator app whose secret or parameters cannot be used here"
	hotpApp          = "an authenticator app or token that counts (HOTP)"
	unusablePasskey  = "a passkey or security key whose form or algorithm is not supported"
	noRelyingParty   = "a passkey or security key, because the export does not contain its relying party: pass --rp-id"
	recoveryCodes    = "recovery codes"
	otherFactor      = "a second factor of another kind"
	unreadableFactor = "a second factor whose record has another form than the system's exports"
)

// factorKey returns the key of a factor that has no id of its own: its position among the factors of its kind, from 1.
func factorKey(before int) string { return strconv.Itoa(before + 1) }

// authenticators writes the authenticator apps of a user.
func (l *Lines) authenticators(p person) error {
	named := map[string]bool{}
	for _, a := range p.authenticators {
		if len(a.secret) < totp.MinSecretBytes || len(a.secret) > totp.MaxSecretBytes || a.parameters.Validate() != nil {
			l.leave(unusableApp)
			continue
		}
		err := l.write(line{
			Type: "totp", ExternalID: addressID(p.id, "totp/"+a.key, named), User: p.id, Secret: totp.FormatSecret(a.secret),
			Algorithm: string(a.parameters.Algorithm), Digits: a.parameters.Digits, Period: int(a.parameters.Period / time.Second),
			Name: label(a.name), CreatedAt: stampIfSet(a.created),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// passkey writes a passkey of a user. named are the digits that the user's other passkeys have.
func (l *Lines) passkey(user string, c credential, named map[string]bool) error {
	if c.relyingParty == "" {
		c.relyingParty = l.relyingParty
	}
	if c.relyingParty == "" {
		l.leave(noRelyingParty)
		return nil
	}
	id, publicKey := decoded(c.id), decoded(c.publicKey)
	switch {
	case len(id) == 0 || len(id) > passkey.MaxIDBytes, len(c.handle) == 0 || len(c.handle) > maxUserHandle,
		c.signCount < 0 || c.signCount > maxSignCount, passkey.ValidateKey(publicKey) != nil:
		l.leave(unusablePasskey)
		return nil
	}
	encode := base64.RawURLEncoding.EncodeToString
	return l.write(line{
		Type: "passkey", ExternalID: addressID(user, "passkey/"+encode(id), named), User: user, RelyingParty: c.relyingParty,
		CredentialID: encode(id), PublicKey: encode(publicKey), UserHandle: encode(c.handle), SignCount: c.signCount,
		BackupEligible: c.backupEligible, BackedUp: c.backedUp, Transports: transports(c.transports), SecondFactorOnly: c.secondFactorOnly,
		Name: label(c.name), CreatedAt: stampIfSet(c.created),
	})
}

// withText makes a verified number a second factor, and adds it if the user does not have it.
func withText(phones []address, number string) []address {
	digits := func(number string) string {
		return strings.Map(func(c rune) rune {
			if c < '0' || c > '9' {
				return -1
			}
			return c
		}, number)
	}
	for i := range phones {
		if digits(phones[i].value) == digits(number) {
			phones[i].verified, phones[i].secondFactor = true, true
			return phones
		}
	}
	return append(phones, address{value: number, verified: true, secondFactor: true})
}

// base32Secret returns the bytes of a secret in base32, nil if it is not well-formed or out of bounds.
func base32Secret(text string) []byte {
	secret, err := totp.ParseSecret(text)
	if err != nil {
		return nil
	}
	return secret
}

// decoded returns the bytes of base64 of either alphabet, with or without padding; nil if it is not well-formed.
func decoded(text string) []byte {
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(plain(text), "="))
	if err != nil {
		return nil
	}
	return raw
}

// transports drops transports that a line cannot have. They are only hints for browsers.
func transports(sent []string) []string {
	var kept []string
	for _, transport := range sent {
		if transport != "" && len(transport) <= maxTransport && strings.Trim(transport, "abcdefghijklmnopqrstuvwxyz-") == "" && len(kept) < maxTransports {
			kept = append(kept, transport)
		}
	}
	return kept
}

// label drops what the name of a factor cannot have.
func label(name string) string {
	name = strings.TrimSpace(strings.Map(func(c rune) rune {
		if text.Forbidden(c) || c == '\u2028' || c == '\u2029' {
			return -1
		}
		return c
	}, name))
	if letters := []rune(name); len(letters) > factors.MaxName {
		name = strings.TrimSpace(string(letters[:factors.MaxName]))
	}
	return name
}

// stampIfSet returns a time in the form of lines, "" for the zero time.
func stampIfSet(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return stamp(at)
}
