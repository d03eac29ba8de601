package account

import (
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/store/people"
)

// The scopes of what counts wrong passwords.
const (
	scopePassword          = "password"
	scopePasswordStrangers = "password-strangers"
	scopePasswordAround    = "password-neighbourhood"
	scopeNotice            = "notice"
)

const (
	// strangersPerDay is how many wrong passwords a day for one account, from all clients it does not know, are answered without a
	// wait.
	strangersPerDay = 100
	// passwordsAround is how many wrong passwords an hour a neighbourhood may send, over all emails.
	passwordsAround = 200
	// noticeEvery is how often the owner of an account is told of failed sign-ins at most, from wherever they come.
	noticeEvery = 24 * time.Hour
)

// PasswordTry is a password that is about to be compared, counted as wrong before anything is learnt from it.
type PasswordTry struct {
	// User is the account, the zero User if there is none: the same statements run then.
	User people.User
	// Encoded is the hash to compare with, "" if there is none.
	Encoded string
	// Address is the account's email that was typed. One that is not verified proves nothing: a code sent there has to come as well.
	Address people.Email
	email   string
	known   bool
	failure people.Failure
	// until is how long the client had to wait before this try.
	until time.Time
	// strangers counts the wrong passwords of clients the account does not know, and waited is when they had waited long enough
	// before this try.
	strangers people.Failure
	waited    time.Time
}

// Wait is how long a try that turns out wrong makes the next one wait; 0: not at all.
func (t PasswordTry) Wait(now time.Time) time.Duration {
	if t.failure.Count <= password.FreeFailures {
		return 0
	}
	return t.failure.Until.Sub(now)
}

// CheckPasswordTry returns a WaitError where no password for an email may be compared now. It writes nothing: who is refused here
// takes no turn of the hasher and leaves no row.
func (u *Unit) CheckPasswordTry(email string) error {
	t, err := u.readPasswordTry(email, func(scope, subject string) (people.Failure, error) { return u.Limits().Failure(scope, subject) })
	if err != nil {
		return err
	}
	return u.checkWaits(t)
}

// CountPasswordTry counts a try as wrong, before it is compared: of many at once, each is counted before anything is learnt from it.
func (u *Unit) CountPasswordTry(email string) (PasswordTry, error) {
	t, err := u.readPasswordTry(email, func(scope, subject string) (people.Failure, error) {
		return u.Limits().LockFailure(scope, subject, u.Now)
	})
	if err != nil {
		return t, err
	}
	if err := u.checkWaits(t); err != nil {
		return t, err
	}
	t.until = t.failure.Until
	t.failure.Count, t.failure.UpdatedAt = t.failure.Count+1, u.Now
	t.failure.Until = u.Now.Add(password.Delay(t.failure.Count))
	if err := u.Limits().PutFailure(t.failure); err != nil {
		return t, err
	}
	t.waited = t.strangers.Until
	if !t.known {
		t.strangers.Count++
		t.strangers.UpdatedAt = u.Now
		t.strangers.Until = u.Now.Add(password.Delay(t.strangers.Count - strangersPerDay + password.FreeFailures))
	}
	if err := u.Limits().PutFailure(t.strangers); err != nil {
		return t, err
	}
	if _, err := u.Limits().Count(scopePasswordAround, u.Client.Neighbourhood, u.Now, u.Now.Add(time.Hour)); err != nil {
		return t, err
	}
	if t.failure.Count == password.FreeFailures+1 || !t.known && t.strangers.Count == strangersPerDay+1 {
		return t, u.noticeFailures(t.User, email)
	}
	return t, nil
}

// readPasswordTry reads an account and its counters. Somebody unknown costs the same statements.
func (u *Unit) readPasswordTry(email string, failure func(scope, subject string) (people.Failure, error)) (t PasswordTry, err error) {
	t.email = people.FoldEmail(email)
	if t.failure, err = failure(scopePassword, t.email+" "+u.Client.Network); err != nil {
		return t, err
	}
	if t.strangers, err = failure(scopePasswordStrangers, t.email); err != nil {
		return t, err
	}
	if t.strangers.UpdatedAt.Before(u.Now.Truncate(24 * time.Hour)) {
		t.strangers.Count = 0 // they count by the UTC day
	}
	if t.User, _, err = u.Users().UserByEmail(t.email); err != nil {
		return t, err
	}
	if t.Address, _, err = u.Users().Email(t.email); err != nil {
		return t, err
	}
	if t.Encoded, _, err = u.Users().Credential(t.User.ID, people.CredentialPassword); err != nil {
		return t, err
	}
	t.known, err = u.Known(t.User.ID)
	return t, err
}

