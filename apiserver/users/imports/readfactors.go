package imports

import (
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/users/factors"
	"github.com/cardea-iam/cardea/apiserver/users/passkey"
	"github.com/cardea-iam/cardea/internal/totp"
	"github.com/cardea-iam/cardea/store/people"
)

// maxUserHandle is the longest user handle (Web Authentication 5.4.3), and maxPublicKey the longest COSE key, in bytes.
const (
	maxUserHandle = 64
	maxPublicKey  = 2 << 10
)

// maxTransports bounds the transports of a passkey, and maxTransport the length of each, in characters.
const (
	maxTransports = 8
	maxTransport  = 32
)

// No fault of these readers has a part of a secret.

func readTOTP(r *reader, line *Line) {
	line.User = r.required("user", maxExternalID)
	content := TOTP{Name: r.text("name", factors.MaxName), Parameters: totp.Default()}
	if r.Require("secret") {
		text, _ := r.String("secret")
		secret, err := totp.ParseSecret(text)
		switch {
		case r.Faulty("secret"):
		case errors.Is(err, totp.ErrSecretSize):
			r.Fault("secret", "must have %d to %d bytes: a shorter one can be guessed", totp.MinSecretBytes, totp.MaxSecretBytes)
		case err != nil:
			r.Fault("secret", "must be base32 (RFC 4648), such as otpauth URIs have it")
		}
		content.Secret = secret
	}
	if r.sent("algorithm") {
		content.Parameters.Algorithm = totp.Algorithm(strings.ToUpper(r.text("algorithm", maxMethod)))
		if err := (totp.Parameters{Algorithm: content.Parameters.Algorithm, Digits: 6, Period: 30 * time.Second}).Validate(); err != nil && !r.Faulty("algorithm") {
			r.Fault("algorithm", "must be SHA1, SHA256 or SHA512")
		}
	}
	if digits, sent := r.number("digits"); sent {
		if content.Parameters.Digits = int(digits); digits != 6 && digits != 8 {
			r.Fault("digits", "must be 6 or 8")
		}
	}
	if period, sent := r.number("period"); sent {
		if content.Parameters.Period = time.Duration(period) * time.Second; period != 30 && period != 60 {
			r.Fault("period", "must be 30 or 60 seconds")
		}
	}
	line.At, line.Content = r.time("created_at"), &content
}

func readPasskey(r *reader, line *Line) {
	line.User = r.required("user", maxExternalID)
	p := people.Passkey{
		RelyingParty: r.required("rp_id", maxExternalID), Credential: r.bytes("credential_id", passkey.MaxIDBytes), PublicKey: r.bytes("public_key", maxPublicKey),
		Handle: r.bytes("user_handle", maxUserHandle), Name: r.text("name", factors.MaxName), BackupEligible: -1,
		BackedUp: ptr.Deref(r.flag("backed_up"), false), SecondFactorOnly: ptr.Deref(r.flag("second_factor_only"), false),
	}
	if !r.Faulty("public_key") && len(p.PublicKey) > 0 {
		if err := passkey.ValidateKey(p.PublicKey); err != nil {
			r.Fault("public_key", "%v", err)
		}
	}
	if count, sent := r.number("sign_count"); sent {
		if p.SignCount = count; count < 0 || count > 1<<32-1 {
			r.Fault("sign_count", "must be a number from 0 to 4294967295")
		}
	}
	if eligible := r.flag("backup_eligible"); eligible != nil {
		p.BackupEligible = 0
		if *eligible {
			p.BackupEligible = 1
		}
	}
	if p.BackedUp && p.BackupEligible == 0 {
		r.Fault("backed_up", "must not be true if backup_eligible is false")
	}
	if r.sent("transports") {
		p.Transports, _ = r.Strings("transports")
		for _, transport := range p.Transports {
			if transport == "" || len(transport) > maxTransport || strings.Trim(transport, "abcdefghijklmnopqrstuvwxyz-") != "" || len(p.Transports) > maxTransports {
				r.Fault("transports", "must be at most %d words in lower case, such as usb or internal", maxTransports)
				break
			}
		}
	}
	line.At, line.Content = r.time("created_at"), &Passkey{p}
}

// number reads a whole number, and reports whether it is present and not null.
func (r *reader) number(member string) (int64, bool) {
	if !r.sent(member) {
		return 0, false
	}
	return r.Integer(member)
}

// bytes reads required bytes in base64url, with or without padding.
func (r *reader) bytes(member string, most int) []byte {
	if !r.Require(member) {
		return nil
	}
	text, ok := r.String(member)
	if !ok {
		return nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(strings.TrimRight(text, "="))
	if err != nil || len(raw) == 0 || len(raw) > most {
		r.Fault(member, "must be 1 to %d bytes in base64url", most)
		return nil
	}
	return raw
}
