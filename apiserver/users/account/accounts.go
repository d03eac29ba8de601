package account

import (
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/store/people"
)

// NewAccount is the input of CreateAccount.
type NewAccount struct {
	Email, FirstName, LastName string
	// PasswordHash is "" for an account without a password.
	PasswordHash string
	// Method is how the user signed up, as analytics reports it.
	Method string
}

// CreateAccount creates an account whose email was proven, and records a sign-up event. ErrEmailTaken: another account
// has the email.
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
	LogAs(u, actorFor(u, id), events.OfAccount(id, from.Method))
	if err := u.recordEvent(people.EventSignUp, id, from.Method); err != nil {
		return user, err
	}
	return user, tieWaiting(u, id, from.Email)
}

// ChangedNames returns the names of the members of a user's profile that differ, as events name them.
func ChangedNames(before, after people.User) (names []string) {
	if before.FirstName != after.FirstName {
		names = append(names, "first_name")
	}
	if before.LastName != after.LastName {
		names = append(names, "last_name")
	}
	return names
}
