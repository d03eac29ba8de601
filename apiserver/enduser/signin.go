package enduser

import (
	"context"
	"net/http"
	"time"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/apiserver/delivery"
	"github.com/cardea-iam/cardea/apiserver/directory"
	"github.com/cardea-iam/cardea/apiserver/password"
	"github.com/cardea-iam/cardea/apiserver/session"
	"github.com/cardea-iam/cardea/store/people"
)

// signIn signs in by password, or begins a sign-in by an emailed code.
func (c *call) signIn() (any, error) {
	settings := c.settings.EffectiveSignIn()
	var strategy, email, typed string
	err := c.parse(func(o *body.Object) {
		email = readEmail(o, "email")
		o.Require("strategy")
		typed, _ = o.String("password")
		switch strategy, _ = o.String("strategy"); {
		case strategy == "":
		case strategy == people.MethodPassword && settings.Password:
			o.Require("password")
		case strategy == people.MethodEmailOTP && settings.EmailCode:
			if o.Has("password") {
				o.Fault("password", "is not a part of the strategy email_otp: remove it")
			}
		default:
			o.Fault("strategy", "must be a strategy that this deployment enables: %s", strategies(settings.Password, settings.EmailCode))
		}
		if !o.Faulty("strategy") && strategy == "" && o.Has("strategy") {
			o.Fault("strategy", "must be a strategy that this deployment enables: %s", strategies(settings.Password, settings.EmailCode))
		}
	})
	if err != nil {
		return nil, err
	}
	if strategy == people.MethodPassword {
		return c.signInByPassword(email, typed)
	}
	return c.signInByCode(email)
}

func strategies(byPassword, byCode bool) string {
	switch {
	case byPassword && byCode:
		return "password or email_otp"
	case byPassword:
		return "password"
	}
	return "email_otp"
}

// signInByCode begins a sign-in. For an address that has no account everything is the same, but that nothing is sent and no code
// is right.
func (c *call) signInByCode(email string) (any, error) {
	if err := c.requireEmail(); err != nil {
		return nil, err
	}
	a := people.Attempt{Kind: people.AttemptSignIn, Method: people.MethodEmailOTP, Email: email}
	return c.beginWithCode(a, func(people.Tx, *people.Attempt) error { return nil })
}

// signInByPassword counts a failure first, then hashes, and takes the failure back where the password is right: of many tries at
// once, each is counted before anything is learnt from it. Unknown and wrong take the same time and get the same answer.
func (c *call) signInByPassword(email, typed string) (any, error) {
	folded := people.FoldEmail(email)
	var user people.User
	var encoded string
	var failure people.Failure
	var noticed bool
	count := func(tx people.Tx) (err error) {
		noticed = false
		failure, err = tx.LockFailure(scopePassword, folded+" "+c.network, c.now)
		if err != nil {
			return err
		}
		if failure.Until.After(c.now) {
			return apierror.Later("RATE_LIMITED", failure.Until.Sub(c.now), "too many failed sign-ins: wait before you try again")
		}
		failure.Count, failure.UpdatedAt = failure.Count+1, c.now
		failure.Until = c.now.Add(password.Delay(failure.Count))
		if err := tx.PutFailure(failure); err != nil {
			return err
		}
		// Somebody unknown costs the same statements.
		if user, _, err = tx.UserByEmail(folded); err != nil {
			return err
		}
		if encoded, _, err = tx.Credential(user.ID, people.CredentialPassword); err != nil {
			return err
		}
		if failure.Count != password.FreeFailures+1 || c.settings.Email == nil || c.Keyring.Empty() {
			return nil
		}
		noticed = true
		return c.noticeFailures(tx, user, email)
	}
	if err := c.change(count); err != nil {
		return nil, err
	}
	if noticed {
		c.Posted()
	}
	right, err := c.Hasher.Verify(c.r.Context(), c.network, typed, encoded)
	if err != nil {
		c.takeBack(failure)
		return nil, busy(err)
	}
	if !right {
		return nil, wrongPassword(failure, c.now)
	}
	var answer error
	err = c.begin(func(tx people.Tx) (err error) {
		answer = nil
		if err := tx.PutFailure(people.Failure{Scope: scopePassword, Subject: failure.Subject, UpdatedAt: c.now}); err != nil {
			return err
		}
		if now, _, err := tx.Credential(user.ID, people.CredentialPassword); err != nil || now != encoded {
			return otherwise(err, invalidCredentials())
		}
		var known bool
		if user, known, err = tx.User(user.ID); err != nil || !known {
			return otherwise(err, invalidCredentials())
		}
		if user.Disabled {
			answer = userDisabled()
			return nil
		}
		if c.session == nil {
			id, err := c.directory().NewID()
			if err != nil {
				return err
			}
			c.session = &people.Session{
				ID: id, Anonymous: true, Address: c.network, UserAgent: directory.Clip(c.r.UserAgent()), CreatedAt: c.now, UsedAt: c.now,
				ExpiresAt: c.now.Add(c.policy.Lifetime),
			}
			if err := tx.InsertSession(*c.session); err != nil {
				return err
			}
			c.clear = false
		}
		return c.completeSignIn(tx, user.ID, people.MethodPassword)
	})
	if err == nil {
		err = answer
	}
	if err != nil {
		return nil, err
	}
	return c.sessionSnapshot(), nil
}

