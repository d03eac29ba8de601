package enduser

import (
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/apiserver/users/verification"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// attemptLifetime bounds an attempt in a session with a sign-in. Attempts of an anonymous session end with the session.
const attemptLifetime = time.Hour

// requireEmail refuses operations that need mail if the deployment sends none.
func (c *call) requireEmail() error {
	if c.request.Settings.Email == nil {
		return c.answerTo(errEmailDisabled)
	}
	return nil
}

// beginAttempt ensures that a session owns the attempt: the session of the request or a new one, whose token the
// browser receives. presented is the value of the request's cookie; an anonymous session keeps it. user is the user of
// the attempt, 0 for none.
func (u *unit) beginAttempt(presented string, user int64) error {
	if u.session != nil {
		u.session.Attempting = true
		if u.session.Anonymous {
			if until := u.Now.Add(session.AnonymousLifetime); until.After(u.session.ExpiresAt) { // that of a setup link lives longer
				u.session.ExpiresAt = until
			}
			u.cookie = presented // extends the lifetime of the browser's cookie
		}
		return u.Sessions().UpdateSession(*u.session)
	}
	if err := u.Limits().Lock("pending:" + u.Client.Network); err != nil {
		return err
	}
	if err := mayPend(u.Unit, user); err != nil {
		return err
	}
	if err := u.begin(true); err != nil {
		return err
	}
	return u.renew()
}

// mayPend bounds the sessions of the client's network that wait for a sign-up or sign-in. user is 0 if the attempt has
// no account. The bound does not apply if the user's account knows the client, so that other clients in the network
// cannot block the user. The limits on codes still apply.
func mayPend(u *account.Unit, user int64) error {
	known, err := u.Known(user)
	if err != nil {
		return err
	}
	pending, err := u.Sessions().PendingFrom(u.Client.Network, u.Now)
	if err == nil && !known && pending >= session.MaxPending {
		err = &account.WaitError{Reason: errTooManyPending, Wait: session.AnonymousLifetime}
	}
	return err
}

// targetOf returns the verification target of an attempt.
func targetOf(a people.Attempt) verification.Target {
	return verification.Target{
		Purpose: a.Kind, Channel: people.ChannelMail, Subject: a.ID, Session: a.Session, Account: a.User, Recipient: people.FoldEmail(a.Email),
	}
}

// begin begins an attempt and sends its first code. e is the email of the account, the zero Email for an unknown
// account.
func (c *call) begin(u *unit, a people.Attempt, e people.Email) (err error) {
	a.User = e.User
	if err := u.beginAttempt(c.presented, a.User); err != nil {
		return err
	}
	if a.ID, err = u.NewID(); err != nil {
		return err
	}
	a.Session, a.CreatedAt, a.ExpiresAt = u.session.ID, u.Now, u.Now.Add(attemptLifetime)
	if err := u.Attempts().InsertAttempt(a); err != nil {
		return err
	}
	return c.sendAttemptCode(u.Unit, a, e)
}

// sendAttemptCode sends an attempt's code. Only the message depends on whether the address belongs to an account. If it
// does, the message goes to the address as the account spells it.
func (c *call) sendAttemptCode(u *account.Unit, a people.Attempt, e people.Email) error {
	m := verification.Message{Target: targetOf(a), To: a.Email, Lifetime: verification.MailLifetime}
	if e.User != 0 {
		m.To = e.Address
	}
	switch {
	case a.Kind == people.AttemptSignUp && a.User == 0:
		m.Write = func(code string) delivery.Content { return messages.SignUpMail(u.AppName(), code) }
	case a.Kind == people.AttemptSignUp:
		// The address is taken: its owner is notified, and the response is the same.
		m.Decoy = true
		m.Write = func(string) delivery.Content { return messages.AlreadyRegisteredMail(u.AppName()) }
	default:
		// If the address is unknown or no longer the account's, the server does the same work and sends nothing.
		m.Decoy, m.Void = e.User == 0, e.User == 0
		m.Write = func(code string) delivery.Content { return mailOf(a.Kind)(u.AppName(), code) }
	}
	return c.codes.Send(u, m)
}

// sendSSOCode sends the code of a sign-in by a connection to the address that the provider stated or the user entered.
// It is sent whether or not an account has the address, and whether or not the connection creates one: only the owner
// of the mailbox learns which.
func sendSSOCode(c *call, u *account.Unit, a people.Attempt, e people.Email) error {
	m := verification.Message{Target: targetOf(a), To: a.Email, Lifetime: verification.MailLifetime}
	if e.User != 0 {
		m.To = e.Address
	}
	m.Write = func(code string) delivery.Content { return messages.SignInMail(u.AppName(), code) }
	return c.codes.Send(u, m)
}

// mailOf returns the mail with the code for an attempt of a kind.
func mailOf(kind string) func(app, code string) delivery.Content {
	switch kind {
	case people.AttemptResetPassword:
		return messages.ResetPasswordMail
	case people.AttemptReauthenticate:
		return messages.ReauthenticationMail
	}
	return messages.SignInMail
}

// ownAttempt returns an attempt of the session that waits for a code.
func (u *unit) ownAttempt(id int64, signUp bool) (people.Attempt, error) {
	a, err := u.attemptOf(id)
	if err == nil && ((a.Kind == people.AttemptSignUp) != signUp || !a.ProvedAt.IsZero() || stepOf(a) == stepSSO) {
		err = errInvalidAttempt
	}
	return a, err
}

// attemptOf returns an open attempt of the session.
func (u *unit) attemptOf(id int64) (people.Attempt, error) {
	if u.session == nil {
		return people.Attempt{}, errInvalidAttempt
	}
	a, found, err := u.Attempts().Attempt(id)
	if err != nil {
		return a, err
	}
	if !found || a.Session != u.session.ID || a.Completed || !u.Now.Before(a.ExpiresAt) {
		return a, errInvalidAttempt
	}
	return a, nil
}

// prepareAttempt sends an attempt's code again.
func prepareAttempt(c *call) (reply, error) {
	var id int64
	var signUp bool
	var email string
	err := c.parse(func(o *body.Object) {
		id, signUp = readAttemptID(o)
		email = input.Email(o, "email")
	})
	if err != nil {
		return reply{}, err
	}
	if c.session == nil {
		return reply{}, c.answerTo(errInvalidAttempt)
	}
	out, err := transact(c, func(u *unit) (reply, error) {
		a, err := u.ownAttempt(id, signUp)
		if err != nil {
			return reply{}, err
		}
		if err := c.requireEmail(); err != nil {
			return reply{}, err
		}
		if err := u.beginAttempt(c.presented, a.User); err != nil {
			return reply{}, err
		}
		if a.Method == people.MethodSSO {
			return reply{}, ssoAddress(u, c, a, email)
		}
		if email != "" {
			return reply{}, errNoAddressStep
		}
		e, err := account.AddressForCode(u.Unit, a.Email)
		if a.Kind == people.AttemptReauthenticate || a.Method == people.MethodPassword && a.Kind == people.AttemptSignIn {
			e, _, err = u.Users().Email(people.FoldEmail(a.Email)) // the user is signed in, or entered the right password
		}
		if err != nil {
			return reply{}, err
		}
		if e.User != a.User {
			e = people.Email{} // the owner of the address changed since the attempt began
		}
		return reply{}, c.sendAttemptCode(u.Unit, a, e)
	})
	out.data = c.sessionSnapshot()
	return out, err
}

// attemptVerification completes a sign-up, a sign-in or a reauthentication with its code. For a password reset, it
// permits the choice of a new password.
func attemptVerification(c *call) (reply, error) {
	var id int64
	var signUp bool
	var code string
	err := c.parse(func(o *body.Object) {
		id, signUp = readAttemptID(o)
		code = readCode(o)
	})
	if err != nil {
		return reply{}, err
	}
	if c.session == nil {
		return reply{}, c.answerTo(errInvalidAttempt)
	}
	out, err := submit(c, submission{
		code: code,
		find: func(u *unit) (verification.Target, error) {
			a, err := u.ownAttempt(id, signUp)
			return targetOf(a), err
		},
		accept: func(u *unit) (reply, error) { return u.completeAttempt(c, id, signUp) },
	})
	out.data = c.sessionSnapshot()
	return out, err
}

// completeAttempt performs the action of an attempt's code, once. A password reset continues with the new password.
func (u *unit) completeAttempt(c *call, id int64, signUp bool) (reply, error) {
	a, err := u.ownAttempt(id, signUp)
	if err != nil {
		return reply{}, err
	}
	if a.Method != people.MethodSSO {
		if err := account.RequireNoConnection(u.Unit, a.Email, 0); err != nil { // a domain may require one since the attempt began
			return reply{}, err
		}
	}
	switch a.Kind {
	case people.AttemptResetPassword:
		if err := u.Attempts().ProveAttempt(a.ID, a.Proofs, u.Now); err != nil {
			return reply{}, err
		}
		return reply{}, u.renew() // a planted or copied earlier token must not choose the password
	case people.AttemptSignIn:
		if a.Method == people.MethodSSO {
			return reply{}, acceptSSOCode(u, c, a)
		}
		a.Proofs = a.Proofs.With(assurance.EmailOTP, u.Now)
		return reply{}, proceed(u, c, a)
	}
	first, err := u.Attempts().CompleteAttempt(a.ID)
	if err != nil {
		return reply{}, err
	}
	if !first {
		return reply{}, errInvalidAttempt
	}
	if a.Kind == people.AttemptSignUp {
		return reply{}, u.completeSignUp(a)
	}
	e, _, err := u.Users().Email(people.FoldEmail(a.Email))
	if err == nil && e.User != a.User {
		err = errInvalidAttempt // the address was removed from the account meanwhile
	}
	if err != nil {
		return reply{}, err
	}
	return reply{}, u.prove(a.User, assurance.EmailOTP)
}
