package enduser

import (
	"cmp"
	"errors"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/passkey"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// signIn signs in with a password or a passkey, or begins a sign-in with an emailed code.
func signIn(c *call) (reply, error) {
	settings := c.request.Settings.EffectiveSignIn()
	var strategy, email, typed string
	var assertion *passkey.Assertion
	err := c.parse(func(o *body.Object) {
		o.Require("strategy")
		if asked, _ := o.String("strategy"); asked == account.StrategyPasskey {
			strategy, assertion = asked, readAssertion(o)
			return
		}
		email = required(o, "email", input.Email)
		typed, _ = o.String("password")
		strategy = readStrategy(o, settings)
	})
	if err != nil {
		return reply{}, err
	}
	if strategy == account.StrategyPasskey {
		return signInByPasskey(c, assertion)
	}
	if err := requireNoConnection(c, email); err != nil {
		return reply{}, err
	}
	if strategy == people.MethodPassword {
		return signInByPassword(c, email, typed)
	}
	return signInByCode(c, email)
}

// readStrategy reads the authentication method, and checks the password member against it.
func readStrategy(o *body.Object, settings document.SignInSettings) string {
	strategy, sent := o.String("strategy")
	switch {
	case !sent:
	case strategy == people.MethodPassword && settings.Password:
		o.Require("password")
	case strategy == people.MethodEmailOTP && settings.EmailCode:
		if o.Has("password") {
			o.Fault("password", "is not a part of the strategy email_otp: remove it")
		}
	default:
		o.Fault("strategy", "must be a strategy that this deployment enables: %s", strategies(settings.Password, settings.EmailCode))
	}
	return strategy
}

func strategies(byPassword, byCode bool) string {
	switch {
	case byPassword && byCode:
		return "password or email_otp"
	case byPassword:
		return "password"
	}
	return "email_otp"
}

// signInByCode begins a sign-in. For an address without an account the response is the same; nothing is sent and no
// code matches.
func signInByCode(c *call, email string) (reply, error) {
	if err := c.requireEmail(); err != nil {
		return reply{}, err
	}
	out, err := transact(c, func(u *unit) (reply, error) {
		e, err := account.AddressForCode(u.Unit, email)
		if err != nil {
			return reply{}, err
		}
		return reply{}, c.begin(u, people.Attempt{Kind: people.AttemptSignIn, Method: people.MethodEmailOTP, Email: email}, e)
	})
	out.data = c.sessionSnapshot()
	return out, err
}

// comparePassword compares a password with that of an email's account. An unknown email and a wrong password take the
// same time and get the same response:
//  1. A client that must wait is refused, without a row or a turn of the hasher.
//  2. The request waits for a turn of the hasher first, so that a try that gets no turn writes no row.
//  3. The try is counted as wrong and committed.
//  4. The password is compared. If the comparison itself fails, the count is taken back.
//  5. If the password is right, more runs during the turn.
//
// After a right password, the caller takes the count back with AcceptPassword. wrong is the error for a wrong password.
func comparePassword(c *call, email, typed string, wrong error, more func(*password.Turn, account.PasswordTry) error) (account.PasswordTry, error) {
	var none account.PasswordTry
	if err := c.view(func(u *account.Unit) error { return u.CheckPasswordTry(email) }); err != nil {
		return none, err
	}
	turn, err := c.Hasher.Acquire(c.r.Context(), hashClient(c))
	if err != nil {
		return none, c.answerTo(err)
	}
	defer turn.Release()
	try, err := transact(c, func(u *unit) (account.PasswordTry, error) { return u.CountPasswordTry(email) })
	if err != nil {
		return none, err
	}
	right, err := turn.Verify(typed, try.Encoded)
	if err != nil {
		turn.Release()
		return none, notCompared(c, try, err)
	}
	if !right {
		turn.Release()
		return none, wrongPassword(c, try, wrong)
	}
	return try, more(turn, try)
}

// signInByPassword signs in with a right password. If the account's address is unverified, the server sends a code to
// the address instead.
func signInByPassword(c *call, email, typed string) (reply, error) {
	renewed := ""
	try, err := comparePassword(c, email, typed, account.ErrInvalidCredentials, func(turn *password.Turn, try account.PasswordTry) (err error) {
		if turn.Outdated(try.Encoded) {
			renewed, err = turn.Hash(typed)
		}
		return err
	})
	if err != nil {
		return reply{}, err
	}
	if try.Address.VerifiedAt.IsZero() {
		return proveAddress(c, try, renewed)
	}
	out, err := transactTry(c, try, func(u *unit) (reply, error) {
		if err := u.AcceptPassword(try); errors.Is(err, account.ErrUserDisabled) {
			return reply{}, account.Refuse(err)
		} else if err != nil {
			return reply{}, err
		}
		// A user that was disabled meanwhile is refused, and everything is rolled back, including a new session.
		err := pass(u, c, people.Attempt{
			Kind: people.AttemptSignIn, Method: people.MethodPassword, Email: try.Address.Address, User: try.User.ID,
			PasswordHash: cmp.Or(renewed, try.Encoded), Proofs: assurance.Proofs{}.With(assurance.Password, u.Now),
		}, try)
		if err != nil {
			return reply{}, err
		}
		return reply{}, u.RenewPassword(try, renewed)
	})
	out.data = c.sessionSnapshot()
	return out, err
}

// proveAddress begins a sign-in with a right password and an unverified address. The code that is sent to the address
// verifies it.
func proveAddress(c *call, try account.PasswordTry, renewed string) (reply, error) {
	out, err := transactTry(c, try, func(u *unit) (reply, error) {
		if err := u.AcceptPassword(try); errors.Is(err, account.ErrUserDisabled) {
			return reply{}, account.Refuse(err)
		} else if err != nil {
			return reply{}, err
		}
		refused := c.requireEmail()
		if refused == nil {
			err := c.begin(u, people.Attempt{
				Kind: people.AttemptSignIn, Method: people.MethodPassword, Email: try.Address.Address, PasswordHash: cmp.Or(renewed, try.Encoded),
				Proofs: assurance.Proofs{}.With(assurance.Password, u.Now),
			}, try.Address)
			if err != nil {
				return reply{}, err
			}
		}
		if _, found, err := u.Users().LockUser(try.User.ID); err != nil {
			return reply{}, err
		} else if !found {
			return reply{}, account.ErrInvalidCredentials
		}
		if err := u.ConfirmPassword(try); err != nil {
			return reply{}, err
		}
		if err := u.RenewPassword(try, renewed); err != nil {
			return reply{}, err
		}
		return reply{}, account.Refuse(refused)
	})
	out.data = c.sessionSnapshot()
	return out, err
}

// transactTry is transact for the action that follows a right password. If the store fails, it tries to take the count
// of the try back.
func transactTry(c *call, try account.PasswordTry, do func(*unit) (reply, error)) (reply, error) {
	out, err := transact(c, do)
	if errors.Is(err, store.ErrUnavailable) {
		_ = notCompared(c, try, nil)
	}
	return out, err
}

// notCompared takes back the count of a try whose password was not compared, and returns the response for the reason.
func notCompared(c *call, try account.PasswordTry, reason error) error {
	_, err := transact(c, func(u *unit) (reply, error) { return reply{}, u.TakeBackPasswordTry(try) })
	if err != nil {
		return err
	}
	return c.answerTo(reason)
}

// wrongPassword returns the response to a wrong password. From the eleventh wrong password in a row, the response has a
// wait.
func wrongPassword(c *call, try account.PasswordTry, wrong error) error {
	if wait := try.Wait(c.now); wait > 0 {
		return apierror.Later("RATE_LIMITED", wait, "the email or the password is wrong, too many times in a row: wait before you try again")
	}
	return c.answerTo(wrong)
}
