package enduser

import (
	"slices"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/factors"
	"github.com/cardea-iam/cardea/apiserver/users/passkey"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// methodReauthentication is the method of an attempt to authenticate again, as responses name it.
const methodReauthentication = "reauthentication"

// requireFresh refuses an operation if the last authentication is too long ago (ASVS 7.5.1).
func (u *unit) requireFresh() error {
	return account.RequireFresh(u.Unit, u.signedIn(), false)
}

// reauthenticationOptions lists the ways of the user to authenticate again.
func reauthenticationOptions(c *call) (reply, error) {
	if err := c.parse(func(*body.Object) {}); err != nil {
		return reply{}, err
	}
	g := c.signedIn()
	out := enduserapi.ReauthenticationOptions{Strategies: []string{}}
	err := c.view(func(u *account.Unit) error {
		strategies, f, err := account.Reauthentication(u, g)
		if err != nil {
			return err
		}
		out.Strategies = append(out.Strategies, strategies...)
		if len(f.Passkeys) > 0 {
			out.PublicKey, err = c.requestOptions(reauthenticationScope(g), f.Passkeys)
		}
		return err
	})
	return reply{data: out}, err
}

func reauthenticationScope(g *people.SignIn) passkey.Scope {
	return passkey.Scope{Ceremony: passkey.Reauthenticate, Session: g.ID, User: g.User}
}

// reauthenticate authenticates the signed-in user again, with any proof of the account. It is not counted as a sign-in.
func reauthenticate(c *call) (reply, error) {
	settings := c.request.Settings.EffectiveSignIn()
	settings.EmailCode = settings.EmailCode || c.request.Settings.Email != nil // also where users do not sign in by code
	var strategy, typed string
	var s shown
	err := c.parse(func(o *body.Object) {
		o.Require("strategy")
		switch strategy, _ = o.String("strategy"); strategy {
		case account.StrategySMS:
		case account.StrategyTOTP, account.StrategyRecovery, account.StrategyPasskey:
			s = readShown(o, account.StrategyTOTP, account.StrategyRecovery, account.StrategyPasskey)
		default:
			typed, _ = o.String("password")
			strategy = readStrategy(o, settings)
		}
	})
	if err != nil {
		return reply{}, err
	}
	switch strategy {
	case account.StrategySMS:
		return reauthenticateByText(c)
	case account.StrategyTOTP, account.StrategyRecovery, account.StrategyPasskey:
		return reauthenticateByFactor(c, s)
	}
	email, err := c.primaryEmail()
	if err != nil {
		return reply{}, err
	}
	if err := requireNoConnection(c, email); err != nil {
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

// reauthenticateByFactor authenticates the user again with a factor.
func reauthenticateByFactor(c *call, s shown) (reply, error) {
	s.find = func(u *unit) (subject, error) { return subject{user: u.signedIn().User}, nil }
	signIn := c.signedIn()
	s.scope = func(subject) passkey.Scope { return reauthenticationScope(signIn) }
	s.accept = func(u *unit, method assurance.Method) (reply, error) {
		if u.signedIn().ID != signIn.ID {
			return reply{}, errInvalidAttempt // another tab switched the account meanwhile
		}
		return reply{}, u.prove(signIn.User, method)
	}
	out, err := show(c, s)
	out.data = c.sessionSnapshot()
	return out, err
}

// reauthenticateByText begins an attempt that a text completes.
func reauthenticateByText(c *call) (reply, error) {
	out, err := transact(c, func(u *unit) (reply, error) {
		g := u.signedIn()
		f, err := u.FactorsOf(g.User)
		if err == nil && len(f.Texts) == 0 {
			err = factors.ErrUnavailable
		}
		if err != nil {
			return reply{}, err
		}
		return reply{}, waitForText(u, c, g)
	})
	out.data = c.sessionSnapshot()
	return out, err
}

// waitForText stores an attempt of the signed-in user that waits for the code of a text.
func waitForText(u *unit, c *call, g *people.SignIn) error {
	user, found, err := u.Users().User(g.User)
	if err == nil && !found {
		err = account.ErrUserUnknown
	}
	if err != nil {
		return err
	}
	if err := u.beginAttempt(c.presented, g.User); err != nil {
		return err
	}
	id, err := u.NewID()
	if err != nil {
		return err
	}
	return u.Attempts().InsertAttempt(people.Attempt{
		ID: id, Session: u.session.ID, Kind: people.AttemptReauthenticate, Method: methodReauthentication, Email: user.Email, User: g.User,
		CreatedAt: u.Now, ExpiresAt: u.Now.Add(attemptLifetime), ProvedAt: u.Now,
	})
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
		return reply{}, u.prove(u.signedIn().User, assurance.Password)
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

// prove records that a user authenticated again by a method, and gives the session a new token.
func (u *unit) prove(user int64, methods ...assurance.Method) error {
	at := slices.IndexFunc(u.session.SignIns, func(g people.SignIn) bool { return g.User == user })
	if at < 0 {
		return errInvalidAttempt
	}
	g := &u.session.SignIns[at]
	proofs := withProofs(g.Proven(), methods, u.Now)
	if err := u.Sessions().ProveSignIn(g.ID, proofs, u.Now); err != nil {
		return err
	}
	action := "session.reauthenticated"
	if proofs.Level() > g.Proven().Level() {
		action = "session.stepped_up"
	}
	g.Proofs, g.ProvedAt = proofs, u.Now
	if g.Upstream.ConfinedTo != 0 && slices.ContainsFunc(methods, account.LiftsConfinement) {
		if err := liftConfinement(u, g); err != nil {
			return err
		}
	}
	if err := u.Audit(action, "signin:"+format(g.ID)); err != nil {
		return err
	}
	return u.renew()
}

// liftConfinement makes a sign-in that was confined to an organization count everywhere.
func liftConfinement(u *unit, g *people.SignIn) error {
	up, _, err := u.Sessions().UpstreamOf(g.ID)
	if err != nil {
		return err
	}
	up.ConfinedTo = 0
	g.Upstream.ConfinedTo = 0
	return u.Sessions().SetUpstream(g.ID, up)
}
