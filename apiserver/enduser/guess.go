package enduser

import (
	"errors"
	"time"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/verification"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// guess is a code that somebody sent.
type guess struct {
	code, purpose string
	// find returns what the code proves, in the transaction that counts the try, and in whose counter wrong ones in a row are counted.
	find func(tx people.Tx) (subject, user int64, scope, recipient string, err error)
	// accept does what a right code permits, in the transaction that uses the code up. Its refusal undoes both, unless it is a usedUp.
	accept func(tx people.Tx) error
}

// usedUp wraps a refusal that a right code brought about: nothing of the operation is done, but the code is used up.
type usedUp struct{ refused error }

func (u *usedUp) Error() string { return u.refused.Error() }

// verify counts a try and commits it, then compares, then uses the code up and accepts, in one transaction. Whatever dies between,
// a try is counted before anything is learnt from it, and a code works once.
func (c *call) verify(g guess) error {
	var live people.Challenge
	err := c.change(func(tx people.Tx) (err error) {
		live, err = c.countTry(tx, g)
		return err
	})
	if err != nil {
		return err
	}
	if !c.codes.Matches(live.ID, live.Salt, live.MAC, live.KeyID, g.code) {
		c.Metrics.Compared(g.purpose, "wrong")
		refused := apierror.Bad("INVALID_CODE", "this is not the code that was sent: check the newest message")
		refused.AttemptsLeft = ptr.To(verification.MaxTries - live.Tries)
		return refused
	}
	c.Metrics.Compared(g.purpose, "right")
	var answer error
	var undone bool
	err = c.change(func(tx people.Tx) error {
		answer, undone = nil, false
		_, user, scope, recipient, err := g.find(tx)
		if err != nil {
			return err
		}
		used, err := tx.ConsumeChallenge(live.ID, c.now)
		if err != nil {
			return err
		}
		if !used {
			return expiredCode()
		}
		if err := c.resetFailures(tx, scope, user, recipient); err != nil {
			return err
		}
		err = g.accept(tx)
		var spent *usedUp
		if errors.As(err, &spent) {
			answer = spent.refused
			return nil
		}
		var refused *apierror.Error
		undone = errors.As(err, &refused)
		return err
	})
	if undone {
		// What the code would have permitted is refused, and undone with the transaction: the code was right all the same.
		if resetErr := c.change(func(tx people.Tx) error {
			_, user, scope, recipient, err := g.find(tx)
			if err != nil {
				return err
			}
			return c.resetFailures(tx, scope, user, recipient)
		}); errors.Is(resetErr, store.ErrUnavailable) {
			return resetErr
		}
	}
	if err != nil {
		return err
	}
	return answer
}

func expiredCode() error {
	return apierror.Bad("EXPIRED_CODE", "there is no code that is still valid: ask for a new one")
}

// countTry finds the live challenge and counts one try on it and one failure in a row, before anything is compared.
func (c *call) countTry(tx people.Tx, g guess) (people.Challenge, error) {
	subject, user, scope, recipient, err := g.find(tx)
	if err != nil {
		return people.Challenge{}, err
	}
	failure, err := tx.LockFailure(scope, failureSubject(user, recipient), c.now)
	if err != nil {
		return people.Challenge{}, err
	}
	if failure.Until.After(c.now) {
		return people.Challenge{}, tooManyAttempts(failure.Until.Sub(c.now))
	}
	live, found, err := tx.LiveChallenge(g.purpose, subject)
	if err != nil {
		return live, err
	}
	if !found || live.Session != c.session.ID || live.User != user || live.Recipient != recipient || !c.now.Before(live.ExpiresAt) {
		return live, expiredCode()
	}
	if live.Tries >= verification.MaxTries {
		next, err := c.nextSend(tx, g.purpose, user, recipient)
		if err != nil {
			return live, err
		}
		return live, tooManyAttempts(next.Sub(c.now))
	}
	counted, err := tx.CountTry(live.ID, verification.MaxTries, c.now)
	if err != nil {
		return live, err
	}
	if !counted {
		return live, expiredCode()
	}
	live.Tries++
	failure.Count, failure.UpdatedAt, failure.Until = failure.Count+1, c.now, time.Time{}
	if failure.Count >= verification.LockAfter {
		failure.Count, failure.Until = 0, c.now.Add(verification.LockFor)
		if err := c.audit(tx, c.actor(), "verification.locked", g.purpose+":"+format(subject), c.session.ID); err != nil {
			return live, err
		}
	}
	return live, tx.PutFailure(failure)
}

func tooManyAttempts(wait time.Duration) error {
	return apierror.Later("TOO_MANY_ATTEMPTS", wait, "too many wrong codes: wait, then ask for a new code")
}

// failureSubject names a counter: a user's own, over all their phones, or an address of somebody who is not known yet.
func failureSubject(user int64, recipient string) string {
	if user != 0 {
		return format(user)
	}
	return recipient
}

func (c *call) resetFailures(tx people.Tx, scope string, user int64, recipient string) error {
	return tx.PutFailure(people.Failure{Scope: scope, Subject: failureSubject(user, recipient), UpdatedAt: c.now})
}
