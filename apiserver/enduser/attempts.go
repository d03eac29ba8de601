package enduser

import (
	"net/http"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/apiserver/delivery"
	"github.com/cardea-iam/cardea/apiserver/directory"
	"github.com/cardea-iam/cardea/apiserver/session"
	"github.com/cardea-iam/cardea/apiserver/verification"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/text"
	"github.com/cardea-iam/cardea/store/people"
)

// readEmail reads a required email member.
func readEmail(o *body.Object, name string) string {
	if !o.Require(name) {
		return ""
	}
	sent, ok := o.String(name)
	if !ok {
		return ""
	}
	email, err := text.Email(sent)
	if err != nil {
		o.Fault(name, "%s", err)
	}
	return email
}

// readName reads an optional name member of a person: "" if absent.
func readName(o *body.Object, name string) string {
	value, ok := o.String(name)
	if !ok || strings.TrimSpace(value) == "" {
		return ""
	}
	trimmed, err := text.Name(value)
	if err != nil {
		o.Fault(name, "%s", err)
	}
	return trimmed
}

// readID reads a member that is an id. Required ones that are absent are a fault.
func readID(o *body.Object, name string, required bool) int64 {
	if !required && !o.Has(name) {
		return 0
	}
	if !o.Require(name) {
		return 0
	}
	value, ok := o.String(name)
	if !ok {
		return 0
	}
	id, err := ids.Parse(value)
	if err != nil {
		o.Fault(name, "must be an id: a string with a decimal integer, such as \"123\"")
	}
	return id
}

func tooManyPending() error {
	return apierror.Later("RATE_LIMITED", session.AnonymousLifetime, "too many sign-ups and sign-ins are pending from your address: finish one, or wait")
}

// beginAttempt makes sure that there is a session to own an attempt: the one that is signed in, the pending one, or a new one, whose
// token the browser gets.
func (c *call) beginAttempt(tx people.Tx) error {
	if c.session != nil {
		c.session.Attempting = true
		if c.session.Anonymous {
			c.session.ExpiresAt = c.now.Add(session.AnonymousLifetime)
			c.cookie = c.presented // the browser is to keep it as long
		}
		return tx.UpdateSession(*c.session)
	}
	if _, err := tx.LockFailure("pending", c.network, c.now); err != nil {
		return err
	}
	pending, err := tx.PendingFrom(c.network, c.now)
	if err != nil {
		return err
	}
	if pending >= session.MaxPending {
		return tooManyPending()
	}
	id, err := c.directory().NewID()
	if err != nil {
		return err
	}
	c.session = &people.Session{
		ID: id, Anonymous: true, Attempting: true, Address: c.network, UserAgent: directory.Clip(c.r.UserAgent()),
		CreatedAt: c.now, UsedAt: c.now, ExpiresAt: c.now.Add(session.AnonymousLifetime),
	}
	if err := tx.InsertSession(*c.session); err != nil {
		return err
	}
	c.clear = false
	return c.renew(tx)
}

// mayBegin refuses a sign-up whose invitation, or the limits of whose address, would refuse it.
func (c *call) mayBegin(q signUpRequest) error {
	return c.view(func(tx people.Tx) error {
		if q.invitation != "" {
			if _, err := c.openInvitation(tx, q.invitation, q.email); err != nil {
				return err
			}
		}
		if c.session == nil {
			if pending, err := tx.PendingFrom(c.network, c.now); err != nil || pending >= session.MaxPending {
				return otherwise(err, tooManyPending())
			}
		}
		from, err := tx.SendsFrom(people.ChannelMail, c.network, c.now.Add(-time.Hour))
		if err != nil {
			return err
		}
		to, err := tx.SendsTo(people.PurposeSignUp, 0, people.FoldEmail(q.email), c.now.Add(-verification.Window))
		if err != nil {
			return err
		}
		return c.withinLimits(from, to)
	})
}

// begin runs do in a transaction that may begin a session. What an earlier run of the transaction began is forgotten.
func (c *call) begin(do func(tx people.Tx) error) error {
	if c.session != nil {
		return c.change(do)
	}
	return c.change(func(tx people.Tx) error {
		c.session = nil
		return do(tx)
	})
}

// beginWithCode begins an attempt and sends its first code. complete adds what only the transaction can tell.
func (c *call) beginWithCode(begun people.Attempt, complete func(tx people.Tx, a *people.Attempt) error) (any, error) {
	err := c.begin(func(tx people.Tx) error {
		a := begun
		if err := complete(tx, &a); err != nil {
			return err
		}
		owner, found, err := tx.UserByEmail(people.FoldEmail(a.Email))
		if err != nil {
			return err
		}
		if found {
			a.User = owner.ID
		}
		if err := c.beginAttempt(tx); err != nil {
			return err
		}
		if a, err = c.newAttempt(tx, a); err != nil {
			return err
		}
		return c.sendAttemptCode(tx, a)
	})
	if err != nil {
		return nil, err
	}
	c.Posted()
	return c.sessionSnapshot(), nil
}

// newAttempt records an attempt of the session.
func (c *call) newAttempt(tx people.Tx, a people.Attempt) (people.Attempt, error) {
	id, err := c.directory().NewID()
	if err != nil {
		return a, err
	}
	a.ID, a.Session, a.CreatedAt = id, c.session.ID, c.now
	a.ExpiresAt = c.now.Add(attemptLifetime)
	return a, tx.InsertAttempt(a)
}

