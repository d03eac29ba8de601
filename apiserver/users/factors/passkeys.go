package factors

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/apiserver/users/passkey"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// RequirePasskeys returns ErrPasskeysDisabled unless the deployment has passkeys. With adding, it also returns
// ErrDisabled while no user may enroll.
func RequirePasskeys(t *account.Tenant, adding bool) error {
	settings, open := t.Settings.Strong()
	switch {
	case adding && !open:
		return ErrDisabled
	case !settings.Passkey || settings.RelyingParty == "":
		return ErrPasskeysDisabled
	}
	return nil
}

// Descriptors returns the names of passkeys in options.
func Descriptors(passkeys []people.Passkey) []passkey.Descriptor {
	out := make([]passkey.Descriptor, len(passkeys))
	for i, p := range passkeys {
		out[i] = passkey.Descriptor{ID: p.Credential, Transports: p.Transports}
	}
	return out
}

// handlePurpose is the purpose of the subkey of the root key that makes user handles.
const handlePurpose = "cardea passkey user handle v1"

// Handle returns the user handle for a new passkey of an account: that of its newest passkey of the relying party, or
// 32 bytes that are derived from the account. The answer to the options does not contain the handle, so it must be the
// same when the options are made and when the passkey is added. passkeys are those of the account. passkey.ErrNoKey:
// there is no root key.
func Handle(u *account.Unit, user int64, passkeys []people.Passkey) ([]byte, error) {
	settings, _ := u.Settings.Strong()
	for _, p := range slices.Backward(passkeys) {
		if p.RelyingParty == settings.RelyingParty {
			return p.Handle, nil
		}
	}
	keys := u.Keyring.Subkeys(handlePurpose)
	if len(keys) == 0 {
		return nil, passkey.ErrNoKey
	}
	h := hmac.New(sha256.New, keys[0].Key)
	for _, part := range []string{u.Key(), settings.RelyingParty, subject(user)} {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part)))
		h.Write([]byte(part))
	}
	return h.Sum(nil), nil
}

// Stored returns a passkey as package passkey verifies it.
func Stored(p people.Passkey) passkey.Stored {
	return passkey.Stored{
		CredentialID: p.Credential, PublicKey: p.PublicKey, UserHandle: p.Handle, SignCount: uint32(p.SignCount), BackupEligible: p.BackupEligible,
		BackedUp: p.BackedUp,
	}
}

// Spend makes the challenge of a verified answer invalid, in the transaction that does the permitted action. ErrSpent:
// it was answered before.
func Spend(u *account.Unit, spent passkey.Spent) error {
	first, err := u.Factors().SpendChallenge(spent.Hash[:], spent.ExpiresAt)
	if err == nil && !first {
		err = ErrSpent
	}
	return err
}

// Use records a verified assertion of a passkey and spends its challenge, and returns the method that it proves. The
// user is locked. ErrPasskeyUnknown: the passkey was removed meanwhile. ErrSpent.
func Use(u *account.Unit, p people.Passkey, v passkey.Verified) (assurance.Method, error) {
	if err := Spend(u, v.Spent); err != nil {
		return "", err
	}
	now, found, err := u.Factors().PasskeyByCredential(p.RelyingParty, p.Credential)
	if err != nil {
		return "", err
	}
	if !found || now.ID != p.ID {
		return "", ErrPasskeyUnknown
	}
	changed := v.BackupChanged && now.BackupEligible != v.BackupEligible // a concurrent request may have recorded it
	now.SignCount = max(now.SignCount, int64(v.SignCount))
	now.BackupEligible, now.BackedUp, now.Verified, now.UsedAt = v.BackupEligible, v.BackedUp, now.Verified || v.UserVerified, u.Now
	if err := u.Factors().UsePasskey(now); err != nil {
		return "", err
	}
	if changed {
		if err := u.Audit("passkey.backup_changed", object("passkey", p.ID)); err != nil {
			return "", err
		}
	}
	if v.CounterRegressed {
		if err := u.Audit("passkey.counter_regressed", object("passkey", p.ID)); err != nil {
			return "", err
		}
	}
	if v.UserVerified {
		return assurance.PasskeyUV, nil
	}
	return assurance.Passkey, nil
}

// regressionsPerDay bounds the recorded regressions of the passkeys of an account in a UTC day. An answer costs the
// owner of a passkey nothing, and each recorded regression writes rows and mails.
const (
	regressionsPerDay = 10
	scopeRegression   = "passkey-regression"
)

