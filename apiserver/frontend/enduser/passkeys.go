package enduser

import (
	"encoding/json"
	"errors"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/factors"
	"github.com/cardea-iam/cardea/apiserver/users/passkey"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// defaultPasskeyName names passkeys whose user gave no name.
const defaultPasskeyName = "Passkey"

// relyingParty returns the relying party of the deployment's passkeys.
func (c *call) relyingParty() passkey.RelyingParty {
	settings, _ := c.request.Settings.Strong()
	return passkey.RelyingParty{
		Deployment: c.request.Key(), ID: settings.RelyingParty, Name: c.request.AppName(),
		Allows: func(origin string) bool {
			return site.OwnOrigin(c.request.Settings, c.r, origin) || c.allowedOrigin(origin)
		},
	}
}

// ceremony returns what the server knows of an answer of an authenticator.
func (c *call) ceremony(scope passkey.Scope, verified bool) passkey.Request {
	return passkey.Request{RelyingParty: c.relyingParty(), Scope: scope, RequireUV: verified, Origin: c.r.Header.Get("Origin"), Now: c.now}
}

// publicKey returns options as a member of a response.
func publicKey(options json.RawMessage, err error) (*map[string]any, error) {
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return &out, json.Unmarshal(options, &out)
}

// requestOptions returns options for an assertion of one of some passkeys: without user verification, because they are
// for users who also show another proof.
func (c *call) requestOptions(scope passkey.Scope, passkeys []people.Passkey) (*map[string]any, error) {
	challenge, err := c.challenges.New(c.Random, c.relyingParty(), scope, c.now)
	if err != nil {
		return nil, err
	}
	return publicKey(passkey.RequestOptions(c.relyingParty(), challenge, factors.Descriptors(passkeys), false))
}

// passkeyOptions returns the options for a sign-in. They are the same for all users.
func passkeyOptions(c *call) (reply, error) {
	if err := c.parse(func(*body.Object) {}); err != nil {
		return reply{}, err
	}
	if err := factors.RequirePasskeys(c.request.Tenant, false); err != nil {
		return reply{}, c.answerTo(err)
	}
	challenge, err := c.challenges.New(c.Random, c.relyingParty(), passkey.Scope{Ceremony: passkey.SignIn}, c.now)
	if err != nil {
		return reply{}, c.answerTo(err)
	}
	options, err := publicKey(passkey.RequestOptions(c.relyingParty(), challenge, nil, true))
	if err != nil {
		return reply{}, err
	}
	return reply{data: enduserapi.CredentialOptions{PublicKey: *options}}, nil
}

// readCredential reads the JSON of a credential with parse.
func readCredential[T any](o *body.Object, parse func(json.RawMessage) (*T, error)) *T {
	if !o.Require("credential") {
		return nil
	}
	raw, ok := o.Raw("credential")
	if !ok {
		return nil
	}
	parsed, err := parse(raw)
	var malformed *passkey.MalformedError
	if errors.As(err, &malformed) {
		o.Fault("credential"+malformed.Pointer, "%s", malformed.Problem)
		return nil
	}
	return parsed
}

func readAssertion(o *body.Object) *passkey.Assertion {
	return readCredential(o, passkey.ParseAssertion)
}

// verifyAssertion verifies an assertion of a user's passkey; user 0 is any user. An unknown credential, one of another
// user and a forged one get the same response after the same work.
func (c *call) verifyAssertion(a *passkey.Assertion, scope passkey.Scope, user int64) (people.Passkey, passkey.Verified, error) {
	settings, _ := c.request.Settings.Strong()
	var p people.Passkey
	stored := passkey.Decoy()
	err := c.view(func(u *account.Unit) error {
		found := false
		var err error
		p, found, err = u.Factors().PasskeyByCredential(settings.RelyingParty, a.CredentialID)
		if found && (user == 0 && !p.SecondFactorOnly || p.User == user) && account.PasskeyUsable(settings, p) {
			stored = factors.Stored(p)
		}
		return err
	})
	if err != nil {
		return p, passkey.Verified{}, err
	}
	v, err := c.challenges.Verify(a, stored, c.ceremony(scope, scope.Ceremony == passkey.SignIn))
	var refused *passkey.Refused
	switch {
	case err == nil:
		c.Metrics.Ceremony(string(scope.Ceremony), "ok")
		return p, v, nil
	case errors.Is(err, passkey.ErrExpiredChallenge):
		c.Metrics.Ceremony(string(scope.Ceremony), string(passkey.CheckChallenge))
		return p, v, errExpiredChallenge
	case errors.As(err, &refused):
		c.Metrics.Ceremony(string(scope.Ceremony), string(refused.Check))
		if refused.Check == passkey.CheckCounter {
			if err := c.request.Change(c.r.Context(), func(u *account.Unit) error { return factors.CounterRegressed(u, p, v) }); err != nil {
				return p, v, c.answerTo(err)
			}
		}
		return p, v, errInvalidCredential
	}
	return p, v, c.answerTo(err)
}

// signInByPasskey signs in with a passkey that verified its user. That is a whole sign-in: no other factor is asked
// for.
func signInByPasskey(c *call, a *passkey.Assertion) (reply, error) {
	if err := factors.RequirePasskeys(c.request.Tenant, false); err != nil {
		return reply{}, c.answerTo(err)
	}
	p, v, err := c.verifyAssertion(a, passkey.Scope{Ceremony: passkey.SignIn}, 0)
	if err != nil {
		return reply{}, err
	}
	out, err := transact(c, func(u *unit) (reply, error) {
		u.Actor = "user:" + format(p.User)
		if err := factors.CountSignIn(u.Unit, p.User); err != nil {
			return reply{}, err
		}
		if err := account.RequireNoConnectionOf(u.Unit, p.User); err != nil {
			return reply{}, err
		}
		method, err := factors.Use(u.Unit, p, v)
		if errors.Is(err, factors.ErrPasskeyUnknown) {
			err = errInvalidCredential
		}
		if err != nil {
			return reply{}, err
		}
		switch err := u.signIn(account.NewSignIn{User: p.User, Method: people.MethodPasskey, Proofs: assurance.Proofs{}.With(method, u.Now)}); {
		case errors.Is(err, account.ErrUserDisabled):
			return reply{}, account.ErrUserDisabled
		case errors.Is(err, account.ErrUserUnknown):
			return reply{}, errInvalidCredential
		default:
			return reply{}, err
		}
	})
	out.data = c.sessionSnapshot()
	return out, err
}

// showPasskey verifies an assertion and performs its action.
func showPasskey(c *call, s shown) (reply, error) {
	var at subject
	_, err := transact(c, func(u *unit) (reply, error) {
		var err error
		if at, err = s.find(u); err != nil {
			return reply{}, err
		}
		f, err := u.FactorsOf(at.user)
		if err == nil && len(f.Passkeys) == 0 {
			err = factors.ErrUnavailable
		}
		return reply{}, err
	})
	if err != nil {
		return reply{}, err
	}
	p, v, err := c.verifyAssertion(s.assertion, s.scope(at), at.user)
	if err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		if now, err := s.find(u); err != nil || now.user != at.user {
			if err == nil {
				err = errInvalidAttempt
			}
			return reply{}, err
		}
		u.Actor = "user:" + format(at.user)
		method, err := factors.Use(u.Unit, p, v)
		if errors.Is(err, factors.ErrPasskeyUnknown) {
			err = errInvalidCredential
		}
		if err != nil {
			return reply{}, err
		}
		return s.accept(u, method)
	})
}
