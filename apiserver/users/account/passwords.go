package account

import (
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/store/people"
)

// The scopes of the counters of wrong passwords, as the store keeps them.
const (
	scopePassword        = "password"
	scopePasswordUnknown = "password-strangers"
	scopePasswordNetwork = "password-neighbourhood"
	scopeNotice          = "notice"
)

const (
	// unknownFailuresPerDay is how many wrong passwords per day and account are answered without a wait, over all
	// clients that the account does not know.
	unknownFailuresPerDay = 100
	// networkFailuresPerHour is how many wrong passwords an hour a wide network may send, over all emails.
	networkFailuresPerHour = 200
	// noticeEvery is the shortest time between two notices of failed sign-ins to an account's owner, over all clients.
	noticeEvery = 24 * time.Hour
)

// PasswordTry is a password that is about to be compared. It is counted as wrong before the comparison.
type PasswordTry struct {
	// User is the account, the zero User if there is none; the same statements run in both cases.
	User people.User
	// Encoded is the hash to compare with, "" if there is none.
	Encoded string
	// Address is the row of the entered email. If it is unverified, the sign-in also needs a code that is sent there.
	Address people.Email
	email   string
	known   bool
	failure people.Failure
	// until is when the client's wait ended before this try.
	until time.Time
	// unknownClients counts the wrong passwords of clients that the account does not know; waited is when their wait
	// ended before this try.
	unknownClients people.Failure
	waited         time.Time
}

// Wait returns how long the client must wait after this try if the password is wrong; 0 means no wait.
func (t PasswordTry) Wait(now time.Time) time.Duration {
	if t.failure.Count <= password.FreeFailures {
		return 0
	}
	return t.failure.Until.Sub(now)
}

// CheckPasswordTry returns a WaitError if no password may be compared for an email now. It writes nothing: a refused
// try takes no slot of the hasher and leaves no row.
func (u *Unit) CheckPasswordTry(email string) error {
	t, err := u.readPasswordTry(email, func(scope, subject string) (people.Failure, error) { return u.Limits().Failure(scope, subject) })
	if err != nil {
		return err
	}
	return u.checkWaits(t)
}

// CountPasswordTry counts a try as wrong before the comparison, so that concurrent tries cannot exceed the limit.
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
	t.waited = t.unknownClients.Until
	if !t.known {
		t.unknownClients.Count++
		t.unknownClients.UpdatedAt = u.Now
		t.unknownClients.Until = u.Now.Add(password.Delay(t.unknownClients.Count - unknownFailuresPerDay + password.FreeFailures))
	}
	if err := u.Limits().PutFailure(t.unknownClients); err != nil {
		return t, err
	}
	if _, err := u.Limits().Count(scopePasswordNetwork, u.Client.WideNetwork, u.Now, u.Now.Add(time.Hour)); err != nil {
		return t, err
	}
	if t.failure.Count == password.FreeFailures+1 || !t.known && t.unknownClients.Count == unknownFailuresPerDay+1 {
		return t, u.noticeFailures(t.User, email)
	}
	return t, nil
}

