package enduser

import (
	"errors"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/store/people"
)

// methodResetPassword is the method of an attempt to reset a password, as responses name it.
const methodResetPassword = "reset_password"

// requirePasswords refuses password operations if the deployment has no passwords.
func requirePasswords(c *call) error {
	if !c.request.Settings.EffectiveSignIn().Password {
		return c.answerTo(errPasswordsDisabled)
	}
	return nil
}

// forgotPassword begins a password reset with an emailed code. For an address without an account the response is the
// same; nothing is sent and no code matches.
func forgotPassword(c *call) (reply, error) {
	var email string
	if err := c.parse(func(o *body.Object) { email = required(o, "email", input.Email) }); err != nil {
		return reply{}, err
	}
	if err := requirePasswords(c); err != nil {
		return reply{}, err
	}
	if err := requireNoConnection(c, email); err != nil {
		return reply{}, err
	}
	if err := c.requireEmail(); err != nil {
		return reply{}, err
	}
	out, err := transact(c, func(u *unit) (reply, error) {
		e, err := account.AddressForCode(u.Unit, email)
		if err != nil {
			return reply{}, err
		}
		return reply{}, c.begin(u, people.Attempt{Kind: people.AttemptResetPassword, Method: methodResetPassword, Email: email}, e)
	})
	out.data = c.sessionSnapshot()
	return out, err
}

// provenReset returns the session's attempt to reset a password. It fails if the code of the attempt was not entered
// yet.
func (u *unit) provenReset(id int64) (people.Attempt, error) {
	a, err := u.attemptOf(id)
	if err == nil && (a.Kind != people.AttemptResetPassword || a.ProvedAt.IsZero()) {
		err = errInvalidAttempt
	}
	return a, err
}

// resetPassword sets a new password for the account of a proven attempt. It does not sign in.
func resetPassword(c *call) (reply, error) {
	var id int64
	var chosen string
	var ends resetEnds
	err := c.parse(func(o *body.Object) {
		id = required(o, "signin_attempt_id", input.ID)
		o.Require("password")
		chosen, _ = o.String("password")
		ends.others = readOthers(o)
		access, sent := o.Bool("revoke_access")
		ends.access = access || !sent && ends.others
	})
	if err != nil {
		return reply{}, err
	}
	if err := requirePasswords(c); err != nil {
		return reply{}, err
	}
	if c.session == nil {
		return reply{}, c.answerTo(errInvalidAttempt)
	}
	var user people.User
	err = c.view(func(tx *account.Unit) error {
		a, err := (&unit{Unit: tx, browser: c.browser}).provenReset(id)
		if err == nil {
			user, _, err = tx.Users().User(a.User)
		}
		return err
	})
	if err != nil {
		return reply{}, err
	}
	encoded, err := newPassword(c, chosen, user)
	if err != nil {
		return reply{}, err
	}
	out, err := transact(c, func(u *unit) (reply, error) { return u.reset(id, encoded, ends) })
	out.data = c.sessionSnapshot()
	return out, err
}

// resetEnds selects whether a reset also ends other sign-ins, and access without a sign-in (API keys and offline OAuth
// access).
type resetEnds struct{ others, access bool }

// readOthers reads whether other sign-ins end; absent means yes.
func readOthers(o *body.Object) bool {
	others, sent := o.Bool("sign_out_others")
	return others || !sent
}

// newPassword validates and hashes a new password. It returns WEAK_PASSWORD for a password that the rules refuse.
func newPassword(c *call, chosen string, user people.User) (string, error) {
	if err := validatePassword(c, chosen, user); err != nil {
		return "", err
	}
	encoded, err := c.Hasher.Hash(c.r.Context(), hashClient(c), chosen)
	return encoded, c.answerTo(err)
}

func validatePassword(c *call, chosen string, user people.User) error {
	if err := password.Validate(chosen, c.request.Settings.EffectiveSignIn().PasswordMinLength, user.Email, user.FirstName, user.LastName); err != nil {
		return apierror.Bad("WEAK_PASSWORD", "%s", err)
	}
	return nil
}

// reset performs a proven reset, once.
func (u *unit) reset(id int64, encoded string, ends resetEnds) (reply, error) {
	a, err := u.provenReset(id)
	if err != nil {
		return reply{}, err
	}
	u.Actor = "user:" + format(a.User)
	suspect, err := account.Suspect(u.Unit, a.User)
	if err != nil {
		return reply{}, err
	}
	user, ended, err := u.LockAccount(a.User, ends.others)
	if errors.Is(err, account.ErrUserUnknown) {
		err = errInvalidAttempt
	}
	if err != nil {
		return reply{}, err
	}
	if user.Disabled {
		return reply{}, account.ErrUserDisabled
	}
	first, err := u.Attempts().CompleteAttempt(id)
	if err != nil {
		return reply{}, err
	}
	if !first {
		return reply{}, errInvalidAttempt
	}
	if err := account.ProveEmail(u.Unit, a); err != nil {
		return reply{}, err
	}
	err = u.SetPassword(account.PasswordChange{
		User: user.ID, Encoded: encoded, Event: events.UserPasswordReset, Action: "user.password_reset", Ended: ended,
		Sentence: "The password of your account was reset by a code sent to " + a.Email + ".",
	})
	if err != nil {
		return reply{}, err
	}
	if ends.access {
		if err := account.EndAccess(u.Unit, user.ID, suspect); err != nil {
			return reply{}, err
		}
	}
	if len(u.session.SignIns) == 0 {
		return reply{}, nil
	}
	return reply{}, u.renew() // a copy of the session's token ends too
}

