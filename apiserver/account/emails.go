package account

import (
	"slices"

	"github.com/cardea-iam/cardea/store/people"
)

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
// the code alone proved it, a password that came with the account is dropped: who typed it there may be another. Where a password was
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
	if !byPassword {
		if err := u.dropUnproven(e); err != nil {
			return err
		}
	}
	if err := u.VerifyEmail(e.ID, u.Now); err != nil {
		return err
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

// dropUnproven drops the password of an account whose first proven address comes by a code alone.
func (u *Unit) dropUnproven(e people.Email) error {
	others, err := u.EmailsOf(e.User)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(others, isVerified) {
		return ErrInvalidCredentials // another address was proven meanwhile
	}
	dropped, err := u.DeleteCredential(e.User, people.CredentialPassword)
	if err != nil || !dropped {
		return err
	}
	return u.AuditAs("system", "user.password_removed", object("user", e.User), u.Session)
}
