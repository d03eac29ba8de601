package enduser

import (
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/verification"
)

// submission is a code that somebody sent.
type submission struct {
	code string
	// find returns what the code proves.
	find func(u *unit) (verification.Target, error)
	// accept does what a right code permits, in the transaction that uses the code up. An error undoes both; one of
	// account.Refuse undoes neither.
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
	used := false // by a transaction that an error undid
	out, err := transact(c, func(u *unit) (reply, error) {
		used = false
		if _, err := s.find(u); err != nil {
			return reply{}, err
		}
		if err := c.codes.Accept(u.Unit, target, try); err != nil {
			return reply{}, err
		}
		out, err := s.accept(u)
		used = !account.Committed(err)
		return out, err
	})
	if err == nil || !used || unexpected(err) {
		return out, err
	}
	// The transaction was undone, and the use of the code with it: the try does not count as a failed one.
	_, forgiveErr := transact(c, func(u *unit) (reply, error) { return reply{}, c.codes.Forgive(u.Unit, target) })
	if forgiveErr != nil && unexpected(forgiveErr) {
		return reply{}, forgiveErr
	}
	return reply{}, err
}
