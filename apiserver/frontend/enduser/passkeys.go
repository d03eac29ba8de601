package enduser

import (
	"encoding/base64"
	"encoding/json"
	"errors"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/factors"
	"github.com/cardea-iam/cardea/apiserver/users/passkey"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/ids"
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
// for users who show another proof beside.
func (c *call) requestOptions(scope passkey.Scope, passkeys []people.Passkey) (*map[string]any, error) {
	challenge, err := c.challenges.New(c.Random, c.relyingParty(), scope, c.now)
	if err != nil {
		return nil, err
	}
	return publicKey(passkey.RequestOptions(c.relyingParty(), challenge, factors.Descriptors(passkeys), false))
}

// passkeyOptions returns the options for a sign-in. They are the same for everybody.
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
		method, err := factors.Use(u.Unit, p, v)
		if errors.Is(err, factors.ErrPasskeyUnknown) {
			err = errInvalidCredential
		}
		if err != nil {
			return reply{}, err
		}
		switch err := u.signIn(p.User, people.MethodPasskey, assurance.Proofs{}.With(method, u.Now)); {
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

func viewPasskey(t *account.Tenant, p people.Passkey) enduserapi.Passkey {
	settings, _ := t.Settings.Strong()
	view := enduserapi.Passkey{
		Id: format(p.ID), Name: p.Name, CredentialId: base64.RawURLEncoding.EncodeToString(p.Credential),
		UserHandle: base64.RawURLEncoding.EncodeToString(p.Handle), RelyingPartyId: p.RelyingParty, Usable: account.PasskeyUsable(settings, p),
		UserVerified: p.Verified, SecondFactorOnly: p.SecondFactorOnly, BackedUp: p.BackedUp, Transports: p.Transports, CreatedAt: p.CreatedAt,
	}
	if p.BackupEligible >= 0 {
		view.BackupEligible = ptr.To(p.BackupEligible == passkey.BackupEligible)
	}
	if view.Transports == nil {
		view.Transports = []string{}
	}
	if !p.UsedAt.IsZero() {
		view.LastUsedAt = &p.UsedAt
	}
	return view
}

// passkeysOf returns the views of a user's passkeys.
func passkeysOf(u *account.Unit, user int64) ([]enduserapi.Passkey, error) {
	out := []enduserapi.Passkey{}
	passkeys, err := u.Factors().PasskeysOf(user)
	for _, p := range passkeys {
		out = append(out, viewPasskey(u.Tenant, p))
	}
	return out, err
}

func listPasskeys(c *call) (reply, error) {
	var out []enduserapi.Passkey
	err := c.view(func(u *account.Unit) (err error) {
		out, err = passkeysOf(u, c.signedIn().User)
		return err
	})
	return reply{data: out}, err
}

// registrationOf is the ceremony of the registration of a kind. Its name is in the challenge, because the answer does
// not say which kind the options asked for.
func registrationOf(kind passkey.Kind) passkey.Ceremony {
	if kind == passkey.KindSecurityKey {
		return passkey.Registration + "_security_key"
	}
	return passkey.Registration
}

// newPasskeyOptions returns the options for a new passkey.
func newPasskeyOptions(c *call) (reply, error) {
	kind := passkey.KindPasskey
	err := c.parse(func(o *body.Object) {
		if asked, sent := o.String("kind"); sent {
			if kind = passkey.Kind(asked); kind != passkey.KindPasskey && kind != passkey.KindSecurityKey {
				o.Fault("kind", "must be passkey or security_key")
			}
		}
	})
	if err != nil {
		return reply{}, err
	}
	if err := factors.RequirePasskeys(c.request.Tenant, true); err != nil {
		return reply{}, c.answerTo(err)
	}
	return transact(c, func(u *unit) (reply, error) {
		if err := requireAdding(u); err != nil {
			return reply{}, err
		}
		user, found, err := u.Users().User(u.signedIn().User)
		if err == nil && !found {
			err = account.ErrUserUnknown
		}
		if err != nil {
			return reply{}, err
		}
		have, err := u.Factors().PasskeysOf(user.ID)
		if err != nil {
			return reply{}, err
		}
		if len(have) >= factors.MaxPasskeys {
			return reply{}, factors.ErrTooManyFactors
		}
		handle, err := factors.Handle(u.Unit, user.ID, have)
		if err != nil {
			return reply{}, err
		}
		rp := c.relyingParty()
		challenge, err := c.challenges.New(c.Random, rp, passkey.Scope{Ceremony: registrationOf(kind), Session: u.signedIn().ID, User: user.ID}, c.now)
		if err != nil {
			return reply{}, err
		}
		options, err := publicKey(passkey.CreationOptions(rp, challenge, passkey.User{Handle: handle, Name: user.Email, DisplayName: user.Email}, kind, factors.Descriptors(have)))
		if err != nil {
			return reply{}, err
		}
		return reply{data: enduserapi.CredentialOptions{PublicKey: *options}}, nil
	})
}

// register verifies the answer to the options of either kind, and returns the kind.
func (c *call) register(a *passkey.Attestation, signIn, user int64) (passkey.Credential, passkey.Spent, passkey.Kind, error) {
	for _, kind := range []passkey.Kind{passkey.KindPasskey, passkey.KindSecurityKey} {
		scope := passkey.Scope{Ceremony: registrationOf(kind), Session: signIn, User: user}
		credential, spent, err := c.challenges.Register(a, c.ceremony(scope, kind == passkey.KindPasskey))
		var refused *passkey.Refused
		switch {
		case err == nil:
			c.Metrics.Ceremony(string(passkey.Registration), "ok")
			return credential, spent, kind, nil
		case errors.Is(err, passkey.ErrExpiredChallenge):
			c.Metrics.Ceremony(string(passkey.Registration), string(passkey.CheckChallenge))
			return credential, spent, kind, errExpiredChallenge
		case errors.As(err, &refused) && refused.Check == passkey.CheckChallenge && kind == passkey.KindPasskey:
			continue // the options may have asked for a security key
		case errors.As(err, &refused):
			c.Metrics.Ceremony(string(passkey.Registration), string(refused.Check))
			return credential, spent, kind, errInvalidPasskey
		default:
			return credential, spent, kind, c.answerTo(err)
		}
	}
	return passkey.Credential{}, passkey.Spent{}, "", errInvalidPasskey
}

// addPasskey adds a passkey. It is also a proof of this sign-in.
func addPasskey(c *call) (reply, error) {
	var attestation *passkey.Attestation
	var name string
	err := c.parse(func(o *body.Object) {
		attestation = readCredential(o, passkey.ParseAttestation)
		name = readFactorName(o)
	})
	if err != nil {
		return reply{}, err
	}
	if err := factors.RequirePasskeys(c.request.Tenant, true); err != nil {
		return reply{}, c.answerTo(err)
	}
	g := c.signedIn()
	credential, spent, kind, err := c.register(attestation, g.ID, g.User)
	if err != nil {
		return reply{}, err
	}
	if name == "" {
		name = defaultPasskeyName
	}
	out, err := transact(c, func(u *unit) (reply, error) {
		if err := requireAdding(u); err != nil {
			return reply{}, err
		}
		user, err := u.lockOwnUser()
		if err != nil {
			return reply{}, err
		}
		if user.ID != g.User || u.signedIn().ID != g.ID {
			return reply{}, errInvalidPasskey // another tab switched the account meanwhile
		}
		have, err := u.Factors().PasskeysOf(user.ID)
		if err != nil {
			return reply{}, err
		}
		handle, err := factors.Handle(u.Unit, user.ID, have)
		if err != nil {
			return reply{}, err
		}
		p, err := factors.AddPasskey(u.Unit, user, credential, spent, handle, kind, name)
		if err != nil {
			return reply{}, err
		}
		method := assurance.Passkey
		if credential.UserVerified {
			method = assurance.PasskeyUV
		}
		return reply{data: enduserapi.PasskeyAdded{Passkey: viewPasskey(u.Tenant, p)}}, u.prove(user.ID, method)
	})
	if err == nil {
		c.Metrics.Changed("passkey", "added")
	}
	return out, err
}

// passkeyID returns the id in the path. A malformed id gets the same response as an unknown one.
func passkeyID(c *call) (int64, error) {
	id, err := ids.Parse(c.r.PathValue("id"))
	if err != nil {
		return 0, c.answerTo(factors.ErrPasskeyUnknown)
	}
	return id, nil
}

func renamePasskey(c *call) (reply, error) {
	var name string
	err := c.parse(func(o *body.Object) {
		o.Require("name")
		name = readFactorName(o)
	})
	if err != nil {
		return reply{}, err
	}
	id, err := passkeyID(c)
	if err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		p, err := factors.OwnPasskey(u.Unit, u.signedIn().User, id)
		if err == nil {
			p, err = factors.RenamePasskey(u.Unit, p, name)
		}
		return reply{data: enduserapi.PasskeyAdded{Passkey: viewPasskey(u.Tenant, p)}}, err
	})
}

func removePasskey(c *call) (reply, error) {
	id, err := passkeyID(c)
	if err != nil {
		return reply{}, err
	}
	out, err := transact(c, func(u *unit) (reply, error) {
		user, err := u.lockOwnUser()
		if err != nil {
			return reply{}, err
		}
		if _, err := factors.RemovePasskey(u.Unit, user, id); err != nil {
			return reply{}, err
		}
		left, err := passkeysOf(u.Unit, user.ID)
		return reply{data: left}, err
	})
	if err == nil {
		c.Metrics.Changed("passkey", "removed")
	}
	return out, err
}
