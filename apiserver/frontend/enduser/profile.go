package enduser

import (
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/store/people"
)

// me returns the signed-in user.
func me(c *call) (reply, error) {
	var out enduserapi.OwnAccount
	err := c.view(func(u *account.Unit) (err error) {
		out, err = ownAccount(u, c.signedIn().User)
		return err
	})
	return reply{data: out}, err
}

func ownAccount(u *account.Unit, id int64) (enduserapi.OwnAccount, error) {
	user, found, err := u.Users().User(id)
	if err != nil {
		return enduserapi.OwnAccount{}, err
	}
	if !found {
		return enduserapi.OwnAccount{}, account.ErrUserUnknown
	}
	_, has, err := u.Users().Credential(id, people.CredentialPassword)
	view := viewUser(user)
	return enduserapi.OwnAccount{
		Id: view.Id, Email: view.Email, FirstName: view.FirstName, LastName: view.LastName, PrimaryPhoneNumber: view.PrimaryPhoneNumber,
		CreatedAt: view.CreatedAt, HasPassword: has,
	}, err
}

// renameMe changes the first and the last name, each only if the request has it.
func renameMe(c *call) (reply, error) {
	var first, last *string
	err := c.parse(func(o *body.Object) {
		first, last = input.PersonName(o, "first_name"), input.PersonName(o, "last_name")
	})
	if err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		user, err := u.lockOwnChange(account.OwnNames)
		if err != nil {
			return reply{}, err
		}
		before := user
		user.FirstName, user.LastName = ptr.Deref(first, user.FirstName), ptr.Deref(last, user.LastName)
		if user != before {
			user.UpdatedAt = u.Now
			if err := u.Users().UpdateUser(user); err != nil {
				return reply{}, err
			}
			u.Log(events.OfUser(events.UserUpdated, user.ID, account.ChangedNames(before, user)...))
			if err := u.Audit("user.renamed", "user:"+format(user.ID)); err != nil {
				return reply{}, err
			}
		}
		out, err := ownAccount(u.Unit, user.ID)
		return reply{data: out}, err
	})
}

// confirmDeletion is the confirmation text for the deletion of an account.
const confirmDeletion = "DELETE_MY_ACCOUNT"

// deleteAccount deletes the active account with its own data. Other accounts of the session remain signed in. A body
// with the user_id or email of another account is refused.
func deleteAccount(c *call) (reply, error) {
	var id int64
	var email string
	err := c.confirmed(confirmDeletion, func(o *body.Object) {
		id = input.ID(o, "user_id")
		email, _ = o.String("email")
	})
	if err != nil {
		return reply{}, err
	}
	out, err := transact(c, func(u *unit) (reply, error) {
		g := *u.signedIn()
		if err := u.named(g.User, id, email); err != nil {
			return reply{}, err
		}
		if err := u.DeleteAccount(g.User); err != nil {
			return reply{}, err
		}
		return reply{}, u.leave(g)
	})
	out.data = c.sessionSnapshot()
	return out, err
}

// named refuses an id or a primary address of another user; 0 and "" are not checked.
func (u *unit) named(user, id int64, email string) error {
	if id != 0 && id != user {
		return errOtherAccount
	}
	if email == "" {
		return nil
	}
	row, found, err := u.Users().User(user)
	if err == nil && (!found || !strings.EqualFold(strings.TrimSpace(email), row.Email)) {
		err = errOtherAccount
	}
	return err
}

// confirmed reads the confirmation of an irreversible operation, and further members of the body.
func (c *call) confirmed(want string, more ...func(*body.Object)) error {
	var confirmation string
	err := c.parse(func(o *body.Object) {
		o.Require("confirmation")
		confirmation, _ = o.String("confirmation")
		for _, read := range more {
			read(o)
		}
	})
	if err == nil && confirmation != want {
		err = c.answerTo(errConfirmation)
	}
	return err
}

// leave removes a deleted account from the browser's session. If it was the session's only account, the session has
// ended.
func (u *unit) leave(gone people.SignIn) error {
	rest := u.session.SignIns[:0:0]
	for _, g := range u.session.SignIns {
		if g.ID != gone.ID {
			rest = append(rest, g)
		}
	}
	if len(rest) == 0 {
		u.session, u.clear = nil, true
		return nil
	}
	u.session.SignIns, u.session.ActiveSignIn = rest, rest[len(rest)-1].ID
	return u.rotate()
}