// readPasswordTry reads an account and its counters. An unknown email runs the same statements.
func (u *Unit) readPasswordTry(email string, failure func(scope, subject string) (people.Failure, error)) (t PasswordTry, err error) {
	t.email = people.FoldEmail(email)
	if t.failure, err = failure(scopePassword, t.email+" "+u.Client.Network); err != nil {
		return t, err
	}
	if t.unknownClients, err = failure(scopePasswordUnknown, t.email); err != nil {
		return t, err
	}
	if t.unknownClients.UpdatedAt.Before(u.Now.Truncate(24 * time.Hour)) {
		t.unknownClients.Count = 0 // the counter restarts each UTC day
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

// checkWaits refuses a try that has to wait for one of these counters:
//   - the failures of this client at this account;
//   - the failures of all clients that the account does not know, if this client is one of them;
//   - the failures of the client's wide network over all accounts, if the account does not know the client.
func (u *Unit) checkWaits(t PasswordTry) error {
	around, err := u.Limits().Counted(scopePasswordNetwork, u.Client.WideNetwork, u.Now)
	if err != nil {
		return err
	}
	until := t.failure.Until
	if !t.known {
		until = Later(until, t.unknownClients.Until)
		if around.Count >= networkFailuresPerHour {
			until = Later(until, around.Ends)
		}
	}
	if until.After(u.Now) {
		return &WaitError{Reason: ErrTooManyFailures, Wait: until.Sub(u.Now)}
	}
	return nil
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// AcceptPassword resets the client's failures at the account after the right password, and takes the try back from the
// counters that several clients share. ErrInvalidCredentials: the account or its password changed meanwhile.
// ErrUserDisabled is only returned after the right password.
func (u *Unit) AcceptPassword(t PasswordTry) error {
	if err := u.Limits().PutFailure(people.Failure{Scope: scopePassword, Subject: t.failure.Subject, UpdatedAt: u.Now}); err != nil {
		return err
	}
	if err := u.uncountShared(t); err != nil {
		return err
	}
	if err := u.ConfirmPassword(t); err != nil {
		return err
	}
	user, found, err := u.Users().User(t.User.ID)
	if err != nil || !found {
		return FirstOf(err, ErrInvalidCredentials)
	}
	if user.Disabled {
		return ErrUserDisabled
	}
	return nil
}

// TakeBackPasswordTry takes back the count of a try whose password was not compared.
func (u *Unit) TakeBackPasswordTry(t PasswordTry) error {
	failure, err := u.Limits().LockFailure(scopePassword, t.failure.Subject, u.Now)
	if err != nil {
		return err
	}
	if err := u.Limits().PutFailure(without(failure, t.failure.Until, t.until)); err != nil {
		return err
	}
	return u.uncountShared(t)
}

// uncountShared takes a try back from the counters that several clients share.
func (u *Unit) uncountShared(t PasswordTry) error {
	unknownClients, err := u.Limits().LockFailure(scopePasswordUnknown, t.email, u.Now)
	if err != nil {
		return err
	}
	if !t.known {
		unknownClients = without(unknownClients, t.unknownClients.Until, t.waited)
	}
	if err := u.Limits().PutFailure(unknownClients); err != nil {
		return err
	}
	return u.Limits().Uncount(scopePasswordNetwork, u.Client.WideNetwork, u.Now)
}

// without returns a counter with one failure less. brought is the end of the wait that this failure set; before is the
// previous end. If f.Until is still brought, without resets it to before. A wait that a concurrent failure set is kept.
func without(f people.Failure, brought, before time.Time) people.Failure {
	f.Count = max(f.Count-1, 0)
	if f.Until.Equal(brought) {
		f.Until = before
	}
	return f
}

// ConfirmPassword returns ErrInvalidCredentials if the compared hash is no longer the account's. Callers that
// sign in a user call it again after SignIn, which locks the user:
//   - if a password change was committed before the lock, the sign-in is refused;
//   - if a change that signs out other sessions is committed later, it also ends the new session.
func (u *Unit) ConfirmPassword(t PasswordTry) error {
	now, _, err := u.Users().Credential(t.User.ID, people.CredentialPassword)
	if err == nil && now != t.Encoded {
		err = ErrInvalidCredentials
	}
	return err
}

// RenewPassword replaces the hash of a correct password with encoded, a hash by the current parameters. If encoded is
// "", the hash is kept. Call ConfirmPassword first.
func (u *Unit) RenewPassword(t PasswordTry, encoded string) error {
	if encoded == "" {
		return nil
	}
	return u.Users().PutCredential(t.User.ID, people.CredentialPassword, encoded, u.Now)
}

// noticeFailures notifies an account's owner of failing sign-ins. For an unknown email or an owner notified
// already, it writes the same rows and sends nothing, so that neither the response nor its time shows the difference.
func (u *Unit) noticeFailures(user people.User, typed string) error {
	if u.Settings.Email == nil || u.Keyring.Empty() {
		return nil
	}
	notified, err := u.Limits().LockFailure(scopeNotice, people.FoldEmail(typed), u.Now)
	if err != nil {
		return err
	}
	again := notified.Until.After(u.Now)
	if !again {
		notified.Until, notified.UpdatedAt = u.Now.Add(noticeEvery), u.Now
	}
	if err := u.Limits().PutFailure(notified); err != nil {
		return err
	}
	if user.ID != 0 && !again {
		LogAs(u, "anonymous", events.OfFailing(user.ID, events.StepPassword))
	} else if err := u.Limits().PutFailure(notified); err != nil { // in the place of the event
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
