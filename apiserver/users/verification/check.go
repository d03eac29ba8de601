package verification

import (
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// The scopes of the counters of wrong codes, as the store keeps them.
const (
	scopeInARow         = "codes:"
	scopeUnknownClients = "codes-strangers"
	scopeNetwork        = "codes-neighbourhood"
	scopeBlock          = "codes-block"
)

// Try is a code that is about to be compared. It is counted as wrong already.
type Try struct {
	live people.Challenge
}

// Left returns how many codes may be tried after this one.
func (t Try) Left() int { return MaxTries - t.live.Tries }

func subjectOf(user int64) string { return ids.Format(user) }

// failureKey returns the key of a target's counter of consecutive wrong codes. The counter is that of a user, over all
// their phones, or of a client and an address.
func failureKey(u *account.Unit, t Target) (scope, subject string) {
	if t.User != 0 {
		return scopeInARow + t.Purpose, subjectOf(t.User)
	}
	return scopeInARow + t.Purpose, t.Recipient + " " + u.Client.Network
}

// Locked returns a WaitError while a target is locked after consecutive wrong codes.
func (c *Codes) Locked(u *account.Unit, t Target) error {
	if t.Test {
		return nil
	}
	scope, subject := failureKey(u, t)
	failure, err := u.Limits().LockFailure(scope, subject, u.Now)
	if err != nil {
		return err
	}
	return waitForTries(u, failure.Until)
}

func waitForTries(u *account.Unit, until time.Time) error {
	if until.After(u.Now) {
		return &account.WaitError{Reason: ErrTooManyTries, Wait: until.Sub(u.Now)}
	}
	return nil
}

// Begin finds a target's live challenge and counts a try and a wrong code on it. Its transaction is committed before
// the code is compared, so that a crash in between cannot leave a comparison uncounted. ErrExpired: there is no live
// challenge.
func (c *Codes) Begin(u *account.Unit, t Target) (Try, error) {
	scope, subject := failureKey(u, t)
	failure, err := u.Limits().LockFailure(scope, subject, u.Now)
	if err != nil {
		return Try{}, err
	}
	if t.Test {
		failure = people.Failure{}
	}
	if err := waitForTries(u, failure.Until); err != nil {
		return Try{}, err
	}
	if err := c.checkUnknownClients(u, t); err != nil {
		return Try{}, err
	}
	live, found, err := u.Challenges().LiveChallenge(t.Purpose, t.Subject)
	if err != nil {
		return Try{}, err
	}
	if !found || live.Session != t.Session || live.User != t.User || live.Recipient != t.Recipient || !u.Now.Before(live.ExpiresAt) {
		return Try{}, ErrExpired
	}
	if live.Tries >= MaxTries {
		next, err := nextSend(u, t)
		if err != nil {
			return Try{}, err
		}
		return Try{}, &account.WaitError{Reason: ErrTooManyTries, Wait: next.Sub(u.Now)}
	}
	counted, err := u.Challenges().CountTry(live.ID, MaxTries, u.Now)
	if err != nil {
		return Try{}, err
	}
	if !counted {
		return Try{}, ErrExpired
	}
	live.Tries++
	if t.Test {
		return Try{live}, nil
	}
	return Try{live}, c.countWrong(u, t, failure)
}

// nextSend returns when the next code may be sent to a target.
func nextSend(u *account.Unit, t Target) (time.Time, error) {
	filter := people.SendFilter{Channel: t.Channel, Purpose: t.Purpose, Recipient: t.Recipient, User: t.User}
	if t.User == 0 {
		filter.Client = u.Client.Network
	}
	sends, err := u.Limits().Sends(filter, u.Now.Add(-Window))
	return NextSend(sends, u.Now), err
}

// checkUnknownClients bounds wrong codes from clients that the account does not know: for an email, and for a wide
// network and a block of addresses over all emails. Other clients' failures do not delay the clients that the account
// knows.
func (c *Codes) checkUnknownClients(u *account.Unit, t Target) error {
	if t.Channel != people.ChannelMail {
		return nil
	}
	known, err := u.Known(t.Account)
	if err != nil {
		return err
	}
	unknownClients, err := u.Limits().Counted(scopeUnknownClients, t.Recipient, u.Now)
	if err != nil {
		return err
	}
	around, err := u.Limits().Counted(scopeNetwork, u.Client.WideNetwork, u.Now)
	if err != nil {
		return err
	}
	block, err := u.Limits().Counted(scopeBlock, u.Client.Block, u.Now)
	if err != nil || known {
		return err
	}
	var until time.Time
	if unknownClients.Count >= wrongByUnknownPerDay {
		until = unknownClients.Ends
	}
	if around.Count >= wrongByNetworkPerHour {
		until = account.Later(until, around.Ends)
	}
	if block.Count >= wrongByBlockPerHour {
		until = account.Later(until, block.Ends)
	}
	return waitForTries(u, until)
}

// countWrong counts a wrong code. Accept takes it back.
func (c *Codes) countWrong(u *account.Unit, t Target, failure people.Failure) error {
	failure.Count, failure.UpdatedAt, failure.Until = failure.Count+1, u.Now, time.Time{}
	if failure.Count >= LockAfter {
		failure.Count, failure.Until = 0, u.Now.Add(LockFor)
		if err := u.Audit("verification.locked", t.Purpose+":"+subjectOf(t.Subject)); err != nil {
			return err
		}
	}
	if err := u.Limits().PutFailure(failure); err != nil || t.Channel != people.ChannelMail {
		return err
	}
	known, err := u.Known(t.Account)
	if err != nil {
		return err
	}
	if !known {
		if _, err := u.Limits().Count(scopeUnknownClients, t.Recipient, u.Now, u.Now.Truncate(24*time.Hour).Add(24*time.Hour)); err != nil {
			return err
		}
	}
	if _, err = u.Limits().Count(scopeNetwork, u.Client.WideNetwork, u.Now, u.Now.Add(time.Hour)); err != nil {
		return err
	}
	_, err = u.Limits().Count(scopeBlock, u.Client.Block, u.Now, u.Now.Add(time.Hour))
	return err
}

// Compare returns a WrongCodeError for a wrong code.
func (c *Codes) Compare(t Try, code string) error {
	if !c.Matches(t.live.ID, t.live.Salt, t.live.MAC, t.live.KeyID, code) {
		return &WrongCodeError{Left: t.Left()}
	}
	return nil
}

// Accept consumes the right code of a try, in the transaction that does the permitted action, and takes back the counts
// of Begin. ErrExpired: the code was used or replaced, or it expired meanwhile.
func (c *Codes) Accept(u *account.Unit, target Target, t Try) error {
	used, err := u.Challenges().ConsumeChallenge(t.live.ID, u.Now)
	if err != nil {
		return err
	}
	if !used {
		return ErrExpired
	}
	return c.Forgive(u, target)
}

// Forgive resets a target's counter of consecutive wrong codes after the right code, and takes the try back from the
// counters that several clients share.
func (c *Codes) Forgive(u *account.Unit, t Target) error {
	if t.Test {
		return nil
	}
	scope, subject := failureKey(u, t)
	if err := u.Limits().PutFailure(people.Failure{Scope: scope, Subject: subject, UpdatedAt: u.Now}); err != nil || t.Channel != people.ChannelMail {
		return err
	}
	known, err := u.Known(t.Account)
	if err != nil {
		return err
	}
	if !known {
		if err := u.Limits().Uncount(scopeUnknownClients, t.Recipient, u.Now); err != nil {
			return err
		}
	}
	if err := u.Limits().Uncount(scopeNetwork, u.Client.WideNetwork, u.Now); err != nil {
		return err
	}
	return u.Limits().Uncount(scopeBlock, u.Client.Block, u.Now)
}
