package factors

import (
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/store/people"
)

// This file has the operations of the tenant's help desk on the factors of users. They need no proof of the user, and
// what the deployment requires does not refuse them: a user who then has too little must add a factor.

// Removed counts removed factors.
type Removed struct{ Authenticators, Passkeys, Texts int }

// All returns how many factors were removed.
func (r Removed) All() int { return r.Authenticators + r.Passkeys + r.Texts }

// Reset deletes every factor and code of a user, turns two-step off, ends every session, and notifies the owner. It
// returns what was removed and how many sign-ins ended. The audit records the reason. account.ErrUserUnknown: there is
// no such user.
func Reset(u *account.Unit, id int64, reason string) (removed Removed, revoked int64, err error) {
	if _, revoked, err = u.SignOutEverywhere(id, events.ByBackend); err != nil {
		return removed, 0, err
	}
	if removed, err = removeFactors(u, id); err != nil {
		return removed, 0, err
	}
	if err := removeCodes(u, id); err != nil {
		return removed, 0, err
	}
	if err := u.Factors().SetTwoStep(id, false); err != nil {
		return removed, 0, err
	}
	if err := u.Attempts().EndAttemptsOf(id); err != nil {
		return removed, 0, err
	}
	if err := u.AuditDetail("user.factors_reset", object("user", id), reason); err != nil {
		return removed, 0, err
	}
	return removed, revoked, u.Notify(id, messages.FactorsReset)
}

// removeFactors deletes every authenticator, confirmed or not, every passkey, and every use of a phone as a factor.
func removeFactors(u *account.Unit, user int64) (removed Removed, err error) {
	f, err := u.FactorsOf(user)
	if err != nil {
		return removed, err
	}
	authenticators, err := u.Factors().AuthenticatorsOf(user)
	if err != nil {
		return removed, err
	}
	for _, a := range authenticators {
		if _, err := u.Factors().DeleteAuthenticator(a.ID); err != nil {
			return removed, err
		}
	}
	passkeys, texts := slices.Concat(f.Passkeys, f.UnusablePasskeys), slices.Concat(f.Texts, f.UnusableTexts)
	for _, p := range passkeys {
		if _, err := u.Factors().DeletePasskey(p.ID); err != nil {
			return removed, err
		}
	}
	for _, p := range texts {
		if err := u.Factors().SetSecondFactorPhone(p.ID, time.Time{}); err != nil {
			return removed, err
		}
	}
	return Removed{Authenticators: len(f.Authenticators) + len(f.UnusableAuthenticators), Passkeys: len(passkeys), Texts: len(texts)}, nil
}

// removeCodes deletes the recovery codes and the temporary code.
func removeCodes(u *account.Unit, user int64) error {
	if err := u.Factors().ReplaceRecoveryCodes(user, nil, u.Now); err != nil {
		return err
	}
	temporary, found, err := u.Factors().TemporaryCode(user)
	if err == nil && found {
		_, err = u.Factors().DeleteTemporaryCode(user, temporary.ID)
	}
	return err
}

// WithdrawAuthenticator removes a confirmed authenticator of a user. With the last usable factor, two-step is turned
// off and the recovery codes are deleted. The user is locked. Errors: ErrUnknown.
func WithdrawAuthenticator(u *account.Unit, user people.User, id int64) error {
	have, err := u.Factors().AuthenticatorsOf(user.ID)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(have, func(a people.Authenticator) bool { return a.ID == id && !a.ConfirmedAt.IsZero() }) {
		return ErrUnknown
	}
	if _, err := u.Factors().DeleteAuthenticator(id); err != nil {
		return err
	}
	return withdrawn(u, user, object("totp", id), messages.AuthenticatorWithdrawn)
}

// WithdrawPasskey is WithdrawAuthenticator for a passkey, usable or not. Errors: ErrPasskeyUnknown.
func WithdrawPasskey(u *account.Unit, user people.User, id int64) error {
	if _, err := OwnPasskey(u, user.ID, id); err != nil {
		return err
	}
	if _, err := u.Factors().DeletePasskey(id); err != nil {
		return err
	}
	return withdrawn(u, user, object("passkey", id), messages.PasskeyWithdrawn)
}

// withdrawn follows the withdrawal of a factor.
func withdrawn(u *account.Unit, user people.User, factor, notice string) error {
	if err := u.AuditDetail("user.factor_removed", object("user", user.ID), factor); err != nil {
		return err
	}
	if err := u.Notify(user.ID, notice); err != nil {
		return err
	}
	left, err := u.FactorsOf(user.ID)
	if err != nil || left.Any() {
		return err
	}
	return withoutFactors(u, user)
}
