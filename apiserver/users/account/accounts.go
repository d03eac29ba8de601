package account

import (
	"github.com/cardea-iam/cardea/store/people"
)

// NewAccount is what an account is created from.
type NewAccount struct {
	Email, FirstName, LastName string
	// PasswordHash is "" for an account without a password.
	PasswordHash string
	// Method is how the account came to be, as analytics tells it.
	Method string
}

// CreateAccount creates an account whose email was proven, and counts a sign-up. ErrEmailTaken: there is one.
func (u *Unit) CreateAccount(from NewAccount) (people.User, error) {
	if err := freeAddress(u, people.FoldEmail(from.Email), 0); err != nil {
		return people.User{}, err
	}
	id, err := u.NewID()
	if err != nil {
		return people.User{}, err
	}
	user := people.User{ID: id, FirstName: from.FirstName, LastName: from.LastName, CreatedAt: u.Now, UpdatedAt: u.Now, Email: from.Email}
	if err := u.Users().InsertUser(user, people.Email{ID: id, User: id, Address: from.Email, Primary: true, CreatedAt: u.Now}); err != nil {
		return user, err
	}
	if from.PasswordHash != "" {
		if err := u.Users().PutCredential(id, people.CredentialPassword, from.PasswordHash, u.Now); err != nil {
			return user, err
		}
	}
	return user, u.recordEvent(people.EventSignUp, id, from.Method)
}

// SignOutEverywhere takes a user's sign-ins out of every session, locks the user, and returns how many sign-ins there were. A
// sign-in under way comes before, and ends as well, or sees what the transaction did. ErrUserUnknown: there is no such user.
func (u *Unit) SignOutEverywhere(id int64) (people.User, int64, error) {
	before, err := u.Sessions().EndSessionsOf(id) // sessions are locked before users
	if err != nil {
		return people.User{}, 0, err
	}
	user, found, err := u.Users().LockUser(id)
	if err != nil {
		return user, 0, err
	}
	if !found {
		return user, 0, ErrUserUnknown
	}
	meanwhile, err := u.Sessions().EndSessionsOf(id)
	return user, before + meanwhile, err
}
