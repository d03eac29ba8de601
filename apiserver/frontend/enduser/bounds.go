package enduser

import (
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/ids"
)

// How often a day one user's requests of an operation may succeed, where each leaves rows. docs/security-model.md lists every operation.
const (
	// createdADay is for what creates organizations, of which a user owns 20 at most, and for what deletes them.
	createdADay = 40
	// ownADay is for changes of what is the user's own.
	ownADay = 200
	// othersADay is for changes that an owner makes to many people, and the bound of an operation that names none.
	othersADay = 1000
	// unbounded is for operations that leave no row with each request: what they leave is bounded by what went before, or audited once an hour.
	unbounded = -1
)

// bound returns how often a day one user's requests of the operation may succeed, 0 for an operation that is not bounded so: it writes
// nothing, or serves people who are not signed in, whom other limits bound.
func (e endpoint) bound() int {
	switch {
	case e.perDay > 0:
		return e.perDay
	case e.perDay == 0 && e.signedIn && e.changes:
		return othersADay
	}
	return 0
}

// countOwn counts a request of the signed-in user that changes something. A WaitError: there were too many today.
func (u *unit) countOwn(c *call) error {
	most, g := c.endpoint.bound(), u.signedIn()
	if most == 0 || g == nil {
		return nil
	}
	n, err := u.Limits().Count("operation:"+c.r.Pattern, "user:"+ids.Format(g.User), u.Now, u.Now.Add(24*time.Hour))
	if err == nil && n.Count > most {
		err = &account.WaitError{Reason: account.ErrTooManyChanges, Wait: n.Ends.Sub(u.Now)}
	}
	return err
}