// checkWaits refuses a try that has to wait:
//   - for the failures of this client at this account;
//   - for those of all clients the account does not know, where this is one of them;
//   - for those of the neighbourhood over all accounts, where the account does not know the client.
func (u *Unit) checkWaits(t PasswordTry) error {
	around, err := u.Limits().Counted(scopePasswordAround, u.Client.Neighbourhood, u.Now)
	if err != nil {
		return err
	}
	until := t.failure.Until
	if !t.known {
		until = later(until, t.strangers.Until)
		if around.Count >= passwordsAround {
			until = later(until, around.Ends)
		}
	}
	if until.After(u.Now) {
		return &WaitError{Reason: ErrTooManyFailures, Wait: until.Sub(u.Now)}
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// AcceptPassword takes a try back whose password was right. ErrInvalidCredentials: the account or its password changed meanwhile;
// ErrUserDisabled: told only to those who proved who they are.
func (u *Unit) AcceptPassword(t PasswordTry) error {
	if err := u.Limits().PutFailure(people.Failure{Scope: scopePassword, Subject: t.failure.Subject, UpdatedAt: u.Now}); err != nil {
		return err
	}
	if err := u.uncountAmongOthers(t); err != nil {
		return err
	}
	if err := u.ConfirmPassword(t); err != nil {
		return err
	}
	user, found, err := u.Users().User(t.User.ID)
	if err != nil || !found {
		return firstOf(err, ErrInvalidCredentials)
	}
	if user.Disabled {
		return ErrUserDisabled
	}
	return nil
}

// TakeBackPasswordTry takes a try back whose password was not compared: it was neither right nor wrong.
func (u *Unit) TakeBackPasswordTry(t PasswordTry) error {
	failure, err := u.Limits().LockFailure(scopePassword, t.failure.Subject, u.Now)
	if err != nil {
		return err
	}
	if err := u.Limits().PutFailure(without(failure, t.failure.Until, t.until)); err != nil {
		return err
	}
	return u.uncountAmongOthers(t)
}

// uncountAmongOthers takes a try back where those of others are counted with it.
func (u *Unit) uncountAmongOthers(t PasswordTry) error {
	strangers, err := u.Limits().LockFailure(scopePasswordStrangers, t.email, u.Now)
	if err != nil {
		return err
	}
	if !t.known {
		strangers = without(strangers, t.strangers.Until, t.waited)
	}
	if err := u.Limits().PutFailure(strangers); err != nil {
		return err
	}
	return u.Limits().Uncount(scopePasswordAround, u.Client.Neighbourhood, u.Now)
}

// without is a counter less one failure, which brought a wait until a time in the place of one before. The wait that others brought meanwhile stays.
func without(f people.Failure, brought, before time.Time) people.Failure {
	f.Count = max(f.Count-1, 0)
	if f.Until.Equal(brought) {
		f.Until = before
	}
	return f
}

// ConfirmPassword returns ErrInvalidCredentials where the account's password is no longer the one that was compared. Whoever is
// signed in by it is to be asked once more after SignIn, which locks the user: a password that was replaced or taken away before
// signs nobody in, and one that is after ends the new session with all others.
func (u *Unit) ConfirmPassword(t PasswordTry) error {
	now, _, err := u.Users().Credential(t.User.ID, people.CredentialPassword)
	if err == nil && now != t.Encoded {
		err = ErrInvalidCredentials
	}
	return err
}

// RenewPassword replaces the hash of a password that was right by one that is made as of now, "": the one it has stays. It is for after
// ConfirmPassword.
func (u *Unit) RenewPassword(t PasswordTry, encoded string) error {
	if encoded == "" {
		return nil
	}
	return u.Users().PutCredential(t.User.ID, people.CredentialPassword, encoded, u.Now)
}

// noticeFailures tells the owner of an account that sign-ins fail. For somebody unknown, or told already, the same is written and
// nothing is sent: neither the answer nor its time tells which.
func (u *Unit) noticeFailures(user people.User, typed string) error {
	if u.Settings.Email == nil || u.Keyring.Empty() {
		return nil
	}
	told, err := u.Limits().LockFailure(scopeNotice, people.FoldEmail(typed), u.Now)
	if err != nil {
		return err
	}
	again := told.Until.After(u.Now)
	if !again {
		told.Until, told.UpdatedAt = u.Now.Add(noticeEvery), u.Now
	}
	if err := u.Limits().PutFailure(told); err != nil {
		return err
	}
	if err := u.AuditAs("anonymous", "signin.failing", object("user", user.ID), 0); err != nil {
		return err
	}
	to := user.Email
	if user.ID == 0 {
		to = typed
	}
	return u.Post(people.Message{
		Channel: people.ChannelMail, Recipient: to, ExpiresAt: u.Now.Add(NoticeLifetime), Void: again || user.ID == 0,
	}, messages.FailedSignInsMail(u.AppName()))
}