// updatePassword changes the user's password, or sets a first one after a recent authentication.
func updatePassword(c *call) (reply, error) {
	var current, chosen string
	var hasCurrent, others bool
	err := c.parse(func(o *body.Object) {
		current, hasCurrent = o.String("current_password")
		o.Require("new_password")
		chosen, _ = o.String("new_password")
		others = readOthers(o)
	})
	if err != nil {
		return reply{}, err
	}
	if err := requirePasswords(c); err != nil {
		return reply{}, err
	}
	var user people.User
	had := false
	err = c.view(func(u *account.Unit) (err error) {
		if user, _, err = u.Users().User(c.signedIn().User); err == nil {
			_, had, err = u.Users().Credential(user.ID, people.CredentialPassword)
		}
		return err
	})
	if err != nil {
		return reply{}, err
	}
	switch {
	case had && !hasCurrent:
		return reply{}, c.answerTo(errWrongCurrent)
	case had:
		return changePassword(c, user, current, chosen, others)
	}
	c.fresh = true
	// Check the session before hashing, because a hash occupies the hasher, which other users need too.
	if _, err := transact(c, func(*unit) (reply, error) { return reply{}, nil }); err != nil {
		return reply{}, err
	}
	encoded, err := newPassword(c, chosen, user)
	if err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		_, ended, err := u.LockAccount(u.signedIn().User, others)
		if err != nil {
			return reply{}, err
		}
		_, had, err := u.Users().Credential(u.signedIn().User, people.CredentialPassword)
		if err != nil {
			return reply{}, err
		}
		if had || u.signedIn().User != user.ID {
			return reply{}, errWrongCurrent // a password was set meanwhile
		}
		return u.passwordSet(encoded, "user.password_set", "A password was set for your account.", ended)
	})
}

// changePassword changes the password if the current one is right. The comparison counts failures as a sign-in does,
// with the same counters.
func changePassword(c *call, user people.User, current, chosen string, others bool) (reply, error) {
	if err := validatePassword(c, chosen, user); err != nil {
		return reply{}, err
	}
	encoded := ""
	try, err := comparePassword(c, user.Email, current, errWrongCurrent, func(turn *password.Turn, _ account.PasswordTry) (err error) {
		if chosen == current {
			return nil // the transaction below refuses it and takes the count back
		}
		encoded, err = turn.Hash(chosen)
		return err
	})
	if err != nil {
		return reply{}, err
	}
	return transactTry(c, try, func(u *unit) (reply, error) {
		if err := u.acceptOwnPassword(try); err != nil {
			return reply{}, wrongCurrent(err)
		}
		if encoded == "" {
			return reply{}, account.Refuse(errSamePassword)
		}
		_, ended, err := u.LockAccount(user.ID, others)
		if err != nil {
			return reply{}, err
		}
		if err := u.ConfirmPassword(try); err != nil {
			return reply{}, wrongCurrent(err)
		}
		return u.passwordSet(encoded, "user.password_changed", "The password of your account was changed.", ended)
	})
}

// wrongCurrent replaces ErrInvalidCredentials by the error for a signed-in user. The compared password is then no
// longer the account's.
func wrongCurrent(err error) error {
	if errors.Is(err, account.ErrInvalidCredentials) {
		return errWrongCurrent
	}
	return err
}

func (u *unit) passwordSet(encoded, action, sentence string, ended int64) (reply, error) {
	err := u.SetPassword(account.PasswordChange{
		User: u.signedIn().User, Encoded: encoded, Event: events.UserPasswordChanged, Action: action, Sentence: sentence, Ended: ended,
	})
	if err != nil {
		return reply{}, err
	}
	return reply{data: enduserapi.PasswordUpdated{PasswordUpdated: true, UpdatedAt: u.Now}}, u.renew()
}

// removePassword removes the password of a user who entered it, if the user can sign in with codes.
func removePassword(c *call) (reply, error) {
	var current string
	err := c.parse(func(o *body.Object) {
		o.Require("current_password")
		current, _ = o.String("current_password")
	})
	if err != nil {
		return reply{}, err
	}
	if c.request.Settings.Email == nil || !c.request.Settings.EffectiveSignIn().EmailCode {
		return reply{}, c.answerTo(errNoOtherWayIn)
	}
	email, err := c.primaryEmail()
	if err != nil {
		return reply{}, err
	}
	try, err := comparePassword(c, email, current, errWrongCurrent, func(*password.Turn, account.PasswordTry) error { return nil })
	if err != nil {
		return reply{}, err
	}
	return transactTry(c, try, func(u *unit) (reply, error) {
		if err := u.acceptOwnPassword(try); err != nil {
			return reply{}, wrongCurrent(err)
		}
		if _, err := u.lockOwnUser(); err != nil {
			return reply{}, err
		}
		if err := u.ConfirmPassword(try); err != nil {
			return reply{}, wrongCurrent(err)
		}
		removed, err := u.RemovePassword(u.signedIn().User)
		if err != nil {
			return reply{}, err
		}
		return reply{data: enduserapi.PasswordRemoved{PasswordRemoved: removed}}, u.renew()
	})
}
