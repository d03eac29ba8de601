package enduser

import (
	"errors"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// unit is one run of an operation's transaction, with the browser's state after it.
type unit struct {
	*account.Unit
	browser
	policy session.Policy
}

// errEnded means that the session was signed out or expired after the request's checks.
var errEnded = errors.New("the session ended meanwhile")

// transact runs do in one transaction, in which the session, if there is one, is locked and live.
//   - The result of a run is used only after the commit.
//   - An error rolls everything back and leaves the session unchanged, unless account.Refuse made the error.
//   - A signed-in operation acts for the account that is active in the transaction.
//   - A session that was signed out since the request began is refused.
func transact[T any](c *call, do func(u *unit) (T, error)) (T, error) {
	var out T
	var after browser
	err := c.request.Change(c.r.Context(), func(tx *account.Unit) error {
		u := &unit{Unit: tx, browser: browser{clear: c.clear}, policy: c.policy}
		if err := u.lockSession(c); err != nil {
			return err
		}
		if err := u.countOwn(c); err != nil {
			return err
		}
		var refused error
		if out, refused = do(u); refused != nil && !account.Committed(refused) {
			return refused
		}
		if u.session != nil && u.session.Attempting {
			var err error
			if u.attempts, err = u.Attempts().AttemptsOf(u.session.ID, u.Now); err != nil {
				return err
			}
		}
		after = u.browser
		return refused
	})
	if err == nil {
		c.browser = after
		return out, nil
	}
	var none T
	if account.Committed(err) {
		c.browser = after
		return none, c.answerTo(errors.Unwrap(err))
	}
	if errors.Is(err, errEnded) {
		c.browser = browser{clear: true}
		return none, apierror.NotAuthenticated()
	}
	answer := c.answerTo(err)
	if c.session != nil && !unexpected(answer) && c.useDue(*c.session) {
		// The use of the session is recorded although the operation was rolled back.
		before := c.session
		if useErr := c.recordUse(); useErr != nil {
			c.session = before
		}
	}
	return none, answer
}

// lockSession locks the request's session, checks its bounds again, and records its use.
func (u *unit) lockSession(c *call) error {
	if c.session == nil {
		return nil
	}
	s, found, err := u.Sessions().LockSession(c.hash)
	if err != nil {
		return err
	}
	if !found || session.Evaluate(s, c.policy, c.now) != session.Live {
		return errEnded
	}
	if err := account.DropEnded(u.Unit, &s); err != nil {
		return err
	}
	u.session, u.Unit.Session = &s, s.ID
	switch g := u.signedIn(); {
	case g != nil:
		u.Actor = actorOf(g) // another tab may have switched the account meanwhile
	case c.signedIn() != nil:
		return apierror.NotAuthenticated()
	}
	if c.setup {
		return u.use()
	}
	if g := u.signedIn(); g != nil && c.needs.Session >= openapi.SignedIn && !c.needs.Held {
		if err := u.CheckHeld(g); err != nil {
			return err // the account turned two-step on meanwhile
		}
	}
	if g := u.signedIn(); g != nil && c.needs.Session >= openapi.SignedIn && !c.needs.Confined {
		if err := account.CheckConfined(u.Unit, g); err != nil {
			return err
		}
	}
	if err := c.checkAssertions(u.signedIn()); err != nil {
		return err
	}
	if c.fresh {
		if err := u.requireFresh(); err != nil {
			return err
		}
	}
	return u.use()
}

// use records the first use of the presented token and the use of the session. The token that the presented one
// replaced expires session.Grace after this first use.
func (u *unit) use() error {
	s := u.session
	if s.Token.UsedAt.IsZero() {
		if err := u.Sessions().UseToken(s.Token, u.Now, u.Now.Add(session.Grace)); err != nil {
			return err
		}
		s.Token.UsedAt = u.Now
	}
	if !session.TouchDue(*s, u.policy, u.Now) {
		return nil
	}
	s.UsedAt = u.Now
	return u.Sessions().UpdateSession(*s)
}

// rotate gives the session a new token. The presented token stays valid until a successor is used.
func (u *unit) rotate() error {
	token, hash, err := session.Mint(u.Random)
	if err != nil {
		return err
	}
	err = u.Sessions().InsertToken(people.Token{Hash: hash, Session: u.session.ID, Parent: u.session.Token.Hash, CreatedAt: u.Now})
	if err != nil {
		return err
	}
	u.cookie = token
	return u.Sessions().TrimTokens(u.session.ID, u.session.Token.Hash, session.MaxTokens, u.Now, u.Now.Add(-session.RememberDead))
}

// renew replaces all tokens of the session with a new one, so that no earlier token remains valid (no fixation).
func (u *unit) renew() error {
	token, hash, err := session.Mint(u.Random)
	if err != nil {
		return err
	}
	if err := u.Sessions().ReplaceTokens(u.session.ID, u.Now); err != nil {
		return err
	}
	u.cookie = token
	if err := u.Sessions().InsertToken(people.Token{Hash: hash, Session: u.session.ID, CreatedAt: u.Now}); err != nil {
		return err
	}
	return u.Sessions().TrimTokens(u.session.ID, hash, session.MaxTokens, u.Now, u.Now.Add(-session.RememberDead))
}

// signIn adds a proven account to the session, or to a new session if there is none, and gives the session a new token.
func (u *unit) signIn(from account.NewSignIn) error {
	if u.session == nil {
		if err := u.begin(false); err != nil {
			return err
		}
	}
	if err := u.SignIn(u.session, u.policy, from); err != nil {
		return err
	}
	return u.renew()
}

// begin records a session without a sign-in.
func (u *unit) begin(attempting bool) error {
	s, err := u.NewSession(u.policy, attempting)
	if err != nil {
		return err
	}
	u.session, u.Unit.Session, u.clear = s, s.ID, false
	return nil
}

// view runs do in a transaction that only reads the deployment's rows.
func (c *call) view(do func(u *account.Unit) error) error {
	return c.answerTo(c.request.View(c.r.Context(), do))
}

// resolve finds the session of a cookie. It clears an invalid cookie, and ends the session of a reused token. It
// records the use of the session unless the operation writes: the transaction of such an operation records the use.
func (c *call) resolve(value string, changes bool) error {
	hash, formed := session.Hash(value)
	if !formed {
		c.clear = true
		return nil
	}
	c.presented, c.hash = value, hash
	var reused, justReplaced bool
	err := c.request.View(c.r.Context(), func(u *account.Unit) error {
		s, found, err := u.Sessions().SessionByToken(hash)
		if err != nil || !found {
			return err
		}
		switch session.Evaluate(s, c.policy, c.now) {
		case session.Live:
			session.DropEnded(&s, c.now)
			c.session = &s
		case session.Reused:
			reused = true
		case session.Over:
			// The response to a request that was concurrent with the sign-in must not delete the new cookie.
			justReplaced = s.Token.Replaced && c.now.Before(s.Token.DiesAt.Add(session.Grace))
		}
		if s.Attempting && c.session != nil {
			c.attempts, err = u.Attempts().AttemptsOf(s.ID, c.now)
		}
		return err
	})
	if err == nil && (reused || c.session != nil && !changes && c.useDue(*c.session)) {
		err = c.recordUse()
	}
	if err != nil {
		return c.answerTo(err)
	}
	if g := c.signedIn(); g != nil {
		c.request.Actor = actorOf(g)
	}
	c.clear = c.session == nil && !justReplaced
	return nil
}

// actorOf returns the actor in audit records.
func actorOf(g *people.SignIn) string { return "user:" + ids.Format(g.User) }

// useDue reports whether the use of a session must be recorded.
func (c *call) useDue(s people.Session) bool {
	return s.Token.UsedAt.IsZero() || session.TouchDue(s, c.policy, c.now)
}

// recordUse records the use of a session in its own transaction, or ends a session whose expired token was reused.
func (c *call) recordUse() error {
	var used *people.Session
	err := c.request.Change(c.r.Context(), func(tx *account.Unit) error {
		used = nil
		s, found, err := tx.Sessions().LockSession(c.hash)
		if err != nil || !found {
			return err
		}
		switch session.Evaluate(s, c.policy, c.now) {
		case session.Over:
			return nil
		case session.Reused:
			if err := tx.Sessions().EndSession(s.ID); err != nil {
				return err
			}
			account.LogEnds(tx, s.SignIns, "system", events.TokenReused)
			return tx.AuditAs("system", "session.token_reused", "session:"+ids.Format(s.ID), s.ID)
		}
		if err := account.DropEnded(tx, &s); err != nil {
			return err
		}
		u := &unit{Unit: tx, browser: browser{session: &s}, policy: c.policy}
		used = &s
		return u.use()
	})
	if err == nil {
		c.session = used
	}
	return err
}
