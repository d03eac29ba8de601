package account

import (
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/store/people"
)

// dropUnproven removes everything that another person may have added to an account whose first verified address was
// proven by a code alone: the password, API keys, phone numbers, other addresses, identities at the providers of
// connections, and all other sign-ins.
func dropUnproven(u *Unit, e people.Email, emails []people.Email) error {
	hadPassword, ended := false, int64(0)
	for _, drop := range []func() error{
		func() (err error) { hadPassword, err = dropPassword(u, e.User); return err },
		func() error { return revokeKeysOf(u, e.User, "system", "owner_unproven") },
		func() error { return dropPhones(u, e.User) },
		func() error { return dropEmails(u, e, emails) },
		func() error { return dropIdentities(u, e.User) },
		func() (err error) {
			ended, err = leaveOthers(u, e.User, system, "session.evicted", events.Claimed)
			return err
		},
	} {
		if err := drop(); err != nil {
			return err
		}
	}
	if hadPassword {
		LogAs(u, system, events.OfPassword(events.UserPasswordRemoved, e.User, ended))
	}
	return nil
}

// dropPassword removes a user's password, and reports whether there was one.
func dropPassword(u *Unit, user int64) (bool, error) {
	dropped, err := u.Users().DeleteCredential(user, people.CredentialPassword)
	if err != nil || !dropped {
		return false, err
	}
	return true, u.AuditAs(system, "user.password_removed", object("user", user), u.Session)
}

// keysAtOnce is how many keys one query reads.
const keysAtOnce = 100

// revokeKeysOf revokes all keys of a user with a reason. The user is locked.
func revokeKeysOf(u *Unit, user int64, actor, reason string) error {
	for before := int64(0); ; {
		keys, err := u.APIKeys().ListAPIKeys(people.APIKeyFilter{Owner: user, Before: before}, keysAtOnce)
		if err != nil || len(keys) == 0 {
			return err
		}
		for i := range keys {
			revoked, err := RevokeKey(u, &keys[i], actor, reason)
			if err != nil {
				return err
			}
			if !revoked {
				continue
			}
			if err := u.AuditAs(actor, "api_key.revoked", object("api_key", keys[i].ID), u.Session); err != nil {
				return err
			}
		}
		before = keys[len(keys)-1].ID
	}
}

func dropPhones(u *Unit, user int64) error {
	phones, err := u.Phones().PhonesOf(user)
	if err != nil {
		return err
	}
	for _, p := range phones {
		if err := u.Challenges().VoidChallenges(people.PurposePhone, p.ID); err != nil {
			return err
		}
		if err := u.Phones().DeletePhone(p.ID); err != nil {
			return err
		}
		LogAs(u, system, events.OfPhone(events.UserPhoneRemoved, p.User, p.ID))
		if err := u.AuditAs(system, "phone.removed", object("phone", p.ID), u.Session); err != nil {
			return err
		}
	}
	return nil
}

func dropEmails(u *Unit, kept people.Email, emails []people.Email) error {
	var dropped []int64
	for _, e := range emails {
		if e.ID == kept.ID {
			continue
		}
		dropped = append(dropped, e.ID)
		LogAs(u, system, events.OfEmail(events.UserEmailRemoved, e.User, e.ID))
		if err := u.AuditAs(system, "email.removed", object("email", e.ID), u.Session); err != nil {
			return err
		}
	}
	return u.Bulk().DeleteUnproven(dropped)
}

func dropIdentities(u *Unit, user int64) error {
	identities, err := u.Identities().IdentitiesOf(user)
	if err != nil {
		return err
	}
	for _, i := range identities {
		if _, err := u.Identities().DeleteIdentity(user, i.ID); err != nil {
			return err
		}
		if err := u.AuditAs(system, "identity.unlinked", object("identity", i.ID), u.Session); err != nil {
			return err
		}
	}
	return nil
}

// dropFactors removes all factors and codes of an account, and turns two-step off.
func dropFactors(u *Unit, user int64) error {
	authenticators, err := u.Factors().AuthenticatorsOf(user)
	if err != nil {
		return err
	}
	for _, a := range authenticators {
		if _, err := u.Factors().DeleteAuthenticator(a.ID); err != nil {
			return err
		}
		if err := u.AuditAs(system, "totp.removed", object("totp", a.ID), u.Session); err != nil {
			return err
		}
	}
	passkeys, err := u.Factors().PasskeysOf(user)
	if err != nil {
		return err
	}
	for _, p := range passkeys {
		if _, err := u.Factors().DeletePasskey(p.ID); err != nil {
			return err
		}
		if err := u.AuditAs(system, "passkey.removed", object("passkey", p.ID), u.Session); err != nil {
			return err
		}
	}
	if err := u.Factors().ReplaceRecoveryCodes(user, nil, u.Now); err != nil {
		return err
	}
	return u.Factors().SetTwoStep(user, false)
}