// CounterRegressed records that the counter of a device-bound passkey went back, which refuses the assertion, and
// notifies the owner. Above the bound of a day it writes nothing. The passkey stays.
func CounterRegressed(u *account.Unit, p people.Passkey, v passkey.Verified) error {
	today, err := u.Limits().Counted(scopeRegression, subject(p.User), u.Now)
	if err != nil || today.Count >= regressionsPerDay {
		return err
	}
	if _, err := u.Limits().Count(scopeRegression, subject(p.User), u.Now, u.Now.Truncate(24*time.Hour).Add(24*time.Hour)); err != nil {
		return err
	}
	if err := Spend(u, v.Spent); errors.Is(err, ErrSpent) {
		return nil // notified already
	} else if err != nil {
		return err
	}
	if err := u.Audit("passkey.counter_regressed", object("passkey", p.ID)); err != nil {
		return err
	}
	return u.Notify(p.User, messages.CounterRegressed)
}

// AddPasskey adds a registered credential. The user is locked. Errors: ErrTooManyFactors, ErrPasskeyExists, ErrSpent.
func AddPasskey(u *account.Unit, user people.User, c passkey.Credential, spent passkey.Spent, handle []byte, kind passkey.Kind, name string) (people.Passkey, error) {
	settings, _ := u.Settings.Strong()
	if err := Spend(u, spent); err != nil {
		return people.Passkey{}, err
	}
	have, err := u.Factors().PasskeysOf(user.ID)
	if err != nil {
		return people.Passkey{}, err
	}
	if len(have) >= MaxPasskeys {
		return people.Passkey{}, ErrTooManyFactors
	}
	if err := countAdded(u, user.ID); err != nil {
		return people.Passkey{}, err
	}
	if _, taken, err := u.Factors().PasskeyByCredential(settings.RelyingParty, c.ID); err != nil || taken {
		if err == nil {
			err = ErrPasskeyExists
		}
		return people.Passkey{}, err
	}
	id, err := u.NewID()
	if err != nil {
		return people.Passkey{}, err
	}
	p := people.Passkey{
		ID: id, User: user.ID, RelyingParty: settings.RelyingParty, Credential: c.ID, Handle: handle, PublicKey: c.PublicKey, SignCount: int64(c.SignCount),
		BackupEligible: c.BackupEligible, BackedUp: c.BackedUp, Verified: c.UserVerified, SecondFactorOnly: kind == passkey.KindSecurityKey,
		Transports: c.Transports, AAGUID: c.AAGUID[:], Name: name, CreatedAt: u.Now,
	}
	if err := u.Factors().InsertPasskey(p); err != nil {
		return p, err
	}
	if err := u.Audit("passkey.added", object("passkey", id)); err != nil {
		return p, err
	}
	return p, u.Notify(user.ID, messages.PasskeyAdded)
}

// OwnPasskey returns a passkey of a user. ErrPasskeyUnknown: it does not exist or belongs to another user.
func OwnPasskey(u *account.Unit, user, id int64) (people.Passkey, error) {
	have, err := u.Factors().PasskeysOf(user)
	if err != nil {
		return people.Passkey{}, err
	}
	at := slices.IndexFunc(have, func(p people.Passkey) bool { return p.ID == id })
	if at < 0 {
		return people.Passkey{}, ErrPasskeyUnknown
	}
	return have[at], nil
}

// RenamePasskey changes the name of a passkey.
func RenamePasskey(u *account.Unit, p people.Passkey, name string) (people.Passkey, error) {
	if p.Name == name {
		return p, nil
	}
	p.Name = name
	if err := u.Factors().RenamePasskey(p.ID, name); err != nil {
		return p, err
	}
	return p, u.Audit("passkey.renamed", object("passkey", p.ID))
}

// RemovePasskey removes a passkey of a user. The user is locked. Errors: ErrPasskeyUnknown, ErrRequired.
func RemovePasskey(u *account.Unit, user people.User, id int64) (people.Passkey, error) {
	p, err := OwnPasskey(u, user.ID, id)
	if err != nil {
		return p, err
	}
	if _, err := u.Factors().DeletePasskey(id); err != nil {
		return p, err
	}
	if err := u.Audit("passkey.removed", object("passkey", id)); err != nil {
		return p, err
	}
	return p, afterRemoving(u, user, messages.PasskeyRemoved)
}