// sendAttemptCode sends an attempt's code. What the message says depends on whether there is an account, whose own address it
// goes to; nothing else does.
func (c *call) sendAttemptCode(tx people.Tx, a people.Attempt) error {
	q := codeRequest{
		purpose: a.Kind, channel: people.ChannelMail, subject: a.ID, recipient: people.FoldEmail(a.Email), to: a.Email, life: verification.MailLifetime,
	}
	if owner, found, err := tx.User(a.User); err != nil {
		return err
	} else if found {
		q.to = owner.Email
	}
	switch {
	case a.Kind == people.AttemptSignUp && a.User == 0:
		q.message = func(code string) delivery.Mail { return delivery.SignUpMail(c.appName(), code) }
	case a.Kind == people.AttemptSignUp:
		// The address is taken: its owner is told, and the caller learns nothing.
		q.silent = true
		q.message = func(string) delivery.Mail { return delivery.AlreadyRegisteredMail(c.appName()) }
	default:
		// Somebody unknown costs the same work, and gets nothing.
		q.silent, q.void = a.User == 0, a.User == 0
		q.message = func(code string) delivery.Mail { return delivery.SignInMail(c.appName(), code) }
	}
	return c.sendCode(tx, q)
}

// readAttemptID reads the one id of an attempt that a request names.
func readAttemptID(o *body.Object) (id int64, kind string) {
	up, in := o.Has("signup_attempt_id"), o.Has("signin_attempt_id")
	switch {
	case up == in:
		o.Fault("signup_attempt_id", "or signin_attempt_id is required, exactly one of them")
		return 0, ""
	case up:
		return readID(o, "signup_attempt_id", true), people.AttemptSignUp
	}
	return readID(o, "signin_attempt_id", true), people.AttemptSignIn
}

func invalidAttempt() error {
	return apierror.Bad("INVALID_ATTEMPT", "this attempt is unknown, completed, expired, or was begun in another session: begin again")
}

// ownAttempt returns an attempt of the session that waits for a code.
func (c *call) ownAttempt(tx people.Tx, id int64, kind string) (people.Attempt, error) {
	if c.session == nil {
		return people.Attempt{}, invalidAttempt()
	}
	a, found, err := tx.Attempt(id)
	if err != nil {
		return a, err
	}
	if !found || a.Session != c.session.ID || a.Kind != kind || a.Completed || !c.now.Before(a.ExpiresAt) {
		return a, invalidAttempt()
	}
	return a, nil
}

// prepareAttempt sends an attempt's code again.
func (c *call) prepareAttempt() (any, error) {
	var id int64
	var kind string
	if err := c.parse(func(o *body.Object) { id, kind = readAttemptID(o) }); err != nil {
		return nil, err
	}
	if c.session == nil {
		return nil, invalidAttempt()
	}
	err := c.change(func(tx people.Tx) error {
		a, err := c.ownAttempt(tx, id, kind)
		if err != nil {
			return err
		}
		if err := c.requireEmail(); err != nil {
			return err
		}
		if err := c.beginAttempt(tx); err != nil {
			return err
		}
		return c.sendAttemptCode(tx, a)
	})
	if err != nil {
		return nil, err
	}
	c.Posted()
	return c.sessionSnapshot(), nil
}

// attemptVerification completes a sign-up or a sign-in by its code.
func (c *call) attemptVerification() (any, error) {
	var id int64
	var kind, code string
	err := c.parse(func(o *body.Object) {
		id, kind = readAttemptID(o)
		code = readCode(o)
	})
	if err != nil {
		return nil, err
	}
	if c.session == nil {
		return nil, invalidAttempt()
	}
	g := guess{
		code: code, purpose: kind,
		find: func(tx people.Tx) (subject, user int64, scope, recipient string, err error) {
			a, err := c.ownAttempt(tx, id, kind)
			return a.ID, 0, scopeCodes + kind, people.FoldEmail(a.Email), err
		},
		accept: func(tx people.Tx) error {
			a, err := c.ownAttempt(tx, id, kind)
			if err != nil {
				return err
			}
			if first, err := tx.CompleteAttempt(a.ID); err != nil || !first {
				return otherwise(err, invalidAttempt())
			}
			if kind == people.AttemptSignUp {
				return c.completeSignUp(tx, a)
			}
			return c.completeSignIn(tx, a.User, people.MethodEmailOTP)
		},
	}
	if err := c.verify(g); err != nil {
		return nil, err
	}
	return c.sessionSnapshot(), nil
}

// otherwise returns an error if there is one, else what its absence means.
func otherwise(err, refused error) error {
	if err != nil {
		return err
	}
	return refused
}

// readCode reads a code as people type it. An ill-formed one spends no try.
func readCode(o *body.Object) string {
	if !o.Require("code") {
		return ""
	}
	typed, ok := o.String("code")
	if !ok {
		return ""
	}
	code, ok := verification.Normalize(typed)
	if !ok {
		o.Fault("code", "must be the six digits of the message, as a string")
	}
	return code
}

// userDisabled is told only to those who proved who they are.
func userDisabled() error {
	return apierror.Coded(http.StatusForbidden, "USER_DISABLED", "this account is disabled: ask the operator of the service")
}
