// Package factors holds the rules of second factors, passkeys and recovery codes: how they are added, shown and
// removed, and how wrong codes are limited. Like package account, it does not depend on HTTP: it returns error values,
// which each listener maps to its own responses. Package account has the rules of what is required.
package factors

import (
	"errors"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/totp"
	"github.com/cardea-iam/cardea/store/people"
)

// The most factors that an account may have.
const (
	// MaxAuthenticators is a phone and its spare.
	MaxAuthenticators = 2
	MaxPasskeys       = 20
	MaxTexts          = 2
	// MaxName is the longest name of a factor, in characters.
	MaxName = 80
)

// Errors of the rules. ErrTooManyChanges and ErrTooManyTries are returned in an account.WaitError.
var (
	// ErrDisabled: the deployment's document does not have the settings of factors yet.
	ErrDisabled         = errors.New("second factors are disabled")
	ErrPasskeysDisabled = errors.New("passkeys are disabled")
	ErrTextsDisabled    = errors.New("texts are disabled as a second factor")
	ErrUnavailable      = errors.New("the account has no such usable factor")
	// ErrTooManySignIns: the account signed in by passkey too often today.
	ErrTooManySignIns  = errors.New("too many sign-ins by passkey")
	ErrUnknown         = errors.New("the user has no such factor")
	ErrPasskeyUnknown  = errors.New("the user has no such passkey")
	ErrPasskeyExists   = errors.New("the passkey is registered already")
	ErrPhoneUnverified = errors.New("the phone number is not verified")
	// ErrRequired: the account would have no usable factor although two factors are required, or has none to turn
	// two-step on with.
	ErrRequired       = errors.New("the account needs a factor")
	ErrTooManyFactors = errors.New("the account has as many factors of this kind as it may")
	ErrTooManyChanges = errors.New("too many changes of factors")
	ErrTooManyTries   = errors.New("too many wrong codes")
	// ErrAttemptOver: the attempt had too many wrong codes and has ended.
	ErrAttemptOver = errors.New("too many wrong codes in this attempt")
	// ErrUsed: the code was right and has been used.
	ErrUsed = errors.New("the code was used already")
	// ErrExpired: the code or the enrollment is no longer valid.
	ErrExpired = errors.New("the code has expired")
	// ErrSpent: the challenge of an assertion was answered before.
	ErrSpent = errors.New("the challenge was answered already")
)

// WrongCodeError refuses a wrong code.
type WrongCodeError struct {
	// Left is how many codes may still be tried in the attempt, -1 outside of an attempt.
	Left int
}

func (e *WrongCodeError) Error() string { return "wrong code" }

// The limit of additions: factors and passkeys added, and sets of recovery codes made.
const (
	addedPerDay = 20
	scopeAdded  = "second-factor-added"
)

// countAdded counts an addition. It returns a WaitError with ErrTooManyChanges above the limit of a day.
func countAdded(u *account.Unit, user int64) error {
	n, err := u.Limits().Count(scopeAdded, subject(user), u.Now, u.Now.Add(24*time.Hour))
	if err == nil && n.Count > addedPerDay {
		err = &account.WaitError{Reason: ErrTooManyChanges, Wait: n.Ends.Sub(u.Now)}
	}
	return err
}

// requireOpen returns ErrDisabled while no user may enroll.
func requireOpen(u *account.Unit) error {
	if _, open := u.Settings.Strong(); !open {
		return ErrDisabled
	}
	return nil
}

func subject(user int64) string { return ids.Format(user) }

func object(kind string, id int64) string { return kind + ":" + ids.Format(id) }

// parameters returns the parameters of an authenticator's codes.
func parameters(a people.Authenticator) totp.Parameters {
	return totp.Parameters{Algorithm: totp.Algorithm(a.Algorithm), Digits: a.Digits, Period: a.Period}
}

// longDigits is the length of the codes of some imported authenticators.
const longDigits = 8

// NormalizeLong is verification.Normalize for codes of eight digits.
func NormalizeLong(typed string) (string, bool) { return totp.Normalize(typed, longDigits) }
