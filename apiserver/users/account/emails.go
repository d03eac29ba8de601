package account

import (
	"slices"

	"github.com/cardea-iam/cardea/store/people"
)

// freeAddress makes room for an address that the owner of an account proved, 0: an account that is about to be made. It leaves every other
// account where nobody proved it. ErrEmailTaken: the address is that of another account, which it opens.
func freeAddress(u *Unit, folded string, owner int64) error {
	before, err := u.Users().EmailsAt(folded)
	if err != nil {
		return err
	}
	for _, e := range before { // a proof comes before what is read next, or finds the address gone
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
		if err := giveWay(u, e); err != nil {
			return err
		}
	}
	return nil
}

// giveWay takes an address that nobody proved off an account that has a proven one. ErrEmailTaken: it is proven, or all the account has.
func giveWay(u *Unit, e people.Email) error {
	rest, err := u.Users().EmailsOf(e.User)
	if err != nil {
		return err
	}
	if isVerified(e) || !slices.ContainsFunc(rest, isVerified) {
		return ErrEmailTaken
	}
	if err := u.Bulk().DeleteUnproven([]int64{e.ID}); err != nil {
		return err
	}
	return PrimaryAmongRest(u, e.User)
}

// ProvenAddresses returns the verified emails of a user.
func ProvenAddresses(u *Unit, user int64) ([]string, error) {
	emails, err := u.Users().EmailsOf(user)
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
func AddressForCode(u *Unit, email string) (people.Email, error) {
	e, _, err := u.Users().Email(people.FoldEmail(email))
	if err != nil {
		return people.Email{}, err
	}
	others, err := u.Users().EmailsOf(e.User) // for somebody unknown as well: the same statements
	if err != nil || e.VerifiedAt.IsZero() && slices.ContainsFunc(others, isVerified) {
		return people.Email{}, err
	}
	return e, nil
}

func isVerified(e people.Email) bool { return !e.VerifiedAt.IsZero() }

// ProveEmail notes that the code of a sign-in proved its address, where that was not verified before. The user is locked by then. Where
// the code alone proved it, what may be another's is dropped: who typed the address there may be somebody else. Where a password was
// compared first, it must be the account's still. ErrInvalidCredentials: the address, or what was compared, is no longer the account's.
func ProveEmail(u *Unit, a people.Attempt) error {
	byPassword := a.Method == people.MethodPassword
	if byPassword {
		if err := u.ConfirmPassword(PasswordTry{User: people.User{ID: a.User}, Encoded: a.PasswordHash}); err != nil {
			return err
		}
	}
	e, found, err := u.Users().Email(people.FoldEmail(a.Email))
	if err != nil || !found || e.User != a.User {
		return firstOf(err, ErrInvalidCredentials)
	}
	if isVerified(e) {
		return nil
	}
	others, err := u.Users().EmailsOf(e.User)
	if err != nil {
		return err
	}
	first := !slices.ContainsFunc(others, isVerified)
	switch {
	case byPassword:
	case !first:
		return ErrInvalidCredentials // another address was proven meanwhile
	default:
		if err := dropUnproven(u, e, others); err != nil {
			return err
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
	if err := u.AuditAs(object("user", a.User), "email.verified", object("email", e.ID), u.Session); err != nil || first {
		return err
	}
	return u.Notify(e.User, addressAdded(e.Address))
}

// PrimaryAmongRest gives a user who lost an address a primary one, where that was it and there are others, and tells auditors of the loss.
func PrimaryAmongRest(u *Unit, user int64) error {
	rest, err := u.Users().EmailsOf(user)
	if err != nil {
		return err
	}
	if len(rest) > 0 && !slices.ContainsFunc(rest, func(e people.Email) bool { return e.Primary }) {
		next := max(slices.IndexFunc(rest, isVerified), 0)
		if err := u.Users().MakePrimaryEmail(user, rest[next].ID); err != nil {
			return err
		}
	}
	return u.AuditAs("system", "email.displaced", object("user", user), u.Session)
}
