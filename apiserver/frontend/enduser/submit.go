package enduser

import (
	"github.com/cardea-iam/cardea/apiserver/users/verification"
)

// submission is a code that somebody sent.
type submission struct {
	code string
	// find returns what the code proves.
	find func(u *unit) (verification.Target, error)
	// accept does what a right code permits, in the transaction that uses the code up. An error undoes both; a reply that refuses
	// undoes neither.
	accept func(u *unit) (reply, error)
}

// submit counts a try and commits it, then compares, then uses the code up and accepts, in one transaction. Whatever dies between,
// a try is counted before anything is learnt from it, and a code works once.
func submit(c *call, s submission) (reply, error) {
	var target verification.Target
	try, err := transact(c, func(u *unit) (verification.Try, error) {
		var err error
		if target, err = s.find(u); err != nil {
			return verification.Try{}, err
		}
		return c.codes.Begin(u.Unit, target)
	})
	if err != nil {
		return reply{}, err
	}
	if err := c.codes.Compare(try, s.code); err != nil {
		c.Metrics.Compared(target.Purpose, "wrong")
		return reply{}, c.answerTo(err)
	}
	c.Metrics.Compared(target.Purpose, "right")
	used := false
	out, err := transact(c, func(u *unit) (reply, error) {
		used = false
		if _, err := s.find(u); err != nil {
			return reply{}, err
		}
		if err := c.codes.Accept(u.Unit, target, try); err != nil {
			return reply{}, err
		}
		used = true
		return s.accept(u)
	})
	if err == nil || !used || unexpected(err) {
		return out, err
	}
	// What the code would have permitted is refused, and undone with the transaction: the code was right all the same.
	_, forgiveErr := transact(c, func(u *unit) (reply, error) { return reply{}, c.codes.Forgive(u.Unit, target) })
	if forgiveErr != nil && unexpected(forgiveErr) {
		return reply{}, forgiveErr
	}
	return reply{}, err
}
