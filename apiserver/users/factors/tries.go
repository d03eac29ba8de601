package factors

import (
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/store/people"
)

// The limits of wrong codes of all kinds together. Passkeys are not bound by them, because no client can guess one:
// the owner of a passkey is never locked out. The limits of a day count the codes of signed-in users (reauthentication,
// confirming an app) apart from those of sign-ins: neither uses up the others' limit.
const (
	triesPerAttempt     = 5
	triesInARow         = 20
	lockFor             = time.Hour
	triesPerDay         = 100
	unknownTriesPerDay  = 50
	networkTriesPerHour = 200
)

// The scopes of the counters, as the store keeps them.
const (
	scopeAttempt = "second-factor-attempt"
	scopeInARow  = "second-factor"
	scopeDay     = "second-factor-day"
	scopeUnknown = "second-factor-unknown"
	scopeNetwork = "second-factor-network"
	scopeNotice  = "second-factor-notice"
	// scopeOwnDay and scopeOwnUnknown are scopeDay and scopeUnknown for codes of signed-in users.
	scopeOwnDay     = "second-factor-own-day"
	scopeOwnUnknown = "second-factor-own-unknown"
)

// signInsPerDay bounds the sign-ins by passkey of an account in a UTC day. They cost no password hash, and each writes
// rows that outlive it, so that the owner of an account could fill the store with them.
const (
	signInsPerDay = 300
	scopeSignIn   = "passkey-signin"
)

// CountSignIn counts a sign-in by passkey. Above the bound it returns a WaitError with ErrTooManySignIns.
func CountSignIn(u *account.Unit, user int64) error {
	tomorrow := u.Now.Truncate(24 * time.Hour).Add(24 * time.Hour)
	n, err := u.Limits().Count(scopeSignIn, subject(user), u.Now, tomorrow)
	if err == nil && n.Count > signInsPerDay {
		err = &account.WaitError{Reason: ErrTooManySignIns, Wait: tomorrow.Sub(u.Now)}
	}
	return err
}

// Try is a code that is about to be compared. It is counted as wrong before the comparison, in a transaction of its
// own.
type Try struct {
	user int64
	// attempt is 0 outside of an attempt.
	attempt int64
	// own reports that the user is signed in: the code does not complete a sign-in.
	own bool
	// inAttempt counts the tries of the attempt, with this one.
	inAttempt int
	failure   people.Failure
	// locked reports that this try was the last before the lock.
	locked bool
	known  bool
}

// Left returns how many codes may be tried in the attempt after this one, -1 outside of an attempt.
func (t Try) Left() int {
	if t.attempt == 0 {
		return -1
	}
	return triesPerAttempt - t.inAttempt
}

// Begin counts a try of a user's code. attempt is the attempt that it belongs to, the zero Attempt for none. It returns
// a WaitError with ErrTooManyTries at a limit. ErrAttemptOver: the attempt had too many wrong codes; the transaction
// must be committed (account.Refuse), because it ends the attempt.
func Begin(u *account.Unit, user int64, attempt people.Attempt) (Try, error) {
	t := Try{user: user, attempt: attempt.ID, own: attempt.Kind != people.AttemptSignIn}
	var err error
	if t.failure, err = u.Limits().LockFailure(scopeInARow, t.client(u), u.Now); err != nil {
		return t, err
	}
	if t.known, err = u.Known(user); err != nil {
		return t, err
	}
	if err := t.checkWaits(u); err != nil {
		return t, err
	}
	if attempt.ID != 0 {
		n, err := u.Limits().Count(scopeAttempt, subject(attempt.ID), u.Now, u.Now.Add(time.Hour))
		if err != nil {
			return t, err
		}
		if t.inAttempt = n.Count; n.Count > triesPerAttempt {
			if _, err := u.Attempts().CompleteAttempt(attempt.ID); err != nil {
				return t, err
			}
			return t, ErrAttemptOver
		}
	}
	return t, t.count(u)
}

// client is the subject of the counters of a user and a client.
func (t Try) client(u *account.Unit) string { return subject(t.user) + " " + u.Client.Network }

