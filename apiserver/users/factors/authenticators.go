package factors

import (
	"crypto/subtle"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/internal/totp"
	"github.com/cardea-iam/cardea/store/people"
)

// Enrollment is an authenticator that waits for its first code, with what its app needs.
type Enrollment struct {
	people.Authenticator
	Secret, URI string
	ExpiresAt   time.Time
}

// defaultAuthenticatorName names authenticators whose user gave no name.
const defaultAuthenticatorName = "Authenticator app"

// AddAuthenticator begins to add an authenticator. The user is locked. Until it expires, the same sign-in gets the
// same enrollment again; one of another sign-in is replaced. Errors: ErrDisabled, ErrTooManyFactors, ErrUnavailable if
// the deployment disables authenticators, account.ErrCannotSeal.
func AddAuthenticator(u *account.Unit, user people.User, signIn int64, name string) (Enrollment, error) {
	settings, open := u.Settings.Strong()
	switch {
	case !open:
		return Enrollment{}, ErrDisabled
	case !settings.TOTP:
		return Enrollment{}, ErrUnavailable
	case u.Keyring.Empty():
		return Enrollment{}, account.ErrCannotSeal
	}
	have, err := u.Factors().AuthenticatorsOf(user.ID)
	if err != nil {
		return Enrollment{}, err
	}
	confirmed := 0
	for _, a := range have {
		switch {
		case !a.ConfirmedAt.IsZero():
			confirmed++
		case a.SignIn == signIn && u.Now.Before(a.CreatedAt.Add(people.UnconfirmedFor)):
			return enrollmentOf(u, user, a)
		default:
			if _, err := u.Factors().DeleteAuthenticator(a.ID); err != nil {
				return Enrollment{}, err
			}
		}
	}
	if confirmed >= MaxAuthenticators {
		return Enrollment{}, ErrTooManyFactors
	}
	if err := countAdded(u, user.ID); err != nil {
		return Enrollment{}, err
	}
	secret := make([]byte, totp.SecretBytes)
	if _, err := io.ReadFull(u.Random, secret); err != nil {
		return Enrollment{}, fmt.Errorf("random secret: %w", err)
	}
	id, err := u.NewID()
	if err != nil {
		return Enrollment{}, err
	}
	p := totp.Default()
	a := people.Authenticator{
		ID: id, User: user.ID, SignIn: signIn, Name: name, Algorithm: string(p.Algorithm), Digits: p.Digits, Period: p.Period, CreatedAt: u.Now,
		Sealed: u.Keyring.Seal(people.SealedAuthenticator, people.SealedFor(u.Key(), id), secret),
	}
	if a.Name == "" {
		a.Name = defaultAuthenticatorName
	}
	if err := u.Factors().InsertAuthenticator(a); err != nil {
		return Enrollment{}, err
	}
	return enrollmentOf(u, user, a)
}

func enrollmentOf(u *account.Unit, user people.User, a people.Authenticator) (Enrollment, error) {
	secret, err := open(u, a)
	if err != nil {
		return Enrollment{}, err
	}
	settings, _ := u.Settings.Strong()
	issuer := settings.TOTPIssuer
	if issuer == "" {
		issuer = strings.ReplaceAll(u.AppName(), ":", "")
	}
	return Enrollment{
		Authenticator: a, Secret: totp.FormatSecret(secret), URI: totp.URI(issuer, user.Email, secret, parameters(a)),
		ExpiresAt: a.CreatedAt.Add(people.UnconfirmedFor),
	}, nil
}

// Imported returns an authenticator of another system with its secret sealed, and a name if it has none.
func Imported(u *account.Unit, a people.Authenticator, secret []byte) people.Authenticator {
	a.Sealed = u.Keyring.Seal(people.SealedAuthenticator, people.SealedFor(u.Key(), a.ID), secret)
	if a.Name == "" {
		a.Name = defaultAuthenticatorName
	}
	return a
}

func open(u *account.Unit, a people.Authenticator) ([]byte, error) {
	secret, err := u.Keyring.Open(people.SealedAuthenticator, people.SealedFor(u.Key(), a.ID), a.Sealed)
	if err != nil {
		return nil, fmt.Errorf("authenticator %s: %w", subject(a.ID), err)
	}
	return secret, nil
}

// Match is an authenticator whose code was right, with the time step to record.
type Match struct {
	Authenticator people.Authenticator
	step          int64
}

// MatchCode compares a code with every authenticator. ErrUsed: the code is right, but its step was used. It reports
// false for a wrong code.
func MatchCode(u *account.Unit, authenticators []people.Authenticator, code string) (Match, bool, error) {
	var match Match
	found, used := 0, 0
	for _, a := range authenticators {
		if a.Digits != len(code) {
			continue
		}
		secret, err := open(u, a)
		if err != nil {
			return Match{}, false, err
		}
		step, result := totp.Match(parameters(a), secret, code, u.Now, a.LastStep)
		if subtle.ConstantTimeEq(int32(result), int32(totp.Right)) == 1 {
			match, found = Match{a, step}, 1
		}
		used |= subtle.ConstantTimeEq(int32(result), int32(totp.Used))
	}
	if found == 0 && used == 1 {
		return Match{}, false, ErrUsed
	}
	return match, found == 1, nil
}

// Spend records the use of the code's time step, in the transaction that does the permitted action. ErrUsed: a
// concurrent request used it.
func (m Match) Spend(u *account.Unit) error {
	first, err := u.Factors().SpendStep(m.Authenticator.ID, m.step, u.Now)
	if err == nil && !first {
		err = ErrUsed
	}
	return err
}

// ConfirmAuthenticator confirms an authenticator by its matching code, turns two-step on, and returns the recovery
// codes if the account had none left. The user is locked. ErrUnknown: it was confirmed or removed meanwhile.
func ConfirmAuthenticator(u *account.Unit, user people.User, m Match) ([]string, error) {
	first, err := u.Factors().ConfirmAuthenticator(m.Authenticator.ID, m.step, u.Now)
	if err == nil && !first {
		err = ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	if err := u.Audit("totp.added", object("totp", m.Authenticator.ID)); err != nil {
		return nil, err
	}
	if err := u.Notify(user.ID, messages.AuthenticatorAdded); err != nil {
		return nil, err
	}
	return turnOn(u, user)
}

// RemoveAuthenticator removes an authenticator of a user, confirmed or not. The user is locked. Errors: ErrUnknown,
// ErrRequired.
func RemoveAuthenticator(u *account.Unit, user people.User, id int64) error {
	have, err := u.Factors().AuthenticatorsOf(user.ID)
	if err != nil {
		return err
	}
	for _, a := range have {
		if a.ID != id {
			continue
		}
		if _, err := u.Factors().DeleteAuthenticator(id); err != nil || a.ConfirmedAt.IsZero() {
			return err
		}
		if err := u.Audit("totp.removed", object("totp", id)); err != nil {
			return err
		}
		return afterRemoving(u, user, messages.AuthenticatorRemoved)
	}
	return ErrUnknown
}
