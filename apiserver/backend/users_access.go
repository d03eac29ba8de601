package backend

import (
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// Backends can change a user's password and end the user's sessions.

// readPassword reads a new password for a user. It must not equal one of own, the user's address and names.
func (p *peopleRequest) readPassword(o *body.Object, own ...string) string {
	typed, sent := o.String("password")
	settings := p.Settings.EffectiveSignIn()
	switch {
	case !sent:
	case !settings.Password:
		o.Fault("password", "is not enabled in this deployment: leave it out")
	default:
		if err := password.Validate(typed, settings.PasswordMinLength, own...); err != nil {
			o.Fault("password", "is refused: %v", err)
		}
	}
	return typed
}

// hash hashes a password; backends of one deployment share its hashing slots.
func (p *peopleRequest) hash(secret string) (string, error) {
	client := "backend " + p.Key()
	hash, err := p.c.api.Hasher.Hash(p.c.r.Context(), password.Client{Deployment: p.Key(), Network: client, WideNetwork: client}, secret)
	return hash, peopleError(err)
}

// setPassword sets or replaces a user's password, and signs the user out everywhere.
func setPassword(c *call) (reply, error) {
	p := c.people()
	enabled := p.Settings.EffectiveSignIn().Password
	var secret string
	read := func(own ...string) func(*body.Object) {
		return func(o *body.Object) {
			switch {
			case !o.Require("password"):
			case enabled:
				secret = p.readPassword(o, own...)
			default:
				_, _ = o.String("password") // its value does not matter: the request is refused below
			}
		}
	}
	if err := p.parse(read()); err != nil {
		return reply{}, err
	}
	id, err := c.userID()
	if err != nil {
		return reply{}, err
	}
	var user people.User
	if err := p.view(func(u *account.Unit) error { user, err = findUser(u, id); return err }); err != nil {
		return reply{}, err
	}
	if !enabled {
		return reply{}, peopleError(errPasswordsDisabled)
	}
	// The body is read again, now with the address and names that the password must not equal.
	if err := p.parse(read(user.Email, user.FirstName, user.LastName)); err != nil {
		return reply{}, err
	}
	encoded, err := p.hash(secret)
	if err != nil {
		return reply{}, err
	}
	return reply{}, p.changeUser(events.PasswordChanged, func(u *account.Unit, user people.User, ended int64) error {
		if err := u.Users().PutCredential(user.ID, people.CredentialPassword, encoded, p.Now); err != nil {
			return err
		}
		u.Log(events.OfPassword(events.UserPasswordChanged, user.ID, ended))
		return p.audit(u, "user.password_set", "user", user.ID)
	})
}

// removePassword removes a user's password, and signs the user out everywhere: a leaked password is useless afterwards.
func removePassword(c *call) (reply, error) {
	p := c.people()
	return reply{}, p.changeUser(events.PasswordChanged, func(u *account.Unit, user people.User, ended int64) error {
		removed, err := u.Users().DeleteCredential(user.ID, people.CredentialPassword)
		if err != nil {
			return err
		}
		if !removed {
			return errNoPassword
		}
		u.Log(events.OfPassword(events.UserPasswordRemoved, user.ID, ended))
		return p.audit(u, "user.password_removed", "user", user.ID)
	})
}

// listUserSessions serves the sessions a user is signed in to, the newest first.
func listUserSessions(c *call) (reply, error) {
	id, err := c.userID()
	if err != nil {
		return reply{}, err
	}
	list := backendapi.UserSessionList{Data: []backendapi.UserSession{}}
	p := c.people()
	policy := session.PolicyOf(p.Settings)
	err = p.view(func(u *account.Unit) error {
		if _, err := findUser(u, id); err != nil {
			return err
		}
		sessions, err := u.Sessions().SessionsOf(id)
		for _, s := range sessions {
			if session.Evaluate(s, policy, u.Now) != session.Live {
				continue // no client can use it any longer
			}
			signIn := s.SignIns[0]
			list.Data = append(list.Data, backendapi.UserSession{
				Id: ids.Format(s.ID), SigninId: ids.Format(signIn.ID), Method: signIn.Method, CreatedAt: signIn.CreatedAt,
				LastActiveAt: s.UsedAt, ExpiresAt: signIn.Upstream.EndWith(s.ExpiresAt), IpAddress: s.Address, UserAgent: s.UserAgent,
				Level: backendapi.UserSessionLevel(signIn.Proven().Level().String()), Proofs: viewProofs(signIn.Proven()),
			})
		}
		return err
	})
	return object(list), err
}

// revokeUserSessions signs a user out everywhere.
func revokeUserSessions(c *call) (reply, error) {
	p := c.people()
	var served backendapi.RevokedSessions
	err := p.changeUser(events.ByBackend, func(u *account.Unit, user people.User, ended int64) error {
		served.Revoked = ended
		return p.audit(u, "user.sessions_revoked", "user", user.ID)
	})
	return object(served), err
}
