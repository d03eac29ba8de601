package account

import (
	"slices"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/store/people"
)

// freeAddress removes an address from every other account where it is unverified, because its owner proved it. Owner 0
// stands for an account that is about to be created. ErrEmailTaken: another account can sign in with the address.
func freeAddress(u *Unit, folded string, owner int64) error {
	before, err := u.Users().EmailsAt(folded)
	if err != nil || len(before) == 0 {
		return err
	}
	for _, e := range before { // a concurrent verification commits before the next read, or no longer finds the address
		if e.User != owner {
			if _, _, err := u.Users().LockUser(e.User); err != nil {
				return err
			}
		}
	}
	if before, err = u.Users().EmailsAt(folded); err != nil {
		return err
	}
	for _, e := range before {
		if e.User == owner {
			continue
		}
		if err := removeUnproven(u, e); err != nil {
			return err
		}
	}
	return nil
}

// removeUnproven removes an unverified address from an account that has a verified one. ErrEmailTaken: the address is
// verified, or the account has no verified address.
func removeUnproven(u *Unit, e people.Email) error {
	rest, err := u.Users().EmailsOf(e.User)
	if err != nil {
		return err
	}
	if e.Verified() || !slices.ContainsFunc(rest, people.Email.Verified) {
		return ErrEmailTaken
	}
	if err := u.Bulk().DeleteUnproven([]int64{e.ID}); err != nil {
		return err
	}
	LogAs(u, system, events.OfEmail(events.UserEmailRemoved, e.User, e.ID))
	return PrimaryAmongRest(u, e.User)
}

// ProvenAddresses returns the verified emails of a user.
func ProvenAddresses(u *Unit, user int64) ([]string, error) {
	emails, err := u.Users().EmailsOf(user)
	var addresses []string
	for _, e := range emails {
		if e.Verified() {
			addresses = append(addresses, e.Address)
		}
	}
	return addresses, err
}

// AddressForCode returns the email whose account a code sent to the address may sign in, without a password. It returns
// the zero Email in two cases:
//   - The address is unknown.
//   - The address is unverified and the account has a verified one: the mailbox may belong to another person.
func AddressForCode(u *Unit, email string) (people.Email, error) {
	e, _, err := u.Users().Email(people.FoldEmail(email))
	if err != nil {
		return people.Email{}, err
	}
	return usableForCode(u, e) // run for unknown addresses too, so that both cases execute the same statements
}

// usableForCode is AddressForCode for an address that was looked up.
func usableForCode(u *Unit, e people.Email) (people.Email, error) {
	others, err := u.Users().EmailsOf(e.User)
	if err != nil || e.VerifiedAt.IsZero() && slices.ContainsFunc(others, people.Email.Verified) {
		return people.Email{}, err
	}
	return e, nil
}

// ProveEmail marks the address of a sign-in as verified after its code was entered. The user is locked.
//   - If the sign-in began with a password, that password must still be the account's.
//   - If the code alone proves the account's first verified address, everything that another person may have added is
//     dropped.
//
// ErrInvalidCredentials: the address or the compared password is no longer the account's.
func ProveEmail(u *Unit, a people.Attempt) error {
	byPassword := a.Method == people.MethodPassword
	if byPassword {
		if err := u.ConfirmPassword(PasswordTry{User: people.User{ID: a.User}, Encoded: a.PasswordHash}); err != nil {
			return err
		}
	}
	e, found, err := u.Users().Email(people.FoldEmail(a.Email))
	if err != nil || !found || e.User != a.User {
		return FirstOf(err, ErrInvalidCredentials)
	}
	if e.Verified() {
		if byPassword { // the attempt did not need the code
			return nil
		}
		return tieWaiting(u, e.User, e.Address)
	}
	others, err := u.Users().EmailsOf(e.User)
	if err != nil {
		return err
	}
	first := !slices.ContainsFunc(others, people.Email.Verified)
	switch {
	case byPassword:
	case !first:
		return ErrInvalidCredentials // another address was verified meanwhile
	default:
		if err := dropUnproven(u, e, others); err != nil {
			return err
		}
		if !a.Proofs.HasFactor() { // a factor that was shown with the code is the user's own
			if err := dropFactors(u, e.User); err != nil {
				return err
			}
		}
	}
	if err := freeAddress(u, people.FoldEmail(e.Address), e.User); err != nil {
		return err
	}
	if err := u.Users().VerifyEmail(e.ID, u.Now); err != nil {
		return err
	}
	if first {
		if err := u.Users().MakePrimaryEmail(e.User, e.ID); err != nil {
			return err
		}
	}
	LogAs(u, object("user", a.User), events.OfEmail(events.UserEmailVerified, e.User, e.ID))
	if first && !e.Primary {
		LogAs(u, object("user", a.User), events.OfEmail(events.UserEmailPrimaryChanged, e.User, e.ID))
	}
	if err := u.AuditAs(object("user", a.User), "email.verified", object("email", e.ID), u.Session); err != nil {
		return err
	}
	if err := tieWaiting(u, e.User, e.Address); err != nil || first {
		return err
	}
	return u.Notify(e.User, addressAdded(e.Address))
}

// PrimaryAmongRest chooses a new primary address for a user who lost the primary one, and audits the loss.
func PrimaryAmongRest(u *Unit, user int64) error {
	rest, err := u.Users().EmailsOf(user)
	if err != nil {
		return err
	}
	if len(rest) > 0 && !slices.ContainsFunc(rest, func(e people.Email) bool { return e.Primary }) {
		next := max(slices.IndexFunc(rest, people.Email.Verified), 0)
		if err := u.Users().MakePrimaryEmail(user, rest[next].ID); err != nil {
			return err
		}
		LogAs(u, system, events.OfEmail(events.UserEmailPrimaryChanged, user, rest[next].ID))
	}
	return u.AuditAs("system", "email.displaced", object("user", user), u.Session)
}