func (t Try) checkWaits(u *account.Unit) error {
	until := t.failure.Until
	for _, c := range t.counters(u) {
		n, err := u.Limits().Counted(c.scope, c.subject, u.Now)
		if err != nil {
			return err
		}
		if n.Count >= c.most && (c.scope != scopeNetwork || !t.known) {
			until = account.Later(until, n.Ends)
		}
	}
	if until.After(u.Now) {
		return &account.WaitError{Reason: ErrTooManyTries, Wait: until.Sub(u.Now)}
	}
	return nil
}

func (t *Try) count(u *account.Unit) error {
	t.failure.Count, t.failure.UpdatedAt = t.failure.Count+1, u.Now
	if t.failure.Count >= triesInARow {
		t.failure.Count, t.failure.Until, t.locked = 0, u.Now.Add(lockFor), true
		if err := u.Audit("second_factor.locked", object("user", t.user)); err != nil {
			return err
		}
	}
	if err := u.Limits().PutFailure(t.failure); err != nil {
		return err
	}
	for _, counter := range t.counters(u) {
		if _, err := u.Limits().Count(counter.scope, counter.subject, u.Now, counter.ends); err != nil {
			return err
		}
	}
	return nil
}

// counter is a counter of wrong codes, with its limit.
type counter struct {
	scope, subject string
	ends           time.Time
	most           int
}

// counters are the counters of a day and an hour that count the try.
func (t Try) counters(u *account.Unit) []counter {
	day := u.Now.Truncate(24 * time.Hour).Add(24 * time.Hour)
	ofClient, ofUnknown := counter{scopeDay, t.client(u), day, triesPerDay}, counter{scopeUnknown, subject(t.user), day, unknownTriesPerDay}
	if t.own {
		ofClient.scope, ofUnknown.scope = scopeOwnDay, scopeOwnUnknown
	}
	out := []counter{ofClient}
	if !t.known {
		out = append(out, ofUnknown)
	}
	if !t.own {
		out = append(out, counter{scopeNetwork, u.Client.WideNetwork, u.Now.Add(time.Hour), networkTriesPerHour})
	}
	return out
}

// Forgive takes a try back: after a right code, and after one that counts as no failure. With right, the counter of
// failures in a row starts again.
func (t Try) Forgive(u *account.Unit, right bool) error {
	failure, err := u.Limits().LockFailure(scopeInARow, t.client(u), u.Now)
	if err != nil {
		return err
	}
	if t.locked && failure.Until.Equal(t.failure.Until) {
		failure.Count, failure.Until = triesInARow-1, time.Time{} // this try brought the lock
	} else {
		failure.Count = max(failure.Count-1, 0)
	}
	if right {
		failure.Count = 0
	}
	failure.UpdatedAt = u.Now
	if err := u.Limits().PutFailure(failure); err != nil {
		return err
	}
	if t.attempt != 0 {
		if err := u.Limits().Uncount(scopeAttempt, subject(t.attempt), u.Now); err != nil {
			return err
		}
	}
	for _, counter := range t.counters(u) {
		if err := u.Limits().Uncount(counter.scope, counter.subject, u.Now); err != nil {
			return err
		}
	}
	return nil
}

// Noticed reports whether the owner must be notified after this wrong try: five wrong second steps followed a right
// first one.
func (t Try) Noticed() bool { return !t.own && t.inAttempt == triesPerAttempt }

// Notice mails the owner that another person knows the first factor, once a day.
func (t Try) Notice(u *account.Unit) error {
	notified, err := u.Limits().LockFailure(scopeNotice, subject(t.user), u.Now)
	if err != nil || notified.Until.After(u.Now) {
		return err
	}
	notified.Until, notified.UpdatedAt = u.Now.Add(24*time.Hour), u.Now
	if err := u.Limits().PutFailure(notified); err != nil {
		return err
	}
	account.LogAs(u, "anonymous", events.OfFailing(t.user, events.StepSecond))
	if err := u.AuditAs("anonymous", "second_factor.failing", object("user", t.user), 0); err != nil {
		return err
	}
	return u.Notify(t.user, messages.SecondStepFailing)
}
