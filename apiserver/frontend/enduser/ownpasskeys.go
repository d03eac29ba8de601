package enduser

import (
	"encoding/base64"
	"errors"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/factors"
	"github.com/cardea-iam/cardea/apiserver/users/passkey"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

func viewPasskey(t *account.Tenant, p people.Passkey) enduserapi.Passkey {
	settings, _ := t.Settings.Strong()
	view := enduserapi.Passkey{
		Id: format(p.ID), Name: p.Name, CredentialId: base64.RawURLEncoding.EncodeToString(p.Credential),
		UserHandle: base64.RawURLEncoding.EncodeToString(p.Handle), RelyingPartyId: p.RelyingParty, Usable: account.PasskeyUsable(settings, p),
		UserVerified: p.Verified, SecondFactorOnly: p.SecondFactorOnly, BackedUp: p.BackedUp, Transports: p.Transports, CreatedAt: p.CreatedAt,
	}
	if p.BackupEligible >= 0 {
		view.BackupEligible = ptr.To(p.BackupEligible >= passkey.BackupEligible)
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
func register(c *call, a *passkey.Attestation, signIn, user int64) (passkey.Credential, passkey.Spent, passkey.Kind, error) {
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
	credential, spent, kind, err := register(c, attestation, g.ID, g.User)
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
