package enduser

import (
	"errors"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/factors"
	"github.com/cardea-iam/cardea/apiserver/users/passkey"
	"github.com/cardea-iam/cardea/apiserver/users/verification"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// moreSteps reports whether a sign-in that has shown some proofs needs a further factor. It needs one until its level
// reaches the lower of what is due and what the account's usable factors can give. Due is two factors if the account
// wants to be asked, and what the deployment requires.
func moreSteps(u *unit, user people.User, proofs assurance.Proofs) (bool, error) {
	due := u.RequiredOfAccount(user.TwoStep, user.CreatedAt, u.Now).Level
	if proofs.Level() >= due {
		return false, nil
	}
	f, err := u.FactorsOf(user.ID)
	if err != nil {
		return false, err
	}
	return proofs.Level() < min(due, proofs.Raise(f.Methods()...)), nil
}

// pass continues a sign-in by password that has shown the proofs of an attempt: it signs the user in, or the attempt
// waits for a second factor. It checks that the compared password is still the account's, after the user was locked.
func pass(u *unit, c *call, a people.Attempt, try account.PasswordTry) error {
	user, more, err := evaluate(u, a)
	if err != nil {
		return err
	}
	if more {
		if _, _, err := u.Users().LockUser(user.ID); err != nil {
			return err
		}
		if err := u.ConfirmPassword(try); err != nil {
			return err
		}
		return waitForFactor(u, c, a)
	}
	if err := u.signIn(account.NewSignIn{User: a.User, Method: a.Method, Proofs: a.Proofs}); errors.Is(err, account.ErrUserUnknown) {
		return account.ErrInvalidCredentials
	} else if err != nil {
		return err
	}
	return u.ConfirmPassword(try)
}

// evaluate reads the account of an attempt, and reports whether the attempt needs a further factor. A disabled account
// is refused after its proof.
func evaluate(u *unit, a people.Attempt) (people.User, bool, error) {
	user, found, err := u.Users().User(a.User)
	switch {
	case err != nil:
		return user, false, err
	case !found:
		return user, false, account.ErrInvalidCredentials
	case user.Disabled:
		return user, false, account.Refuse(account.ErrUserDisabled)
	}
	more, err := moreSteps(u, user, a.Proofs)
	return user, more, err
}

// proceed continues a sign-in that has shown the proofs of a stored attempt: it signs the user in, or the attempt
// waits for a second factor.
func proceed(u *unit, c *call, a people.Attempt) error {
	_, more, err := evaluate(u, a)
	if err != nil {
		return err
	}
	if more {
		return waitForFactor(u, c, a)
	}
	return finish(u, c, a)
}

// waitForFactor stores an attempt that waits for a second factor. The session gets a new token, so that the owner of a
// planted earlier token gains nothing.
func waitForFactor(u *unit, c *call, a people.Attempt) error {
	if a.ID != 0 {
		if err := u.Attempts().ProveAttempt(a.ID, a.Proofs, u.Now); err != nil {
			return err
		}
		return u.renew()
	}
	if err := u.beginAttempt(c.presented, a.User); err != nil {
		return err
	}
	id, err := u.NewID()
	if err != nil {
		return err
	}
	a.ID, a.Session, a.CreatedAt, a.ExpiresAt, a.ProvedAt = id, u.session.ID, u.Now, u.Now.Add(attemptLifetime), u.Now
	if err := u.Attempts().InsertAttempt(a); err != nil {
		return err
	}
	return u.renew()
}

// factorAttempt returns an attempt of the session that waits for a second factor.
func factorAttempt(u *unit, id int64) (people.Attempt, error) {
	a, err := u.attemptOf(id)
	if err == nil && (a.ProvedAt.IsZero() || a.User == 0 || a.Kind != people.AttemptSignIn && a.Kind != people.AttemptReauthenticate) {
		err = errInvalidAttempt
	}
	return a, err
}

// advance adds a proof to an attempt, and completes the attempt if nothing more is needed. With ends, nothing more is
// asked for, whatever is due: the user has lost the factor.
func advance(u *unit, c *call, id int64, method assurance.Method, ends bool) (reply, error) {
	a, err := factorAttempt(u, id)
	if err != nil {
		return reply{}, err
	}
	if a.Kind == people.AttemptReauthenticate {
		first, err := u.Attempts().CompleteAttempt(a.ID)
		if err == nil && !first {
			err = errInvalidAttempt
		}
		if err != nil {
			return reply{}, err
		}
		return reply{}, u.prove(a.User, method)
	}
	a.Proofs = a.Proofs.With(method, u.Now)
	if ends {
		return reply{}, finish(u, c, a)
	}
	return reply{}, proceed(u, c, a)
}

// finish completes an attempt: it signs in to its account, and marks the address of an emailed code as verified. A
// disabled account is refused after the code is consumed.
func finish(u *unit, c *call, a people.Attempt) error {
	if a.Method == people.MethodSSO {
		return finishSSO(u, c, a)
	}
	if err := account.RequireNoConnection(u.Unit, a.Email, 0); err != nil { // a domain may require one since the attempt began
		return err
	}
	first, err := u.Attempts().CompleteAttempt(a.ID)
	if err == nil && !first {
		err = errInvalidAttempt
	}
	if err != nil {
		return err
	}
	switch err := u.signIn(account.NewSignIn{User: a.User, Method: a.Method, Proofs: a.Proofs}); {
	case errors.Is(err, account.ErrUserDisabled):
		return account.Refuse(err)
	case errors.Is(err, account.ErrUserUnknown):
		return account.ErrInvalidCredentials
	case err != nil:
		return err
	}
	return account.ProveEmail(u.Unit, a)
}

// textTarget returns the verification target of a text for an attempt.
func textTarget(u *unit, a people.Attempt, p people.Phone) verification.Target {
	t := u.phoneTarget(p)
	t.Purpose, t.Subject = people.PurposeSecondFactor, a.ID
	return t
}

// prepareSecondFactor lists the factors of an attempt, and sends a text if the request asks for one.
func prepareSecondFactor(c *call) (reply, error) {
	var id int64
	var text bool
	err := c.parse(func(o *body.Object) {
		id = required(o, "signin_attempt_id", input.ID)
		if strategy, sent := o.String("strategy"); sent {
			if text = strategy == account.StrategySMS; !text {
				o.Fault("strategy", "must be sms, or absent: the other factors need no preparation")
			}
		}
	})
	if err != nil {
		return reply{}, err
	}
	if c.session == nil {
		return reply{}, c.answerTo(errInvalidAttempt)
	}
	return transact(c, func(u *unit) (reply, error) {
		a, err := factorAttempt(u, id)
		if err != nil {
			return reply{}, err
		}
		f, err := u.FactorsOf(a.User)
		if err != nil {
			return reply{}, err
		}
		out := enduserapi.SecondFactorsOffered{Factors: []enduserapi.OfferedFactor{}}
		if a.Kind == people.AttemptSignIn {
			if out, err = offered(u, c, a, f); err != nil {
				return reply{}, err
			}
		} else {
			out.Factors = textsOf(f)
		}
		if !text {
			return reply{data: out}, nil
		}
		if len(f.Texts) == 0 {
			return reply{}, factors.ErrUnavailable
		}
		if err := sendText(u, c, a, f.Texts[0]); err != nil {
			return reply{}, err
		}
		out.Sms = &enduserapi.SentText{Sent: true, PhoneNumber: lastDigits(f.Texts[0].Number), ExpiresIn: int(verification.PhoneLifetime.Seconds())}
		return reply{data: out}, nil
	})
}

// offered returns the factors of an account, the best one first, with options for its passkeys.
func offered(u *unit, c *call, a people.Attempt, f account.Factors) (enduserapi.SecondFactorsOffered, error) {
	out := enduserapi.SecondFactorsOffered{Factors: []enduserapi.OfferedFactor{}}
	if len(f.Passkeys) > 0 {
		out.Factors = append(out.Factors, enduserapi.OfferedFactor{Type: enduserapi.OfferedFactorTypePasskey})
		options, err := c.requestOptions(passkey.Scope{Ceremony: passkey.SecondFactor, Session: a.ID, User: a.User}, f.Passkeys)
		if err != nil {
			return out, err
		}
		out.PublicKey = options
	}
	if len(f.Authenticators) > 0 {
		out.Factors = append(out.Factors, enduserapi.OfferedFactor{Type: enduserapi.OfferedFactorTypeTotp})
	}
	out.Factors = append(out.Factors, textsOf(f)...)
	recovery, err := account.HasRecovery(u.Unit, a.User)
	if recovery {
		out.Factors = append(out.Factors, enduserapi.OfferedFactor{Type: enduserapi.OfferedFactorTypeRecoveryCode})
	}
	return out, err
}

func textsOf(f account.Factors) []enduserapi.OfferedFactor {
	out := []enduserapi.OfferedFactor{}
	for _, p := range f.Texts {
		id, number := format(p.ID), lastDigits(p.Number)
		out = append(out, enduserapi.OfferedFactor{Type: enduserapi.OfferedFactorTypeSms, Id: &id, PhoneNumber: &number})
	}
	return out
}

// lastDigits returns a number of which only the last two digits can be read.
func lastDigits(number string) string { return "••••" + number[max(len(number)-2, 0):] }

// attemptSecondFactor completes an attempt with a second factor.
func attemptSecondFactor(c *call) (reply, error) {
	var id int64
	var s shown
	err := c.parse(func(o *body.Object) {
		id = required(o, "signin_attempt_id", input.ID)
		s = readShown(o, account.StrategyTOTP, account.StrategySMS, account.StrategyRecovery, account.StrategyPasskey)
	})
	if err != nil {
		return reply{}, err
	}
	if c.session == nil {
		return reply{}, c.answerTo(errInvalidAttempt)
	}
	s.find = func(u *unit) (subject, error) {
		a, err := factorAttempt(u, id)
		if err == nil && a.Kind == people.AttemptReauthenticate && s.strategy != account.StrategySMS {
			err = factors.ErrUnavailable // the other strategies need no attempt
		}
		return subject{user: a.User, attempt: a}, err
	}
	s.scope = func(at subject) passkey.Scope {
		return passkey.Scope{Ceremony: passkey.SecondFactor, Session: at.attempt.ID, User: at.user}
	}
	s.accept = func(u *unit, method assurance.Method) (reply, error) {
		return advance(u, c, id, method, method == assurance.RecoveryCode)
	}
	out, err := show(c, s)
	out.data = c.sessionSnapshot()
	return out, err
}
