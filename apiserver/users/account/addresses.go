package account

import (
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// maxEmails is how many email addresses a user may have.
	maxEmails = 10
	// ownCodesPerDay is how many codes an account may request per day to verify its own addresses.
	ownCodesPerDay = 20
	scopeOwnCodes  = "codes-own-addresses"
	// ownChangesPerDay is how many changes of each kind a user may make to the account per day. Each writes an audit
	// record, and many send a mail.
	ownChangesPerDay = 100
	scopeOwnChanges  = "changes-own-account:"
)

// OwnEmail returns an address of a user by its id. ErrEmailUnknown: it does not exist or belongs to another user.
func OwnEmail(u *Unit, user, id int64) (people.Email, error) {
	emails, err := u.Users().EmailsOf(user)
	if err != nil {
		return people.Email{}, err
	}
	at := slices.IndexFunc(emails, func(e people.Email) bool { return e.ID == id })
	if at < 0 {
		return people.Email{}, ErrEmailUnknown
	}
	return emails[at], nil
}

// AddEmail adds an unverified address to a user. The user is locked. The result does not show whether another user has
// the address. Errors: ErrOwnEmail, ErrTooManyEmails.
func AddEmail(u *Unit, user int64, address string) (people.Email, error) {
	emails, err := u.Users().EmailsOf(user)
	if err != nil {
		return people.Email{}, err
	}
	folded := people.FoldEmail(address)
	if slices.ContainsFunc(emails, func(e people.Email) bool { return people.FoldEmail(e.Address) == folded }) {
		return people.Email{}, ErrOwnEmail
	}
	if len(emails) >= maxEmails {
		return people.Email{}, ErrTooManyEmails
	}
	id, err := u.NewID()
	if err != nil {
		return people.Email{}, err
	}
	e := people.Email{ID: id, User: user, Address: address, CreatedAt: u.Now}
	if err := u.Bulk().InsertEmails([]people.Email{e}); err != nil {
		return e, err
	}
	u.Log(events.OfEmail(events.UserEmailAdded, user, id))
	return e, u.Audit("email.added", object("email", id))
}

// CountOwnCode counts a code that verifies an address of a user. It returns a WaitError with ErrTooManyCodes above the
// daily limit.
func CountOwnCode(u *Unit, user int64) error {
	n, err := u.Limits().Count(scopeOwnCodes, object("user", user), u.Now, u.Now.Add(24*time.Hour))
	if err == nil && n.Count > ownCodesPerDay {
		err = &WaitError{Reason: ErrTooManyCodes, Wait: n.Ends.Sub(u.Now)}
	}
	return err
}

// OwnChange is a kind of change that users make to their accounts. Removals are not counted: the limit of additions
// bounds them too, and an owner must be able to remove what a thief added, even after the thief used up the limit.
type OwnChange string

// The kinds of changes. Each has its own counter.
const (
	OwnNames    OwnChange = "names"
	OwnAdded    OwnChange = "added"
	OwnPromoted OwnChange = "promoted"
	// moved is for addresses that a directory changes: each change mails the user.
	moved OwnChange = "moved"
)

// CountOwnChange counts a change that a user makes to the account. It returns a WaitError with ErrTooManyChanges above
// the daily limit of its kind.
func CountOwnChange(u *Unit, user int64, kind OwnChange) error {
	n, err := u.Limits().Count(scopeOwnChanges+string(kind), object("user", user), u.Now, u.Now.Add(24*time.Hour))
	if err == nil && n.Count > ownChangesPerDay {
		err = &WaitError{Reason: ErrTooManyChanges, Wait: n.Ends.Sub(u.Now)}
	}
	return err
}

// AcceptEmail marks an address as verified. Its user is locked. The address is removed from other accounts where it is
// unverified. ErrEmailTaken: another account can sign in with the address.
func AcceptEmail(u *Unit, e people.Email) (people.Email, error) {
	if err := freeAddress(u, people.FoldEmail(e.Address), e.User); err != nil {
		return e, err
	}
	if err := u.Users().VerifyEmail(e.ID, u.Now); err != nil {
		return e, err
	}
	e.VerifiedAt = u.Now
	if err := u.Challenges().VoidChallenges(people.PurposeVerifyEmail, e.ID); err != nil {
		return e, err
	}
	u.Log(events.OfEmail(events.UserEmailVerified, e.User, e.ID))
	if err := u.Audit("email.verified", object("email", e.ID)); err != nil {
		return e, err
	}
	if err := tieWaiting(u, e.User, e.Address); err != nil {
		return e, err
	}
	return e, u.Notify(e.User, addressAdded(e.Address))
}

// addressAdded is the sentence that notifies an account's owner of a verified address.
func addressAdded(address string) string {
	return "The address " + address + " was added to your account."
}

// PromoteEmail makes a verified address a user's primary one.
func PromoteEmail(u *Unit, e people.Email) (people.Email, error) {
	if !e.Verified() {
		return e, ErrEmailUnverified
	}
	if e.Primary {
		return e, nil
	}
	if err := u.Users().MakePrimaryEmail(e.User, e.ID); err != nil {
		return e, err
	}
	e.Primary = true
	u.Log(events.OfEmail(events.UserEmailPrimaryChanged, e.User, e.ID))
	if err := u.Audit("email.made_primary", object("email", e.ID)); err != nil {
		return e, err
	}
	return e, u.Notify(e.User, "The address "+e.Address+" is the primary one of your account now.")
}

// RemoveEmail removes an address from an account. ErrEmailPrimary: the primary address cannot be removed.
func RemoveEmail(u *Unit, e people.Email) error {
	if e.Primary {
		return ErrEmailPrimary
	}
	if err := u.Challenges().VoidChallenges(people.PurposeVerifyEmail, e.ID); err != nil {
		return err
	}
	if err := u.Users().DeleteEmail(e.ID); err != nil {
		return err
	}
	u.Log(events.OfEmail(events.UserEmailRemoved, e.User, e.ID))
	if err := u.Audit("email.removed", object("email", e.ID)); err != nil || !e.Verified() {
		return err
	}
	return u.Notify(e.User, "The address "+e.Address+" was removed from your account.", e.Address)
}
