package enduser

import (
	"slices"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/store/people"
)

// methodReauthentication is the method of an attempt to authenticate again, as responses name it.
const methodReauthentication = "reauthentication"

// requireFresh refuses an operation if the last authentication is too long ago (ASVS 7.5.1).
func (u *unit) requireFresh() error {
	if !account.Fresh(u.Unit, u.signedIn()) {
		return errNotFresh
	}
	return nil
}

// reauthenticate authenticates the signed-in user again, with the password or an emailed code. It is not counted as a
// sign-in.
func reauthenticate(c *call) (reply, error) {
	settings := c.request.Settings.EffectiveSignIn()
	var strategy, typed string
	err := c.parse(func(o *body.Object) {
		o.Require("strategy")
		typed, _ = o.String("password")
		strategy = readStrategy(o, settings)
	})
	if err != nil {
		return reply{}, err
	}
	email, err := c.primaryEmail()
	if err != nil {
		return reply{}, err
	}
	if strategy == people.MethodPassword {
		return reauthenticateByPassword(c, email, typed)
	}
	if err := c.requireEmail(); err != nil {
		return reply{}, err
	}
	out, err := transact(c, func(u *unit) (reply, error) {
		e, _, err := u.Users().Email(people.FoldEmail(email))
		if err == nil && e.User != u.signedIn().User {
			err = account.ErrUserUnknown
		}
		if err != nil {
			return reply{}, err
		}
		return reply{}, c.begin(u, people.Attempt{Kind: people.AttemptReauthenticate, Method: methodReauthentication, Email: e.Address}, e)
	})
	out.data = c.sessionSnapshot()
	return out, err
}

// primaryEmail returns the signed-in user's primary email.
func (c *call) primaryEmail() (email string, err error) {
	err = c.view(func(u *account.Unit) error {
		user, found, err := u.Users().User(c.signedIn().User)
		if err == nil && !found {
			err = account.ErrUserUnknown
		}
		email = user.Email
		return err
	})
	return email, err
}

func reauthenticateByPassword(c *call, email, typed string) (reply, error) {
	try, err := comparePassword(c, email, typed, account.ErrInvalidCredentials, func(*password.Turn, account.PasswordTry) error { return nil })
	if err != nil {
		return reply{}, err
	}
	out, err := transactTry(c, try, func(u *unit) (reply, error) {
		if err := u.acceptOwnPassword(try); err != nil {
			return reply{}, err
		}
		return reply{}, u.prove(u.signedIn().User)
	})
	out.data = c.sessionSnapshot()
	return out, err
}

// acceptOwnPassword is AcceptPassword for the active account.
func (u *unit) acceptOwnPassword(try account.PasswordTry) error {
	if err := u.AcceptPassword(try); err != nil {
		return err
	}
	if try.User.ID != u.signedIn().User {
		return account.ErrInvalidCredentials // another tab switched the account meanwhile
	}
	return nil
}

// prove records that a user authenticated again, and gives the session a new token.
func (u *unit) prove(user int64) error {
	at := slices.IndexFunc(u.session.SignIns, func(g people.SignIn) bool { return g.User == user })
	if at < 0 {
		return errInvalidAttempt
	}
	g := &u.session.SignIns[at]
	if err := u.Sessions().ProveSignIn(g.ID, u.Now); err != nil {
		return err
	}
	g.ProvedAt = u.Now
	if err := u.Audit("session.reauthenticated", "signin:"+format(g.ID)); err != nil {
		return err
	}
	return u.renew()
}
