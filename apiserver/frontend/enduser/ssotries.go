package enduser

import (
	"context"
	"time"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/users/account"
)

const (
	// scopeReturned counts the responses to an attempt that were not evaluated, of which returnedTries take no try. More
	// of them do, so that a client cannot send responses without an end while a provider is unavailable.
	scopeReturned = "sso-returned"
	returnedTries = 20
	// returnWithin bounds the time of giving a try back.
	returnWithin = 5 * time.Second
)

// countResponse counts a response to an attempt, of which connection.MaxTries are evaluated.
func countResponse(c *call, at waitingAttempt) error {
	counted := false
	err := c.request.Change(c.r.Context(), func(u *account.Unit) (err error) {
		counted, err = u.Connections().CountSSOTry(at.row.Attempt, connection.MaxTries, u.Now)
		return err
	})
	if err != nil || !counted {
		return account.FirstOf(err, errInvalidAttempt)
	}
	return nil
}

// returnTry gives a counted try back to an attempt, even if the client has ended its connection.
func returnTry(c *call, at waitingAttempt) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), returnWithin)
	defer cancel()
	return c.request.Change(ctx, func(u *account.Unit) error {
		n, err := u.Limits().Count(scopeReturned, format(at.row.Attempt), u.Now, at.row.ExpiresAt)
		if err != nil || n.Count > returnedTries {
			return err
		}
		_, err = u.Connections().ReturnSSOTry(at.row.Attempt, u.Now)
		return err
	})
}
