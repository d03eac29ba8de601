package account

import (
	"slices"

	"github.com/cardea-iam/cardea/store/people"
)

// freeAddress makes room for an account whose owner proved an address. ErrEmailTaken: the address is that of an account it opens. One that
// nobody proved, in an account with a proven one, opens nothing, and gives way.
func (u *Unit) freeAddress(folded string) error {
	before, found, err := u.Email(folded)
	if err != nil || !found {
		return err
	}
	if _, _, err := u.LockUser(before.User); err != nil { // a proof comes before what is read next, or finds the address gone
		return err
	}
	e, found, err := u.Email(folded)
	if err != nil || !found {
		return err
	}
	opens, err := u.AddressForCode(folded)
	if err != nil {
		return err
	}
	if e.User != before.User || opens.User != 0 {
		return ErrEmailTaken
	}
	if err := u.DeleteUnproven([]int64{e.ID}); err != nil {
		return err
	}
	return u.PrimaryAmongRest(e.User)
}

// ProvenAddresses returns the verified emails of a user.
func (u *Unit) ProvenAddresses(user int64) ([]string, error) {
	emails, err := u.EmailsOf(user)
	var addresses []string
	for _, e := range emails {
		if isVerified(e) {
			addresses = append(addresses, e.Address)
		}
	}
	return addresses, err
}

// AddressForCode returns the email whose account a code that is sent there may sign in, without a password; none where the address is
// unknown. It is none either where the address is not verified and the account has one that is: whoever reads it may be somebody else.
func (u *Unit) AddressForCode(email string) (people.Email, error) {
	e, _, err := u.Email(people.FoldEmail(email))
	if err != nil {
		return people.Email{}, err
	}
	others, err := u.EmailsOf(e.User) // for somebody unknown as well: the same statements
	if err != nil || e.VerifiedAt.IsZero() && slices.ContainsFunc(others, isVerified) {
		return people.Email{}, err
	}
	return e, nil
}

func isVerified(e people.Email) bool { return !e.VerifiedAt.IsZero() }

// ProveEmail notes that the code of a sign-in proved its address, where that was not verified before. The user is locked by then. Where
// the code alone proved it, what may be another's is dropped: who typed the address there may be somebody else. Where a password was
// compared first, it must be the account's still. ErrInvalidCredentials: the address, or what was compared, is no longer the account's.
func (u *Unit) ProveEmail(a people.Attempt) error {
	byPassword := a.Method == people.MethodPassword
	if byPassword {
		if err := u.ConfirmPassword(PasswordTry{User: people.User{ID: a.User}, Encoded: a.PasswordHash}); err != nil {
			return err
		}
	}
	e, found, err := u.Email(people.FoldEmail(a.Email))
	if err != nil || !found || e.User != a.User {
		return firstOf(err, ErrInvalidCredentials)
	}
	if isVerified(e) {
		return nil
	}
	others, err := u.EmailsOf(e.User)
	if err != nil {
		return err
	}
	first := !slices.ContainsFunc(others, isVerified)
	switch {
	case byPassword:
	case !first:
		return ErrInvalidCredentials // another address was proven meanwhile
	default:
		if err := u.dropUnproven(e, others); err != nil {
			return err
		}
	}
	if err := u.VerifyEmail(e.ID, u.Now); err != nil {
		return err
	}
	if first {
		if err := u.MakePrimaryEmail(e.User, e.ID); err != nil {
			return err
		}
	}
	return u.AuditAs(object("user", a.User), "email.verified", object("email", e.ID), u.Session)
}

// PrimaryAmongRest gives a user who lost an address a primary one, where that was it and there are others, and tells auditors of the loss.
func (u *Unit) PrimaryAmongRest(user int64) error {
	rest, err := u.EmailsOf(user)
	if err != nil {
		return err
	}
	if len(rest) > 0 && !slices.ContainsFunc(rest, func(e people.Email) bool { return e.Primary }) {
		next := max(slices.IndexFunc(rest, isVerified), 0)
		if err := u.MakePrimaryEmail(user, rest[next].ID); err != nil {
			return err
		}
	}
	return u.AuditAs("system", "email.displaced", object("user", user), u.Session)
}

// dropUnproven drops what an account has that whoever typed its address there may have left for themselves, where its first proven address
// comes by a code alone: the password, API keys, phone numbers, other addresses, and sign-ins other than this one.
func (u *Unit) dropUnproven(e people.Email, emails []people.Email) error {
	for _, drop := range []func() error{
		func() error { return u.dropPassword(e.User) },
		func() error { return u.revokeKeysOf(e.User) },
		func() error { return u.dropPhones(e.User) },
		func() error { return u.dropEmails(e, emails) },
		func() error { return u.leaveOthers(e.User) },
	} {
		if err := drop(); err != nil {
			return err
		}
	}
	return nil
}

func (u *Unit) dropPassword(user int64) error {
	dropped, err := u.DeleteCredential(user, people.CredentialPassword)
	if err != nil || !dropped {
		return err
	}
	return u.AuditAs("system", "user.password_removed", object("user", user), u.Session)
}

// keysAtOnce is how many keys are read at once.
const keysAtOnce = 100

func (u *Unit) revokeKeysOf(user int64) error {
	for before := int64(0); ; {
		keys, err := u.ListAPIKeys(people.APIKeyFilter{Owner: user, Before: before}, keysAtOnce)
		if err != nil || len(keys) == 0 {
			return err
		}
		for i := range keys {
			revoked, err := u.RevokeKey(&keys[i], "owner_unproven")
			if err != nil {
				return err
			}
			if !revoked {
				continue
			}
			if err := u.AuditAs("system", "api_key.revoked", object("api_key", keys[i].ID), u.Session); err != nil {
				return err
			}
		}
		before = keys[len(keys)-1].ID
	}
}

func (u *Unit) dropPhones(user int64) error {
	phones, err := u.PhonesOf(user)
	if err != nil {
		return err
	}
	for _, p := range phones {
		if err := u.VoidChallenges(people.PurposePhone, p.ID); err != nil {
			return err
		}
		if err := u.DeletePhone(p.ID); err != nil {
			return err
		}
		if err := u.AuditAs("system", "phone.removed", object("phone", p.ID), u.Session); err != nil {
			return err
		}
	}
	return nil
}

func (u *Unit) dropEmails(kept people.Email, emails []people.Email) error {
	var dropped []int64
	for _, e := range emails {
		if e.ID == kept.ID {
			continue
		}
		dropped = append(dropped, e.ID)
		if err := u.AuditAs("system", "email.removed", object("email", e.ID), u.Session); err != nil {
			return err
		}
	}
	return u.DeleteUnproven(dropped)
}

// leaveOthers ends a user's sign-ins but that of the unit's session.
func (u *Unit) leaveOthers(user int64) error {
	signIns, err := u.SignInsOf(user)
	if err != nil {
		return err
	}
	for _, g := range signIns {
		if g.Session == u.Session {
			continue
		}
		if err := u.LeaveSession(g); err != nil {
			return err
		}
		if err := u.AuditAs("system", "session.evicted", object("signin", g.ID), g.Session); err != nil {
			return err
		}
	}
	return nil
}