func invalidCredentials() error {
	return apierror.Coded(http.StatusUnauthorized, "INVALID_CREDENTIALS", "the email or the password is wrong")
}

// wrongPassword answers a failure, the eleventh in a row and later ones with a wait.
func wrongPassword(failure people.Failure, now time.Time) error {
	if failure.Count <= password.FreeFailures {
		return invalidCredentials()
	}
	return apierror.Later("RATE_LIMITED", failure.Until.Sub(now), "the email or the password is wrong, too many times in a row: wait before you try again")
}

// noticeEvery is how often the owner of an account is told of failed sign-ins at most, from wherever they come.
const noticeEvery = 24 * time.Hour

// noticeFailures tells the owner of an account that sign-ins fail. For somebody unknown, or told already, the same is written and
// nothing is sent: neither the answer nor its time tells which.
func (c *call) noticeFailures(tx people.Tx, user people.User, typed string) error {
	told, err := tx.LockFailure("notice", people.FoldEmail(typed), c.now)
	if err != nil {
		return err
	}
	again := told.Until.After(c.now)
	if !again {
		told.Until, told.UpdatedAt = c.now.Add(noticeEvery), c.now
	}
	if err := tx.PutFailure(told); err != nil {
		return err
	}
	if err := c.audit(tx, "anonymous", "signin.failing", "user:"+format(user.ID), 0); err != nil {
		return err
	}
	to := user.Email
	if user.ID == 0 {
		to = typed
	}
	return c.post(tx, people.Message{
		Channel: people.ChannelMail, Recipient: to, ExpiresAt: c.now.Add(notifyLife), Void: again || user.ID == 0,
	}, delivery.FailedSignInsMail(c.appName()))
}

// takeBack uncounts a try whose password was never compared: nothing was learnt from it.
func (c *call) takeBack(counted people.Failure) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), 5*time.Second)
	defer cancel()
	err := c.Store.Change(ctx, c.deployment.Deployment, func(tx people.Tx) error {
		failure, err := tx.LockFailure(counted.Scope, counted.Subject, c.now)
		if err != nil {
			return err
		}
		// The wait that other tries brought stays.
		failure.Count, failure.Until = max(failure.Count-1, 0), time.Time{}
		if wait := password.Delay(failure.Count); wait > 0 {
			failure.Until = failure.UpdatedAt.Add(wait)
		}
		return tx.PutFailure(failure)
	})
	if err != nil {
		c.Log.Error(err, "A try that was not compared stays counted", "request_id", c.id)
	}
}

// makeRoom lets the oldest sign-ins of a user give way where there would be too many sessions.
func (c *call) makeRoom(tx people.Tx, user int64) error {
	signIns, err := tx.SignInsOf(user)
	if err != nil {
		return err
	}
	for _, g := range session.Evicted(signIns, session.MaxPerUser) {
		if g.Session == c.session.ID {
			continue
		}
		if err := tx.LeaveSession(g); err != nil {
			return err
		}
		if err := c.audit(tx, "system", "session.evicted", "signin:"+format(g.ID), g.Session); err != nil {
			return err
		}
	}
	return nil
}

// addSignIn puts an account into the session, where the user left, and makes it the active one. An account that is there already
// is not doubled. What else the session may hold gives way at its bound.
func (c *call) addSignIn(tx people.Tx, user people.User, method string) error {
	s := c.session
	id, err := c.directory().NewID()
	if err != nil {
		return err
	}
	g := people.SignIn{ID: id, Session: s.ID, User: user.ID, Method: method, CreatedAt: c.now}
	if g.Organization, g.Workspace, err = c.whereLeft(tx, user); err != nil {
		return err
	}
	var kept []people.SignIn
	for _, other := range s.SignIns {
		if other.User == user.ID {
			if err := tx.DeleteSignIn(other.ID); err != nil {
				return err
			}
			continue
		}
		kept = append(kept, other)
	}
	for _, oldest := range session.Evicted(kept, c.policy.MaxSignIns) {
		if err := tx.DeleteSignIn(oldest.ID); err != nil {
			return err
		}
		if err := c.audit(tx, "system", "session.evicted", "signin:"+format(oldest.ID), s.ID); err != nil {
			return err
		}
		kept = kept[1:]
	}
	if err := tx.InsertSignIn(g); err != nil {
		return err
	}
	if s.Anonymous {
		s.Anonymous, s.ExpiresAt = false, c.now.Add(c.policy.Lifetime)
	}
	pending, err := tx.AttemptsOf(s.ID, c.now)
	if err != nil {
		return err
	}
	s.SignIns, s.ActiveSignIn, s.UsedAt, s.Attempting = append(kept, g), g.ID, c.now, len(pending) > 0
	if err := tx.UpdateSession(*s); err != nil {
		return err
	}
	return c.renew(tx)
}

// whereLeft returns the organization and workspace a user was active in last, if still a member.
func (c *call) whereLeft(tx people.Tx, user people.User) (organization, workspace int64, err error) {
	if user.Organization == 0 {
		return 0, 0, nil
	}
	member, found, err := tx.Member(user.Organization, user.ID)
	if err != nil || !found {
		return 0, 0, err
	}
	memberships, err := tx.WorkspaceMembershipsOf(user.ID, member.Organization.ID)
	if err != nil {
		return 0, 0, err
	}
	w, _ := session.Workspace(member, memberships)
	return member.Organization.ID, w.ID, nil
}
