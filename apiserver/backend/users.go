package backend

import (
	"strings"
	"unicode/utf8"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// listUsers serves a page of the deployment's users.
func listUsers(c *call) (reply, error) {
	q := c.query()
	limit, offset := q.page()
	search, _ := q.Text("search")
	p := c.people()
	filter := people.UserFilter{Search: search, Factors: q.factors(p.Tenant)}
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	if !utf8.ValidString(search) || strings.ContainsRune(search, 0) {
		return reply{}, apierror.Invalid(apierror.Fault{Pointer: "?search", Message: "must be text in UTF-8 without NUL"})
	}
	var list backendapi.UserList
	err := p.view(func(u *account.Unit) error {
		users, total, err := u.Users().ListUsers(filter, limit, offset)
		list = backendapi.UserList{
			Data: []backendapi.UserSummary{}, Limit: int64(limit), Offset: int64(offset), Total: total, HasMore: int64(offset+len(users)) < total,
		}
		for _, user := range users {
			list.Data = append(list.Data, userSummary(user))
		}
		return err
	})
	return object(list), err
}

// userID returns the id in the path. Any text that is not an id is treated as an unknown user.
func (c *call) userID() (int64, error) {
	id, err := ids.Parse(c.r.PathValue("user_id"))
	if err != nil {
		return 0, peopleError(account.ErrUserUnknown)
	}
	return id, nil
}

// getUser serves one user.
func getUser(c *call) (reply, error) {
	id, err := c.userID()
	if err != nil {
		return reply{}, err
	}
	p := c.people()
	var served backendapi.User
	err = p.view(func(u *account.Unit) error {
		user, err := findUser(u, id)
		if err == nil {
			served, err = p.user(u, user)
		}
		return err
	})
	return object(served), err
}

func findUser(u *account.Unit, id int64) (people.User, error) {
	user, found, err := u.Users().User(id)
	if err == nil && !found {
		err = account.ErrUserUnknown
	}
	return user, err
}

// createUser creates an account with an email that counts as proven.
func createUser(c *call) (reply, error) {
	p := c.people()
	from, err := p.readAccount()
	if err != nil {
		return reply{}, err
	}
	var served backendapi.User
	err = p.change(func(u *account.Unit) error {
		user, err := u.CreateAccount(from)
		if err != nil {
			return err
		}
		if served, err = p.user(u, user); err != nil {
			return err
		}
		return p.audit(u, "user.created", "user", user.ID)
	})
	return object(served), err
}

// readAccount reads a user to create, and hashes the password.
func (p *peopleRequest) readAccount() (account.NewAccount, error) {
	from := account.NewAccount{Method: people.MethodImport}
	var secret string
	err := p.parse(func(o *body.Object) {
		if o.Require("email") {
			from.Email = input.Email(o, "email")
		}
		from.FirstName, from.LastName = ptr.Deref(input.PersonName(o, "first_name"), ""), ptr.Deref(input.PersonName(o, "last_name"), "")
		if o.Has("password") {
			secret = p.readPassword(o, from.Email, from.FirstName, from.LastName)
		}
	})
	if err != nil || secret == "" {
		return from, err
	}
	from.PasswordHash, err = p.hash(secret)
	return from, err
}

// updateUser merges a request into a user. Disabling a user signs the user out everywhere in the same transaction.
func updateUser(c *call) (reply, error) {
	p := c.people()
	var first, last *string
	var disabled *bool
	err := p.parse(func(o *body.Object) {
		first, last, disabled = input.PersonName(o, "first_name"), input.PersonName(o, "last_name"), input.Bool(o, "disabled")
	})
	if err != nil {
		return reply{}, err
	}
	var served backendapi.User
	why := events.Reason("")
	if ptr.Deref(disabled, false) {
		why = events.Disabled
	}
	err = p.changeUser(why, func(u *account.Unit, user people.User, _ int64) error {
		changed := user
		changed.FirstName, changed.LastName = ptr.Deref(first, user.FirstName), ptr.Deref(last, user.LastName)
		changed.Disabled = ptr.Deref(disabled, user.Disabled)
		if disabled != nil {
			if err := account.KeepDisabled(u, user.ID); err != nil {
				return err
			}
		}
		if changed != user {
			changed.UpdatedAt = p.Now
			if err := p.saveUser(u, user, changed); err != nil {
				return err
			}
		}
		var err error
		served, err = p.user(u, changed)
		return err
	})
	return object(served), err
}

// saveUser writes a changed user, and audits the change.
func (p *peopleRequest) saveUser(u *account.Unit, before, user people.User) error {
	if err := u.Users().UpdateUser(user); err != nil {
		return err
	}
	if names := account.ChangedNames(before, user); len(names) > 0 {
		u.Log(events.OfUser(events.UserUpdated, user.ID, names...))
	}
	action := "user.updated"
	switch {
	case user.Disabled && !before.Disabled:
		action = "user.disabled"
		u.Log(events.OfUser(events.UserDisabled, user.ID))
	case !user.Disabled && before.Disabled:
		action = "user.enabled"
		u.Log(events.OfUser(events.UserEnabled, user.ID))
	}
	return p.audit(u, action, "user", user.ID)
}

// deleteUser deletes an account with everything that belongs to it.
func deleteUser(c *call) (reply, error) {
	p := c.people()
	return reply{}, p.changeUser(events.Deleted, func(u *account.Unit, user people.User, _ int64) error {
		if err := account.EraseUser(u, user.ID); err != nil {
			return err
		}
		return p.audit(u, "user.deleted", "user", user.ID)
	})
}

// changeUser runs do with the path's user, locked against concurrent changes. If there is a reason, it first signs the
// user out everywhere. do receives the user and how many sign-ins it ended.
func (p *peopleRequest) changeUser(signOut events.Reason, do func(u *account.Unit, user people.User, ended int64) error) error {
	id, err := p.c.userID()
	if err != nil {
		return err
	}
	return p.change(func(u *account.Unit) error {
		if signOut != "" {
			user, ended, err := u.SignOutEverywhere(id, signOut)
			if err != nil {
				return err
			}
			return do(u, user, ended)
		}
		user, found, err := u.Users().LockUser(id)
		if err != nil {
			return err
		}
		if !found {
			return account.ErrUserUnknown
		}
		return do(u, user, 0)
	})
}

func userSummary(u people.User) backendapi.UserSummary {
	summary := backendapi.UserSummary{
		Id: ids.Format(u.ID), Email: u.Email, FirstName: u.FirstName, LastName: u.LastName, Disabled: u.Disabled, TwoStep: u.TwoStep, CreatedAt: u.CreatedAt, UpdatedAt: u.UpdatedAt,
	}
	if u.Phone != "" {
		summary.PrimaryPhoneNumber = &u.Phone
	}
	return summary
}

// user is the served form of a user, with phone numbers and memberships.
func (p *peopleRequest) user(u *account.Unit, of people.User) (backendapi.User, error) {
	s := userSummary(of)
	served := backendapi.User{
		Id: s.Id, Email: s.Email, FirstName: s.FirstName, LastName: s.LastName, PrimaryPhoneNumber: s.PrimaryPhoneNumber, PhoneNumbers: []backendapi.PhoneNumber{},
		OrganizationMemberships: []backendapi.OrganizationMembership{}, Disabled: s.Disabled, TwoStep: s.TwoStep, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
	phones, err := u.Phones().PhonesOf(of.ID)
	if err != nil {
		return served, err
	}
	for _, phone := range phones {
		number := backendapi.PhoneNumber{Id: ids.Format(phone.ID), PhoneNumber: phone.Number, Verified: !phone.VerifiedAt.IsZero(), Primary: phone.Primary, CreatedAt: phone.CreatedAt}
		if number.Verified {
			number.VerifiedAt = &phone.VerifiedAt
		}
		served.PhoneNumbers = append(served.PhoneNumbers, number)
	}
	members, err := u.Organizations().MembershipsOf(of.ID)
	for _, m := range members {
		served.OrganizationMemberships = append(served.OrganizationMemberships, p.membership(m))
	}
	return served, err
}
