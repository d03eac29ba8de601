package verification

import (
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// The scopes of what counts wrong codes.
const (
	scopeInARow    = "codes:"
	scopeStrangers = "codes-strangers"
	scopeAround    = "codes-neighbourhood"
	scopeBlock     = "codes-block"
)

// Try is a code that is about to be compared, counted as wrong already.
type Try struct {
	live people.Challenge
}

// Left is how many codes may be tried after this one.
func (t Try) Left() int { return MaxTries - t.live.Tries }

func subjectOf(user int64) string { return ids.Format(user) }

// inARow names a target's counter of wrong codes in a row: a user's own, over all their phones, or that of a client at an address.
func inARow(u *account.Unit, t Target) (scope, subject string) {
	if t.User != 0 {
		return scopeInARow + t.Purpose, subjectOf(t.User)
	}
	return scopeInARow + t.Purpose, t.Recipient + " " + u.Client.Network
}

// Locked returns a WaitError while wrong codes in a row lock a target.
func (c *Codes) Locked(u *account.Unit, t Target) error {
	if t.Test {
		return nil
	}
	scope, subject := inARow(u, t)
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

// Begin finds a target's live challenge and counts one try on it and one wrong code, before anything is compared. Its transaction is
// committed before the code is compared: whatever dies between, a try is counted before anything is learnt from it. ErrExpired: there
// is no live challenge.
func (c *Codes) Begin(u *account.Unit, t Target) (Try, error) {
	scope, subject := inARow(u, t)
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
	if err := c.checkStrangers(u, t); err != nil {
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

// checkStrangers bounds the wrong codes for an email from clients its account does not know, and those of a neighborhood and of a block of
// addresses over all emails. Clients the account knows are not held back by others.
func (c *Codes) checkStrangers(u *account.Unit, t Target) error {
	if t.Channel != people.ChannelMail {
		return nil
	}
	known, err := u.Known(t.Account)
	if err != nil {
		return err
	}
	strangers, err := u.Limits().Counted(scopeStrangers, t.Recipient, u.Now)
	if err != nil {
		return err
	}
	around, err := u.Limits().Counted(scopeAround, u.Client.Neighbourhood, u.Now)
	if err != nil {
		return err
	}
	block, err := u.Limits().Counted(scopeBlock, u.Client.Block, u.Now)
	if err != nil || known {
		return err
	}
	var until time.Time
	if strangers.Count >= wrongByStrangersPerDay {
		until = strangers.Ends
	}
	if around.Count >= wrongByNeighbourhoodPerHr {
		until = later(until, around.Ends)
	}
	if block.Count >= wrongByBlockPerHour {
		until = later(until, block.Ends)
	}
	return waitForTries(u, until)
}

// countWrong counts a wrong code; Accept takes it back.
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
		if _, err := u.Limits().Count(scopeStrangers, t.Recipient, u.Now, u.Now.Truncate(24*time.Hour).Add(24*time.Hour)); err != nil {
			return err
		}
	}
	if _, err = u.Limits().Count(scopeAround, u.Client.Neighbourhood, u.Now, u.Now.Add(time.Hour)); err != nil {
		return err
	}
	_, err = u.Limits().Count(scopeBlock, u.Client.Block, u.Now, u.Now.Add(time.Hour))
	return err
}

// Compare returns a WrongCodeError for a code that is not the one that was sent.
func (c *Codes) Compare(t Try, code string) error {
	if !c.Matches(t.live.ID, t.live.Salt, t.live.MAC, t.live.KeyID, code) {
		return &WrongCodeError{Left: t.Left()}
	}
	return nil
}

// Accept uses up the code of a try that was right, in the transaction that does what it permits, and takes back what Begin counted.
// ErrExpired: it was used, replaced, or ran out meanwhile.
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

// Forgive takes back what Begin counted: the code was right.
func (c *Codes) Forgive(u *account.Unit, t Target) error {
	if t.Test {
		return nil
	}
	scope, subject := inARow(u, t)
	if err := u.Limits().PutFailure(people.Failure{Scope: scope, Subject: subject, UpdatedAt: u.Now}); err != nil || t.Channel != people.ChannelMail {
		return err
	}
	known, err := u.Known(t.Account)
	if err != nil {
		return err
	}
	if !known {
		if err := u.Limits().Uncount(scopeStrangers, t.Recipient, u.Now); err != nil {
			return err
		}
	}
	if err := u.Limits().Uncount(scopeAround, u.Client.Neighbourhood, u.Now); err != nil {
		return err
	}
	return u.Limits().Uncount(scopeBlock, u.Client.Block, u.Now)
}
