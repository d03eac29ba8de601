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
	subject := ""
	switch {
	case most <= 0:
		return nil
	case c.setup:
		subject = "session:" + ids.Format(c.session.ID)
	case g == nil:
		return nil
	default:
		subject = "user:" + ids.Format(g.User)
	}
	n, err := u.Limits().Count("operation:"+c.r.Pattern, subject, u.Now, u.Now.Add(24*time.Hour))
	if err == nil && n.Count > most {
		err = &account.WaitError{Reason: account.ErrTooManyChanges, Wait: n.Ends.Sub(u.Now)}
	}
	return err
}
