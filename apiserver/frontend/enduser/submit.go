package enduser

import (
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/verification"
)

// submission is an entered code with its target and its action.
type submission struct {
	code string
	// find returns the verification target of the code.
	find func(u *unit) (verification.Target, error)
	// accept performs the action of a right code in the transaction that consumes the code. An error rolls both back; an
	// error of account.Refuse commits both.
	accept func(u *unit) (reply, error)
}

// submit counts a try and commits the count. It then compares the code. One transaction consumes a right code and
// performs its action. Even if the server crashes in between, the try is counted, and the code works only once.
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
	used := false // whether a transaction that was rolled back accepted the code
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
	// The transaction and the use of the code were rolled back: the try does not count as failed.
	_, forgiveErr := transact(c, func(u *unit) (reply, error) { return reply{}, c.codes.Forgive(u.Unit, target) })
	if forgiveErr != nil && unexpected(forgiveErr) {
		return reply{}, forgiveErr
	}
	return reply{}, err
}
