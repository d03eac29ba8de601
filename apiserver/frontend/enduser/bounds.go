package enduser

import (
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/ids"
)

// countOwn counts a request of the signed-in user against the operation's daily limit. Fails with a WaitError above the
// limit.
func (u *unit) countOwn(c *call) error {
	most, g := c.needs.DailyLimit, u.signedIn()
	if most <= 0 || g == nil {
		return nil
	}
	n, err := u.Limits().Count("operation:"+c.r.Pattern, "user:"+ids.Format(g.User), u.Now, u.Now.Add(24*time.Hour))
	if err == nil && n.Count > most {
		err = &account.WaitError{Reason: account.ErrTooManyChanges, Wait: n.Ends.Sub(u.Now)}
	}
	return err
}
